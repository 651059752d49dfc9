"""What sums over levels leave out beyond the ends of their grids."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_less
from scipy.special import log_expit, logsumexp
from scipy.stats import norm
from small import intercepts, regression

from lrvb.integrated.factor_nodes import beyond
from lrvb.integrated.levels import Levels


@pytest.mark.parametrize("end", [1.0, 2.0, 4.0])
def test_the_tails_of_a_normal_are_below_the_bound(end):
    """Φ(−end) on either side, from nodes within ±end: a log-concave tail falls at least geometrically."""
    z, step = np.linspace(-end, end, 201, retstep=True)
    bound = beyond(norm.pdf(z)[None, None] * step)[0, 0]
    left_out = 2 * norm.sf(end)
    # φ/λ with λ = −(log φ)′ at the end, and the last node itself
    assert left_out < bound < 2 * norm.pdf(end) * (1 / (end - step) + 2 * step)


def test_two_axes_have_a_tail_each():
    """P(|z_i| > 2 for some i) is below the sum of both margins' tails."""
    z, step = np.linspace(-2, 2, 81, retstep=True)
    P = np.multiply.outer(norm.pdf(z), norm.pdf(z)) * step**2
    inside = (2 * norm.cdf(2) - 1) ** 2
    assert 1 - inside < beyond(P[None, None])[0, 0] + 1e-12


def test_an_end_before_the_mode_is_far_too_near():
    """Where the density still rises at an end, nothing bounds what is beyond: the bound is large."""
    z = np.linspace(-5, -1, 41)
    P = norm.pdf(z)[None, None]
    assert_array_less(10 * P.sum(-1), beyond(P))


@pytest.mark.parametrize("sd", [0.5, 5.0, 50.0, 500.0])
def test_bent_nodes_follow_any_sd(sd):
    """Σ log ∫ Π σ(±(η + z)) N(z; 0, sd²) dz of pairs of zeros and ones, against 200,001 even nodes."""
    G = 6
    codes, x = np.repeat(np.arange(G), 2), np.linspace(-1, 1, 2 * G)
    rows = regression("bernoulli", 2 * x, np.column_stack([np.ones(2 * G), x]))
    inside = Levels(rows, intercepts(codes, G), merge=False)
    beta = np.array([-0.2, 0.3]) * np.hypot(1.0, sd)
    theta = np.r_[beta, np.log(sd)][None]
    inside._box, inside.bent, inside.nodes = None, True, 241
    z = np.linspace(-10, 10, 200_001)
    eta = rows.predictor(beta[None])[0]
    side = 2 * rows.columns[0] - 1
    f = [log_expit(side[n] * (eta[n] + sd * z)) for n in range(2 * G)]
    each = [logsumexp(f[2 * g] + f[2 * g + 1], b=norm.pdf(z) * 1e-4) for g in range(G)]
    brute = sum(each) + inside._log_prior(theta)[0]
    assert_allclose(inside.log_density(theta)[0], brute, atol=1e-3)
    rng = np.random.default_rng(0)
    drawn = inside.sample(np.repeat(theta, 4000, axis=0), rng).effects[0][..., 0]
    first, second = (part[0] for part in inside.evaluate(theta)[1:])
    spread = np.sqrt(second - first**2)[inside.groups.group]
    assert_allclose(
        drawn.mean(0), first[inside.groups.group], atol=5 * spread.max() / np.sqrt(4000)
    )


@pytest.mark.parametrize("bent", [False, True], ids=["even", "bent"])
@pytest.mark.parametrize("chosen", [False, True], ids=["searched", "chosen"])
def test_a_level_hangs_on_no_other_and_a_point_on_no_other(chosen, bent):
    """With few nodes, whose error shows where they are: those of one row, of many, of effects far away."""
    rng, sizes = np.random.default_rng(0), np.r_[1, 1, 2, 40, 300]
    codes = np.repeat(np.arange(5), sizes)
    x = rng.normal(size=len(codes)) + np.array([0.0, 9.0, -9.0, 3.0, 0.0])[codes]
    rows = regression("bernoulli", 4 * x, np.column_stack([np.ones(len(x)), x]))
    inside = Levels(rows, intercepts(codes, 5), merge=False, nodes=9)
    points = np.array([[0.0, 0.5, 0.0], [1.0, -1.0, 1.5], [-3.0, 2.0, -2.0]])
    if chosen:
        inside._learn(points[:1])
    inside.nodes, inside.bent = 9, bent
    every = np.arange(5)
    together = inside.level_sums(points, every)
    for g in every:
        assert_allclose(inside.level_sums(points, every[[g]])[:, 0], together[:, g], rtol=1e-12)
    for i in range(len(points)):
        assert_allclose(inside.level_sums(points[[i]], every)[0], together[i], rtol=1e-12)
