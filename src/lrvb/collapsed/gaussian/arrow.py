"""(CᵀWC + P)⁻¹ by elimination of the first factor's levels: the blocks that rows touch.

With Q = [[D, B], [Bᵀ, A]], D block-diagonal: E = D⁻¹, F = EB, S = A − BᵀF, and the inverse has
Z_rr = S⁻¹, Z_1r = −FS⁻¹ and, within each level, Z_11 = E + FS⁻¹Fᵀ. The cost is linear in levels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from .incidence import Vector
from .layout import Cross


class NotPositive(Exception):
    """The matrix is not positive definite."""


class Blocks(NamedTuple):
    """The entries of a matrix over w that rows touch: Z11 (G, q, q), Z1r (Gq, r), Zrr (r, r)."""

    Z11: np.ndarray
    Z1r: np.ndarray
    Zrr: np.ndarray


class Prior(NamedTuple):
    """Prior precision: of each first level (q, q) or (G, q, q), and of the rest (r, r)."""

    first: np.ndarray
    rest: np.ndarray

    def times(self, w: Vector) -> Vector:
        """Pw."""
        z = np.einsum("gij,gj->gi", np.broadcast_to(self.first, (*w.z.shape, w.z.shape[1])), w.z)
        return Vector(z, self.rest @ w.rest)


class Arrow(NamedTuple):
    """The inverse of Q = CᵀWC + P with one joint factor for all coefficients."""

    blocks: Blocks
    E: np.ndarray
    F: Any
    logdet: float

    def solve(self, b: Vector) -> Vector:
        """Q⁻¹b."""
        flat = b.z.reshape(-1)
        rest = self.blocks.Zrr @ (b.rest - self.F.T @ flat)
        z = np.einsum("gij,gj->gi", self.E, b.z) - (self.F @ rest).reshape(b.z.shape)
        return Vector(z, rest)

    def tangent(self, change: Cross) -> Blocks:
        """The change of the inverse's blocks when Q changes by `change`: −Q⁻¹ δQ Q⁻¹ there."""
        E, F, (_, Z1r, Zrr) = self.E, self.F, self.blocks
        q = E.shape[1]
        dE = -E @ change.D @ E
        inner = change.B - _times(change.D, F)
        dF = _times(E, inner)
        dS = change.A - _dense(change.B.T @ F) - _dense(F.T @ inner)
        dZrr = -Zrr @ dS @ Zrr
        dZ1r = -(dF @ Zrr + F @ dZrr)
        dZ11 = dE - _within(dZ1r, F, q) - _within(Z1r, dF, q)
        return Blocks((dZ11 + dZ11.swapaxes(1, 2)) / 2, dZ1r, (dZrr + dZrr.T) / 2)


class Separate(NamedTuple):
    """The inverse of each diagonal block of Q alone: β, and every level of every term."""

    blocks: Blocks
    logdet: float
    masks: tuple[np.ndarray, np.ndarray]

    def tangent(self, change: Cross) -> Blocks:
        """The change of the inverse's blocks when Q changes by `change`."""
        first, rest = self.masks
        Z11, Z1r, Zrr = self.blocks
        return Blocks(
            -Z11 @ np.where(first, change.D, 0.0) @ Z11,
            np.zeros_like(Z1r),
            -Zrr @ np.where(rest, change.A, 0.0) @ Zrr,
        )


def posterior_precision(cross: Cross, prior: Prior) -> Cross:
    """Q = CᵀWC + P."""
    return Cross(cross.D + prior.first, cross.B, cross.A + prior.rest)


def invert(Q: Cross) -> Arrow:
    """Q⁻¹ with all coefficients in one factor; `NotPositive` where Q is not positive definite."""
    L, E = _inverse_of_levels(Q.D)
    F = _times(E, Q.B)
    S = Q.A - _dense(Q.B.T @ F)
    L_rest, Zrr = _inverse((S + S.T) / 2)
    Z1r = -(F @ Zrr)
    Z11 = E - _within(Z1r, F, E.shape[1])
    return Arrow(Blocks((Z11 + Z11.swapaxes(1, 2)) / 2, Z1r, Zrr), E, F, L + L_rest)


def invert_separately(Q: Cross, masks: tuple[np.ndarray, np.ndarray]) -> Separate:
    """The inverses of the diagonal blocks that the masks (q, q) and (r, r) keep."""
    first, rest = masks
    L, Z11 = _inverse_of_levels(np.where(first, Q.D, 0.0))
    L_rest, Zrr = _inverse(np.where(rest, Q.A, 0.0))
    G, q, r = len(Z11), Z11.shape[1], len(rest)
    return Separate(Blocks(Z11, np.zeros((G * q, r)), Zrr), L + L_rest, masks)


def _inverse(S: np.ndarray) -> tuple[float, np.ndarray]:
    """log det and the inverse of a positive definite matrix."""
    if not len(S):
        return 0.0, S
    try:
        root = scipy.linalg.cholesky(S, lower=True, check_finite=True)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise NotPositive from error
    half = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True)
    return 2 * float(np.log(np.diag(root)).sum()), half.T @ half


def _inverse_of_levels(D: np.ndarray) -> tuple[float, np.ndarray]:
    """Σ log det and the inverses of a stack of small positive definite matrices."""
    if not np.isfinite(D).all():
        raise NotPositive
    if D.shape[1] == 1:
        if (D <= 0).any():
            raise NotPositive
        return float(np.log(D).sum()), 1 / D
    try:
        root = np.linalg.cholesky(D)
    except np.linalg.LinAlgError as error:
        raise NotPositive from error
    logdet = 2 * float(np.log(np.diagonal(root, axis1=1, axis2=2)).sum())
    half = np.linalg.inv(root)
    return logdet, half.swapaxes(1, 2) @ half


def _times(E: np.ndarray, M: Any) -> Any:
    """The block-diagonal matrix of E (G, q, q) times M (Gq, r), dense or sparse."""
    G, q, _ = E.shape
    if not sp.issparse(M):
        return (E @ M.reshape(G, q, M.shape[1])).reshape(M.shape)
    if q == 1:
        return sp.diags_array(E.ravel()) @ M
    return sp.bsr_array((E, np.arange(G), np.arange(G + 1)), shape=(G * q, G * q)) @ M


def _within(left: np.ndarray, right: Any, q: int) -> np.ndarray:
    """Diagonal blocks (G, q, q) of left · rightᵀ, both (Gq, r); right may be sparse."""
    G = left.shape[0] // q if q else 0
    if not sp.issparse(right):
        r = left.shape[1]
        return left.reshape(G, q, r) @ right.reshape(G, q, r).swapaxes(1, 2)
    found = right.tocoo()
    level = found.row // q
    result = np.empty((G, q, q))
    for j in range(q):
        products = left[level * q + j, found.col] * found.data
        result[:, j, :] = np.bincount(found.row, products, G * q).reshape(G, q)
    return result


def _dense(M: Any) -> np.ndarray:
    return M.toarray() if sp.issparse(M) else np.asarray(M)
