"""The collapsed bound as a function of the precisions: gradient, curvature, and how means follow."""

from __future__ import annotations

import copy
import functools

import numpy as np
import pytest
from block_cases import Shape, blocks_of, dense_rows, flat, layout_of, vector
from numpy.testing import assert_allclose

from lrvb.collapsed.gaussian.arrow import Blocks
from lrvb.collapsed.gaussian.block import BlockSum
from lrvb.collapsed.gaussian.conditional import conditional_blocks
from lrvb.collapsed.gaussian.least_squares import LeastSquares
from lrvb.collapsed.gaussian.optimum import Setting
from lrvb.collapsed.gaussian.precisions import Precisions, Term
from lrvb.collapsed.gaussian.row_terms import Averaged, Joint
from lrvb.collapsed.gaussian.tilted_rows import TiltedRows
from lrvb.families import Gamma, Wishart
from lrvb.likelihoods import BINOMIAL, POISSON
from lrvb.numerics.double import double
from lrvb.statement.meanfield import MeanField

KINDS = (
    "gaussian",
    "poisson",
    "binomial",
    "poisson, joint",
    "binomial, joint",
    "poisson, tilted",
)
every_case = pytest.mark.parametrize(
    ("kind", "crossed", "separate"),
    [(k, c, s) for k in KINDS for c in (False, True) for s in (False, True)],
    ids=lambda v: v if isinstance(v, str) else str(v),
)


@functools.cache
def case_of(kind: str, crossed: bool, separate: bool) -> tuple[BlockSum, np.ndarray]:
    """A block of 60 rows and moments m of its precisions."""
    shape = Shape(2, ((6, 2), (3, 2))) if crossed else Shape(2, ((6, 2),))
    layout, rng = layout_of(shape, n=60, seed=11), np.random.default_rng(12)
    families = {"first": Wishart(2)}
    terms = [Term("first", 0, (0, 1))]
    if crossed:  # two independent coefficients
        families |= {"one": Gamma(), "two": Gamma()}
        terms += [Term("one", 1, (0,)), Term("two", 1, (1,))]
    owned = not kind.endswith(("poisson", "binomial"))
    if owned:
        families["own"] = Gamma()
    alpha = MeanField(families)
    precisions = Precisions(layout, alpha, terms, 0.1 * np.eye(2), "own" if owned else None)
    masks = precisions.masks() if separate else None
    eta = 0.6 * dense_rows(layout) @ rng.normal(size=layout.size)
    counts = rng.poisson(np.exp(eta)).astype(float)
    trials = np.full(60, 2.0)
    choices = rng.binomial(2, 1 / (1 + np.exp(-eta))).astype(float)
    if kind == "gaussian":
        setting = LeastSquares(layout, eta + rng.normal(size=60), masks)
    else:
        rows = {
            "poisson": lambda: Averaged(POISSON, counts),
            "binomial": lambda: Averaged(BINOMIAL, choices, {"trials": trials}),
            "poisson, joint": lambda: Joint(Averaged(POISSON, counts)),
            "binomial, joint": lambda: Joint(Averaged(BINOMIAL, choices, {"trials": trials})),
            "poisson, tilted": lambda: TiltedRows(POISSON, counts),
        }[kind]()
        setting = Setting(layout, rows, np.full(60, 0.1), masks)
    usual = {"first": {"dof": 8.0, "scale": np.array([[0.3, 0.05], [0.05, 0.2]])}}
    usual |= {name: {"shape": 5.0, "rate": 2.0} for name in families if name != "first"}
    with double():
        m = np.concatenate(
            [
                np.asarray(f.flatten(f.mean(f.from_params(**usual[name]))))
                for name, f in families.items()
            ]
        )
    return BlockSum(setting, precisions, np.array([0.1, 0.2]), 0.0), m


def slope(f, h=1e-3):
    """f'(0) by five points: the error is of order h⁴ = 1e-12 and of rounding over h."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


@every_case
def test_gradient_curvature_and_responses_are_derivatives(kind, crossed, separate):
    """Of the value, of the gradient and of the means, along any direction of m."""
    block, m = case_of(kind, crossed, separate)
    found, responses = block.evaluate(m), block.responses(m)
    assert_allclose(found.curvature, found.curvature.T)
    free = {d.at for d in block.precisions.directions}
    free |= set() if block.precisions.scale is None else {block.precisions.scale}
    assert set(responses) == free

    def at(h, direction):
        there = block.evaluate(m + h * direction, 1)
        mu = flat(block.collapse(m + h * direction).mu)
        return np.concatenate([[there.value], there.gradient, mu])

    rng = np.random.default_rng(13)
    for _ in range(2):
        direction = rng.normal(size=len(m))
        by = slope(lambda h, d=direction: at(h, d))
        value, gradient, mu = by[0], by[1 : len(m) + 1], by[len(m) + 1 :]
        follow = sum(direction[i] * flat(responses[i]) for i in free)
        assert_allclose(found.gradient @ direction, value, rtol=1e-7)
        # tangents are asked for to 1e-8; the optimum's own 1e-10 is divided by h
        for ours, theirs in ((found.curvature @ direction, gradient), (follow, mu)):
            assert_allclose(ours, theirs, rtol=0, atol=1e-6 * np.abs(theirs).max())


def tilted_mean(block: BlockSum, m: np.ndarray, direction: np.ndarray, h: float) -> np.ndarray:
    """μ when the log joint gains h·directionᵀw: a prior whose centre has moved by P⁻¹."""
    prior = block.precisions.prior(m)
    layout, here = block.layout, block.center
    first = layout.G * layout.q
    z = np.linalg.solve(prior.first, direction[:first].reshape(layout.G, layout.q).T).T
    moved = vector(
        layout, np.concatenate([z.ravel(), np.linalg.solve(prior.rest, direction[first:])])
    )
    other = BlockSum(block.setting, block.precisions, here.rest[: layout.p], 0.0)
    other.center = here + moved.times(h)
    return flat(other.collapse(m).mu)


@every_case
def test_tilts_are_derivatives_of_refitted_means(kind, crossed, separate):
    """Cov(w, w_i | precisions) for positions of the rest: d μ/dh under a tilt h·w_i."""
    block, m = case_of(kind, crossed, separate)
    layout = block.layout
    at = np.array([0, layout.r - 1])
    for i, tilt in zip(at, block.tilts(m, at), strict=True):
        direction = np.eye(layout.size)[layout.G * layout.q + i]
        expected = slope(lambda h, d=direction: tilted_mean(block, m, d, h), 1e-2)
        assert_allclose(flat(tilt), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def answers(block: BlockSum, m: np.ndarray) -> tuple[Blocks, Blocks]:
    """`conditional_blocks`, and the blocks of the exact answers to all tilts."""
    layout, found = block.layout, block.collapse(m)
    full = np.zeros((layout.size, layout.size))
    for i, direction in enumerate(np.eye(layout.size)):
        full[:, i] = flat(block._tangent(found, vector(layout, direction), None, 0.0).mu)
    assert_allclose(full, full.T, atol=1e-7 * np.abs(full).max())
    return conditional_blocks(block, found), blocks_of(layout, full)


def sd_error(ours: np.ndarray, exact: np.ndarray) -> float:
    ratio = np.einsum("...ii->...i", ours) / np.einsum("...ii->...i", exact)
    return float(np.abs(np.sqrt(ratio) - 1).max())


@every_case
def test_sds_of_levels_answer_a_tilt(kind, crossed, separate):
    """Exact for uncoupled rows; else what passes between six levels' variances is left out: 1 to 2 %."""
    ours, exact = answers(*case_of(kind, crossed, separate))
    if kind in ("gaussian", "poisson, tilted"):
        assert_allclose(ours.Z11, exact.Z11, rtol=1e-9, atol=1e-12)
        assert_allclose(ours.Zrr, exact.Zrr, rtol=1e-9, atol=1e-12)
    assert sd_error(ours.Z11, exact.Z11) < (0.02 if crossed else 0.01)
    assert sd_error(ours.Zrr, exact.Zrr) < (0.03 if crossed else 0.01)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("separate", [False, True])
def test_levels_alone_answer_exactly(kind, separate):
    """With β known nothing passes between levels: every covariance of a level is exact."""
    block, m = case_of(kind, False, separate)
    known = copy.copy(block.precisions)
    known.P0 = 1e8 * np.eye(2)
    ours, exact = answers(BlockSum(block.setting, known, np.array([0.1, 0.2]), 0.0), m)
    assert_allclose(ours.Z11, exact.Z11, rtol=0, atol=1e-7 * np.abs(exact.Z11).max())


def test_absolute_value_of_the_bound():
    """Fixed precisions and a gaussian response: bound + entropy terms are the exact log evidence."""
    block, _ = case_of("gaussian", True, False)
    layout, where = block.layout, block.precisions
    Lambda, one, two, own = np.array([[2.0, 0.3], [0.3, 1.5]]), 1.2, 0.7, 1.8
    log = np.linalg.slogdet(Lambda)[1]
    m = np.array([2.0, 0.3, 1.5, log, one, np.log(one), two, np.log(two), own, np.log(own)])
    C = dense_rows(layout)
    prior = where.prior(m)
    first = layout.G * layout.q
    P = np.zeros((layout.size, layout.size))
    P[:first, :first] = np.kron(np.eye(layout.G), Lambda)
    P[first:, first:] = prior.rest
    expected_rest = np.diag([0.1, 0.1] + [one, two] * 3)
    assert_allclose(prior.rest, expected_rest)
    mean = C @ flat(block.center)
    cov = C @ np.linalg.inv(P) @ C.T + np.eye(layout.n) / own
    y = block.setting.y
    away = y - mean
    evidence = -0.5 * (
        away @ np.linalg.solve(cov, away) + np.linalg.slogdet(cov)[1] + layout.n * np.log(2 * np.pi)
    )
    constant = 0.5 * (2 * np.log(0.1) - 2 * np.log(2 * np.pi))  # log normaliser of β's prior
    assert_allclose(block.evaluate(m).value + constant, evidence, rtol=1e-11)
    separate, _ = case_of("gaussian", True, True)
    assert separate.evaluate(m).value + constant < evidence
