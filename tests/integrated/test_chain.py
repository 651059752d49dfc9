"""Factors nested three deep, summed out given θ: against dense quadrature, and two factors' sums."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from small import FAMILIES, dispersion, effects, intercepts, log_normal, log_rows, regression

from lrvb.integrated.chain import Chain
from lrvb.integrated.choice import choose
from lrvb.integrated.factor_nodes import TOLERANCE
from lrvb.integrated.mode import differenced
from lrvb.integrated.nested import Nested
from lrvb.integrated.tree import grow, is_chain

BETA = np.array([0.2, -0.4])
SDS = np.array([0.9, 0.7, 0.6])
N = 24
INNER = np.random.default_rng(2).permutation(np.r_[np.arange(12), 2 + np.arange(12) % 7])
MIDDLE = INNER // 2
OUTER = MIDDLE // 3  # two of three levels have rows


def chain_model(family, step=0.45):
    X = np.column_stack([np.ones(N), np.random.default_rng(1).normal(size=N)])
    rows = regression(family, X @ BETA, X)
    terms = [intercepts(OUTER, 3), intercepts(MIDDLE, 6), intercepts(INNER, 12)]
    model = Chain(rows, terms)
    model.step = step
    return model, rows, terms, np.r_[BETA, np.log(SDS), dispersion(family)]


def moments(P, x):
    return [P @ x, P @ x**2 - (P @ x) ** 2]


@pytest.mark.parametrize("family", FAMILIES)
def test_three_factors_agree_with_dense_quadrature(family):
    model, rows, _, theta = chain_model(family)
    phi = np.exp(dispersion(family))
    grids = [np.linspace(-1, 1, size) * 7 * sd for size, sd in zip((61, 61, 81), SDS, strict=True)]
    o, m, z = grids
    steps = [np.log(grid[1] - grid[0]) for grid in grids]
    expected = model._log_prior(theta[None])[0]
    found = effects(model, theta[None], np.ones(1))
    eta = rows.predictor(BETA[None])[0]
    for g in range(2):
        of_o, below = log_normal(o, SDS[0]) + steps[0], {}
        for b in np.unique(MIDDLE[g == OUTER]):
            of_m = log_normal(m, SDS[1]) + steps[1] + np.zeros((len(o), 1))
            for c in np.unique(INNER[b == MIDDLE]):
                at = np.flatnonzero(c == INNER)
                nodes = o[:, None, None] + m[:, None] + z
                joint = log_rows(rows, at, eta[at][:, None, None, None] + nodes, phi)
                below[b, c] = joint + log_normal(z, SDS[2]) + steps[2]
                of_m = of_m + logsumexp(below[b, c], axis=2)
            below[b] = of_m - logsumexp(of_m, axis=1, keepdims=True)
            of_o = of_o + logsumexp(of_m, axis=1)
        expected += logsumexp(of_o)
        P = np.exp(of_o - logsumexp(of_o))
        assert_allclose([found[0][0][g, 0], found[0][1][g, 0] ** 2], moments(P, o), atol=1e-6)
        for b in np.unique(MIDDLE[g == OUTER]):
            both = P[:, None] * np.exp(below[b])
            of_b = [found[1][0][b, 0], found[1][1][b, 0] ** 2]
            assert_allclose(of_b, moments(both.sum(0), m), atol=1e-6)
            for c in np.unique(INNER[b == MIDDLE]):
                given = np.exp(below[b, c] - logsumexp(below[b, c], axis=2, keepdims=True))
                of_c = [found[2][0][c, 0], found[2][1][c, 0] ** 2]
                assert_allclose(of_c, moments((both[:, :, None] * given).sum((0, 1)), z), atol=1e-6)
    assert_allclose(model.log_density(theta[None])[0], expected, rtol=0, atol=1e-6)
    assert_allclose([found[0][0][2, 0], found[0][1][2, 0]], [0, SDS[0]], atol=1e-9)  # without rows


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_are_those_of_the_log_density(family):
    model, *_, theta = chain_model(family)
    _, gradient, H = model.derivatives(theta)
    _, expected, curvature = differenced(model.log_density, 1e-3)(theta)
    assert_allclose(gradient, expected, atol=2e-5 * np.abs(expected).max())
    assert_allclose(H[2:], curvature[2:], atol=1e-3 * np.abs(curvature).max())
    # in β alone rows are taken to be normal, which proposals can bear
    assert_allclose(H[:2, :2], curvature[:2, :2], atol=0.1 * np.abs(curvature[:2, :2]).max())


@pytest.mark.parametrize("log_sds", [(-0.3, -0.5), (0.5, -3.0), (-4.0, 0.3), (-5.0, -5.0)])
def test_two_factors_are_those_of_nested_sums(log_sds):
    """Nodes of both kinds, one line for all and some around each of those above."""
    _, rows, terms, _ = chain_model("poisson")
    chain, nested = Chain(rows, terms[:2]), Nested(rows, *terms[:2])
    theta = np.r_[BETA, log_sds]
    chain.step = nested.step = 0.35
    found, expected = chain.evaluate(theta[None]), nested.evaluate(theta[None])
    for own, other in zip(found, expected, strict=True):
        assert_allclose(own, other, atol=1e-8)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_an_sd_of_nearly_zero_is_a_factor_less(which):
    """To O(sd²) a level: what is left are the sums of the other two factors."""
    model, rows, terms, theta = chain_model("bernoulli")
    theta[2 + which] = -7.0
    others = [term for f, term in enumerate(terms) if f != which]
    nested, without = Nested(rows, *others), np.delete(theta, 2 + which)
    nested.step = 0.45
    found = model.log_density(theta[None]) - model._log_prior(theta[None])
    expected = nested.log_density(without[None]) - nested._log_prior(without[None])
    assert_allclose(found, expected, atol=1e-4)


def test_chosen_nodes_are_as_good_as_asked_for():
    model, *_, theta = chain_model("binomial", step=0.25)
    exact = model.log_density(theta[None])
    model.choose_nodes(theta[None])
    assert model.step > 0.25
    assert_allclose(model.log_density(theta[None]), exact, atol=TOLERANCE)


def test_draws_have_the_moments_of_the_sums():
    model, *_, theta = chain_model("poisson")
    rng, n = np.random.default_rng(0), 4000
    drawn = model.sample(np.tile(theta, (n, 1)), rng)
    for z, (mean, sd) in zip(drawn.effects, effects(model, theta[None], np.ones(1)), strict=True):
        # five standard errors, of 21 means and sds
        assert_allclose(z.mean(0), mean, atol=5 / np.sqrt(n) * sd.max())
        assert_allclose(z.std(0), sd, rtol=5 / np.sqrt(n))


def test_predictors_of_known_new_and_strange_levels():
    """On nodes where a chain is known; new levels add their variance, strange ones a normal's."""
    model, _, _, theta = chain_model("poisson")
    (mean_o, _), (mean_m, sd_m), (mean_i, _) = effects(model, theta[None], np.ones(1))
    c = int(INNER[0])
    codes = [np.array([0, 0, -1, 1]), np.array([-1, -1, -1, 0]), np.array([-1, -1, -1, -1])]
    codes[0][1], codes[1][1], codes[2][1] = OUTER[0], MIDDLE[0], c
    ones = [np.ones((4, 1))] * 3
    (lines,) = model.lines(theta[None], np.zeros((4, 2)), codes, ones)
    mean = (lines.eta * lines.P).sum(2)[0]
    assert_allclose(mean[0], mean_o[0, 0], atol=1e-8)
    whole = mean_o[OUTER[0], 0] + mean_m[MIDDLE[0], 0] + mean_i[c, 0]
    assert_allclose(mean[1], whole, atol=1e-8)
    assert_allclose(mean[2:], [0.0, mean_o[1, 0] + mean_m[0, 0]], atol=1e-8)
    new = SDS**2
    expected = [new[1] + new[2], 0.0, new.sum(), sd_m[0, 0] ** 2 + new[2]]
    assert_allclose(lines.extra[0], expected, atol=1e-8)


def test_trees_and_their_choice():
    assert is_chain([OUTER, MIDDLE, INNER])
    assert not is_chain([MIDDLE, OUTER, INNER])
    tree = grow([OUTER, MIDDLE, INNER])
    for code, depth in zip((OUTER, MIDDLE, INNER), tree.depths, strict=True):
        assert_allclose(np.sort(depth.level), np.unique(code))
    last = tree.depths[-1]
    assert_allclose(last.level[tree.of], INNER[tree.rows])
    assert_allclose(tree.depths[1].level[last.parent] * 2 // 2, INNER[tree.rows][last.starts] // 2)
    _, rows, terms, _ = chain_model("poisson")
    chosen = choose(rows, [terms[1], terms[2], terms[0]])
    assert isinstance(chosen.inside, Chain)
    assert chosen.order == (2, 0, 1)
