"""The two regression models against their exact posteriors, simulated over the paper's ranges.

Where counts say little about overdispersion (β below about 0.8 with τ above about 3) the posterior
of τ is strongly skewed. There the mean of τ is low by 0.2–0.3 sd, and sd(τ) with it; draws, made
on the log scale, have a wider and better interval, and the second order repairs both.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import lrvb
from lrvb.models import NormalPoisson, RandomSlope
from lrvb.studies.reference import normal_poisson, random_slope, simulate

STRONG_SKEW = 0.7
X = np.random.default_rng(20).normal(size=500)  # drawn once and held fixed, as in the paper
SETTINGS = [(2.9, 1.0), (0.75, 0.9), (1.5, 0.7), (2.2, 0.5), (1.9, 0.35), (2.7, 0.3)]
SKEWED = [(0.5, 0.4), (0.15, 0.35)]


@cache
def poisson_case(beta, sd):
    data = simulate.normal_poisson(
        np.random.default_rng([21, int(100 * beta)]), beta=beta, sd=sd, x=X
    )
    return data, normal_poisson.exact(data["x"], data["y"])


@cache
def slope_case(seed):
    rng = np.random.default_rng(30)
    design = simulate.random_slope(rng)
    data = simulate.random_slope(np.random.default_rng([31, seed]), x=design["x"], r=design["r"])
    return data, random_slope.exact(data["x"], data["r"], data["y"], data["group"])


def within(ratio, low, high, what):
    assert low <= ratio <= high, f"sd of {what} is {ratio:.3f} of exact"


@pytest.mark.parametrize(("beta", "sd"), SETTINGS)
def test_normal_poisson_agrees_with_quadrature(beta, sd):
    """Matched priors, optimal q(z_n): sds within 2 %, E τ within 0.15 sd."""
    data, exact = poisson_case(beta, sd)
    posterior = lrvb.infer(NormalPoisson(), data)
    ratio, mfvb = posterior.sd() / exact.sd, posterior.sd(method="mfvb") / exact.sd
    assert exact.skewness["tau"] < STRONG_SKEW
    within(ratio["beta"], 0.98, 1.02, "beta")
    within(ratio["log(tau)"], 0.98, 1.02, "log(tau)")
    within(ratio["tau"], 0.94, 1.03, "tau")
    bias = (posterior.mean() - exact.mean) / exact.sd
    assert abs(bias["tau"]) <= 0.15
    assert abs(bias["beta"]) <= 0.05
    z = posterior.local("z")
    ratios = z["sd"].values / exact.z_sd.to_numpy()
    within(ratios.min(), 0.97, 1.03, "z")
    within(ratios.max(), 0.97, 1.03, "z")
    for name in ("beta", "log(tau)"):
        expected = exact.z_cov[name].to_numpy()
        got = z["cov"].sel(quantity=name).values
        np.testing.assert_allclose(got, expected, atol=0.04 * np.abs(expected).max())
    assert mfvb["beta"] < 0.8
    assert mfvb["tau"] < 0.65
    assert exact.log_evidence - 5 < posterior.elbo < exact.log_evidence


@pytest.mark.parametrize(("beta", "sd"), SKEWED)
def test_strongly_skewed_precision(beta, sd):
    """β and log τ stay good; sd(τ) is low, and the interval of τ, on the log scale, holds its promise."""
    data, exact = poisson_case(beta, sd)
    posterior = lrvb.infer(NormalPoisson(), data, certify=False)
    assert exact.skewness["tau"] > STRONG_SKEW
    ratio = posterior.sd() / exact.sd
    within(ratio["beta"], 0.98, 1.02, "beta")
    within(ratio["log(tau)"], 0.96, 1.02, "log(tau)")
    assert abs(posterior.mean()["tau"] - exact.mean["tau"]) < 0.35 * exact.sd["tau"]
    tau = posterior.draws(200_000, seed=1)["tau"]
    np.testing.assert_allclose(tau.mean(), posterior.mean()["tau"], rtol=0.03)
    np.testing.assert_allclose(tau.std(), posterior.sd()["tau"], rtol=0.03)
    low, high = posterior.summary(0.9).loc["tau", ["lower", "upper"]]
    assert 0.87 <= exact.cdf("tau", high) - exact.cdf("tau", low) <= 0.93


@pytest.mark.parametrize(("beta", "sd"), [*SKEWED, SETTINGS[1]])
def test_second_order_repairs_skewed_precisions(beta, sd):
    """The one-loop evidence, means, sds and draws: exact to a few per cent even where τ is skewed."""
    data, exact = poisson_case(beta, sd)
    posterior = lrvb.infer(NormalPoisson(), data)
    refined = posterior.refined()
    bias = (refined["mean"] - exact.mean) / exact.sd
    assert bias.abs().max() < 0.03
    for name in ("beta", "log(tau)"):
        within(refined["sd"][name] / exact.sd[name], 0.99, 1.01, name)
    within(refined["sd"]["tau"] / exact.sd["tau"], 0.97, 1.02, "tau")
    assert abs(refined.attrs["log_evidence"] - exact.log_evidence) < 0.05
    assert exact.log_evidence - posterior.elbo > 0.5
    tau = posterior.draws(200_000, seed=1, refined=True)["tau"]
    within(tau.std() / exact.sd["tau"], 0.94, 1.03, "draws of tau")
    within(np.log(tau).std() / exact.sd["log(tau)"], 0.98, 1.02, "draws of log(tau)")
    low, high = np.quantile(tau, [0.05, 0.95])
    assert 0.89 <= exact.cdf("tau", high) - exact.cdf("tau", low) <= 0.91


@pytest.mark.parametrize(("beta", "sd"), [SETTINGS[1], SKEWED[0]])
def test_second_order_repairs_rows_that_are_not_linear(beta, sd):
    """The paper's Gaussian q(z_n) leaves means of τ 0.4 sd off, its sd at 0.91; the second order a tenth."""
    data, exact = poisson_case(beta, sd)
    refined = lrvb.infer(NormalPoisson(local="gaussian"), data).refined()
    assert ((refined["mean"] - exact.mean) / exact.sd).abs().max() < 0.03
    for name in exact.sd.index:
        within(refined["sd"][name] / exact.sd[name], 0.98, 1.01, name)
    assert abs(refined.attrs["log_evidence"] - exact.log_evidence) < 0.15


@pytest.mark.parametrize(("beta", "sd"), [SETTINGS[0], SETTINGS[2]])
def test_gaussian_restriction_is_close_but_biased(beta, sd):
    """The paper's q(z_n): sds within 4 %, but E τ is off by more than with the optimal one."""
    data, exact = poisson_case(beta, sd)
    gaussian = lrvb.infer(NormalPoisson(local="gaussian"), data)
    tilted = lrvb.infer(NormalPoisson(), data)
    ratio = gaussian.sd() / exact.sd
    within(ratio["beta"], 0.96, 1.03, "beta")
    within(ratio["log(tau)"], 0.95, 1.03, "log(tau)")
    assert gaussian.elbo < tilted.elbo < exact.log_evidence


@pytest.mark.parametrize("seed", range(6))
def test_random_slope_agrees_with_quadrature(seed):
    """Matched priors: every sd within 3 %, where MFVB has half of β₁'s."""
    data, exact = slope_case(seed)
    posterior = lrvb.infer(RandomSlope(), data)
    ratio, mfvb = posterior.sd() / exact.sd, posterior.sd(method="mfvb") / exact.sd
    for name, low, high in [
        ("beta[0]", 0.98, 1.02),
        ("beta[1]", 0.98, 1.02),
        ("tau", 0.98, 1.02),
        ("log(tau)", 0.98, 1.02),
        ("log(nu)", 0.97, 1.03),
    ]:
        within(ratio[name], low, high, name)
    if exact.skewness["nu"] < 1.0:
        within(ratio["nu"], 0.94, 1.03, "nu")
    else:  # strongly skewed (seed 5): the second order repairs it
        within(ratio["nu"], 0.92, 1.03, "nu")
        within(posterior.refined("nu").loc["nu", "sd"] / exact.sd["nu"], 0.98, 1.02, "refined nu")
    assert ((posterior.mean() - exact.mean).abs() / exact.sd).max() < 0.1
    z = posterior.local("z")
    ratios = z["sd"].values / exact.z_sd.to_numpy()
    within(ratios.min(), 0.97, 1.03, "z")
    within(ratios.max(), 0.97, 1.03, "z")
    assert mfvb["beta[0]"] < 0.75
    assert mfvb["nu"] < 0.95
    assert exact.log_evidence - 5 < posterior.elbo < exact.log_evidence


@pytest.mark.parametrize("scale", [1e-4, 1e8])
def test_units_of_x_do_not_matter(scale):
    """x → s·x with the prior of β scaled alike: β's sd scales by 1/s, everything else stays."""
    data, _ = poisson_case(1.5, 0.7)
    plain = lrvb.infer(NormalPoisson(), data)
    scaled = lrvb.infer(
        NormalPoisson(beta_var=10.0 / scale**2), {"x": data["x"] * scale, "y": data["y"]}
    )
    np.testing.assert_allclose(scaled.sd("beta") * scale, plain.sd("beta"), rtol=1e-7)
    np.testing.assert_allclose(scaled.sd("tau"), plain.sd("tau"), rtol=1e-7)
    np.testing.assert_allclose(scaled.mean("tau"), plain.mean("tau"), rtol=1e-7)


def test_relabelling_groups_changes_nothing():
    data, _ = slope_case(0)
    names = np.array([f"group {chr(97 + g % 26)}{g}" for g in range(30)])
    plain = lrvb.infer(RandomSlope(), data)
    named = lrvb.infer(RandomSlope(), {**data, "group": names[::-1][data["group"]]})
    np.testing.assert_allclose(named.sd(), plain.sd(), rtol=1e-9)
    np.testing.assert_allclose(
        named.local("z")["sd"].sel(group=names[::-1]), plain.local("z")["sd"], rtol=1e-9
    )
