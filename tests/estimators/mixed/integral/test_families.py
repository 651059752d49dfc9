"""Every family's posterior against sums on a grid: intercept, sd and dispersion, each level summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp, ndtr

import lrvb

GROUPS, EACH = 6, 8


class Case(NamedTuple):
    """A family, its response of η, its log density by other means, and its dispersion on a grid.

    log_p(y, η, dispersion) broadcasts; without a dispersion it is given None.
    """

    family: Any
    response: Callable[[np.random.Generator, np.ndarray], np.ndarray]
    log_p: Callable[..., np.ndarray]
    dispersion: str = ""
    grid: np.ndarray = np.ones(1)
    intercept: float = 0.4

    def __str__(self) -> str:
        return self.family if isinstance(self.family, str) else repr(self.family)


def _binary(probability: Callable[[np.ndarray], np.ndarray]) -> dict[str, Any]:
    return {
        "response": lambda rng, eta: (rng.uniform(size=len(eta)) < probability(eta)).astype(float),
        "log_p": lambda y, eta, _: stats.bernoulli.logpmf(y, probability(eta)),
    }


CASES = [
    Case("bernoulli(probit)", **_binary(ndtr)),
    Case("bernoulli(cloglog)", **_binary(lambda eta: -np.expm1(-np.exp(eta))), intercept=-0.4),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_sums_on_a_grid(case):
    """Means within a tenth of an sd, and sds within a tenth: five Monte Carlo errors of 2048 draws."""
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(GROUPS), EACH)
    y = case.response(rng, case.intercept + 0.5 * rng.normal(size=GROUPS)[g])
    priors = {"Intercept": lrvb.prior.Normal(0, 2), "1|g": lrvb.prior.HalfNormal(1.0)}
    if case.dispersion:
        priors[case.dispersion] = lrvb.prior.HalfNormal(5.0)
    model = lrvb.MixedModel("y ~ 1 + (1|g)", case.family, priors).fit({"y": y, "g": g})

    beta, sd = np.linspace(-3.0, 3.0, 61), np.exp(np.linspace(-4, 1.4, 23))
    z, w = np.polynomial.hermite_e.hermegauss(21)
    B, S, K = np.meshgrid(beta, sd, case.grid, indexing="ij")
    log_p = stats.norm.logpdf(B, 0, 2) + stats.halfnorm.logpdf(S) + np.log(S)
    if case.dispersion:  # the grid is even in its logarithm
        log_p = log_p + stats.halfnorm.logpdf(K, 0, 5.0) + np.log(K)
    eta = B[..., None] + S[..., None] * z
    for k in range(GROUPS):
        rows = sum(case.log_p(value, eta, K[..., None]) for value in y[g == k])
        log_p = log_p + logsumexp(rows + np.log(w / w.sum()), axis=-1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    edges = [p[[0, -1]].sum(), p[:, [-1]].sum()] + (
        [p[..., [0, -1]].sum()] if case.dispersion else []
    )
    assert max(edges) < 1e-3, edges  # the grid holds the posterior
    named = [("Intercept", B), ("sd[1|g]", S)] + ([(case.dispersion, K)] if case.dispersion else [])
    for name, value in named:
        exact = float((p * value).sum())
        spread = float(np.sqrt((p * value**2).sum() - exact**2))
        assert abs(model.posterior_.mean(name)[name] - exact) < 0.1 * spread, name
        assert abs(model.posterior_.sd(name)[name] / spread - 1) < 0.1, name


def test_a_link_is_said_in_words_or_by_an_object():
    """Blanks and a family's own link change nothing; a link that it has not is answered by the list."""
    from lrvb.likelihoods import Bernoulli, likelihood_of

    assert likelihood_of("bernoulli( probit )").name == Bernoulli(link="probit").name
    assert likelihood_of("poisson(log)").name == "poisson"
    assert repr(Bernoulli("cloglog")) == "Bernoulli(link='cloglog')"
    with pytest.raises(lrvb.InvalidModel, match=r"there are .*'bernoulli\(probit\)'"):
        likelihood_of("poisson(probit)")
    with pytest.raises(lrvb.InvalidModel, match="link='log' is none of family 'bernoulli'; there"):
        Bernoulli(link="log")


def test_predicted_probabilities_go_through_the_link():
    """At the posterior means of all coefficients, within the posterior's own uncertainty."""
    rng = np.random.default_rng(5)
    g, x = np.repeat(np.arange(10), 20), rng.normal(size=200)
    y = rng.binomial(9, ndtr(0.3 + 0.5 * x))
    data = {"y": y, "x": x, "g": g, "n": np.full(200, 9)}
    model = lrvb.MixedModel("prop(y, n) ~ x + (1|g)", "binomial(probit)").fit(data)
    new = {name: column[::10] for name, column in data.items()}
    table, eta = model.predict(new, interval=0.9), model.predict(new, scale="link")
    assert np.abs(table["mean"] - ndtr(eta["mean"] / np.sqrt(1 + eta["sd"] ** 2))).max() < 1e-3
    assert ((table["lower"] < table["mean"]) & (table["mean"] < table["upper"])).all()
    counts = model.predict(new, interval=0.9, kind="response")
    assert np.abs(counts["mean"] - 9 * table["mean"]).max() < 1e-2
    assert (counts["upper"] <= 9).all()
