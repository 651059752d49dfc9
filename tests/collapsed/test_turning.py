"""How curvature turns with m and with numbers, against differences of the curvature itself."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES
from lrvb.collapsed.autodiff import AutodiffSum
from lrvb.numerics.double import double

STATED = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "time_series.py"))
RNG = np.random.default_rng(0)


def checked(fit: lrvb.Fit, moved: dict[str, np.ndarray], local_sum=None) -> None:
    """∂(sᵀH̃s)/∂(m, ε) and ∂²L̄/∂m∂ε along random directions: a central difference's error is h², 1e-6 here."""
    over = local_sum or fit.local_sum
    C = fit.curved.C
    S = RNG.normal(size=(2, len(fit.m))) @ C.T
    h = len(next(iter(moved.values()))) if moved else 0
    a, step = len(fit.m), 1e-4

    def sums(direction, numbers=None):
        with double():
            problem = fit.problem if numbers is None else replace(fit.problem, traced=numbers)
            return over.bind(problem, fit.chunk_size).evaluate(fit.m + direction, 2)

    turns = over.bind(fit.problem, fit.chunk_size).turns(fit.m, S, moved)
    assert turns.shape == (h + 2, a + h)
    v = C @ RNG.normal(size=a)
    up, down = sums(step * v), sums(-step * v)
    slope = np.einsum("ka,ab,kb->k", S, up.curvature - down.curvature, S) / (2 * step)
    size = np.abs(np.einsum("ka,ab,kb->k", S, up.curvature, S)).max()
    assert_allclose(turns[h:, :a] @ v, slope, rtol=1e-5, atol=1e-6 * size)
    for i in range(h):
        up, down = (
            sums(
                0,
                {
                    **fit.problem.traced,
                    **{k: fit.problem.traced[k] + e * d[i] for k, d in moved.items()},
                },
            )
            for e in (step, -step)
        )
        slope = (up.gradient - down.gradient) / (2 * step)
        assert_allclose(turns[i, :a], slope, rtol=1e-5, atol=1e-6 * np.abs(up.gradient).max())
        slope = np.einsum("ka,ab,kb->k", S, up.curvature - down.curvature, S) / (2 * step)
        assert_allclose(turns[h:, a + i], slope, rtol=1e-5, atol=1e-6 * size)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_curvature_turns_with_m(case):
    fit = case.small_fit()
    checked(fit, {})
    rows_add_up(fit)


def rows_add_up(fit: lrvb.Fit) -> None:
    """Each row's score and curvature along S sum to those of all rows, as the fit's own pass has them."""
    if fit.problem.rows is None:
        return
    S = RNG.normal(size=(3, len(fit.m))) @ fit.curved.C.T
    bound = fit.bound()
    whole = bound.evaluate(fit.m, 2)
    w = np.ones(fit.problem.n) if (given := fit.problem.rows.weights) is None else given
    sums = w @ np.concatenate(list(bound.curvatures(fit.m, S)))
    along = np.einsum("ka,ab,kb->k", S, whole.curvature, S)
    expected = np.concatenate([whole.gradient, along])
    assert_allclose(sums, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


def test_gram_matrices_turn_as_autodiff():
    """The same numbers, by sums over features and by rows; each row's score and curvature likewise."""
    fit = next(c for c in CASES if c.name == "NormalMixture").small_fit()
    S = RNG.normal(size=(3, len(fit.m)))
    bound = [over.bind(fit.problem) for over in (fit.local_sum, AutodiffSum())]
    for fast, slow in (
        [over.turns(fit.m, S, {}) for over in bound],
        [np.concatenate(list(over.curvatures(fit.m, S))) for over in bound],
    ):
        assert_allclose(fast, slow, rtol=1e-9, atol=1e-9 * np.abs(slow).max())


@pytest.mark.parametrize("name", ["LocalLevel", "HiddenMarkov"])
def test_wide_rows_turn_without_matrices(name):
    """A chain's states have more coordinates than a matrix of them is formed for."""
    series = [STATED["simulated"](STATED[name], 15, seed) for seed in range(2)]
    fit = lrvb.fit(STATED[name](), {"y": np.concatenate(series)})
    assert fit.problem.local.size > 32
    checked(fit, {})
    rows_add_up(fit)


class Counts(lrvb.Model):
    """y ~ Poisson(offset · exp z), z ~ N(μ, s²): rows read two numbers, and z iterates."""

    columns = ("y",)
    global_blocks = {"mu": lrvb.Normal()}
    local_blocks = {"z": lrvb.Normal()}

    def __init__(self):
        self.offset, self.s = 1.5, 0.7

    def global_term(self, m):
        return -m.mu.xx / 2

    def local_term(self, m, z, row):
        away = z.xx - 2 * z.x * m.mu.x + m.mu.xx
        rate = self.offset * jnp.exp(z.x + (z.xx - z.x**2) / 2)
        return row.y * z.x - rate - away / (2 * self.s**2)


def test_curvature_turns_with_numbers_that_rows_read():
    """z follows them too; the rows in parts elsewhere add up to the same."""
    y = RNG.poisson(2.0, size=16)
    moved = {"offset": np.array([1.0, 0.0]), "s": np.array([0.0, 1.0])}
    fit = lrvb.fit(Counts(), {"y": y})
    checked(fit, moved)
    parts = lrvb.fit(Counts(), lrvb.Chunks([{"y": y[:8]}, {"y": y[8:]}]))
    S = np.eye(2)
    whole, added = (f.bound().turns(fit.m, S, moved) for f in (fit, parts))
    assert_allclose(added, whole, rtol=1e-9, atol=1e-12)
