"""An estimate is names, m, V, Σ̂ and supports: made by hand, mapped to other units, stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import lrvb
from cases import CASES
from lrvb.engine.convergence import Convergence
from lrvb.engine.functions import covariance_of_natural
from lrvb.posterior.blocks import FamilyBlock, RealBlock, Support
from lrvb.posterior.estimate import Estimate, estimate_of
from lrvb.posterior.posterior import Posterior
from lrvb.posterior.units import Units, in_units

COUNTS = next(case for case in CASES if str(case) == "NormalPoisson-tilted")
HOW = Convergence(-3.0, np.array([-5.0, -3.0]), 2, True, "done", 1e-12)


def covariance(a: int, seed: int = 0) -> np.ndarray:
    A = np.random.default_rng(seed).normal(size=(a, a))
    return A @ A.T


def plain() -> Estimate:
    """A vector and a number that no family stands behind."""
    m = np.array([1.0, -2.0, 3.0, 0.5])
    blocks = {"beta": RealBlock((3,)), "theta": RealBlock()}
    labels = ["Intercept", "x", "c[b]", "theta"]
    return Estimate.of_blocks(blocks, m, np.diag([1.0, 2.0, 3.0, 4.0]), covariance(4), labels)


def beside() -> Estimate:
    """A plain vector beside a Gamma, as in a mixed model."""
    response = COUNTS.response()
    alone, tau = estimate_of(response), response.alpha.slices["tau"]
    m = np.concatenate([[5.0, 6.0], alone.m[tau]])
    V = np.zeros((4, 4))
    V[:2, :2], V[2:, 2:] = np.eye(2), alone.V[tau, tau]
    Sigma = np.zeros((4, 4))
    Sigma[:2, :2], Sigma[2:, 2:] = 2 * np.eye(2), alone.Sigma[tau, tau]
    Sigma[0, 3] = Sigma[3, 0] = 0.1 * np.sqrt(Sigma[0, 0] * Sigma[3, 3])
    return Estimate.of_blocks({"b": RealBlock((2,)), "tau": alone.blocks["tau"]}, m, V, Sigma)


# ---- without a family ----------------------------------------------------------------------


def test_a_posterior_from_plain_numbers(tmp_path: Path) -> None:
    """Names, means and covariances alone answer everything but what needs a fit."""
    estimate = plain()
    posterior = Posterior(estimate, HOW)
    assert posterior.names == ["Intercept", "x", "c[b]", "theta"]
    assert posterior.mean("x").item() == -2.0
    assert posterior.mean("beta[1]").index == ["x"]
    assert list(posterior.mean("beta").index) == ["Intercept", "x", "c[b]"]
    np.testing.assert_allclose(posterior.cov(), estimate.Sigma)
    weights = jnp.array([1.0, 2.0, -1.0])
    found = posterior.of(lambda m: weights @ m.beta.x + 2 * m.theta.x)
    w = np.array([1.0, 2.0, -1.0, 2.0])
    np.testing.assert_allclose(found, w @ estimate.Sigma @ w, rtol=1e-12)
    assert posterior.elbo == -3.0
    for ask in (lambda: posterior.fit, lambda: posterior.response, posterior.refined):
        with pytest.raises(lrvb.InvalidModel, match="made from plain estimates, which holds no"):
            ask()
    with pytest.raises(lrvb.InvalidModel, match="there is no local 'z'"):
        posterior.local("z")
    again = lrvb.load(posterior.save(tmp_path / "plain"))
    pd.testing.assert_frame_equal(again.summary(), posterior.summary())
    np.testing.assert_array_equal(again.draws(3)["beta"], posterior.draws(3)["beta"])


def test_draws_of_plain_numbers() -> None:
    """They have the mean and the covariance, within 5 Monte Carlo errors."""
    estimate, n = plain(), 40_000
    drawn = Posterior(estimate, HOW).draws(n, seed=1)
    assert drawn["theta"].shape == (n,)
    u, sd = np.column_stack([drawn["beta"], drawn["theta"]]), np.sqrt(np.diag(estimate.Sigma))
    np.testing.assert_allclose((u.mean(0) - estimate.m) / sd, 0, atol=5 / np.sqrt(n))
    error = (np.cov(u.T) - estimate.Sigma) / np.outer(sd, sd)
    np.testing.assert_allclose(error, 0, atol=5 * np.sqrt(2 / n))


def test_a_vector_beside_a_family(tmp_path: Path) -> None:
    estimate = beside()
    assert estimate.supports == (Support(), Support(), Support("positive", 3), Support())
    np.testing.assert_array_equal(estimate.family_coordinates, [2, 3])
    posterior = Posterior(estimate, HOW)
    summary = posterior.summary()
    ends = summary[["lower", "upper"]]
    np.testing.assert_allclose(np.log(ends.loc["tau"]), ends.loc["log(tau)"])
    variance = covariance_of_natural(estimate, lambda eta: (eta["tau"].log_x + 1) / -eta["tau"].x)
    np.testing.assert_allclose(variance, posterior.cov().loc["tau", "tau"], rtol=1e-9)
    again = lrvb.load(posterior.save(tmp_path / "both"))
    pd.testing.assert_frame_equal(again.summary(), summary)
    np.testing.assert_array_equal(again.draws(3)["tau"], posterior.draws(3)["tau"])
    with pytest.raises(lrvb.InvalidModel, match="start from a fit of the same model"):
        lrvb.infer(COUNTS.model, COUNTS.data, init=posterior)


@pytest.mark.parametrize("wrong", ["m", "V", "Sigma", "labels"])
def test_sizes_must_agree(wrong: str) -> None:
    good: dict[str, Any] = {
        "m": np.zeros(2),
        "V": np.eye(2),
        "Sigma": np.eye(2),
        "labels": ["a", "b"],
    }
    bad = {"m": np.zeros(3), "V": np.eye(3), "Sigma": np.zeros(2), "labels": ["a"]}
    with pytest.raises(ValueError, match=wrong):
        Estimate.of_blocks({"x": RealBlock((2,))}, **{**good, wrong: bad[wrong]})


# ---- other units ---------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_units_are_an_affine_function(seed: int) -> None:
    """Cov(M T + c) = M Cov(T) Mᵀ, by hand and by `of`; and the inverse map leads back."""
    rng = np.random.default_rng(seed)
    estimate = plain()
    M = np.zeros((4, 4))
    M[:3, :3], M[3, 3], c = rng.normal(size=(3, 3)), 2.0, rng.normal(size=4)
    other = in_units(estimate, Units(M, c))
    np.testing.assert_allclose(other.m, M @ estimate.m + c, rtol=1e-12)
    np.testing.assert_allclose(other.V, M @ estimate.V @ M.T, rtol=1e-10)
    by_function = estimate.of(lambda m: M @ jnp.append(m.beta.x, m.theta.x) + c)
    np.testing.assert_allclose(other.Sigma, by_function, rtol=1e-9, atol=1e-12)
    inverse = np.linalg.inv(M)
    back = in_units(other, Units(inverse, -inverse @ c))
    np.testing.assert_allclose(back.Sigma, estimate.Sigma, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(back.m, estimate.m, rtol=1e-8, atol=1e-12)


def test_a_gamma_in_other_units() -> None:
    """x = s·x′ has the rate over s, log x is shifted by log s, and draws are multiplied by s."""
    response, s = COUNTS.response(), 1e3
    estimate = estimate_of(response)
    M, c = np.eye(4), np.zeros(4)
    at = estimate.slices["tau"].start
    M[at, at], c[at + 1] = s, np.log(s)
    other = in_units(estimate, Units(M, c))
    block, before = other.blocks["tau"], estimate.blocks["tau"]
    assert isinstance(block, FamilyBlock)
    assert isinstance(before, FamilyBlock)
    np.testing.assert_allclose(block.eta, [before.eta[0] / s, before.eta[1]], rtol=1e-14)
    lower, upper = Posterior(other, HOW).summary()[["lower", "upper"]].loc["tau"]
    plain_ends = Posterior(estimate, HOW).summary()[["lower", "upper"]].loc["tau"]
    np.testing.assert_allclose([lower, upper], s * plain_ends, rtol=1e-12)
    ours, theirs = (Posterior(e, HOW).draws(5, seed=2)["tau"] for e in (other, estimate))
    np.testing.assert_allclose(ours, s * theirs, rtol=1e-9)
