"""Small mixed models whose integrals brute force can do."""

from __future__ import annotations

import numpy as np

from lrvb.integrated.likelihood import Binomial, Differenced, NegativeBinomial, Poisson
from lrvb.integrated.regression import Regression
from lrvb.integrated.terms import Term
from lrvb.prior import LKJ, Exponential, HalfStudentT

HALF_T = HalfStudentT(3, 2.5)


class DifferencedPoisson(Differenced):
    """Poisson rows that state nothing but their log density."""

    def log_p(self, columns, eta, phi):
        return columns[0] * eta - np.exp(eta)


FAMILIES = {
    "bernoulli": Binomial(),
    "binomial": Binomial(),
    "poisson": Poisson(),
    "negbinomial": NegativeBinomial(),
    "differenced": DifferencedPoisson(),
}


def regression(family: str, eta: np.ndarray, X: np.ndarray, seed: int = 0) -> Regression:
    """Rows drawn at η, with N(0, 3²) priors of two coefficients and an offset."""
    rng = np.random.default_rng(seed)
    N = len(eta)
    dispersions: tuple = ()
    trials = np.ones(N) if family == "bernoulli" else rng.integers(1, 6, N).astype(float)
    if family in ("bernoulli", "binomial"):
        columns = (rng.binomial(trials.astype(int), 1 / (1 + np.exp(-eta))).astype(float), trials)
    else:
        columns = (rng.poisson(np.exp(eta)).astype(float),)
    if family == "negbinomial":
        dispersions = (Exponential(0.1),)
    offset = 0.1 * rng.integers(0, 2, N)
    p = X.shape[1]
    return Regression(
        FAMILIES[family], columns, X, offset, np.zeros(p), np.full(p, 3.0), dispersions
    )


def dispersion(family: str) -> list[float]:
    """The dispersions' part of θ."""
    return [0.7] if family == "negbinomial" else []


def intercepts(codes: np.ndarray, levels: int, prior=HALF_T) -> Term:
    """One effect a level."""
    return Term(codes, np.ones((len(codes), 1)), levels, (prior,))


def sloped(codes: np.ndarray, x: np.ndarray, levels: int, correlated: bool = True) -> list[Term]:
    """An intercept and a slope a level, as one term or two."""
    R = np.column_stack([np.ones(len(x)), x])
    if correlated:
        return [Term(codes, R, levels, (HALF_T, HALF_T), LKJ(2.0))]
    return [Term(codes, R[:, :1], levels, (HALF_T,)), Term(codes, R[:, 1:], levels, (HALF_T,))]


def log_rows(rows: Regression, at: np.ndarray, eta: np.ndarray, phi: list[float]) -> np.ndarray:
    """Σ log p of rows `at` where further axes of η (len(at), …) are nodes."""
    axes = (1,) * (eta.ndim - 1)
    columns = tuple(column[at].reshape(-1, *axes) for column in rows.columns)
    return rows.likelihood.log_p(columns, eta, phi).sum(0)


def log_normal(x, sd):
    """log N(x; 0, sd²)."""
    return -((x / sd) ** 2) / 2 - np.log(sd) - np.log(2 * np.pi) / 2
