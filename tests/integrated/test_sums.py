"""Levels summed out given θ: against dense quadrature, and derivatives against differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from small import (
    FAMILIES,
    dispersion,
    effects,
    intercepts,
    log_normal,
    log_rows,
    regression,
    sloped,
)

from lrvb.errors import InvalidModel
from lrvb.integrated.chain import Chain
from lrvb.integrated.crossed import Crossed
from lrvb.integrated.factor_nodes import TOLERANCE
from lrvb.integrated.levels import Levels
from lrvb.integrated.mode import differenced
from lrvb.integrated.nested import Nested
from lrvb.integrated.row_sums import Directly, Plane
from lrvb.integrated.slopes import Slopes
from lrvb.integrated.tree import is_chain

BETA = np.array([0.2, -0.4])
N, G = 40, 8


def levels_model(family, merge=True, nodes=81):
    rng = np.random.default_rng(3)
    codes = rng.integers(0, G - 1, N)  # the last level has no rows
    X = np.column_stack([np.ones(N), rng.integers(0, 2, N)])
    rows = regression(family, X @ BETA + rng.normal(0, 1.5, G)[codes], X)
    model = Levels(rows, intercepts(codes, G), merge, nodes)
    return model, rows, codes, np.r_[BETA, np.log(1.7), dispersion(family)]


@pytest.mark.parametrize("family", FAMILIES)
def test_levels_agree_with_dense_quadrature(family):
    model, rows, codes, theta = levels_model(family)
    z, phi = np.linspace(-16, 16, 4001), np.exp(dispersion(family))
    expected = model._log_prior(theta[None])[0]
    for g in np.unique(codes):
        at = np.flatnonzero(codes == g)
        eta = rows.predictor(BETA[None])[0][at][:, None] + z
        f = log_rows(rows, at, eta, phi) + log_normal(z, 1.7)
        expected += logsumexp(f) + np.log(z[1] - z[0])
    assert_allclose(model.log_density(theta[None])[0], expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("family", FAMILIES)
def test_error_of_the_nodes_bounds_the_error(family):
    """Twice the nodes tell the step's error; what ends cut is told by what is seen there."""
    model, _, _, theta = levels_model(family)
    exact = model.log_density(theta[None])[0]
    for nodes in (7, 9, 13, 17, 25):
        model.nodes = nodes
        off = abs(model.log_density(theta[None])[0] - exact)
        assert off <= 2 * model.error(theta[None])[0] + 1e-7


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("effects", [1, 2])
def test_chosen_nodes_suffice_where_they_were_chosen_and_near(family, effects):
    """Within TOLERANCE where ends were searched for, and half an sd of θ from there."""
    if effects == 1:
        model, *_, theta = levels_model(family)
    else:
        model, *_, theta = slopes_model(family, True)
    rng = np.random.default_rng(0)
    points = theta + np.vstack([np.zeros(len(theta)), 0.3 * rng.normal(size=(5, len(theta)))])
    exact = model.log_density(points)
    model.choose_nodes(points[:2])
    assert model.nodes < 41
    off = np.abs(model.log_density(points) - exact)
    assert np.all(off[:2] < TOLERANCE)
    assert np.all(off[2:] < 3 * TOLERANCE)


@pytest.mark.parametrize("family", ["bernoulli", "binomial", "poisson", "shaped"])
@pytest.mark.parametrize("effects", [1, 2])
def test_products_of_exponentials_agree_with_rows_one_by_one(family, effects):
    """Every sum of `Exponents` against `Directly`, where products overflow too."""
    model, *_, theta = levels_model(family) if effects == 1 else slopes_model(family, True)
    for scale in (1.0, 30.0, 900.0):
        points = theta + np.vstack([np.zeros(len(theta)), np.linspace(-0.3, 0.3, len(theta))])
        points[:, 0] = scale * 0.2
        fast = model._exponential.at(points, model.k)
        slow = Directly(model.rows, model.groups, model.R, points, model.k)
        rng = np.random.default_rng(1)
        z = rng.normal(size=(2, model.G, effects))
        with np.errstate(over="ignore"):
            assert_allclose(fast.height(z), slow.height(z), rtol=1e-12)
            for ours, theirs in zip(fast.slopes(z), slow.slopes(z), strict=True):
                assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
            steps = np.linspace(-2, 2, 5)
            if effects == 1:
                grid = z + steps
                assert_allclose(fast.line(grid), slow.line(grid), rtol=1e-10)
            else:
                plane = Plane(
                    z[..., :1] + steps, z[..., 1:] + 0.3 * steps, 0.5 * steps + 0 * z[..., :1]
                )
                assert_allclose(fast.plane(plane), slow.plane(plane), rtol=1e-10)


def test_merged_levels_change_nothing():
    model, _, codes, theta = levels_model("bernoulli")
    apart, *_ = levels_model("bernoulli", merge=False)
    assert model.G <= apart.G == len(np.unique(codes))
    assert_allclose(model.log_density(theta[None]), apart.log_density(theta[None]), rtol=1e-12)
    for ours, theirs in zip(
        *effects(model, theta[None], np.ones(1)),
        *effects(apart, theta[None], np.ones(1)),
        strict=True,
    ):
        assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_moments_of_levels(family):
    """E z and sd z of each level by dense quadrature; a level without rows has its prior's."""
    model, rows, codes, theta = levels_model(family)
    ((mean, sd),) = effects(model, theta[None], np.ones(1))
    z, phi = np.linspace(-16, 16, 4001), np.exp(dispersion(family))
    for g in np.unique(codes):
        at = np.flatnonzero(codes == g)
        eta = rows.predictor(BETA[None])[0][at][:, None] + z
        f = log_rows(rows, at, eta, phi) + log_normal(z, 1.7)
        P = np.exp(f - logsumexp(f))
        assert_allclose(mean[g, 0], P @ z, atol=1e-6)
        assert_allclose(sd[g, 0], np.sqrt(P @ z**2 - (P @ z) ** 2), atol=1e-6)
    assert_allclose([mean[-1, 0], sd[-1, 0]], [0, 1.7], atol=1e-12)


def slopes_model(family, correlated, nodes=41):
    rng = np.random.default_rng(5)
    n, g = 30, 5
    codes = rng.integers(0, g, n)
    x = rng.normal(1, 1, n)
    X = np.column_stack([np.ones(n), x])
    z = rng.normal(size=(g, 2))
    rows = regression(family, X @ BETA + z[codes, 0] + x * z[codes, 1] / 2, X)
    terms = sloped(codes, x, g, correlated)
    spread = [np.log(1.7), np.log(0.9), 0.4] if correlated else [np.log(1.7), np.log(0.9)]
    return (
        Slopes(rows, terms, nodes=nodes),
        rows,
        codes,
        x,
        np.r_[BETA, spread, dispersion(family)],
    )


@pytest.mark.parametrize("correlated", [True, False])
@pytest.mark.parametrize("family", ["bernoulli", "poisson", "negbinomial"])
def test_slopes_agree_with_dense_quadrature(family, correlated):
    model, rows, codes, x, theta = slopes_model(family, correlated)
    phi = np.exp(dispersion(family))
    precision, _ = model._precision(theta[None])
    L = np.linalg.cholesky(np.linalg.inv(precision[0]))
    axis = np.linspace(-8, 8, 501)
    e = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1)
    z = e @ L.T
    base = log_normal(e, 1.0).sum(-1) + 2 * np.log(axis[1] - axis[0])
    expected = model._log_prior(theta[None])[0]
    found = effects(model, theta[None], np.ones(1))
    mean, sd = np.hstack([mean for mean, _ in found]), np.hstack([sd for _, sd in found])
    for g in np.unique(codes):
        at = np.flatnonzero(codes == g)
        f = base.copy()
        for n in at:
            eta = rows.predictor(BETA[None])[0][n] + z[..., 0] + x[n] * z[..., 1]
            f += log_rows(rows, np.array([n]), eta[None], phi)
        expected += logsumexp(f)
        P = np.exp(f - logsumexp(f))[..., None]
        first = (P * z).sum((0, 1))
        assert_allclose(mean[g], first, atol=1e-6)
        assert_allclose(sd[g], np.sqrt((P * z**2).sum((0, 1)) - first**2), atol=1e-6)
    assert_allclose(model.log_density(theta[None])[0], expected, rtol=0, atol=1e-6)
    model.choose_nodes(theta[None])
    assert abs(model.log_density(theta[None])[0] - expected) < 5e-3


def test_effects_in_one_line():
    """Towards ρ = −1 the sums do not depend on ρ, and where double precision ends nothing is possible.

    What is left of them is the prior of z = atanh ρ: with LKJ(2), (1 − ρ²)², which falls like exp −4|z|.
    """
    model, *_, theta = slopes_model("bernoulli", correlated=True)
    at = np.repeat(np.asarray(theta, float)[None], 4, axis=0)
    z = model.p + 2
    at[:, z] = -8.0, -10.0, -11.9, -22.0
    found = model.log_density(at)
    assert_allclose(np.diff(found[:3]), [-8.0, -7.6], atol=1e-5)
    assert found[3] == -np.inf


@pytest.mark.parametrize("family", FAMILIES)
def test_an_sd_as_good_as_none(family):
    """Rows without effects, and the prior at that sd: what e⁻¹⁵ leaves is below 1e-10 of any sum.

    Sums of G·Q nodes round to 1e-9.
    """
    model, rows, _, theta = levels_model(family)
    at = np.repeat(np.asarray(theta, float)[None], 3, axis=0)
    at[:, model.p] = -15.0, -40.0, 15.0
    alone = log_rows(rows, np.arange(N), rows.predictor(BETA[None])[0], np.exp(dispersion(family)))
    expected = model._log_prior(at[:2]) + alone
    assert_allclose(model.log_density(at[:2]), expected, rtol=0, atol=1e-9)
    value, first, _ = model.evaluate(at)
    assert_allclose(value[:2], expected, rtol=0, atol=1e-9)
    assert np.abs(first[:2]).max() < 1e-9
    assert value[2] == -np.inf


def nested_model(family, step=0.6):
    rng = np.random.default_rng(1)
    n = 30
    inner = rng.permutation(np.r_[np.arange(9), 4 + np.arange(n - 9) % 5])  # of unequal sizes
    outer = inner // 3
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    rows = regression(family, X @ BETA, X)
    model = Nested(rows, intercepts(outer, 4), intercepts(inner, 9))
    model.step = step
    return model, rows, outer, inner, np.r_[BETA, np.log(1.2), np.log(0.8), dispersion(family)]


@pytest.mark.parametrize("family", FAMILIES)
def test_nested_agree_with_dense_quadrature(family):
    model, rows, outer, inner, theta = nested_model(family)
    phi = np.exp(dispersion(family))
    o, z = np.linspace(-9, 9, 241), np.linspace(-6, 6, 241)
    expected = model._log_prior(theta[None])[0]
    (mean_o, sd_o), (mean_i, sd_i) = effects(model, theta[None], np.ones(1))
    for g in range(3):
        f = log_normal(o, 1.2) + np.log(o[1] - o[0])
        given = {}
        for m in np.unique(inner[outer == g]):
            at = np.flatnonzero(inner == m)
            eta = rows.predictor(BETA[None])[0][at][:, None, None] + o[:, None] + z
            joint = log_rows(rows, at, eta, phi) + log_normal(z, 0.8) + np.log(z[1] - z[0])
            given[m] = joint - logsumexp(joint, axis=1, keepdims=True)
            f = f + logsumexp(joint, axis=1)
        expected += logsumexp(f)
        P = np.exp(f - logsumexp(f))
        assert_allclose([mean_o[g, 0], sd_o[g, 0] ** 2], _moments(P, o), atol=1e-6)
        for m, conditional in given.items():
            marginal = P @ np.exp(conditional)
            assert_allclose([mean_i[m, 0], sd_i[m, 0] ** 2], _moments(marginal, z), atol=1e-6)
    assert_allclose(model.log_density(theta[None])[0], expected, rtol=0, atol=1e-6)
    assert_allclose([mean_o[3, 0], sd_o[3, 0]], [0, 1.2], atol=1e-9)  # a level without rows
    assert is_chain([outer, inner])
    assert not is_chain([inner, outer])


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
@pytest.mark.parametrize("single", [False, True])
def test_an_effect_of_every_row_needs_no_sums_within_levels(family, single):
    """As the sums of any depth, which are in double precision, and far out too."""
    _, rows, outer, _, theta = nested_model(family)
    terms = intercepts(outer, 4), intercepts(np.arange(30), 30)
    nested, chain = Nested(rows, *terms), Chain(rows, terms)
    nested.step = chain.step = 0.45
    nested.single = single
    at = theta + np.arange(2)[:, None] * np.r_[0, 0, 1.5, 2.0]  # sds of up to 6
    found = nested.log_density(at)
    assert_allclose(found, chain.log_density(at), atol=1e-4 if single else 1e-6)


def test_some_outer_levels_alone_have_their_own_rows():
    """Every second of three: what is left is the sum over the other one, and the prior again."""
    model, rows, outer, inner, theta = nested_model("bernoulli")
    some, other = model.some(2), np.flatnonzero(outer == 1)
    rest = Nested(rows.take(other), intercepts(outer[other], 4), intercepts(inner[other], 9))
    whole = model.log_density(theta[None])
    prior = model._log_prior(theta[None])
    parts = some.log_density(theta[None]) + rest.log_density(theta[None])
    assert_allclose(whole, parts - prior, atol=1e-4)  # nodes are chosen for the rows that are there


def test_nested_grids_of_one_or_of_each_outer_node_agree():
    """As the inner sd shrinks grids change kind; sums and derivatives stay those of a finer grid."""
    model, *_, theta = nested_model("bernoulli", step=0.45)
    for log_sd in (-2.0, -4.0, -6.0):
        theta[3] = log_sd
        assert len(model._grid(theta).t) < 3000
        gradient = model.derivatives(theta)[1]
        expected = differenced(model.log_density)(theta)[1]
        assert_allclose(gradient, expected, atol=1e-5 * np.abs(gradient).max())
    # with an inner sd of e^−6 rows know nothing of it: one factor alone, to O(e^−12) a row
    outer = Levels(model.rows.take(np.arange(30)), intercepts(_sorted_outer(model), 4), nodes=81)
    without = model.log_density(theta[None]) - model._log_prior(theta[None])
    alone = np.delete(theta, 3)[None]
    single = outer.log_density(alone) - outer._log_prior(alone)
    assert_allclose(without, single, atol=1e-4)


@pytest.mark.parametrize("far", [5.0, 299.5, 599.5])
def test_logs_of_odds_are_those_of_their_products(far):
    """Σ log(1 + e^(η+t)), of products of as many as double precision holds: one at least."""
    model = nested_model("bernoulli")[0]
    rng = np.random.default_rng(0)
    t = np.array([-1.0, 0.0, 1.0])
    eta = rng.uniform(-1, 1, len(model.of)) * (far - 1)
    exact = np.add.reduceat(np.logaddexp(0, eta[:, None] + t), model.starts, axis=0)
    assert_allclose(model._log_odds(eta, t, far), exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_single_precision_of_nested_sums_is_enough(family):
    """Rounding is 1e-7 of each of nine inner sums; where it has no number, double precision is used."""
    model, *_, theta = nested_model(family)
    points = np.tile(theta, (3, 1))
    points[1, 2:4], points[2, 3] = [1.5, -2.0], -4.0
    exact = model.evaluate(points)
    model.single = True
    quick = model.evaluate(points)
    assert_allclose(quick.value, exact.value, atol=2e-5)
    assert_allclose(quick.first, exact.first, atol=1e-5)
    assert_allclose(quick.second, exact.second, atol=1e-5)
    points[:, 0] = 60.0  # rows that contradict each other by more than e^−88
    model.single = False
    exact = model.log_density(points)
    model.single = True
    assert_allclose(model.log_density(points), exact, rtol=1e-6)


def _sorted_outer(model):
    return np.flatnonzero(model.above.group >= 0)[model.above.of[model.of]]


def _moments(P, x):
    mean = P @ x
    return [mean, P @ x**2 - mean**2]


def crossed_model():
    rng = np.random.default_rng(2)
    large, small = rng.integers(0, 10, 60), rng.integers(0, 3, 60)
    X = np.column_stack([np.ones(60), rng.normal(size=60)])
    rows = regression("bernoulli", X @ BETA, X)
    model = Crossed(rows, intercepts(large, 10), intercepts(small, 3), nodes=61)
    return model, np.r_[BETA, 0.3, -0.5, 0.1, np.log(0.7), np.log(1.2)]


def test_crossed_levels_are_effects_like_any_other():
    """With the small factor's levels in an offset the sums are one factor's."""
    model, theta = crossed_model()
    w, small, large = theta[2:5], model.small, model.large
    rng = np.random.default_rng(2)
    codes, other = rng.integers(0, 10, 60), rng.integers(0, 3, 60)
    X = np.column_stack([np.ones(60), rng.normal(size=60)])
    rows = regression("bernoulli", X @ BETA, X)
    moved = replace(rows, offset=rows.offset + w[other])
    apart = Levels(moved, large, nodes=61).log_density(np.r_[BETA, theta[6]][None])[0]
    part = theta[None, 5:6]
    prior = log_normal(w, 0.7).sum() + small.log_prior(part, small.spread(part))[0]
    assert np.array_equal(codes, large.codes)
    assert_allclose(model.log_density(theta[None])[0], apart + prior, rtol=1e-12)


def test_too_many_levels_to_draw_are_refused():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 60, 200)
    X = np.ones((200, 1))
    rows = regression("bernoulli", np.zeros(200), X)
    with pytest.raises(InvalidModel, match="has 60 levels; up to 50 can be drawn"):
        Crossed(rows, intercepts(np.arange(200), 200), intercepts(codes, 60))


MODELS = {
    **{f"levels {family}": (lambda f=family: levels_model(f)) for family in FAMILIES},
    **{f"nested {family}": (lambda f=family: nested_model(f)) for family in FAMILIES},
    "slopes bernoulli": lambda: slopes_model("bernoulli", True),
    "slopes negbinomial": lambda: slopes_model("negbinomial", True),
    "slopes independent": lambda: slopes_model("poisson", False),
    "crossed": crossed_model,
}


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_from_the_nodes_are_derivatives(name):
    """Fisher's and Louis's identities against differences with h = 1e-3: O(h²) and 1e-10/h²."""
    model, *_, theta = MODELS[name]()
    value, gradient, H = model.derivatives(theta)
    expected = differenced(model.log_density)(theta)
    assert_allclose(value, expected[0], rtol=0, atol=1e-7)
    scale = np.abs(H).max()
    assert_allclose(gradient, expected[1], rtol=0, atol=1e-6 * scale)
    assert_allclose(H, expected[2], rtol=0, atol=1e-5 * scale)
