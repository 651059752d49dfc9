"""What a variational fit's block leaves out of the evidence, against sums over fine nodes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

import lrvb
from lrvb.estimators.mixed.integral.block_gap import BlockGap, _between
from lrvb.prior import Gamma, Normal

NODES = np.linspace(-8, 8, 401)  # of a standard normal
LOG_W = -(NODES**2) / 2 - logsumexp(-(NODES**2) / 2)
FACTORS = ["variational", "mean_field"]


def log_p(family: str, y: float, eta: np.ndarray) -> np.ndarray:
    if family == "poisson":
        return y * eta - np.exp(eta) - gammaln(y + 1)
    return y * eta - np.logaddexp(0, eta)


def simulated(family: str, groups: int, rows: int, sd: float, b: float, own: float = 0.0):
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(groups), rows)
    eta = b + sd * rng.normal(size=groups)[g] + own * rng.normal(size=len(g))
    y = (
        rng.poisson(np.exp(eta))
        if family == "poisson"
        else rng.random(len(g)) < 1 / (1 + 1 / np.exp(eta))
    )
    return pd.DataFrame({"y": y.astype(float), "g": g, "obs": np.arange(len(g))})


def levels(family: str, data: pd.DataFrame, b: np.ndarray, precision: np.ndarray) -> np.ndarray:
    """Σ_g log ∫ N(z; 0, 1/λ) Π_n p(y_n | b + z) dz at pairs of b (k, 1) and λ (1, l), (k, l)."""
    eta = b + NODES[:, None, None] / np.sqrt(precision)
    zero, total = log_p(family, 0.0, eta), 0.0
    rows = data.groupby("g")["y"].agg(["sum", "size"]).value_counts()
    for (ones, n), groups in rows.items():
        each = logsumexp(ones * eta + n * zero + LOG_W[:, None, None], axis=0)
        total = total + groups * each
    return np.asarray(total) - (gammaln(data["y"] + 1).sum() if family == "poisson" else 0.0)


@pytest.mark.parametrize("factorization", FACTORS)
@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_with_levels_alone_value_and_gap_are_the_integral(family, factorization):
    """Without fixed effects nothing is left to half a variance: Σ_g log ∫ at any E τ and E log τ."""
    data = simulated(family, 12, 4, 1.0, 0.0)
    model = lrvb.MixedModel("y ~ 0 + (1|g)", family=family, factorization=factorization).fit(data)
    block, alpha = model._arrangement.block, model._joint.precisions.alpha
    gap = BlockGap(
        model.design_, model.priors_, model._standard, alpha, model.posterior_._response.m
    )
    for m in (np.array([1.5, 0.2]), np.array([0.4, -1.1])):
        state = block.collapse(m)
        found = block.evaluate(m, 1, state).value + gap(block, state)
        volume = 6.0 * (m[1] - np.log(m[0]))
        exact = levels(family, data, np.zeros((1, 1)), m[None, :1])[0, 0] + volume
        assert abs(found - exact) < 2e-4
        assert exact - block.evaluate(m, 1, state).value > 20 * abs(found - exact)


def test_effects_of_rows_are_levels_too():
    """y ~ 0 + (1|g) + (1|obs): sums of both, half a variance between them, whatever factors are separate."""
    data = simulated("poisson", 12, 4, 0.7, 0.5, own=0.4)
    formula, m = "y ~ 0 + (1|g) + (1|obs)", np.array([2.0, 0.6, 6.0, 1.7])
    values, found = [], []
    for factorization in FACTORS:
        model = lrvb.MixedModel(formula, family="poisson", factorization=factorization).fit(data)
        block, alpha = model._arrangement.block, model._joint.precisions.alpha
        gap = BlockGap(
            model.design_, model.priors_, model._standard, alpha, model.posterior_._response.m
        )
        state = block.collapse(m)
        values.append(block.evaluate(m, 1, state).value)
        found.append(values[-1] + gap(block, state))
    z, e = NODES[:, None] / np.sqrt(m[0]), NODES / np.sqrt(m[2])
    exact = 6 * (m[1] - np.log(m[0])) + 24 * (m[3] - np.log(m[2]))
    for _, part in data.groupby("g"):
        rows = [logsumexp(log_p("poisson", y, z + e) + LOG_W, axis=1) for y in part["y"]]
        exact += logsumexp(sum(rows) + LOG_W)
    assert list(alpha.blocks) == ["precision[1|g]", "precision[1|obs]"]
    assert exact - max(values) > 10 * abs(found[0] - exact)  # half a variance is the second order
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8)


PRIORS = {"1|g": Gamma(2, 1), "fixed": Normal(0, 2)}
NAMES = ["Intercept", "log(precision[1|g])"]


@pytest.mark.parametrize("factorization", FACTORS)
@pytest.mark.parametrize(
    ("family", "groups", "rows", "sd", "b"),
    [("poisson", 20, 5, 1.0, 0.0), ("bernoulli", 60, 4, 2.0, 0.5)],
)
def test_counts_and_zeros_and_ones_approach_the_integral(
    family, groups, rows, sd, b, factorization
):
    """On a grid of intercept and log precision: most of what linear response was off by is gone."""
    data = simulated(family, groups, rows, sd, b)
    model = lrvb.MixedModel("y ~ 1 + (1|g)", family, PRIORS, factorization).fit(data)
    posterior = model.posterior_
    here, spread = posterior.mean(NAMES), posterior.sd(NAMES)
    b_at, t_at = (here[name] + spread[name] * np.linspace(-6, 6, 61) for name in NAMES)
    log = levels(family, data, b_at[:, None], np.exp(t_at)[None])
    log = log - b_at[:, None] ** 2 / 8 + 2 * t_at - np.exp(t_at)
    p = np.exp(log - logsumexp(log))
    assert max(p[0].sum(), p[-1].sum(), p[:, 0].sum(), p[:, -1].sum()) < 1e-4
    margins = p.sum(1), p.sum(0)
    mean = np.array([w @ x for w, x in zip(margins, (b_at, t_at), strict=True)])
    sd_ = np.sqrt([w @ (x - m) ** 2 for w, x, m in zip(margins, (b_at, t_at), mean, strict=True)])
    with warnings.catch_warnings():
        warnings.simplefilter("error", lrvb.LargeCorrection)
        refined = posterior.refined(NAMES)
    first = np.abs(here.to_numpy() - mean) / sd_
    second = np.abs(refined["mean"].to_numpy() - mean) / sd_
    assert (second < np.maximum(first / 3, 0.02)).all()
    ratio = np.abs(np.log(spread.to_numpy() / sd_))
    corrected = np.abs(np.log(refined["sd"].to_numpy() / sd_))
    assert (corrected < np.maximum(ratio / 2, 0.02)).all()
    # the constant of the evidence, too
    area = np.diff(b_at)[0] * np.diff(t_at)[0]
    evidence = logsumexp(log) + np.log(area) - np.log(2) - np.log(2 * np.pi) / 2
    assert abs(refined.attrs["log_evidence"] - evidence) < 0.1
    assert abs(model.elbo_ - evidence) > 0.3


@pytest.mark.parametrize(("size", "asked"), [(0.02, 3), (0.2, 5)])
def test_what_hardly_changes_is_asked_at_ends_and_middle(size, asked):
    """A parabola between, which is exact of one."""
    x, calls = np.linspace(-3.5, 3.5, 5), []
    values = size * (0.3 * (x / 3.5) ** 2 - 0.5 * x / 3.5)
    found = _between(x, lambda i: calls.append(i) or values[i])
    assert len(calls) == asked
    np.testing.assert_allclose(found, values, atol=1e-12)


def test_a_correction_of_half_an_sd_is_a_warning_whatever_was_asked():
    """Where the precision is hardly known, coefficients' corrections say so too."""
    data = simulated("bernoulli", 20, 2, 3.0, 0.0)
    model = lrvb.MixedModel("y ~ 1 + (1|g)", family="bernoulli", factorization="variational")
    posterior = model.fit(data).posterior_
    with pytest.warns(lrvb.LargeCorrection, match=r"on which what was asked for depends"):
        posterior.refined("Intercept")
    with pytest.warns(lrvb.LargeCorrection, match=r"log\(precision"):
        posterior.refined("log(precision[1|g])")
