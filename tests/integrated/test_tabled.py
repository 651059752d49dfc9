"""Tables of few levels' rows, and of outer levels with the inner ones summed out, are the rows' own sums."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from small import crossed, dispersion, intercepts, regression

from lrvb.integrated import integration
from lrvb.integrated.direct import longest_steps
from lrvb.integrated.effort import enough
from lrvb.integrated.factor_nodes import TOLERANCE
from lrvb.integrated.few import _some_rows, sds, tabulate
from lrvb.integrated.integration import NODE_ERROR
from lrvb.integrated.levels import Levels
from lrvb.integrated.mode import climb
from lrvb.integrated.nested import Nested
from lrvb.integrated.outer import Outer
from lrvb.integrated.path import Path
from lrvb.integrated.stencil import passes, polynomials, products
from lrvb.integrated.surrogate import NotSmooth
from lrvb.integrated.tabled import Tabled

LEVELS, N = 6, 900


def one(family: str, size: int = N) -> Levels:
    """Six levels of 150 rows each, or more, one further column."""
    rng = np.random.default_rng(3)
    codes, x = rng.permutation(np.arange(size) % LEVELS), rng.normal(size=size)
    eta = 0.3 + 0.4 * x + 0.7 * rng.normal(size=LEVELS)[codes]
    rows = regression(family, eta, np.column_stack([np.ones(size), x]))
    return Levels(rows, intercepts(codes, LEVELS))


def two(family: str, each: int = 1, size: int = N) -> Nested:
    """Inner levels of so many rows within six outer ones."""
    rng = np.random.default_rng(5)
    inner = np.arange(size) // each
    outer = inner % LEVELS
    x = rng.normal(size=size)
    eta = 0.6 + 0.4 * x + 0.7 * rng.normal(size=LEVELS)[outer]
    eta += 0.5 * rng.normal(size=inner.max() + 1)[inner]
    rows = regression(family, eta, np.column_stack([np.ones(size), x]))
    return Nested(rows, intercepts(outer, LEVELS), intercepts(inner, inner.max() + 1))


def table(inside: Levels | Nested) -> tuple[Tabled, np.ndarray]:
    """A table at the mode with its nodes, and points of a normal posterior around it."""
    longest = longest_steps(inside.kinds)
    tabled, mode = tabulate(inside, inside.start(), longest)
    log = np.array(inside.kinds) == "log"
    up = np.where(log, 2 * sds(mode), 0.0)
    tabled.choose_nodes(np.array([mode.x, mode.x + up, mode.x - up]))
    noise = np.random.default_rng(1).standard_normal((12, len(mode.x)))
    return tabled, mode.x + noise @ mode.axes().T


@pytest.mark.parametrize("axes", [1, 3, 5])
def test_polynomials_are_those_they_go_through(axes):
    """Of degree four along an axis, two in pairs, and all of three where axes are few, exactly."""
    rng = np.random.default_rng(axes)
    most = {i: rng.normal(size=4) for i in range(axes)}
    pairs = {(i, j): rng.normal() for i in range(axes) for j in range(i)}
    triple = rng.normal() if axes == 3 else 0.0
    asked = []

    def change(t):
        asked.append(t)
        powers = sum(c @ t[i] ** np.arange(1, 5) for i, c in most.items())
        both = sum(c * t[i] * t[j] for (i, j), c in pairs.items())
        return np.array([powers + both + triple * np.prod(t)])

    found = polynomials(change, axes)
    assert len(asked) == passes(axes) - 1
    t = rng.normal(size=(5, axes))
    values = products(t, list(found)) @ np.concatenate(list(found.values()))
    assert_allclose(values, [change(point)[0] for point in t], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", [one, two])
def test_rows_at_a_tables_nodes_are_rows_at_their_own(make):
    """Both sums over levels are right to what nodes may be off by, wherever their nodes are."""
    inside = make("poisson")
    tabled, points = table(inside)
    tabled.lend()
    exact = tabled.rows.exact
    found = exact.log_density(points, tabled.inside)
    assert_allclose(found, exact.log_density(points), rtol=0, atol=2 * TOLERANCE)


@pytest.mark.parametrize("family", ["poisson", "bernoulli", "binomial", "shaped", "differenced"])
def test_a_table_has_the_density_of_its_rows(family):
    """Polynomials leave what is of degree five and more: less than an integration may be off by.

    A shape that rows know to a factor of two is the worst of them.
    """
    inside = one(family)
    tabled, points = table(inside)
    assert points.shape[1] == 3 + len(dispersion(family))
    assert tabled.off(points) < (NODE_ERROR if dispersion(family) else 1e-2)
    exact, found = inside.evaluate(points), tabled.evaluate(points)
    assert_allclose(found.first, exact.first, atol=1e-3)
    assert_allclose(found.second, exact.second, atol=1e-3)


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
def test_slopes_of_a_table_are_its_derivatives(family):
    """Central differences with h = 1e-4: O(h²) and rounding over h²."""
    tabled, points = table(one(family))
    sums, h = tabled.inside._rows_at(points), 1e-4
    z = tabled.inside._ends(points).z
    gradient, information = sums.slopes(z)
    middle, up, down = (sums.height(z + move) for move in (0.0, h, -h))
    assert_allclose(gradient[..., 0], (up - down) / (2 * h), rtol=1e-5, atol=1e-4)
    curvature = (up + down - 2 * middle) / h**2
    assert_allclose(information[..., 0, 0], -curvature, rtol=1e-3, atol=1e-2)


def test_beyond_a_table_rows_answer():
    """An effect so far away that no series reaches it has the rows' own sum."""
    inside = one("bernoulli")
    tabled, points = table(inside)
    far = np.full((len(points), LEVELS, 2), 9.0)
    found = tabled.inside._rows_at(points).line(far)
    assert_allclose(found, inside._rows_at(points).line(far), rtol=1e-12)


def test_the_way_to_draws_stays_within_a_table():
    """Rows that know an inner sd to 1 % are not asked again on the path of conditional modes."""
    nested = two("poisson", size=100_000)
    tabled, mode = tabulate(nested, nested.start(), longest_steps(nested.kinds))
    Path(tabled, mode)
    assert tabled.inside.table.asked > 0
    assert tabled.inside.table.missed == 0


def test_modes_in_a_table_are_looked_for_where_an_intercept_moves_them():
    """Against it, but for what the prior holds back: of its J + 1/sd² the rows' J is all but a hundredth."""
    inside = one("bernoulli", 10_000)
    tabled, mode = tabulate(inside, inside.start(), longest_steps(inside.kinds))
    theta = mode.x + 0.2 * np.eye(3)[:1]
    near = tabled.inside
    assert_allclose(near._guess(theta), near._ends(theta).z, rtol=0, atol=0.2 * 0.02)


def test_rows_that_stand_for_others_count_as_often():
    """Every fourth row of a level counts four times or so, and levels keep their sizes.

    Which they are does not hang on the order in which rows were given.
    """
    inside = one("poisson", 4000)
    some = inside.of_some_rows(4)
    assert some.N < inside.N / 3
    assert_allclose(some.groups.sum(some.rows.weights, axis=0), inside.groups.sizes)
    order = np.random.default_rng(0).permutation(4000)
    given = inside.rows.take(order), intercepts(inside.groups.of[order], LEVELS)
    theta, again = inside.start()[None], Levels(*given).of_some_rows(4)
    assert_allclose(again.log_density(theta), some.log_density(theta), rtol=1e-12)


def test_some_rows_of_inner_levels_know_their_sd():
    """Levels are all there, and the mode of few rows of each is that of all, to the sds of the few."""
    rng = np.random.default_rng(4)
    inner = rng.permutation(np.arange(10_000) % 50)
    x = rng.normal(size=10_000)
    eta = 0.3 * x + (0.6 * rng.normal(size=10))[inner // 5] + (0.3 * rng.normal(size=50))[inner]
    rows = regression("bernoulli", eta, np.column_stack([np.ones_like(x), x]))
    nested = Nested(rows, intercepts(inner // 5, 10), intercepts(inner, 50))
    some = _some_rows(nested)
    assert len(some.of) < len(nested.of) / 8
    assert_array_equal(some.inner_level, nested.inner_level)
    assert_array_equal(some.above.of, nested.above.of)
    few, all_ = (climb(each.log_density, each.start(), each.derivatives) for each in (some, nested))
    assert (np.abs(few.x - all_.x) < 2 * sds(few)).all()


@pytest.mark.parametrize(("family", "each"), [("poisson", 1), ("poisson", 3), ("binomial", 3)])
def test_outer_levels_have_the_nested_sums(family, each):
    """Values and moments by nodes of every outer level's own are those of one grid for all of them."""
    nested = two(family, each)
    tabled, points = table(nested)
    assert tabled.off(points) < 2e-2
    nested.choose_nodes(points)
    nested.single = False
    exact, found = nested.evaluate(points), tabled.evaluate(points)
    assert_allclose(found.value, exact.value, atol=2e-2)
    assert_allclose(found.first, exact.first, atol=2e-3)
    assert_allclose(found.second, exact.second, atol=2e-3)


def test_an_inner_sd_that_rows_hardly_know_has_no_table():
    """Zeros and ones with an effect of every row: then the rows themselves are asked."""
    nested = two("bernoulli")
    with pytest.raises(NotSmooth, match="too little of the inner sd"):
        tabulate(nested, nested.start(), longest_steps(nested.kinds))


def test_slopes_of_outer_levels_are_derivatives():
    """Σ E e/sd² and Σ (1 − Var e/sd²)/sd² against central differences."""
    outer = Outer(two("poisson"))
    theta = np.r_[0.6, 0.4, np.log(0.7), np.log(0.5)][None]
    sums, h = outer._rows_at(theta), 1e-3
    z = np.full((1, LEVELS, 1), 0.2)
    gradient, information = sums.slopes(z)
    middle, up, down = (sums.height(z + move) for move in (0.0, h, -h))
    assert_allclose(gradient[..., 0], (up - down) / (2 * h), rtol=1e-5, atol=1e-4)
    assert_allclose(information[..., 0, 0], -(up + down - 2 * middle) / h**2, rtol=1e-4)


@pytest.mark.parametrize("make", [lambda: one("binomial"), lambda: two("poisson", 3), crossed])
def test_draws_by_a_table_are_draws_by_the_rows(make):
    """Means and sds within five of their Monte Carlo errors, of a thousand effective draws each."""
    budget = enough(4, 10)
    found = [
        integration._drawn(make(), budget, seed, None, None, tables=tables)
        for seed, tables in ((0, True), (1, False))
    ]
    means = [each.weighted.mean(each.theta) for each in found]
    spreads = [each.weighted.sd(each.theta) for each in found]
    error = np.sqrt(sum(1 / each.weighted.ess for each in found))
    assert_allclose((means[0] - means[1]) / spreads[1], 0.0, atol=5 * error)
    assert_allclose(spreads[0] / spreads[1], 1.0, atol=5 * error)
    first, second = (each.effects for each in found)
    for mine, theirs in zip(first, second, strict=True):
        assert_allclose(mine.mean, theirs.mean, atol=5 * error * theirs.sd.max())
        assert_allclose(mine.sd, theirs.sd, rtol=5 * error)
