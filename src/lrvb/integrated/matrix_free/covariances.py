r"""Q⁻¹ where it is asked for: blocks of every level, and variances of rows' sums over levels (σ = 1).

Exact for nested factors and for a dense Schur complement; else by draws w ~ (0, Q⁻¹) from fixed signs, which
estimate only what conditional variances leave: var = var(· | others) + var E[· | others].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_solve

from .direct import Direct, block_diagonal
from .draws import Perturbed, draw
from .schur import ROUGHLY, Schur, inverse, multiplied

DRAWS = 64
KEPT = (
    2**21
)  # numbers that draws may take; fewer draws beyond, as levels are then told apart by more rows
CHUNK = 2**22


class Covariances(Protocol):
    """Blocks of Q⁻¹, and variances of rows' sums."""

    error: float  # relative, of an sd, and zero if there is none

    def blocks(self) -> list[np.ndarray]:
        """Of every level of each factor, (K, q, q)."""

    def rows(self, levels: Sequence[np.ndarray], R: Sequence[np.ndarray]) -> np.ndarray:
        """Var Σ_f R_f z_f of m rows from each factor's levels (m,), −1 for none, and R (m, q)."""


def covariances(schur: Schur, perturbed: Perturbed) -> Covariances:
    """By the best way there is."""
    if len(schur.sums.levels) == 1:
        return Alone(schur)
    if schur.sums.nested:
        return Nested(schur)
    if isinstance(schur, Direct) and not schur.sparse:
        return Dense(schur)
    return Drawn(schur, perturbed)


class Alone:
    """One factor: its levels are independent."""

    error = 0.0

    def __init__(self, schur: Schur):
        self.E = schur.E

    def blocks(self) -> list[np.ndarray]:
        """Of every level."""
        return [self.E]

    def rows(self, levels: Sequence[np.ndarray], R: Sequence[np.ndarray]) -> np.ndarray:
        """Var R z of m rows."""
        a = np.where(levels[0][:, None] >= 0, R[0], 0.0)
        return np.einsum("mi,mij,mj->m", a, self.E[np.maximum(levels[0], 0)], a)


class Nested:
    """T = 0: v has the covariance K⁻¹, and u = its own − E C v of the one level it lies in."""

    error = 0.0

    def __init__(self, schur: Schur):
        cells = schur.sums.cells[0, 1]
        self.E, self.inner = schur.E, inverse(schur.K[0])
        self.parent, self.F = cells.second, schur.E @ cells.C

    def blocks(self) -> list[np.ndarray]:
        """Of every level."""
        own = self.E + self.F @ self.inner[self.parent] @ self.F.swapaxes(1, 2)
        return [own, self.inner]

    def rows(self, levels: Sequence[np.ndarray], R: Sequence[np.ndarray]) -> np.ndarray:
        """Var Σ_f R_f z_f of m rows."""
        s, d = (np.maximum(level, 0) for level in levels)
        a, b = (np.where(level[:, None] >= 0, r, 0.0) for level, r in zip(levels, R, strict=True))
        within = np.einsum("mi,mij,mj->m", a, self.E[s], a)
        through = -np.einsum("mi,mij->mj", a, self.F[s])
        parent = self.parent[s]
        same = (parent == d) & (levels[1] >= 0)
        b, through = np.where(same[:, None], b + through, b), np.where(same[:, None], 0.0, through)
        within += np.einsum("mi,mij,mj->m", b, self.inner[d], b)
        return within + np.einsum("mi,mij,mj->m", through, self.inner[parent], through)


class Dense:
    """From S⁻¹ itself, and F = EB, which takes the rest to the first factor's levels, sparse (Gq, r)."""

    error = 0.0

    def __init__(self, schur: Direct):
        sums = schur.sums
        self.E, self.levels, self.q, self.places = schur.E, sums.levels, sums.q, sums.places
        self.inverse = cho_solve(schur.factor, np.eye(sums.r))
        self.F = sp.csr_array(block_diagonal(schur.E) @ sums.B)

    def blocks(self) -> list[np.ndarray]:
        """Of every level."""
        q, r = self.q[0], len(self.inverse)
        own = self.E.copy()
        step = max(1, CHUNK // (r * q))
        for at in range(0, self.levels[0], step):
            F = self.F[at * q : (at + step) * q].toarray()
            through = (F @ self.inverse).reshape(-1, q, r)
            own[at : at + step] += through @ F.reshape(-1, q, r).swapaxes(1, 2)
        found = [own]
        for f, place in enumerate(self.places, 1):
            K, q = self.levels[f], self.q[f]
            at = place.start + np.arange(K * q).reshape(K, q)
            found.append(self.inverse[at[:, :, None], at[:, None, :]])
        return found

    def rows(self, levels: Sequence[np.ndarray], R: Sequence[np.ndarray]) -> np.ndarray:
        """Var Σ_f R_f z_f of m rows: aᵀVa of the rest, less 2rᵀFVa, and rᵀ(E + FVFᵀ)r of the first."""
        V, q = self.inverse, self.q[0]
        places, entries = [], []
        for f, place in enumerate(self.places, 1):
            for i in range(self.q[f]):
                known = levels[f] >= 0
                places.append(place.start + np.where(known, levels[f], 0) * self.q[f] + i)
                entries.append(np.where(known, R[f][:, i], 0.0))
        found = np.zeros(len(levels[0]))
        for i, (at, a) in enumerate(zip(places, entries, strict=True)):
            for j in range(i + 1):
                both = V[at, places[j]] * a * entries[j]
                found += both if i == j else 2 * both
        order = np.argsort(levels[0], kind="stable")
        order = order[np.searchsorted(levels[0][order], 0) :]
        own, of = np.unique(levels[0][order], return_inverse=True)  # of a part's rows few levels
        step = max(1, CHUNK // (len(V) * q))
        ends = np.searchsorted(of, np.arange(0, len(own) + step, step))
        for k, (start, stop) in enumerate(pairwise(ends)):
            n, here = order[start:stop], own[k * step : (k + 1) * step]
            F = self.F[(here[:, None] * q + np.arange(q)).ravel()]
            through = F @ V
            whole = (through.reshape(-1, q, len(V)) @ _tall(F, q)) + self.E[here]
            g, r = of[start:stop] - k * step, R[0][n]
            found[n] += np.einsum("mi,mij,mj->m", r, whole[g], r)
            for place, a in zip(places, entries, strict=True):
                for i in range(q):
                    found[n] -= 2 * r[:, i] * through[g * q + i, place[n]] * a[n]
        return found


class Drawn:
    """By draws from fixed signs, the mean of each coefficient of the rest regressed out of them, exactly."""

    def __init__(self, schur: Schur, perturbed: Perturbed):
        self.schur, self.sums = schur, schur.sums
        sums = self.sums
        size = sums.levels[0] * sums.q[0] + sums.r
        self.count = int(np.clip(KEPT // size, 24, DRAWS))
        self.error = float(np.sqrt(0.5 / self.count))  # of what is estimated alone
        first, rest = draw(schur, perturbed, self.count)
        A = self._means()
        W = schur.solve(A, ROUGHLY)
        U = -multiplied(schur.E, sums.B @ W)
        middle = np.linalg.inv(A.T @ W)
        fit = middle @ (A.T @ rest)
        root = np.linalg.cholesky((middle + middle.T) / 2) * np.sqrt(self.count)
        self.u = np.concatenate([first - U @ fit, U @ root], axis=1)
        self.v = np.concatenate([rest - W @ fit, W @ root], axis=1)

    def __getstate__(self) -> dict[str, Any]:
        """What variances of rows need, which may go where rows are, without what solves."""
        _ = self._products, self._own
        return {**self.__dict__, "schur": None, "sums": replace(self.sums)}

    @cached_property
    def _own(self) -> list[np.ndarray]:
        """Q's blocks of every level."""
        return [inverse(self.schur.E), *self.schur.own]

    def _means(self) -> np.ndarray:
        """Sums of each coefficient over the levels of the rest's factors, weighted by K, (r, Σq)."""
        A = np.zeros((self.sums.r, sum(self.sums.q[1:])))
        at = 0
        for place, K in zip(self.sums.places, self.schur.K, strict=True):
            for i in range(K.shape[1]):
                A[place, at] = K[:, :, i].reshape(-1)
                at += 1
        return A

    def blocks(self) -> list[np.ndarray]:
        """Of every level: given the other levels of its factor, and what that mean varies."""
        sums, schur = self.sums, self.schur
        moved = schur.S(self.v)
        rest, noise = [], []
        for f, place in enumerate(sums.places, 1):
            own, q = inverse(schur.K[f - 1]), sums.q[f]
            left = self.v[place] - multiplied(own, moved[place])
            rest.append(own + self._square(left, q))
            noise.append(self._noise(left.reshape(-1, q, left.shape[1]) ** 2))
        first, its_noise = self._first(rest)
        found = [first, *rest]
        shares = zip([its_noise, *noise], map(_diagonal, found), strict=True)
        self.error = float(max(np.sqrt(np.mean(v / (2 * own) ** 2)) for v, own in shares))
        return found

    def _first(self, rest: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The first factor's: the second integrated out, given all other levels; and its variances' noise."""
        sums, schur = self.sums, self.schur
        cells, place = sums.cells[0, 1], sums.places[0]
        own = inverse(schur.own[0])
        C = cells.C.swapaxes(1, 2)
        inner = np.empty_like(schur.E)
        through = C.swapaxes(1, 2) @ own[cells.second] @ C
        q = sums.q[0]
        for i in range(q):
            for j in range(q):
                inner[:, i, j] = np.bincount(cells.first, through[:, i, j], sums.levels[0])
        conditional = inverse(inverse(schur.E) - inner)
        # row g of Q after the second factor is eliminated, times the draws
        others = self.v.copy()
        others[place] = 0.0
        by_second = sums.Bt @ self.u
        if sums.across is not None:
            by_second = by_second + sums.across @ others
        others[place] = -multiplied(own, by_second[place])
        moved = multiplied(inverse(schur.E), self.u) + sums.B @ others
        left = self.u - multiplied(conditional, moved)
        found = conditional + self._square(left, q)
        noise = self._noise(left.reshape(-1, q, left.shape[1]) ** 2)
        for f in range(1, len(sums.levels)):
            self._within(f, rest[f - 1], found, noise)
        return found, noise

    def _within(self, f: int, parents: np.ndarray, found: np.ndarray, noise: np.ndarray) -> None:
        """Levels within a single level p of factor f: E + F Var(v_p) Fᵀ with F = EC, put into `found`.

        What further factors add to that is drawn, where its noise is less than that of `found`.
        """
        sums, cells, E = self.sums, self.sums.cells[0, f], self.schur.E
        one = np.bincount(cells.first, minlength=sums.levels[0])[cells.first] == 1
        g, parent = cells.first[one], cells.second[one]
        F = E[g] @ cells.C[one]
        mean = _of_levels(-multiplied(E, sums.B @ self.v), g, sums.q[0])
        own = -F @ _of_levels(self.v[sums.places[f - 1]], parent, sums.q[f])
        less = self._noise(mean**2 - own**2)
        if less.sum() < noise[g].sum():
            added = mean @ mean.swapaxes(1, 2) - own @ own.swapaxes(1, 2)
            found[g] = E[g] + F @ parents[parent] @ F.swapaxes(1, 2) + added / self.count
            noise[g] = less

    def _noise(self, squares: np.ndarray) -> np.ndarray:
        """Variances of the mean over draws of what each adds to variances, squares (K, q, P), (K, q)."""
        return squares[:, :, : self.count].var(2) / self.count

    def _square(self, left: np.ndarray, q: int) -> np.ndarray:
        """The mean over draws of outer products, (K, q, q)."""
        if q == 1:
            return np.einsum("kp,kp->k", left, left)[:, None, None] / self.count
        shaped = left.reshape(-1, q, left.shape[1])
        return shaped @ shaped.swapaxes(1, 2) / self.count

    @cached_property
    def _products(self) -> tuple[np.ndarray, np.ndarray]:
        """Q times the draws, in its two parts."""
        sums, schur = self.sums, self.schur
        first = multiplied(inverse(schur.E), self.u) + sums.B @ self.v
        rest = sums.Bt @ self.u
        for place, own in zip(sums.places, schur.own, strict=True):
            rest[place] += multiplied(own, self.v[place])
        if sums.across is not None:
            rest += sums.across @ self.v
        return first, rest

    def rows(self, levels: Sequence[np.ndarray], R: Sequence[np.ndarray]) -> np.ndarray:
        """Var Σ_f R_f z_f of m rows: given all levels but the row's own, and what that mean varies."""
        sums = self.sums
        sizes = np.cumsum([0, *sums.q])
        m, total = len(levels[0]), int(sizes[-1])
        parts = [slice(a, b) for a, b in pairwise(sizes)]
        found = np.empty(m)
        step = max(1, CHUNK // (total * self.u.shape[1]))
        Q = self._own
        for at in range(0, m, step):
            here = slice(at, min(at + step, m))
            k = here.stop - here.start
            H = np.zeros((k, total, total))
            r, w, Qw = np.zeros((k, total)), *np.zeros((2, k, total, self.u.shape[1]))
            for f, part in enumerate(parts):
                known = levels[f][here] >= 0
                level = np.where(known, levels[f][here], 0)
                H[:, part, part] = np.where(known[:, None, None], Q[f][level], np.eye(sums.q[f]))
                r[:, part] = np.where(known[:, None], R[f][here], 0.0)
                values, products = (
                    (self.u, self._products[0])
                    if f == 0
                    else (self.v[sums.places[f - 1]], self._products[1][sums.places[f - 1]])
                )
                mask = known[:, None, None]
                w[:, part] = np.where(mask, _of_levels(values, level, sums.q[f]), 0.0)
                Qw[:, part] = np.where(mask, _of_levels(products, level, sums.q[f]), 0.0)
                for g in range(f):
                    C = self._between(g, f, levels[g][here], levels[f][here])
                    H[:, parts[g], part] = C
                    H[:, part, parts[g]] = C.swapaxes(1, 2)
            Hr = np.linalg.solve(H, r[:, :, None])[:, :, 0]
            mean = np.einsum("mi,mip->mp", r, w) - np.einsum("mi,mip->mp", Hr, Qw)
            found[here] = np.einsum("mi,mi->m", r, Hr) + (mean**2).sum(1) / self.count
        return found

    def _between(self, a: int, b: int, one: np.ndarray, two: np.ndarray) -> np.ndarray:
        """C of pairs of levels, zero where a pair has no rows or a level is new, (m, q, q′)."""
        cells, K = self.sums.cells[a, b], self.sums.levels[b]
        keys = cells.first.astype(np.int64) * K + cells.second
        asked = one.astype(np.int64) * K + two
        at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        found = (keys[at] == asked) & (one >= 0) & (two >= 0)
        return np.where(found[:, None, None], cells.C[at], 0.0)


def _diagonal(blocks: np.ndarray) -> np.ndarray:
    return np.diagonal(blocks, axis1=1, axis2=2)


def _of_levels(values: np.ndarray, levels: np.ndarray, q: int) -> np.ndarray:
    """Rows of (Kq, P) by level, (m, q, P)."""
    return values.reshape(-1, q, values.shape[1])[levels]


def _tall(F: sp.csr_array, q: int) -> np.ndarray:
    """Rows of sparse F (Kq, r) as the columns of each level, (K, r, q)."""
    return F.toarray().reshape(-1, q, F.shape[1]).swapaxes(1, 2)
