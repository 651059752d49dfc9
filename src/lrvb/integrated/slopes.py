"""Two effects a level, any likelihood: each level's pair is summed out on a grid of its own.

The grid is a product in the whitened coordinates e of the level's mode, z = ẑ + Ce with CCᵀ the inverse
curvature there, within a box outside of which the log integrand has fallen far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import InvalidModel
from .box import find_side
from .factor import Factor
from .factor_density import MANY, Ends, Step
from .lines import CHUNK, FLOOR, Line, spline_weights
from .regression import Regression, lifted
from .row_sums import Plane, RowSums
from .terms import Term

_TINY = np.finfo(float).tiny
_ALIKE = 1e-9  # of a column's size, what is left of X_g − R_g A_g


def first_nodes(rows: int) -> int:
    """How many an axis are tried first."""
    return 17 if rows < MANY else 9


class Slopes(Factor):
    """θ = (β, the terms' covariance, dispersions): one factor's pairs of effects summed out.

    terms are one with two correlated effects, or two with one each, independent, of the same factor.
    """

    ladder = (7, 9, 11, 13, 17, 21, 25, 31, 41, 61, 81, 121)

    def __init__(self, rows: Regression, terms: Sequence[Term], merge: bool = True, nodes: int = 0):
        effects = sum(term.q for term in terms)
        if effects != 2:
            raise InvalidModel(f"Sums over two effects a level were given {effects}.")
        super().__init__(rows, terms, merge, nodes or first_nodes(len(terms[0].codes)))

    def on(self, rows: Regression, terms: Sequence[Term]) -> Slopes:
        """The same sums of other rows and levels."""
        return Slopes(rows, terms)

    def within_groups(self, size: np.ndarray | None = None) -> np.ndarray | None:
        """A (G, q, p) with X_g = R_g A_g in every group; None where there is none.

        size (p,) is what is small beside columns of X: their largest |x|, if it is not given.
        """
        X, R, groups = self.rows.X, self.R, self.groups
        A = np.empty((self.G, self.q, self.p))
        size = np.abs(X).max(0, initial=0.0) if size is None else size
        for block in groups.blocks(self.p + self.q):
            there = block.there[..., None]
            r, x = np.where(there, R[block.rows], 0.0), np.where(there, X[block.rows], 0.0)
            A[block.groups] = np.linalg.pinv(r) @ x
            if np.any(np.abs(x - r @ A[block.groups]) > _ALIKE * size):
                return None
        return A

    def at_nodes(self, center: np.ndarray, away: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Σ log p of each group's rows at η = R(center + v), of its own v (K, q) in `away`; center (G, q)."""
        rows, found = self.rows, []
        phi = lifted(rows.phi(np.empty((1, 0))), 1)
        for first, size, w, v in zip(
            self.groups.starts, self.groups.sizes, center, away, strict=True
        ):
            at = slice(first, first + size)
            eta = rows.offset[at][:, None] + self.R[at] @ (w + v).T
            columns = tuple(column[at][:, None] for column in rows.columns)
            found.append(np.asarray(rows.likelihood.log_p(columns, eta, phi)).sum(0))
        return found

    def _step(self, sums: RowSums, precision: np.ndarray, z: np.ndarray) -> Step:
        """At most 2.5 sds, or one unit of η where sds are smaller."""
        gradient, H = sums.slopes(z)
        gradient = gradient - z @ precision
        H = H + precision[:, None]
        C = _inverse_root(H, precision)
        white = (gradient[..., None, :] @ C)[..., 0, :]
        length = np.sqrt((white**2).sum(-1))
        most = 2.5 + self.rows.unit * np.sqrt(H[..., 0, 0] + H[..., 1, 1])
        short = white * np.minimum(1.0, most / (length + 1e-300))[..., None]
        return Step((C @ short[..., None])[..., 0], length, C, gradient)

    def _search(
        self, sums: RowSums, precision: np.ndarray, z: np.ndarray, C: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The box in e; on each side the other coordinate follows its own maximum."""
        sides = np.empty((2, *z.shape))
        for which, sign in enumerate((-1.0, 1.0)):
            for axis in (0, 1):
                sides[which, ..., axis] = find_side(sums, precision, z, C, axis, sign, self.drop)
        return sides[0], sides[1]

    def _heights(
        self, sums: RowSums, precision: np.ndarray, ends: Ends
    ) -> tuple[Plane, np.ndarray]:
        """On a product grid for each group."""
        place = np.linspace(0, 1, self.nodes)
        e = ends.low[..., None] + (ends.high - ends.low)[..., None] * place  # (n, G, 2, Q)
        z, C = ends.z, ends.C
        first = z[..., 0, None] + C[..., 0, 0, None] * e[:, :, 0]
        across = z[..., 1, None] + C[..., 1, 0, None] * e[:, :, 0]
        along = C[..., 1, 1, None] * e[:, :, 1]
        plane = Plane(first, across, along)
        f = sums.plane(plane)
        # zᵀΛz with z₂ = across + along: of the first axis, of the second, and their product
        a, b, c = (precision[:, i, j, None, None] for i, j in ((0, 0), (0, 1), (1, 1)))
        f -= (a * first**2 / 2 + (b * first + c * across / 2) * across)[..., None]
        f -= (c * along**2 / 2)[:, :, None, :]
        f -= (b * first + c * across)[..., None] * along[:, :, None, :]
        return plane, f

    def _nodes(self, grid: Plane) -> np.ndarray:
        """The nodes of a grid, (n, G, Q², 2)."""
        n, G, Q = grid.first.shape
        Z = np.empty((n, G, Q, Q, 2))
        Z[..., 0] = grid.first[..., None]
        Z[..., 1] = grid.across[..., None] + grid.along[:, :, None, :]
        return Z.reshape(n, G, -1, 2)

    def _moments(self, grid: Plane, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Σ P z (n, G, 2) and Σ P of z₁², z₂², z₁z₂ (n, G, 3), from sums over one axis at a time."""
        first, across, along = grid
        by_first, by_second = P.sum(3), P.sum(2)
        moved = (P @ along[..., None])[..., 0]  # Σ over the second axis of P · along
        m1 = np.stack([by_first * first, by_first * across + moved], axis=-1).sum(2)
        squares = np.stack(
            [
                by_first * first**2,
                (by_first * across + 2 * moved) * across + by_second * along**2,
                (by_first * across + moved) * first,
            ],
            axis=-1,
        )
        return m1, squares.sum(2)

    def _draw(
        self, grid: Plane, P: np.ndarray, which: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Along the first axis by the sums over the second, then along the second there."""
        Q, size = grid.first.shape[2], len(which)
        flat = P.reshape(-1, Q, Q)
        first = Line(np.log(np.maximum(flat.sum(2), _TINY))).draw(which, rng.random(size))
        log_p = np.log(np.maximum(flat, _TINY))
        log_p = np.maximum(log_p, log_p.max((1, 2), keepdims=True) - 2 * FLOOR)
        second, few = np.empty(size), max(1, CHUNK // Q)
        for start in range(0, size, few):
            here = slice(start, start + few)
            weights = spline_weights(first[here], Q)
            across = np.einsum("ki,kij->kj", weights, log_p[which[here]], optimize=True)
            own = np.arange(len(across))
            second[here] = Line(across).draw(own, rng.random(len(own)))

        def between(part: np.ndarray, place: np.ndarray) -> np.ndarray:
            nodes = part.reshape(-1, Q)[which, :2]
            return nodes[:, 0] + (nodes[:, 1] - nodes[:, 0]) * place

        moved = between(grid.across, first) + between(grid.along, second)
        return np.column_stack([between(grid.first, first), moved])


def _inverse_root(H: np.ndarray, floor: np.ndarray) -> np.ndarray:
    """Lower C with CCᵀ = H⁻¹ (n, G, 2, 2); where H is not positive definite, of the prior's alone."""
    det = H[..., 0, 0] * H[..., 1, 1] - H[..., 0, 1] ** 2
    bad = (det <= 0) | (H[..., 0, 0] <= 0)
    if bad.any():
        H = np.where(bad[..., None, None], floor[:, None], H)
        det = np.where(bad, (H[..., 0, 0] * H[..., 1, 1] - H[..., 0, 1] ** 2), det)
    C = np.zeros_like(H)
    C[..., 0, 0] = np.sqrt(H[..., 1, 1] / det)
    C[..., 1, 0] = -H[..., 0, 1] / np.sqrt(H[..., 1, 1] * det)
    C[..., 1, 1] = 1 / np.sqrt(H[..., 1, 1])
    return C
