"""Every family's posterior against sums on a grid: intercept, sd and dispersion, each level summed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, logsumexp, ndtr

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

    @property
    def label(self) -> str:
        """Of the dispersion in the posterior."""
        return "sd[residual]" if self.dispersion == "residual" else self.dispersion

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
    Case(
        "gamma",
        lambda rng, eta: np.exp(eta) * rng.gamma(3.0, 1 / 3.0, len(eta)),
        lambda y, eta, shape: stats.gamma.logpdf(y, shape, 0, np.exp(eta) / shape),
        "shape",
        np.exp(np.linspace(-0.4, 2.6, 23)),
    ),
    Case(
        "lognormal",
        lambda rng, eta: np.exp(eta + 0.5 * rng.normal(size=len(eta))),
        lambda y, eta, sd: stats.norm.logpdf(np.log(y), eta, sd) - np.log(y),
        "residual",
        np.exp(np.linspace(-1.4, 0.3, 23)),
    ),
    Case(
        lrvb.likelihoods.Student(df=3),
        lambda rng, eta: eta + 0.5 * rng.standard_t(3, size=len(eta)),
        lambda y, eta, sigma: stats.t.logpdf(y, 3, eta, sigma),
        "sigma",
        np.exp(np.linspace(-1.7, 0.4, 23)),
    ),
    Case(
        "beta",
        lambda rng, eta: rng.beta(6 * expit(eta), 6 * expit(-eta)),
        lambda y, eta, phi: stats.beta.logpdf(y, phi * expit(eta), phi * expit(-eta)),
        "phi",
        np.exp(np.linspace(0.5, 3.2, 23)),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_sums_on_a_grid(case):
    """Means within a tenth of an sd, sds within a tenth: five Monte Carlo errors of 2048 draws.

    Given sd and dispersion a level's rows are summed once for all intercepts: η = intercept + effect.
    """
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(GROUPS), EACH)
    y = case.response(rng, case.intercept + 0.5 * rng.normal(size=GROUPS)[g])
    priors = {"Intercept": lrvb.prior.Normal(0, 2), "1|g": lrvb.prior.HalfNormal(1.0)}
    if case.dispersion:
        priors[case.dispersion] = lrvb.prior.HalfNormal(5.0)
    model = lrvb.MixedModel("y ~ 1 + (1|g)", case.family, priors).fit({"y": y, "g": g})

    beta, sd = np.linspace(-3.0, 3.0, 61), np.exp(np.linspace(-4, 1.4, 23))
    B, S, K = np.meshgrid(beta, sd, case.grid, indexing="ij")
    log_p = stats.norm.logpdf(B, 0, 2) + stats.halfnorm.logpdf(S) + np.log(S)
    if case.dispersion:  # the grid is even in its logarithm
        log_p = log_p + stats.halfnorm.logpdf(K, 0, 5.0) + np.log(K)
    eta = np.linspace(-8.0, 8.0, 1601)[:, None]  # steps of half the smallest sd
    prior = np.exp(stats.norm.logpdf(eta, B[..., 0].ravel(), S[..., 0].ravel()))
    for k in range(GROUPS):
        rows = sum(case.log_p(value, eta, case.grid) for value in y[g == k])
        top = rows.max(0)
        level = np.log(np.maximum(prior.T @ np.exp(rows - top), 1e-300) * 0.01) + top
        log_p = log_p + level.reshape(log_p.shape)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    edges = [p[[0, -1]].sum(), p[:, [-1]].sum()] + (
        [p[..., [0, -1]].sum()] if case.dispersion else []
    )
    assert max(edges) < 1e-3, edges  # the grid holds the posterior
    named = [("Intercept", B), ("sd[1|g]", S)] + ([(case.label, K)] if case.dispersion else [])
    for name, value in named:
        exact = float((p * value).sum())
        spread = float(np.sqrt((p * value**2).sum() - exact**2))
        assert abs(model.posterior_.mean(name)[name] - exact) < 0.1 * spread, name
        assert abs(model.posterior_.sd(name)[name] / spread - 1) < 0.1, name
    cell = np.log(S[0, 1, 0] / S[0, 0, 0]) * (beta[1] - beta[0])
    cell *= np.log(case.grid[1] / case.grid[0]) if case.dispersion else 1.0
    evidence = float(logsumexp(log_p) + np.log(cell))
    assert abs(model.log_evidence_ - evidence) < 0.1


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


@pytest.mark.parametrize("factorization", ["blocked", "mean_field"])
def test_a_lognormal_response_is_a_gaussian_logarithm(factorization):
    """The same posterior with the same priors; evidence, means and intervals by the change of variable."""
    rng = np.random.default_rng(2)
    g, x = np.repeat(np.arange(8), 6), rng.normal(size=48)
    log_y = 1.0 + 0.5 * x + 0.6 * rng.normal(size=8)[g] + 0.4 * rng.normal(size=48)
    data = {"y": np.exp(log_y), "z": log_y, "x": x, "g": g}
    priors = {"fixed": lrvb.prior.Normal(0, 3), "1|g": lrvb.prior.Gamma(2, 0.5)}
    priors["residual"] = lrvb.prior.Gamma(2, 0.5)
    ours, gaussian = (
        lrvb.MixedModel(f"{name} ~ x + (1|g)", family, priors, factorization=factorization).fit(
            data
        )
        for name, family in (("y", "lognormal"), ("z", "gaussian"))
    )
    assert_allclose(ours.posterior_.mean(), gaussian.posterior_.mean(), rtol=1e-9)
    assert_allclose(ours.elbo_ - gaussian.elbo_, -log_y.sum(), rtol=1e-9)
    new, log_new = (m.predict(interval=0.9, kind="response") for m in (ours, gaussian))
    assert_allclose(new[["lower", "upper"]], np.exp(log_new[["lower", "upper"]]), rtol=1e-6)
    mean, eta = ours.predict(), ours.predict(scale="link")
    s2 = float(ours.posterior_.mean("sd[residual]")["sd[residual]"]) ** 2
    # E exp(η + s²/2), with s² uncertain by a fifth
    about = np.exp(eta["mean"] + eta["sd"] ** 2 / 2 + s2 / 2)
    assert_allclose(mean["mean"], about, rtol=0.05)
    assert_allclose(new["mean"], mean["mean"], rtol=0.02)


@pytest.mark.parametrize("family", ["gamma", "lognormal", "beta"])
def test_a_response_out_of_range_or_constant_is_refused(family):
    data = {"y": np.array([0.5, 0.0, 0.3, 0.2]), "g": np.array([0, 0, 1, 1])}
    with pytest.raises(lrvb.InvalidData, match=r"row 1: the value 0\.0 is not"):
        lrvb.MixedModel("y ~ 1 + (1|g)", family).fit(data)
    with pytest.raises(lrvb.InvalidData, match="in every row"):
        lrvb.MixedModel("y ~ 1 + (1|g)", family).fit({**data, "y": np.full(4, 0.5)})


@pytest.mark.parametrize("case", CASES[2:5], ids=str)
def test_new_observations_are_as_spread_as_they_were(case):
    """Of as many new rows of the same levels, drawn by the same rule, about nine tenths are inside."""
    rng = np.random.default_rng(8)
    g = np.repeat(np.arange(20), 8)
    eta = case.intercept + 0.5 * rng.normal(size=20)[g]
    model = lrvb.MixedModel("y ~ 1 + (1|g)", case.family).fit(
        {"y": case.response(rng, eta), "g": g}
    )
    table = model.predict({"g": np.arange(20)}, interval=0.9, kind="response")
    again = case.response(rng, np.repeat(eta[::8], 50)).reshape(20, 50).T
    inside = (again >= table["lower"].to_numpy()) & (again <= table["upper"].to_numpy())
    assert 0.87 < inside.mean() < 0.94
    assert_allclose(table["mean"], model.predict({"g": np.arange(20)})["mean"], rtol=1e-2)
