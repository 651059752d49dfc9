"""The Gaussian block given u: its algebra against dense matrices, its bound against the definition."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from small_blocks import crossed, dense

from lrvb.integrated.block import precision
from lrvb.integrated.block.averages import Averages, average, nodes
from lrvb.integrated.block.fitting import Start, cold_start, fit
from lrvb.integrated.block.layout import PARTS, Layout, mixed
from lrvb.integrated.block.precision import Precision
from lrvb.integrated.block.rows import RowsHere

U = np.array([-0.5, -0.9, 0.3, -0.8])


@pytest.fixture(scope="module")
def layout():
    return Layout(*crossed())


@pytest.fixture(scope="module")
def fitted(layout):
    return fit(layout, U, cold_start(layout))


@pytest.mark.parametrize("largest", [1500, 0], ids=["dense", "conjugate gradients"])
def test_the_precision_is_that_of_dense_matrices(layout, monkeypatch, largest):
    """Solutions, and (dense) log determinant and covariances; probes and draws to their own error."""
    monkeypatch.setattr(precision, "LARGEST", largest)
    monkeypatch.setattr(precision, "PAIRS", 1e9 if largest else 0.0)
    monkeypatch.setattr(layout, "direct", None)
    w = np.random.default_rng(1).uniform(0.2, 2.0, layout.N)
    rows = RowsHere(layout, np.zeros(layout.N), np.zeros(layout.N))
    monkeypatch.setattr("lrvb.integrated.block.rows.average", lambda *_: Averages(w, w, w))
    Q = Precision(layout, rows.weigh([], 0.0).sums, layout.precisions(U), rows)
    assert Q.exact == bool(largest)
    C, D = dense(layout, w, U)
    S = np.linalg.inv(D)
    right = np.random.default_rng(2).normal(size=len(D))
    z = np.split(right[layout.p :], np.cumsum(layout.sizes)[:-1])
    z = [part.reshape(f.levels, f.q) for part, f in zip(z, layout.factors, strict=True)]
    beta, levels = Q.solve(right[: layout.p], z)
    found = np.concatenate([beta, *(part.ravel() for part in levels)])
    assert_allclose(found, S @ right, rtol=1e-5, atol=1e-6)
    rough = 1e-9 if largest else 0.2
    v = np.einsum("ni,ij,nj->n", C, S, C)
    logdet, exact = Q.logdet(), np.linalg.slogdet(D)[1]
    assert_allclose(logdet[0], exact, rtol=1e-9 if largest else 0.1)
    assert abs(logdet.mean() - exact) <= 1e-9 * abs(exact) + 4 * logdet.std() / np.sqrt(PARTS)
    assert (logdet.std() > 0) == (largest == 0)
    assert_allclose(Q.variances.of_rows(layout), v, rtol=rough)
    left = Q.variances.left(layout)
    at = layout.p
    for f, factor in enumerate(layout.factors):
        K, q = factor.levels, factor.q
        place = at + np.arange(K * q).reshape(K, q)
        own = S[place[:, :, None], place[:, None, :]]
        if largest:
            assert_allclose(Q.blocks()[f] + Q.through_beta(f), own, atol=1e-10)
            with_rows = np.einsum("ni,nki->nk", C, S[place[factor.codes]])
            assert_allclose(Q.variances.with_rows(layout, f, v, own, left), with_rows, atol=1e-9)
        at += K * q


def test_the_bound_is_the_definition_and_at_its_maximum(layout, fitted):
    """E_q log p(y, c | u) − E_q log q(c), and no other mean or covariance has a higher one."""
    rows = layout.rows

    def bound(m, S, C, P):
        mean = C @ m + rows.offset
        v = np.einsum("ni,ij,nj->n", C, S, C)
        likelihood = average(rows.likelihood, rows.columns, (), mean, v).value.sum()
        away = m - np.r_[rows.mean, np.zeros(len(m) - layout.p)]
        prior = np.linalg.slogdet(P)[1] / 2 - (away @ P @ away + np.trace(P @ S)) / 2
        entropy = np.linalg.slogdet(S)[1] / 2 + len(m) / 2
        return likelihood + layout.constant + prior + entropy + layout.log_prior(U[None])[0]

    C, D = dense(layout, fitted.rows.w, U)
    _, P = dense(layout, np.zeros(layout.N), U)
    m = np.concatenate([fitted.beta, *(z.ravel() for z in fitted.z)])
    S = np.linalg.inv(D)
    best = bound(m, S, C, P)
    assert_allclose(fitted.bound, best, atol=1e-8)
    rng = np.random.default_rng(3)
    for _ in range(4):
        move, turn = rng.normal(size=len(m)), rng.normal(size=S.shape)
        turn = 0.02 * S @ (turn + turn.T) @ S / np.sqrt(np.trace(S @ S))
        for side in (1, -1):
            assert bound(m + 0.02 * side * move, S, C, P) < best + 1e-4
            assert bound(m, S + side * turn, C, P) < best + 1e-3


def test_the_gradient_is_the_derivative_of_the_bound(layout, fitted):
    """The envelope theorem: what q would change is of second order."""
    start, h = Start(fitted.beta, fitted.z, fitted.Q.variances), 0.02
    moved = [
        (fit(layout, U + h * e, start).bound - fit(layout, U - h * e, start).bound) / (2 * h)
        for e in np.eye(len(U))
    ]
    assert_allclose(fitted.gradient, moved, atol=0.03)  # settled to 1e-3, over h


def test_a_tilt_moves_the_mean_by_linear_response(layout, fitted):
    """∂E β/∂t exceeds q's covariance, which holds rows' weights fixed, by little."""
    start = Start(fitted.beta, fitted.z, fitted.Q.variances)
    step = 0.3 / np.sqrt(fitted.Q.C[1, 1])
    tilted = fit(layout, U, start, np.array([0.0, step]))
    ratio = (tilted.beta[1] - fitted.beta[1]) / step / fitted.Q.C[1, 1]
    assert 0.95 < ratio < 1.1


@pytest.mark.parametrize("sd", [0.2, 0.6, 1.2, 2.5])
def test_nodes_average_a_logistic_curve(sd):
    """E log(1 + e^η) to 1e-5, against a fine trapezoid sum."""
    t = np.linspace(-9, 9, 4001)
    w = np.exp(-(t**2) / 2)
    exact = (np.logaddexp(0, 0.7 + sd * t) @ w) / w.sum()
    found = sum(weight * np.logaddexp(0, 0.7 + sd * x) for x, weight in nodes(sd))
    assert abs(found - exact) < 1e-5


def test_signs_of_cells_are_their_own():
    """They hang on levels and columns, not on which rows are there, and are even and unrelated."""
    rows, terms = crossed(N=4000, G=90, K=40)
    some = np.random.default_rng(0).permutation(4000)[:3000]
    whole, part = Layout(rows, terms), Layout(rows.take(some), [t.take(some) for t in terms])
    place = whole.cells[some[part.one_of_cells]]
    signs = np.array([whole.signs_of_cells(j) for j in range(70)])
    for j in (0, 63, 64, 69):
        np.testing.assert_array_equal(part.signs_of_cells(j), signs[j][place])
    related = signs @ signs.T / signs.shape[1]
    assert np.abs(related - np.eye(70)).max() < 5 / np.sqrt(signs.shape[1])
    assert np.abs(signs.mean(1)).max() < 4 / np.sqrt(signs.shape[1])


def test_numbers_are_mixed_as_published():
    """The first outputs of SplitMix64 from the seed 1234567."""
    states = 1234567 + np.arange(3, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    assert mixed(states).tolist() == [6457827717110365317, 3203168211198807973, 9817491932198370423]
