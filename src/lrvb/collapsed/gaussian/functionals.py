r"""Linear functionals cᵀw of the coefficients: what the Gaussian block is asked for.

Fitted rows, new rows, a coefficient of every level and β are all of this kind. Given the response of w,
z = cᵀμ, V = cᵀΣc, Σ̂_z|α = cᵀΣ̂_w|α c and R = cᵀ∂μ/∂m.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..seam import LocalResponse
from .arrow import Blocks
from .incidence import Incidence, Vector


class Functionals(NamedTuple):
    """The vectors (c_nᵀw, β) of n functionals, or without one of the two parts.

    `rows` None is β alone, a single vector; with `fixed` False it is left out.
    """

    rows: Incidence | None
    fixed: bool = False


class CoefficientResponse(NamedTuple):
    """The Gaussian factor of w and its response: μ, Σ, Σ̂_w|α, and R = ∂μ/∂m.

    Matrices are known in the blocks that rows touch. `fixed` (p,) are the columns Cov(w, b_j | α) of
    Σ̂_w|α, exact where `Sigma` leaves something out. `R` has the flat coordinates of m that move μ,
    out of `size`.
    """

    mu: Vector
    V: Blocks
    Sigma: Blocks
    fixed: tuple[Vector, ...]
    R: Mapping[int, Vector]
    size: int

    def of(self, asked: Functionals) -> LocalResponse:
        """z (n, d), V and Σ̂ (n, d, d), R (n, d, a) with d = 1, p, or 1 + p."""
        rows, p = asked.rows, len(self.fixed) if asked.fixed else 0
        first = int(rows is not None)
        n, d = 1 if rows is None else len(rows.X), first + p
        z, V, Sigma = np.empty((n, d)), np.empty((n, d, d)), np.empty((n, d, d))
        R = np.zeros((n, d, self.size))
        if rows is not None:
            z[:, 0] = rows.forward(self.mu)
            V[:, 0, 0], Sigma[:, 0, 0] = rows.quadratic(*self.V), rows.quadratic(*self.Sigma)
            for a, r in self.R.items():
                R[:, 0, a] = rows.forward(r)
            for j in range(p):
                V[:, 0, 1 + j] = V[:, 1 + j, 0] = rows.forward(column(self.V, j))
                Sigma[:, 0, 1 + j] = Sigma[:, 1 + j, 0] = rows.forward(self.fixed[j])
        z[:, first:] = self.mu.rest[:p]
        V[:, first:, first:] = self.V.Zrr[:p, :p]
        for j in range(p):
            Sigma[:, first:, first + j] = self.fixed[j].rest[:p]
        for a, r in self.R.items():
            R[:, first:, a] = r.rest[:p]
        return LocalResponse(z, V, Sigma, R)

    def with_conditional(self, Sigma: Blocks) -> CoefficientResponse:
        """The same with another Σ̂_w|α, whose difference moves the columns of β as well."""
        fixed = tuple(
            w + column(Sigma, j) - column(self.Sigma, j) for j, w in enumerate(self.fixed)
        )
        return self._replace(Sigma=Sigma, fixed=fixed)


def column(Z: Blocks, j: int) -> Vector:
    """Column j of the rest, of a matrix over w."""
    return Vector(Z.Z1r[:, j].reshape(Z.Z11.shape[:2]), Z.Zrr[:, j])
