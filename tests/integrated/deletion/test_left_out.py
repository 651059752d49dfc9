"""What blocks take from the density is the difference of two densities: with them, and without."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from integrated.small import HALF_T, dispersion, regression
from lrvb.integrated.chain import Chain
from lrvb.integrated.choice import choose
from lrvb.integrated.crossed import Crossed
from lrvb.integrated.deletion.blocks import blocks_of
from lrvb.integrated.deletion.left_out import count_rows, leave_out
from lrvb.integrated.fixed import Fixed
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.levels import Levels
from lrvb.integrated.nested import Nested
from lrvb.integrated.slopes import Slopes
from lrvb.integrated.terms import Term
from lrvb.prior import LKJ

N = 40
RNG = np.random.default_rng(3)
X = np.column_stack([np.ones(N), RNG.standard_normal(N)])
G = np.sort(RNG.integers(0, 9, N))  # levels of few rows and of many
H = RNG.integers(0, 4, N)
INNER = G * 3 + RNG.integers(0, 3, N)
INNER = np.unique(INNER, return_inverse=True)[1]
ONE = np.ones((N, 1))
BY = {"rows": np.arange(N), "levels": G, "others": H, "any": RNG.integers(0, 7, N)}


def _term(codes, R=ONE, **more):
    sds = (HALF_T,) * R.shape[1]
    return Term(codes, R, int(codes.max()) + 1, sds, **more)


def _without(rows, terms, keep):
    parts = []
    for term in terms:
        levels, codes = np.unique(term.codes[keep], return_inverse=True)
        parts.append(term.on(keep, codes, len(levels)))
    return rows.take(keep), parts


def _points(base, n=4):
    rng = np.random.default_rng(0)
    return base + 0.3 * rng.standard_normal((n, len(base)))


def _glmm(kind, family):
    eta = 0.5 + 0.6 * X[:, 1] + RNG.standard_normal(9)[G]
    rows = regression(family, eta, X)
    tail = dispersion(family)
    if kind == "fixed":
        return rows, [], lambda r, t: Fixed(r), [0.4, 0.5, *tail]
    if kind == "levels":
        return rows, [_term(G)], lambda r, t: Levels(r, t[0]), [0.4, 0.5, -0.2, *tail]
    if kind == "slopes":
        terms = [_term(G, X.copy(), correlations=LKJ(2.0))]
        return rows, terms, Slopes, [0.4, 0.5, -0.2, -0.6, 0.2, *tail]
    if kind == "nested":
        terms = [_term(G), _term(INNER)]
        return rows, terms, lambda r, t: Nested(r, *t), [0.4, 0.5, -0.2, -0.6, *tail]
    if kind == "chain":
        terms = [_term(G), _term(INNER), _term(np.arange(N))]
        return rows, terms, Chain, [0.4, 0.5, -0.2, -0.6, -0.9, *tail]
    terms = [_term(H), _term(G)]  # as θ has them: the small factor's levels are drawn
    start = [0.4, 0.5, 0.2, -0.3, 0.1, 0.0, -0.4, -0.2, *tail]
    return rows, terms, lambda r, t: Crossed(r, t[1], t[0]), start


def _differences(make, rows, terms, theta, codes):
    whole = make(rows, terms).log_density(theta)
    parts = []
    for b in range(codes.max() + 1):
        keep = np.flatnonzero(codes != b)
        if isinstance(make(rows, terms), Crossed):  # a level without rows is not drawn either
            gone = np.setdiff1d(terms[0].codes, terms[0].codes[keep])
            before = (
                whole if len(gone) == 0 else _over_effect(make(rows, terms), theta, 2 + gone[0])
            )
            again = make(*_without(rows, terms, keep))
            rest = np.delete(theta, 2 + gone, axis=1)
        else:
            before, again, rest = whole, make(*_without(rows, terms, keep)), theta
        parts.append(before - again.log_density(rest))
    return np.column_stack(parts)


def _over_effect(inside, theta, place):
    """log ∫ p(y, θ) of the coordinate at `place`, by a fine trapezoid sum."""
    grid = np.linspace(-5, 5, 201)
    points = np.repeat(theta[None], len(grid), axis=0)
    points[..., place] = grid[:, None]
    value = inside.log_density(points.reshape(-1, theta.shape[1])).reshape(len(grid), -1)
    return logsumexp(value, axis=0) + np.log(grid[1] - grid[0])


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("fixed", "negbinomial"),
        ("levels", "poisson"),
        ("levels", "negbinomial"),
        ("slopes", "bernoulli"),
        ("nested", "poisson"),
        ("nested", "negbinomial"),
        ("chain", "poisson"),
        ("chain", "negbinomial"),
        ("crossed", "bernoulli"),
        ("crossed", "poisson"),
        ("crossed", "negbinomial"),
    ],
)
def test_blocks_of_levels_summed_out(kind, family, by):
    """log p(y, θ) − log p(y_−b, θ), to the nodes' tolerance."""
    rows, terms, make, start = _glmm(kind, family)
    theta = _points(np.array(start), 3)
    inside = make(rows, terms)
    inside.choose_nodes(theta)
    codes = BY[by]
    blocks = blocks_of(codes, np.arange(codes.max() + 1))
    found = leave_out(inside, rows, terms, theta, blocks).log_p
    assert_allclose(found, _differences(make, rows, terms, theta, codes), atol=5e-3)


@pytest.mark.parametrize("rise", [0.0, 4.0])
def test_a_drawn_level_with_which_others_move(rise):
    """Levels of the larger factor almost within the smaller one's follow its effect out of their nodes.

    Rows know the sum of the two, and only the priors tell them apart.
    """
    large, n = np.repeat(np.arange(12), 10), 120
    small = large // 3
    small[5::40] = (small[5::40] + 1) % 4  # three rows elsewhere
    x = np.random.default_rng(4).standard_normal(n)
    rows = regression("poisson", np.full(n, rise), np.column_stack([np.ones(n), x]))
    terms = [_term(small, np.ones((n, 1))), _term(large, np.ones((n, 1)))]
    theta = _points(np.array([rise, 0.0, 0.2, -0.3, 0.1, 0.0, -0.4, -0.2]), 3)
    make = lambda r, t: Crossed(r, t[1], t[0])  # noqa: E731
    inside = make(rows, terms)
    inside.choose_nodes(theta)
    found = leave_out(inside, rows, terms, theta, blocks_of(small, np.arange(4))).log_p
    assert_allclose(found, _differences(make, rows, terms, theta, small), atol=5e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["fixed", "levels", "slopes", "nested", "chain", "crossed"])
def test_slopes_in_how_often_a_row_counts(kind, weighted):
    """E[log p(y_i | η_i)] is the slope of log p(y, θ) in the row's weight: central differences, same nodes.

    Of a row that counts w times it is of all of them together: w ∂/∂w. Terms keep the x̄ in whose basis θ is.
    """
    rows, terms, make, start = _glmm(kind, "negbinomial")
    theta = _points(np.array(start), 2)
    w = RNG.integers(1, 4, N).astype(float) if weighted else np.ones(N)
    inside = make(rows.weighted(w), terms)
    some = blocks_of(np.arange(N), np.array([0, 7, 31]))
    found = count_rows(inside, rows.weighted(w), terms, theta, some).log_p
    for place, row in enumerate(some.rows):
        ends = []
        for step in (1e-3, -1e-3):
            moved = w.copy()
            moved[row] *= 1 + step
            ends.append(make(rows.weighted(moved), terms).log_density(theta))
        slope = (ends[0] - ends[1]) / 2e-3
        assert_allclose(found[:, place], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["one factor", "crossed", "none"])
def test_gaussian_slopes_in_how_often_a_row_counts(kind):
    """Of the density and of E[β | θ], downwards."""
    rows, terms, make, start = _gaussian(kind == "crossed")
    if kind == "none":
        terms, start = [], start[-1:]
    theta, w = _points(np.array(start)), RNG.integers(1, 4, N).astype(float)
    inside = make(rows.weighted(w), terms)
    some = blocks_of(np.arange(N), np.array([0, 7, 31]))
    found = count_rows(inside, rows.weighted(w), terms, theta, some, moved=True)
    for place, row in enumerate(some.rows):
        ends, betas = [], []
        for step in (1e-3, -1e-3):
            moved = w.copy()
            moved[row] *= 1 + step
            again = make(rows.weighted(moved), terms)
            ends.append(again.log_density(theta))
            betas.append(again.beta(theta)[0])
        assert_allclose(found.log_p[:, place], (ends[0] - ends[1]) / 2e-3, rtol=1e-5, atol=1e-5)
        slope = (betas[0] - betas[1]) / 2e-3
        assert_allclose(-found.moved[:, place], slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


def _gaussian(crossed):
    y = 1 + X[:, 1] + RNG.standard_normal(9)[G] + 0.5 * RNG.standard_normal(N)
    rows = regression("poisson", np.zeros(N), X)
    rows = type(rows).independent(
        rows.likelihood, (y,), X, rows.offset, np.array([0.2, 0.1]), np.full(2, 3.0)
    )
    terms = [_term(G, X.copy(), correlations=LKJ(2.0))]
    if crossed:
        terms.append(_term(H))
    start = [-0.2, -0.6, 0.2, *([-0.3] if crossed else []), -0.6]
    return rows, terms, lambda r, t: Gaussian(r, t, HALF_T), start


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["one factor", "crossed", "none"])
@pytest.mark.parametrize("by", BY)
def test_gaussian_blocks(by, kind, weighted):
    """Exact, and so is β's mean without the block, also of rows that count more than once."""
    rows, terms, make, start = _gaussian(kind == "crossed")
    if kind == "none":
        terms, start = [], start[-1:]
    if weighted:
        rows = rows.weighted(RNG.integers(1, 4, N).astype(float))
    theta, codes = _points(np.array(start)), BY[by]
    inside = make(rows, terms)
    blocks = blocks_of(codes, np.arange(codes.max() + 1))
    found = leave_out(inside, rows, terms, theta, blocks, moved=True)
    exact = _differences(make, rows, terms, theta, codes)
    assert_allclose(found.log_p, exact, rtol=1e-7, atol=1e-7)
    for b in (0, codes.max()):
        again = make(*_without(rows, terms, np.flatnonzero(codes != b)))
        moved = again.beta(theta)[0] - inside.beta(theta)[0]
        assert_allclose(found.moved[:, b], moved, rtol=1e-6, atol=1e-8)


def test_some_blocks_in_any_order():
    """Blocks that were chosen come in their order."""
    rows, terms, make, start = _glmm("levels", "poisson")
    inside, theta = make(rows, terms), _points(np.array(start))
    whole = leave_out(inside, rows, terms, theta, blocks_of(G, np.arange(9))).log_p
    some = leave_out(inside, rows, terms, theta, blocks_of(G, np.array([7, 2]))).log_p
    assert_allclose(some, whole[:, [7, 2]], rtol=1e-10)
    assert choose(rows, terms).inside.level_sums(theta, np.array([2])).shape == (4, 1)
