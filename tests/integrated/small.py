"""Small mixed models whose integrals brute force can do."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from lrvb.integrated.crossed import Crossed
from lrvb.integrated.density import Density
from lrvb.integrated.regression import Regression
from lrvb.integrated.terms import Term
from lrvb.likelihoods import (
    BINOMIAL,
    GAUSSIAN,
    LOG,
    NEGATIVE_BINOMIAL,
    POISSON,
    Dispersion,
    Likelihood,
)
from lrvb.prior import LKJ, Exponential, HalfStudentT

HALF_T = HalfStudentT(3, 2.5)
LARGE, SMALL = 12, 4  # levels of two crossed factors


class DifferencedPoisson(Likelihood):
    """Poisson rows that state nothing but their log density."""

    name, link = "differenced", LOG

    def log_p(self, y, eta, given=None, xp=np):
        return y * eta - xp.exp(eta)


class NegativeBinomial(Likelihood):
    """Counts with mean e^η and variance mean + mean²/φ; φ is the dispersion `shape`."""

    name, link = "negbinomial", LOG
    dispersions = (Dispersion("shape", lambda scale: Exponential(0.1)),)

    def log_p(self, y, eta, given=None, xp=np):
        shape = given["shape"]
        log_total = np.logaddexp(eta, np.log(shape))
        rising = gammaln(y + shape) - gammaln(shape) - gammaln(y + 1)
        return rising + y * (eta - log_total) + shape * (np.log(shape) - log_total)

    def constant(self, y, given=None):
        return -gammaln(y + 1)

    def derivatives(self, y, eta, given=None):
        """y − (y + φ)π and (y + φ)π(1 − π), π = e^η/(e^η + φ)."""
        shape = given["shape"]
        odds = eta - np.log(shape)
        small = np.exp(-np.abs(odds))
        share = np.where(odds >= 0, 1.0, small) / (1 + small)
        return y - (y + shape) * share, (y + shape) * (small / (1 + small) ** 2)


FAMILIES = {
    "bernoulli": Density(BINOMIAL, ("trials",)),
    "binomial": Density(BINOMIAL, ("trials",)),
    "poisson": Density(POISSON),
    "negbinomial": Density(NegativeBinomial()),
    "shaped": Density(NEGATIVE_BINOMIAL),
    "differenced": Density(DifferencedPoisson()),
}

NORMAL_ROWS = Density(GAUSSIAN)


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
    if family in ("negbinomial", "shaped"):
        dispersions = (Exponential(0.1),)
    offset = 0.1 * rng.integers(0, 2, N)
    p = X.shape[1]
    return Regression.independent(
        FAMILIES[family], columns, X, offset, np.zeros(p), np.full(p, 3.0), dispersions
    )


def dispersion(family: str) -> list[float]:
    """The dispersions' part of θ."""
    return [0.7] if family in ("negbinomial", "shaped") else []


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


def effects(inside, theta, weights):
    """Means and sds of every term's effects over weighted points, in the order of θ's sds."""
    w = weights / weights.sum()
    _, first, second = inside.evaluate(theta)
    return [(e.mean, e.sd) for e in inside.unfold(theta, w, w @ first, w @ second)]


def crossed(constant: bool = False, weighted: bool = False, family: str = "poisson") -> Crossed:
    """Cells of some 60 rows, and one without any; a further column that is constant in cells, or not."""
    rng = np.random.default_rng(7)
    large, small = rng.integers(LARGE, size=3000), rng.integers(SMALL, size=3000)
    there = (large > 0) | (small > 0)
    large, small = large[there], small[there]
    u = rng.normal(size=LARGE)[large] if constant else rng.normal(size=len(large))
    eta = 0.3 + 0.4 * u + 0.6 * rng.normal(size=LARGE)[large] + 0.4 * rng.normal(size=SMALL)[small]
    rows = regression(family, eta, np.column_stack([np.ones(len(u)), u]))
    if weighted:
        rows = rows.weighted(rng.integers(1, 4, size=len(u)).astype(float))
    return Crossed(rows, intercepts(large, LARGE), intercepts(small, SMALL))
