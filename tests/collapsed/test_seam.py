"""The four questions of the seam, under the same laws for every way to integrate out.

Gradient, curvature and R are derivatives in m of value, gradient and means; Σ̂_z|α is the derivative of
means under a tilt; no answer depends on the state it starts from; fast ways agree with autodiff.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from block_cases import UNCOUPLED, block_of, dense_rows, tilted_mean
from cases import CASES
from differences import slope
from lrvb.collapsed.gaussian.functionals import Functionals
from lrvb.collapsed.partitions import partitioned_problem
from lrvb.collapsed.row_optimum import collapse
from lrvb.collapsed.seam import BoundSum, LocalResponse
from lrvb.data.tables import Row
from lrvb.engine.fitting import default_sum
from lrvb.numerics.double import double
from lrvb.statement.problem import Problem

# Rows that iterate for their optimum, and rows that do not.
PLATES = {
    case.name: case for case in CASES if case.name in ("NormalPoisson-gaussian", "NormalMixture")
}


class Collapsed(NamedTuple):
    """A bound sum at m, with directions of m in mean-field sds, and how to check Σ̂_z|α.

    `refit(i, t)` are the means (n, d) when the log joint gains t times variable i of each row asked
    for, for those i in `tilts`; `inner` is the accuracy of an inner optimum.
    """

    bound: BoundSum
    m: np.ndarray
    C: np.ndarray
    asked: Any
    tilts: tuple[int, ...]
    refit: Callable[[int, float], np.ndarray]
    inner: float


def columns(case: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(column) for name, column in case.data.items()}


@functools.cache
def plate(name: str, way: str) -> Collapsed:
    """A model's rows, away from its optimum."""
    case = PLATES[name]
    fit = case.small_fit()
    whole, C = fit.problem, case.response().C
    m = fit.m + C @ np.random.default_rng(3).uniform(-0.3, 0.3, len(fit.m))
    bound: BoundSum
    if way == "autodiff":
        bound = lrvb.AutodiffSum().bind(whole, 16)
    elif way == "gram":
        bound = lrvb.GramSum().bind(whole, 16)
    else:
        data = columns(case)
        n = len(next(iter(data.values())))
        cuts = (slice(0, n // 3), slice(n // 3, n // 3), slice(n // 3, n))  # one part is empty
        parts = lrvb.Chunks([{k: c[cut] for k, c in data.items()} for cut in cuts])
        problem, strategy = partitioned_problem(case.model, parts, default_sum)
        bound = strategy.bind(problem, 16)
    refit = functools.partial(tilted_rows(whole), m)
    inner = 1e-13 if whole.structure.conjugate else 1e-9  # Newton's last step is below rounding
    return Collapsed(bound, m, C, None, tuple(range(whole.local.size)), refit, inner)


def tilted_rows(problem: Problem) -> Callable[[np.ndarray, int, float], np.ndarray]:
    """(m, i, t) → the means of every row's z with t·z_i added to its term."""
    structure = problem.structure

    @jax.jit
    def run(m: Any, unit: Any, t: Any) -> Any:
        def one(row: Any) -> Any:
            row = Row(row)

            def term(z: Any) -> Any:
                return structure.local_term(problem.traced, m, z, row) + t * (unit @ z)

            return collapse(structure.local.at(row), term, structure.conjugate).z

        return jax.vmap(one)(dict(problem.rows.columns))

    def refit(m: np.ndarray, i: int, t: float) -> np.ndarray:
        with double():
            return np.asarray(run(m, np.eye(structure.local.size)[i], t))

    return refit


@functools.cache
def block(kind: str, crossed: bool, separate: bool) -> Collapsed:
    """The Gaussian block, asked for its first row beside β.

    Columns of β are exact for all rows; that of a row only where its weights do not follow.
    """
    bound, m, C = block_of(kind, crossed, separate)
    layout = bound.layout
    asked = Functionals(layout.incidence.some(slice(0, 1)), fixed=True)
    first = layout.G * layout.q
    rows = np.vstack([dense_rows(layout)[:1], np.eye(layout.size)[first : first + layout.p]])

    def refit(i: int, t: float) -> np.ndarray:
        return (rows @ tilted_mean(bound, m, rows[i], t))[None]

    tilts = tuple(range(0 if kind in UNCOUPLED else 1, 1 + layout.p))
    return Collapsed(bound, m, C, asked, tilts, refit, 1e-10)


MAKERS: dict[str, Callable[[], Collapsed]] = {
    f"{name}, autodiff": functools.partial(plate, name, "autodiff") for name in PLATES
}
MAKERS["NormalMixture, gram"] = functools.partial(plate, "NormalMixture", "gram")
MAKERS["NormalMixture, partitions"] = functools.partial(plate, "NormalMixture", "partitions")
for kind in ("gaussian", "poisson", "binomial, joint"):
    MAKERS[f"block, {kind}, crossed"] = functools.partial(block, kind, True, False)
for kind in ("gaussian", "binomial", "poisson, joint", "poisson, tilted"):
    MAKERS[f"block, {kind}, separate factors"] = functools.partial(block, kind, False, True)

every_sum = pytest.mark.parametrize("name", MAKERS)


def answer(case: Collapsed, m: np.ndarray | None = None, state: Any = None) -> LocalResponse:
    """The response of all that is asked for, in one piece."""
    with double():
        found = list(case.bound.respond(case.m if m is None else m, case.asked, state))
    return LocalResponse(*(np.concatenate(part) for part in zip(*found, strict=True)))


@functools.cache
def known(name: str) -> LocalResponse:
    """The answer of a case at its own m."""
    return answer(MAKERS[name]())


def assert_near(ours: Any, theirs: Any, atol: float) -> None:
    """Relative to the largest entry."""
    assert_allclose(ours, theirs, rtol=0, atol=atol * np.abs(theirs).max())


@every_sum
def test_derivatives_in_m(name):
    """Gradient, curvature and R: of the value, of the gradient and of the means."""
    case = MAKERS[name]()
    bound, m = case.bound, case.m
    with double():
        found = bound.evaluate(m)
    assert_allclose(found.curvature, found.curvature.T, rtol=1e-9, atol=1e-9)
    direction = case.C @ np.random.default_rng(13).uniform(0.5, 1.0, len(m))

    def at(t):
        with double():
            there = bound.evaluate(m + t * direction, 1, found.state)
        z = answer(case, m + t * direction, found.state).z
        return np.concatenate([[there.value], there.gradient, z.ravel()])

    # In mean-field sds, h⁴ = 1e-12 of a fifth derivative; the inner optimum's accuracy over h.
    by = slope(at, 1e-3)
    value, gradient, z = by[0], by[1 : len(m) + 1], by[len(m) + 1 :]
    atol = 1e-8 + 3e3 * case.inner
    size = np.abs(found.gradient) @ np.abs(direction)  # of the summands of the slope of the value
    assert_allclose(found.gradient @ direction, value, rtol=0, atol=1e-9 * size + 1e-9 * abs(value))
    assert_near(found.curvature @ direction, gradient, atol)
    assert_near((known(name).R @ direction).ravel(), z, atol)


@every_sum
def test_conditional_covariance_is_the_derivative_of_means_under_a_tilt(name):
    """Σ̂_z|α: d m_z/dt with t·z_i added to the log joint and m held."""
    case = MAKERS[name]()
    found = known(name)
    for i in case.tilts:
        h = 1e-2 / np.sqrt(found.Sigma[:, i, i].max())
        by = slope(lambda t, i=i: case.refit(i, t), h)
        # h⁴/30 of a sixth cumulant, in sds of order a hundred; the inner optimum's accuracy over h
        assert_near(found.Sigma[:, :, i], by, 1e-7 + 3e2 * case.inner)


@every_sum
def test_no_answer_depends_on_the_state(name):
    """Cold, from itself, and from a point an sd away; and asking elsewhere leaves no trace."""
    case = MAKERS[name]()
    bound, m = case.bound, case.m
    away = m + case.C @ np.full(len(m), 0.3)
    with double():
        cold = bound.evaluate(m)
        other = bound.evaluate(away)
        again = bound.evaluate(m, 1)  # without the curvature, and otherwise the same
        assert again.curvature is None
        assert_allclose(again.value, cold.value, rtol=1e-14)
        assert_near(again.gradient, cold.gradient, 1e-13)
        for state in (cold.state, other.state):
            warm = bound.evaluate(m, state=state)
            assert_allclose(warm.value, cold.value, rtol=1e-12)  # a maximum: errors are squared
            assert_near(warm.gradient, cold.gradient, 10 * case.inner)
            assert_near(warm.curvature, cold.curvature, 1e-7)  # tangents are asked for to 1e-8
    for ours, theirs in zip(answer(case, state=other.state), known(name), strict=True):
        assert_near(ours, theirs, 1e-7)


@pytest.mark.parametrize("name", [n for n in MAKERS if n.endswith(("gram", "partitions"))])
def test_fast_ways_agree_with_autodiff(name):
    """STYLE: one referee, for all four questions."""
    case, slow = MAKERS[name](), MAKERS[f"{name.rsplit(', ', 1)[0]}, autodiff"]()
    with double():
        ours, theirs = case.bound.evaluate(case.m), slow.bound.evaluate(slow.m)
    assert_allclose(ours.value, theirs.value, rtol=1e-12)
    assert_near(ours.gradient, theirs.gradient, 1e-11)
    assert_near(ours.curvature, theirs.curvature, 1e-10)
    for mine, referee in zip(known(name), answer(slow), strict=True):
        assert_near(mine, referee, 1e-11)


@every_sum
def test_some_rows_are_among_all_rows(name):
    """What is asked for alone is what it is among others."""
    case = MAKERS[name]()
    if case.asked is None:
        some = np.array([1, 4])
        chosen, among = answer(case._replace(asked=some)), [part[some] for part in known(name)]
    else:
        block, m, _ = case.bound, case.m, case.C
        coefficients, rows = block.coefficients(m), block.layout.incidence
        whole = coefficients.of(Functionals(rows, fixed=True))
        chosen, among = known(name), [part[:1] for part in whole]
        alone, bare = (coefficients.of(f) for f in (Functionals(None, True), Functionals(rows)))
        for mine, part, first in zip(alone, whole, bare, strict=True):
            square = part.ndim == 3 and part.shape[1] == part.shape[2]
            assert_allclose(mine[0], part[0][1:, 1:] if square else part[0][1:], rtol=1e-13)
            assert_allclose(first, part[:, :1, :1] if square else part[:, :1], rtol=1e-13)
    for mine, theirs in zip(chosen, among, strict=True):
        assert_allclose(mine, theirs, rtol=1e-11, atol=1e-12)
