r"""What the evidence of gaussian rows needs of the levels, at one point of their relative covariances.

ζ is each term's part of θ with sds in units of the residual's: Λ = Σ⁻¹σ². With V = I + ΣZΣZᵀ of
the rows and T = [X, small factors' levels, y], h = log |V| and M = TᵀV⁻¹T are all that log p(y | θ)
needs; σ² and β are outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from ..terms import Term, split_by_size
from .covariances import Dense
from .direct import Direct, is_small
from .draws import signs
from .schur import Schur
from .sums import Sums

STEP = 1e-5  # of differences of Λ in ζ
WIDE = 1e-3  # of differences of an exact log determinant in ζ


class Point(NamedTuple):
    """h and M (p + 1, p + 1) at ζ (D,), with derivatives (D,) and (D, p + 1, p + 1).

    noise (P,) and noise_slope (P, D) are what each probe's h and its derivative have beyond the mean;
    unsolved is the residual, as a share, at which conjugate gradients gave up, 0 where none did.
    """

    zeta: np.ndarray
    h: float
    M: np.ndarray
    h_slope: np.ndarray
    M_slope: np.ndarray
    noise: np.ndarray
    noise_slope: np.ndarray
    iterations: int
    unsolved: float


class Evidence:
    """h and M of rows with these sums; factors (terms of each, the first one's first) and probes."""

    def __init__(
        self,
        sums: Sums,
        terms: Sequence[Term],
        factors: Sequence[tuple[int, ...]],
        probes: int,
        seed: int = 0,
    ):
        self.sums, self.terms, self.factors = sums, tuple(terms), tuple(factors)
        self.direct = is_small(sums)
        self.exact = self.direct or sums.nested
        self.seed = seed
        self.probe(probes)

    def probe(self, probes: int) -> None:
        """Take so many probes (r, P) of ±1; one where all is exact."""
        shape = (1 if self.exact else probes, self.sums.r)
        self.Z = np.ascontiguousarray(signs(np.random.default_rng(self.seed), shape).T)

    def schur(self, zeta: np.ndarray) -> Schur:
        """The Schur complement at ζ (D,)."""
        make = Direct if self.direct else Schur
        return make(self.sums, self.precisions(zeta))

    def precisions(self, zeta: np.ndarray) -> list[np.ndarray]:
        """Λ of each factor's levels, (q, q)."""
        parts = split_by_size(zeta[None], self.terms)
        Lambda = [t.spread(part).precision[0] for t, part in zip(self.terms, parts, strict=True)]
        return [block_diag(*(Lambda[t] for t in terms)) for terms in self.factors]

    def coefficients(self, schur: Schur) -> tuple[np.ndarray, np.ndarray]:
        """Q⁻¹CᵀT: what regressing T on the levels gives, (Gq, p + 1) and (r, p + 1)."""
        return schur.coefficients(*self._right())

    def at(self, zeta: np.ndarray) -> Point:
        """h, M and their derivatives at ζ (D,)."""
        sums = self.sums
        schur = self.schur(zeta)
        first, rest = self._right()
        U = self.coefficients(schur)
        M = sums.TT - first.T @ U[0] - rest.T @ U[1]
        M = (M + M.T) / 2
        squares = [self._square(U[0], 0)]
        squares += [self._square(U[1][place], f) for f, place in enumerate(sums.places, 1)]
        dLambda, dlogdet = self._moves(zeta)
        M_slope = np.array(
            [
                sum(np.einsum("ij,iajb->ab", dL, S) for dL, S in zip(move, squares, strict=True))
                for move in dLambda
            ]
        )
        if isinstance(schur, Direct):
            h = schur.logdet_first() + schur.logdet_rest() + self._prior_logdet(zeta)
            h_slope = (
                self._differenced(zeta)
                if schur.sparse
                else dlogdet + _traced(dLambda, [block.sum(0) for block in Dense(schur).blocks()])
            )
            none = np.zeros((1, len(zeta)))
            return Point(zeta, h, M, h_slope, M_slope, np.zeros(1), none, 1, 0.0)
        probed = schur.probed(self.Z)
        each = schur.logdet_blocks() + self._prior_logdet(zeta) + probed.logdet
        slope = np.stack(
            [
                sum(
                    np.einsum("ij,pij->p", dL, S) for dL, S in zip(move, probed.traces, strict=True)
                )
                + prior
                for move, prior in zip(dLambda, dlogdet, strict=True)
            ],
            axis=1,
        )
        mean, mean_slope = float(each.mean()), slope.mean(0)
        noise, noise_slope = each - mean, slope - mean_slope
        counts = schur.iterations, schur.unsolved
        return Point(zeta, mean, M, mean_slope, M_slope, noise, noise_slope, *counts)

    def _right(self) -> tuple[np.ndarray, np.ndarray]:
        t = [by.reshape(-1, by.shape[2]) for by in self.sums.t]
        return t[0], np.concatenate([t[0][:0], *t[1:]])

    def _square(self, U: np.ndarray, f: int) -> np.ndarray:
        """Σ_k u_k,ia u_k,jb of a factor's levels, (q, p + 1, q, p + 1)."""
        q, width = self.sums.q[f], U.shape[1]
        flat = U.reshape(-1, q * width)
        return (flat.T @ flat).reshape(q, width, q, width)

    def _prior_logdet(self, zeta: np.ndarray) -> float:
        """Σ over all levels of log |Σ/σ²|."""
        parts = split_by_size(zeta[None], self.terms)
        both = zip(self.terms, parts, strict=True)
        return float(sum(t.levels * t.spread(part).logdet[0] for t, part in both))

    def _moves(self, zeta: np.ndarray) -> tuple[list[list[np.ndarray]], np.ndarray]:
        """Derivatives in every ζ of each factor's Λ, and of the levels' prior log determinant."""
        moves, slopes = [], np.empty(len(zeta))
        for k in range(len(zeta)):
            move = STEP * (np.arange(len(zeta)) == k)
            up, down = self.precisions(zeta + move), self.precisions(zeta - move)
            moves.append([(a - b) / (2 * STEP) for a, b in zip(up, down, strict=True)])
            slopes[k] = self._prior_logdet(zeta + move) - self._prior_logdet(zeta - move)
        return moves, slopes / (2 * STEP)

    def _differenced(self, zeta: np.ndarray) -> np.ndarray:
        """Derivatives of h where log |S| is exact, and S⁻¹ too large."""

        def h(at: np.ndarray) -> float:
            made = Direct(self.sums, self.precisions(at))
            return made.logdet_first() + made.logdet_rest() + self._prior_logdet(at)

        moves = WIDE * np.eye(len(zeta))
        return np.array([h(zeta + move) - h(zeta - move) for move in moves]) / (2 * WIDE)


def _traced(moves: list[list[np.ndarray]], traces: list[np.ndarray]) -> np.ndarray:
    """Σ_f tr(dΛ_f · Σ_k Q⁻¹_fk) of every direction, (D,)."""
    return np.array(
        [sum((dL * S).sum() for dL, S in zip(move, traces, strict=True)) for move in moves]
    )
