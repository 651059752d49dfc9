"""The density of precisions along lines: against fine grids of the exact posterior, and what it warns of."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import lrvb
from lrvb.engine.second_order import Refined
from lrvb.estimators.mixed.fit.along_lines import GRID, POINTS, AlongLines, Integrated, Line
from lrvb.estimators.mixed.fit.joint_response import tilted
from lrvb.estimators.mixed.fit.tilted_block import Cumulants, TiltedBlock
from lrvb.estimators.mixed.integral.block_gap import BlockGap
from lrvb.posterior.correction import warn_large_second_order
from lrvb.prior import Gamma

NODES = np.linspace(-8, 8, 401)  # of a standard normal
LOG_W = -(NODES**2) / 2 - logsumexp(-(NODES**2) / 2)
T = np.linspace(-4, 8, 1201)  # log precisions


def simulated(family: str, groups: int, rows: int, sd: float, seed: int, slope: float = 0.0):
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(groups), rows), rng.normal(size=groups * rows)
    eta = slope * x + sd * rng.normal(size=groups)[g]
    if family == "gaussian":
        y = eta + rng.normal(size=len(eta))
    elif family == "poisson":
        y = rng.poisson(np.exp(eta)).astype(float)
    else:
        y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(float)
    return pd.DataFrame({"y": y, "x": x, "g": g})


def along(model: lrvb.MixedModel, aside: np.ndarray | float = 0.0) -> AlongLines:
    """Of a fit, its points at the second order's means and so far aside."""
    response = model.posterior_._response
    gap = BlockGap(model.design_, model.priors_, model._standard, response.alpha, response.m)
    second = tilted(model._joint, gap)
    return AlongLines(response, gap.evidence, second.shift + aside)


@pytest.mark.parametrize("factorization", ["variational", "mean_field"])
@pytest.mark.parametrize(("family", "sd"), [("poisson", 0.6), ("bernoulli", 1.0)])
def test_a_precision_alone_has_the_moments_of_its_posterior(family, sd, factorization):
    """y ~ 0 + (1|g): levels' sums are exact, and log τ and τ have one dimension, on a fine grid."""
    data = simulated(family, 60, 6, sd, 1)
    model = lrvb.MixedModel("y ~ 0 + (1|g)", family, {"1|g": Gamma(2, 0.5)}, factorization)
    model.fit(data)
    eta = NODES[:, None] / np.exp(T / 2)
    kernel = np.exp(eta) if family == "poisson" else np.logaddexp(0, eta)
    log_p = 2 * T - 0.5 * np.exp(T)
    for (total, n), times in data.groupby("g")["y"].agg(["sum", "size"]).value_counts().items():
        log_p = log_p + times * logsumexp(total * eta - n * kernel + LOG_W[:, None], axis=0)
    p = np.exp(log_p - logsumexp(log_p))
    lines = along(model)
    for d, values in (([0.0, 1.0], T), ([1.0, 0.0], np.exp(T))):
        mean = p @ values
        sd_ = np.sqrt(p @ (values - mean) ** 2)
        found, spread, _ = lines.moments(np.array(d))
        assert abs(found - mean) < 0.02 * sd_
        assert abs(np.log(spread / sd_)) < 0.02
    assert len(lines._lines) == 1


def test_a_long_tail_has_its_sd():
    """Of a precision whose tail reaches far: linear response's sd is five eighths of it."""
    data = simulated("gaussian", 17, 14, 0.54, 4)
    model = lrvb.MixedModel("y ~ 1 + (1|g)", factorization="mean_field").fit(data)
    name = "precision[1|g]"
    exact = model.posterior_.certify().summary().loc[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error", lrvb.LargeCorrection)
        found = model.posterior_.refined(name).loc[name]
    assert model.posterior_.sd(name).iloc[0] < 0.75 * exact["sd"]
    assert abs(found["mean"] - exact["mean"]) < 0.05 * exact["sd"]
    assert abs(np.log(found["sd"] / exact["sd"])) < 0.05


def test_a_variance_far_out_is_a_warning():
    """Groups of zeros and ones with nearly no sd: τ's variance lies where the posterior hardly is."""
    model = lrvb.MixedModel("y ~ x + (1|g)", "bernoulli", factorization="variational")
    model.fit(simulated("bernoulli", 20, 12, 0.9, 5, 0.5))
    with pytest.warns(lrvb.LargeCorrection, match="long tail of its density"):
        model.posterior_.refined("precision[1|g]")
    with warnings.catch_warnings():
        warnings.simplefilter("error", lrvb.LargeCorrection)
        model.posterior_.refined("log(precision[1|g])")


def test_a_mixture_along_a_line_is_the_mixture():
    """Var b = E Var(b | x) + Var E(b | x): with b | x ~ N(x, eˣ), x a standard normal, 1 + √e."""
    line = object.__new__(Line)
    line.x, line.prior = POINTS, -(GRID**2) / 2
    none = 0 * POINTS
    line.given = Integrated(none, none, none, POINTS[:, None], np.exp(POINTS)[:, None, None])
    whole = np.exp(-(GRID**2) / 2) / np.exp(-(GRID**2) / 2).sum()
    inner = np.clip(GRID, POINTS[0], POINTS[-1])
    exact = whole @ (inner**2 + np.exp(inner))
    assert abs(line.mixed(np.ones(1)) / exact - 1) < 1e-10
    assert abs(exact / (1 + np.exp(0.5)) - 1) < 0.03


def test_nearly_separated_effects_are_warned_of():
    """Few zeros and ones, of which x tells most: small precisions make coefficients wide."""
    rng = np.random.default_rng([1, 18])
    groups, rows = int(rng.integers(4, 15)), int(rng.integers(2, 6))
    slope = float(rng.choice([0.5, 2, 4]))
    g, x = np.repeat(np.arange(groups), rows), rng.normal(size=groups * rows)
    eta = slope * x + rng.uniform(0.2, 1.5) * rng.normal(size=groups)[g] + rng.choice([0, 0, 2])
    data = pd.DataFrame({"y": 1 * (rng.random(len(x)) < 1 / (1 + np.exp(-eta))), "x": x, "g": g})
    model = lrvb.MixedModel("y ~ x + (1|g)", "bernoulli", factorization="mean_field").fit(data)
    with pytest.warns(lrvb.LargeCorrection, match="'x' or its logarithm"):
        found = model.posterior_.refined("x")
    exact = model.posterior_.certify().summary().loc["x"]
    assert found["sd"].iloc[0] < 0.7 * exact["sd"]


def test_a_density_that_rises_is_no_answer():
    """The second order's stands then, with a warning."""
    model = lrvb.MixedModel("y ~ 1 + (1|g)", "poisson", factorization="variational")
    model.fit(simulated("poisson", 12, 4, 1.0, 4))
    lines = along(model)
    none = np.zeros((len(POINTS), 0))
    lines.evidence = lambda moments: lambda x: Integrated(2 * x**2, 4 * x, 0 * x, none, none)
    asked = SimpleNamespace(first=0.2, cumulants=Cumulants(0.1, 0.2, 0.3))
    assert lines.judged(np.array([0.0, 1.0]), asked) == (0.1, 0.3, (np.inf, np.inf))


def test_the_points_follow_the_second_order():
    """Where the posterior is nearly normal the answer does not depend on where the points stand."""
    model = lrvb.MixedModel("y ~ x + (1|g)", factorization="mean_field")
    model.fit(simulated("gaussian", 60, 6, 1.0, 2, 0.5))
    response = model.posterior_._response
    d = np.array([0.0, 1.0, 0.0, 0.0])
    sd = np.sqrt(d @ response.Sigma @ d)
    near, far = (along(model, k * response.Sigma @ d / sd).moments(d) for k in (0.0, 0.3))
    assert abs(near[0] - far[0]) < 0.01 * sd
    assert abs(near[1] / far[1] - 1) < 0.01


def test_a_correction_the_wrong_way_is_a_warning():
    """Below half an sd, from 0.12 sd on one side to 0.32 on the other: the density knows, and answers."""
    data = simulated("bernoulli", 20, 20, 0.5, 71, 0.5)
    model = lrvb.MixedModel("y ~ x + (1|g)", "bernoulli", factorization="mean_field")
    posterior = model.fit(data).posterior_
    name = "log(precision[1|g])"
    with pytest.warns(lrvb.LargeCorrection, match="density is asked along a line") as caught:
        refined = posterior.refined(name).loc[name]
    warning = caught[0].message
    assert abs(warning.shift) < 0.5
    assert abs(warning.ratio - 1) < 0.5
    exact = posterior.certify().summary().loc[name]
    assert abs(posterior.mean(name).iloc[0] - exact["mean"]) < 0.2 * exact["sd"]
    assert abs(refined["mean"] - exact["mean"]) < 0.05 * exact["sd"]
    assert abs(np.log(refined["sd"] / exact["sd"])) < 0.05


@pytest.mark.parametrize(
    ("off", "warns"),
    [
        ((0.1, 1.1), False),
        ((-0.25, 1.0), True),
        ((0.0, 0.8), True),
        ((0.0, np.inf), True),
        ((np.inf, np.inf), True),
        ((np.nan, np.nan), False),
    ],
)
def test_what_the_density_says_is_a_warning_beyond_what_is_wrong(off, warns):
    """A fifth of an sd, or 15 % of it; a tail, or no answer, too; NaN was not asked."""
    second = Refined(np.array([0.3]), np.ones(1), np.ones(1), 0.0, np.array([off]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_large_second_order(second, ["t"])
    assert len(caught) == warns


def test_precisions_that_are_well_known_ask_no_density(monkeypatch):
    """Hundreds of levels: more points would say nothing."""
    asked = []
    own = AlongLines.moments
    monkeypatch.setattr(AlongLines, "moments", lambda *a: asked.append(1) or own(*a))
    for groups, times in ((300, 0), (12, 2)):  # of the precision, and of what hangs on it
        data = simulated("poisson", groups, 4, 1.0, 4)
        model = lrvb.MixedModel("y ~ 1 + (1|g)", "poisson", factorization="variational")
        model.fit(data).posterior_.refined(["Intercept", "log(precision[1|g])"])
        assert len(asked) == times


@pytest.mark.parametrize("family", ["gaussian", "poisson", "bernoulli"])
@pytest.mark.parametrize("factorization", ["variational", "mean_field"])
def test_one_end_of_a_line_tells_the_variance_roughly(family, factorization):
    """The slope of g is known with all means, so that one curvature tells a precision's variance."""
    model = lrvb.MixedModel("y ~ x + (1|g)", family, factorization=factorization)
    model.fit(simulated(family, 30, 8, 1.2, 6, 0.5))
    response = model.posterior_._response
    gap = BlockGap(model.design_, model.priors_, model._standard, response.alpha, response.m)
    second, d = tilted(model._joint, gap), np.eye(len(response.m))[1]
    found = second.cumulants(np.zeros(2), d)
    assert abs(found.shift - d @ second.shift) < 0.002 * np.sqrt(found.first)
    assert abs(second.rough_variance(d) / found.variance - 1) < 0.02


def test_what_a_density_answers_asks_one_curvature(monkeypatch):
    """A logarithm one, to tell whether the second order agrees; a precision none; the line once."""
    model = lrvb.MixedModel("y ~ 1 + (1|g)", "poisson", factorization="mean_field")
    posterior = model.fit(simulated("poisson", 12, 4, 1.0, 4)).posterior_
    asked, lines = [], []
    own, begun = TiltedBlock._at, Line.__init__
    monkeypatch.setattr(TiltedBlock, "_at", lambda *a: asked.append(1) or own(*a))
    monkeypatch.setattr(Line, "__init__", lambda *a: lines.append(1) or begun(*a))
    posterior.refined("precision[1|g]")
    assert (len(asked), len(lines)) == (0, 1)
    posterior.refined(["precision[1|g]", "log(precision[1|g])"])
    assert (len(asked), len(lines)) == (1, 2)


def test_no_density_is_no_answer():
    """Where the coefficients have no integral at one of the points."""
    model = lrvb.MixedModel("y ~ 1 + (1|g)", "poisson", factorization="variational")
    model.fit(simulated("poisson", 12, 4, 1.0, 4))
    lines = along(model)
    values, none = np.where(np.arange(len(POINTS)) == 1, -np.inf, 0.0), np.zeros((len(POINTS), 0))
    lines.evidence = lambda moments: lambda x: Integrated(values, 0 * x, 0 * x, none, none)
    assert np.isnan(lines.moments(np.array([0.0, 1.0]))).all()
