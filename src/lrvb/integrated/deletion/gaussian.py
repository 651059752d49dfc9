"""Blocks of gaussian rows left out of sums over rows: everything else stays as it was eliminated.

Of the eliminated factor a block takes D_c and B_c from the levels that it touches, of the rest A_b; with
S − M_b what remains of S, log p(y_b | y_−b, θ) is a difference of two evidences, exact given θ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..gaussian import Gaussian, inverse_of
from .blocks import Blocks, cells_of

_CELLS = 2**21  # numbers in the largest array of one chunk of points
_LOG_2PI = float(np.log(2 * np.pi))


class _Taken(NamedTuple):
    """What blocks take: of cells D (C, q, q), B (C, q, r), b (C, q); of blocks A, a, yy and rows."""

    D: np.ndarray
    B: np.ndarray
    b: np.ndarray
    A: np.ndarray
    a: np.ndarray
    yy: np.ndarray
    n: np.ndarray


def without_blocks(
    inside: Gaussian, theta: np.ndarray, blocks: Blocks, moved: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """log p(y_b | y_−b, θ) at n points (n, blocks), and the change of E[β | θ] (n, blocks, p) if asked."""
    terms, p, r, q = inside.terms, inside.rows.p, inside.r, inside.q
    codes, levels = np.zeros(len(inside.rows.X), dtype=int), 1
    if terms:
        codes, levels = terms[inside.together[0]].codes, terms[inside.together[0]].levels
    cells = cells_of(blocks, codes, levels)
    taken = _taken(inside, blocks, cells.rows, cells.starts, cells.block)
    level = cells.level
    value = np.empty((len(theta), blocks.n))
    change = np.empty((len(theta), blocks.n, p)) if moved else None
    B, b = np.zeros((len(level), q, r)), np.zeros((len(level), q))
    if terms:
        B, b = inside.B[level], inside.by.z[level]
    left_B, left_b = B - taken.B, b - taken.b
    step = max(1, _CELLS // (len(level) * r * max(r, q) + inside.G * q * (q + r)))
    for start in range(0, len(theta), step):
        at = slice(start, start + step)
        c = inside.conditional(theta[at])
        tau = np.exp(-2 * theta[at, -1])
        t1, t2 = tau[:, None, None], tau[:, None, None, None]
        E = c.within[:, level] if terms else np.ones((len(tau), len(level), 1, 1))
        Q, logdet = inverse_of(E)
        rest_E, rest_logdet = inverse_of(Q - t2 * taken.D)
        EB, rest_EB = E @ B, rest_E @ left_B
        Eb = (E @ b[..., None])[..., 0]
        rest_Eb = (rest_E @ left_b[..., None])[..., 0]
        # what the block takes: M of S, m of its right side
        inner = B.swapaxes(1, 2) @ EB - left_B.swapaxes(1, 2) @ rest_EB
        M = t2 * taken.A - t2**2 * _added(inner, cells.block, blocks.n)
        inner = np.einsum("cir,nci->ncr", B, Eb) - np.einsum("cir,nci->ncr", left_B, rest_Eb)
        m = t1 * taken.a - t1**2 * _added(inner, cells.block, blocks.n)
        _, rhs, _ = inside.schur(c.within, tau)
        left = np.eye(r) - c.covariance[:, None] @ M
        rest = np.linalg.solve(
            left, (c.rest[:, None] - np.einsum("nrs,nbs->nbr", c.covariance, m))[..., None]
        )[..., 0]
        sign, log_left = np.linalg.slogdet(left)
        square = np.einsum("ci,nci->nc", b, Eb) - np.einsum("ci,nci->nc", left_b, rest_Eb)
        own = t1[..., 0] ** 2 * square / 2 + (logdet + rest_logdet) / 2
        found = _added(own, cells.block, blocks.n)
        found -= taken.n * (theta[at, -1:] + _LOG_2PI / 2) + t1[..., 0] * taken.yy / 2
        found += log_left / 2
        found += np.einsum("nr,nr->n", rhs, c.rest)[:, None] / 2
        found -= ((rhs[:, None] - m) * rest).sum(2) / 2
        value[at] = np.where(sign > 0, found, -np.inf)
        if change is not None:
            change[at] = (rest - c.rest[:, None])[..., :p]
    return value, change


def _taken(
    inside: Gaussian, blocks: Blocks, rows: np.ndarray, starts: np.ndarray, block: np.ndarray
) -> _Taken:
    """Sums over the rows of cells, sorted by cell, and of blocks."""
    terms, of = inside.terms, inside.rows
    A = np.zeros((len(rows), inside.r))
    A[:, : of.p] = of.X[rows]
    for t, start in zip(inside.others, inside.offsets, strict=False):
        term = terms[t]
        place = start + term.codes[rows].astype(np.int64)[:, None] * term.q + np.arange(term.q)
        A[np.arange(len(rows))[:, None], place] += term.R[rows]
    K = np.zeros((len(rows), 1))
    if terms:
        K = np.concatenate([terms[t].R[rows] for t in inside.together], axis=1)
    w = np.ones(len(rows)) if of.weights is None else of.weights[rows]
    y = of.columns[0][rows] - of.offset[rows] - of.X[rows] @ of.mean
    sizes = np.diff(np.append(starts, len(rows)))
    owner = np.repeat(block, sizes)
    ends = np.searchsorted(owner, np.arange(blocks.n))
    root = A * np.sqrt(w)[:, None]
    AA = np.stack([part.T @ part for part in np.split(root, ends[1:])])
    wK = K * w[:, None]
    return _Taken(
        np.add.reduceat(wK[:, :, None] * K[:, None, :], starts),
        np.add.reduceat(wK[:, :, None] * A[:, None, :], starts),
        np.add.reduceat(wK * y[:, None], starts),
        AA,
        np.add.reduceat(A * (w * y)[:, None], ends),
        np.add.reduceat(w * y**2, ends),
        np.add.reduceat(w, ends),
    )


def _added(values: np.ndarray, block: np.ndarray, n: int) -> np.ndarray:
    """Values of cells (k, C, …), which are sorted by block, summed within blocks, (k, n, …)."""
    return np.add.reduceat(values, np.searchsorted(block, np.arange(n)), axis=1)
