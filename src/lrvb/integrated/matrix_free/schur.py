r"""The Schur complement of the largest factor, scaled to I − T, which is multiplied and never formed.

With Q = [[D₁ + Λ₁, B], [Bᵀ, A + Λ]] the precision of all levels (σ = 1), E = (D₁ + Λ₁)⁻¹ and
S = A + Λ − BᵀEB. K = block diag S = LLᵀ level by level, and L⁻¹SL⁻ᵀ = I − T, where T has no diagonal.
Nested factors have T = 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .conjugate import Solved, in_columns, log_form, solve
from .sums import Sums

EXACTLY, ROUGHLY = 1e-7, 1e-3  # residuals of what is reported, and of what is averaged


class Schur:
    """At precisions Λ of each factor's levels, (q, q), in units of 1/σ²."""

    def __init__(self, sums: Sums, precisions: Sequence[np.ndarray]):
        self.sums, self.precisions = sums, tuple(precisions)
        self.E = inverse(sums.D[0] + precisions[0])
        self.own, self.K, self.root = [], [], []
        for f in range(1, len(sums.levels)):
            own = sums.D[f] + precisions[f]
            K = own - self.through_first(f)
            self.own.append(own)
            self.K.append(K)
            self.root.append(inverse(np.linalg.cholesky(K), symmetric=False))
        self.iterations, self.unsolved = 0, 0.0

    def through_first(self, f: int) -> np.ndarray:
        """Blocks of BᵀEB on the diagonal of one factor of the rest, (K, q, q)."""
        cells = self.sums.cells[0, f]
        return gathered(cells.C, self.E[cells.first], cells.second, self.sums.levels[f])

    def logdet_blocks(self) -> float:
        """log |D₁ + Λ₁| + log |block diag S|."""
        roots = sum(np.log(np.diagonal(root, axis1=1, axis2=2)).sum() for root in self.root)
        return -logdet(self.E) - 2 * float(roots)

    def times(self, V: np.ndarray) -> np.ndarray:
        """(I − T)V for V (r, P)."""
        W = self.spread(V)
        moved = self.S(W)
        result = np.empty_like(V)
        for place, root in zip(self.sums.places, self.root, strict=True):
            result[place] = multiplied(root, moved[place])
        return result

    def S(self, W: np.ndarray) -> np.ndarray:
        """S·W."""
        inner = multiplied(self.E, self.sums.B @ W)
        result = -(self.sums.Bt @ inner)
        for place, own in zip(self.sums.places, self.own, strict=True):
            result[place] += multiplied(own, W[place])
        if self.sums.across is not None:
            result += self.sums.across @ W
        return result

    def spread(self, V: np.ndarray) -> np.ndarray:
        """L⁻ᵀV."""
        result = np.empty_like(V)
        for place, root in zip(self.sums.places, self.root, strict=True):
            result[place] = multiplied(root.swapaxes(1, 2), V[place])
        return result

    def solve(self, b: np.ndarray, tolerance: float = EXACTLY) -> np.ndarray:
        """S⁻¹b for b (r, P)."""
        if not b.size:
            return b.copy()
        half = np.empty_like(b)
        for place, root in zip(self.sums.places, self.root, strict=True):
            half[place] = multiplied(root, b[place])

        def part(Z: np.ndarray) -> np.ndarray:
            return self._solved(Z, tolerance).x

        return self.spread(np.concatenate(in_columns(part, half, self.sums.B.nnz), axis=1))

    def coefficients(
        self, first: np.ndarray, rest: np.ndarray, tolerance: float = EXACTLY
    ) -> tuple[np.ndarray, np.ndarray]:
        """Q⁻¹b in its two parts, (Gq, P) and (r, P)."""
        v = self.solve(rest - self.sums.Bt @ multiplied(self.E, first), tolerance)
        return multiplied(self.E, first - self.sums.B @ v), v

    def probed(self, Z: np.ndarray) -> Probed:
        """log |I − T| and traces of blocks of Q⁻¹ by probes Z (r, P) of ±1, one estimate a probe.

        What is of first order in T has mean zero over signs and is taken off.
        """
        if not len(Z):
            own = np.repeat(self.E.sum(0)[None], Z.shape[1], axis=0)
            return Probed(np.zeros(Z.shape[1]), (own,))
        parts = in_columns(self._probe, Z, self.sums.B.nnz)
        return Probed(
            np.concatenate([part.logdet for part in parts]),
            tuple(
                np.concatenate(traces) for traces in zip(*(p.traces for p in parts), strict=True)
            ),
        )

    def _solved(self, Z: np.ndarray, tolerance: float) -> Solved:
        """(I − T)⁻¹Z; `iterations` and `unsolved` have the worst of all so far."""
        found = solve(self.times, Z, tolerance)
        self.iterations = max(self.iterations, len(found.alpha))
        self.unsolved = max(self.unsolved, found.unsolved)
        return found

    def _probe(self, Z: np.ndarray) -> Probed:
        sums, r = self.sums, len(Z)
        found = self._solved(Z, ROUGHLY)
        log, first = log_form(found)
        logdet = r * (log - (first - 1))
        TZ = Z - self.times(Z)
        beyond = found.x - Z
        Wz, Wx = self.spread(Z), self.spread(beyond - TZ)
        traces = []
        for f, place in enumerate(sums.places, start=1):
            exact = inverse(self.K[f - 1]).sum(0)
            traces.append(exact + outer(Wx[place], Wz[place], sums.q[f]))
        Yz = multiplied(self.E, sums.B @ Wz)
        Yx = multiplied(self.E, sums.B @ self.spread(beyond))
        through = self._through_rest()
        signs = np.einsum("ij,ij->j", Z, TZ)[:, None, None] / r
        own = self.E.sum(0) + through * (1 - signs) + outer(Yx, Yz, sums.q[0])
        return Probed(logdet, (own, *traces))

    def _through_rest(self) -> np.ndarray:
        """Σ_g E_g B_g K⁻¹ B_gᵀ E_g, (q, q)."""
        total = np.zeros((self.sums.q[0],) * 2)
        for f in range(1, len(self.sums.levels)):
            cells = self.sums.cells[0, f]
            EC = self.E[cells.first] @ cells.C
            inner = inverse(self.K[f - 1])[cells.second]
            if EC.shape[1:] == (1, 1):
                total += EC[:, 0, 0] ** 2 @ inner[:, 0, 0]
            else:
                total += np.einsum("cij,cjk,clk->il", EC, inner, EC, optimize=True)
        return total


class Probed:
    """log |I − T| (P,), and Σ over levels of Q⁻¹'s blocks, of each factor (P, q, q)."""

    def __init__(self, logdet: np.ndarray, traces: tuple[np.ndarray, ...]):
        self.logdet, self.traces = logdet, traces


def multiplied(blocks: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Block-diagonal (K, q, q) times V (Kq, P)."""
    K, q, _ = blocks.shape
    if q == 1:
        return blocks[:, :, 0] * V
    return (blocks @ V.reshape(K, q, -1)).reshape(V.shape)


def gathered(C: np.ndarray, E: np.ndarray, levels: np.ndarray, K: int) -> np.ndarray:
    """Σ CᵀEC over the cells of each level, (K, q, q)."""
    if C.shape[1:] == (1, 1):
        return np.bincount(levels, C[:, 0, 0] ** 2 * E[:, 0, 0], K)[:, None, None]
    inner = C.swapaxes(1, 2) @ E @ C
    q = C.shape[2]
    found = np.empty((K, q, q))
    for i in range(q):
        for j in range(i, q):
            found[:, i, j] = found[:, j, i] = np.bincount(levels, inner[:, i, j], K)
    return found


def outer(a: np.ndarray, b: np.ndarray, q: int) -> np.ndarray:
    """Σ_k a_k b_kᵀ of every column, symmetric, from (Kq, P) each: (P, q, q)."""
    P = a.shape[1]
    if q == 1:
        return np.einsum("kp,kp->p", a, b)[:, None, None]
    found = np.einsum("kip,kjp->pij", a.reshape(-1, q, P), b.reshape(-1, q, P), optimize=True)
    return (found + found.swapaxes(1, 2)) / 2


def inverse(blocks: np.ndarray, symmetric: bool = True) -> np.ndarray:
    """Inverses of small matrices (K, q, q)."""
    if blocks.shape[1] == 1:
        return 1 / blocks
    found = np.linalg.inv(blocks)
    return (found + found.swapaxes(1, 2)) / 2 if symmetric else found


def logdet(blocks: np.ndarray) -> float:
    """Σ log |·| of small matrices (K, q, q)."""
    if blocks.shape[1] == 1:
        return float(np.log(blocks).sum())
    return float(np.linalg.slogdet(blocks)[1].sum())
