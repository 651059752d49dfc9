"""The second order of fixed effects and precisions: factorisations agree on it, the integral referees."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.collapsed.gaussian.block import BlockSum
from lrvb.collapsed.gaussian.reweighted import Reweighted
from lrvb.estimators.mixed.fit.along_lines import AlongLines

NAMES = ["log(precision[1|g])", "log(precision[residual])"]


@pytest.fixture(scope="module")
def data() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    g, x = np.repeat(np.arange(12), 6), rng.normal(size=72)
    y = 1 + x + 0.8 * rng.normal(size=12)[g] + rng.normal(size=72)
    return pd.DataFrame({"y": y, "x": x, "g": g})


def test_factorisations_agree_one_order_further(data):
    """What separate factors leave out is known, so that most of what they were apart is gone."""
    joint, separate = (
        lrvb.MixedModel("y ~ x + (1|g)", factorization=name).fit(data).posterior_
        for name in ("variational", "mean_field")
    )
    sd = joint.sd(NAMES)
    apart = ((joint.mean(NAMES) - separate.mean(NAMES)) / sd).abs().max()
    a, b = joint.refined(NAMES), separate.refined(NAMES)
    assert ((a["mean"] - b["mean"]) / sd).abs().max() < apart / 5
    np.testing.assert_allclose(a["sd"], b["sd"], rtol=0.01)
    with pytest.raises(lrvb.InvalidModel, match="fixed effects and precisions"):
        joint.refined("sd[1|g]")
    assert set(NAMES) <= set(joint.refined().index)


PRIORS = {
    "1|g": lrvb.prior.Gamma(2, 1),
    "residual": lrvb.prior.Gamma(2, 1),
    "fixed": lrvb.prior.Normal(0, 10),
}


@pytest.mark.parametrize("factorization", ["variational", "mean_field"])
def test_fixed_effects_and_precisions_approach_the_integral(data, factorization, monkeypatch):
    """Under the same priors: most of what linear response was off by is gone, in two curvatures each."""
    exact = lrvb.MixedModel("y ~ x + (1|g)", priors=PRIORS).fit(data).posterior_
    model = lrvb.MixedModel("y ~ x + (1|g)", priors=PRIORS, factorization=factorization)
    posterior = model.fit(data).posterior_
    names = ["Intercept", "x", *NAMES]
    curvatures, evaluate = [], BlockSum.evaluate

    def counted(self, m, order=2, state=None):
        curvatures.append(order)
        return evaluate(self, m, order, state)

    monkeypatch.setattr(BlockSum, "evaluate", counted)
    posterior.refined("x")
    assert curvatures.count(2) == 2
    refined = posterior.refined(names)
    sd = exact.sd(names)
    first = ((posterior.mean(names) - exact.mean(names)) / sd).abs()
    second = ((refined["mean"] - exact.mean(names)) / sd).abs()
    assert (second < np.maximum(first / 3, 0.02)).all()
    ratio = np.log(posterior.sd(names) / sd).abs()
    corrected = np.log(refined["sd"] / sd).abs()
    assert (corrected < np.maximum(ratio / 2, 0.03)).all()


@pytest.mark.parametrize("factorization", ["variational", "mean_field"])
def test_best_gaussians_are_found_once_and_from_the_fit(data, factorization, monkeypatch):
    """Of counts: two for the precision, two a quantity; of separate factors as many joint ones beside them.

    Only the first joint one begins anew.
    """
    counts = data.assign(y=np.maximum(data["y"].round(), 0))
    model = lrvb.MixedModel("y ~ x + (1|g)", family="poisson", factorization=factorization)
    posterior = model.fit(counts).posterior_
    begun, solve = [], Reweighted.solve

    def counted(self, prior, pull, s, start=None, tol=None):
        begun.append((self.masks is None, start is None))
        return solve(self, prior, pull, s, start, tol)

    monkeypatch.setattr(Reweighted, "solve", counted)
    monkeypatch.setattr(
        AlongLines, "wider", lambda *a: (np.nan, np.nan)
    )  # which asks points of its own
    posterior.refined(["Intercept", "x"])
    separate = factorization == "mean_field"
    assert begun.count((False, False)) == 6 * separate
    assert begun.count((True, False)) == 6
    assert begun.count((True, True)) == separate
    assert len(begun) == 6 + 7 * separate


def test_an_integrated_model_is_exact_already(data):
    """Its numbers are the answer, and the table says why."""
    model = lrvb.MixedModel("y ~ x + (1|g)").fit(data)
    posterior = model.posterior_
    table = posterior.refined("x")
    assert table.loc["x", "mean"] == posterior.mean("x").iloc[0]
    assert "no order beyond" in table.note
    assert table.attrs["log_evidence"] == model.certificate_.log_evidence


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_functions_of_an_integrated_model_are_its_own(data, family):
    """Of linear ones mean and sd are the table's, ends too but for the points; others are those of draws."""
    rows = data if family == "gaussian" else data.assign(y=np.maximum(data["y"].round(), 0))
    posterior = lrvb.MixedModel("y ~ x + (1|g)", family=family).fit(rows).posterior_
    found, named = posterior.refined(lambda m: m.beta.x), posterior.refined(["Intercept", "x"])
    assert "no order beyond" in found.note
    np.testing.assert_allclose(found[["mean", "sd"]], named[["mean", "sd"]], rtol=1e-9)
    np.testing.assert_allclose(found[["lower", "upper"]], named[["lower", "upper"]], atol=0.01)
    square = posterior.refined(lambda m: m.beta.x[1] ** 2)
    drawn = posterior.draws(20_000)["beta"][:, 1] ** 2
    error = drawn.std() / np.sqrt(len(drawn))
    assert abs(square["mean"].iloc[0] - drawn.mean()) < 4 * error
    assert abs(np.log(square["sd"].iloc[0] / drawn.std())) < 0.05


def test_a_variational_fit_of_counts_is_not_checked_by_itself(data):
    """Its second order is there when asked for; until then the word says how to check."""
    counts = data.assign(y=np.maximum(data["y"].round(), 0))
    model = lrvb.MixedModel("y ~ x + (1|g)", family="poisson", factorization="variational")
    posterior = model.fit(counts).posterior_
    assert set(posterior.summary()["verdict"]) == {"not checked"}
    why = posterior.verdicts["why"].iloc[0]
    assert "variational fit" in why
    assert "certify()" in why
    with pytest.raises(lrvb.InvalidModel, match="fixed effects and precisions"):
        posterior.refined("sd[1|g]")


@pytest.mark.parametrize("sd", [0.5, 1.0])
def test_no_determinant_tells_what_a_gaussian_leaves_out_of_zeros_and_ones(sd):
    """Two ones of four given z ~ N(0, sd²): log ∫ less the best Gaussian's ELBO, by one sum over nodes.

    That is the cumulants' Σ (l⁽ᵏ⁾)²s²ᵏ/(2k!), k = 3, 4. The determinant's −½ log(1 − ½s⁴l⁗ − ½s⁶l‴²) has
    s⁴l⁗/4 to first order, which the ELBO has averaged already: more than ten times too much.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    v = sd**2  # the best Gaussian's mean is 0, by symmetry
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.sqrt(v) * nodes))
        v = 1 / (1 / sd**2 + 4 * weights @ (p * (1 - p)))
    z = np.sqrt(v) * nodes
    p = 1 / (1 + np.exp(-z))
    log_p = 2 * z - 4 * np.logaddexp(0, z)
    elbo = weights @ log_p - v / sd**2 / 2 + np.log(np.sqrt(v) / sd) + 0.5
    far = sd * nodes
    exact = np.log(weights @ np.exp(2 * far - 4 * np.logaddexp(0, far)))
    fourth = -4 * weights @ (p * (1 - p) * (1 - 6 * p * (1 - p)))
    gap, told = exact - elbo, -np.log(1 - v**2 * fourth / 2) / 2
    assert gap > 0
    np.testing.assert_allclose(gap, v**4 * fourth**2 / 48, rtol=0.5)
    assert told > 10 * gap
