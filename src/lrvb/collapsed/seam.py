r"""The seam between the engine and what is integrated out: four questions about m, and two about points.

The solver, the response and the posterior ask for the collapsed value L̄(m), its gradient, its curvature
H̃ (α×α), and on request the response of the collapsed variables z: their mean, V under q, Σ̂_z|α and
R = Σ̂_z|α H_zα = ∂m_z/∂m. From these alone Cov(z, α) = RΣ̂_α and Cov(z) = Σ̂_z|α + RΣ̂_αRᵀ follow
(`numerics.algebra.local_covariance`). Row sums by autodiff, by Gram matrices and over partitions, and the
Gaussian block of a mixed model, are implementations of it. See: eq:nuisance_lrvb_est

A plate is asked for rows: z are the statistics of one row. The Gaussian block is asked for linear
functionals cᵀw of its coefficients: fitted rows, new rows, a level's coefficient, β. Both answer with the
same type. Nothing remembers: `evaluate` returns with its sums a state, from which a question about a
point nearby may start; answers do not depend on it beyond the tolerance of an inner optimum.

The second order asks how the curvature changes (`bends`), and for the `gaps`: what the best q(z) of its
family leaves out of the evidence, and how that changes. The
certificate asks for `density`: the collapsed value at many points at once. At the point moments
m = T(α) and with rows linear in z it is Σ_n log ∫ p(x_n, z | α) dz exactly; otherwise a lower bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..errors import LrvbError
from ..statement.problem import Problem

SMALL = 100  # up to this many global coordinates the curvature costs less than another compilation


class CollapsedSums(NamedTuple):
    """Collapsed value, gradient (a,) and curvature H̃ (a, a) at m, and the state reached there.

    Where there is no value it is −inf: `failed` is the first row at fault, or −1, and `error` says
    why where that is known.
    """

    value: float
    gradient: np.ndarray
    curvature: np.ndarray | None
    failed: int = -1
    state: Any = None
    error: LrvbError | None = None


class LocalResponse(NamedTuple):
    """Of n rows or functionals: m_z (n, d), V_z (n, d, d), Σ̂_z|α (n, d, d) and R (n, d, a)."""

    z: np.ndarray
    V: np.ndarray
    Sigma: np.ndarray
    R: np.ndarray


class Densities(NamedTuple):
    """Collapsed values (S,) at S points, −inf where there is none, and where asked for gradients (S, a)."""

    value: np.ndarray
    gradient: np.ndarray | None = None

    def __add__(self, other: Any) -> Densities:
        """The sum over two sets of rows."""
        if self.gradient is None or other.gradient is None:
            return Densities(self.value + other.value)
        return Densities(self.value + other.value, self.gradient + other.gradient)


class LocalSum(Protocol):
    """A way to integrate out; `bind` it to a problem and a chunk size."""

    def bind(self, problem: Problem, chunk_size: int | None = None) -> BoundSum:
        """The sum over this problem's rows."""


class BoundSum(Protocol):
    """The questions about m. A `state` is that of m or of a point near by: where searches begin."""

    def evaluate(self, m: np.ndarray, order: int = 2, state: Any = None) -> CollapsedSums:
        """Value and gradient, and with `order=2` the curvature."""

    def respond(
        self, m: np.ndarray, asked: Any = None, state: Any = None
    ) -> Iterator[LocalResponse]:
        """The collapsed variables and their response, chunk by chunk: of all rows, or of those asked for.

        `asked` are positions of rows; of the Gaussian block, `Functionals` of the coefficients.
        """

    def density(self, points: np.ndarray, gradient: bool = False) -> Densities:
        """Values, and with `gradient=True` gradients, at many m (S, a)."""

    def bends(
        self, m: np.ndarray, R: np.ndarray, state: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """∂ tr(RRᵀH̃)/∂m (a,), how the curvature changes for a fixed R (a, k); and the gaps' slopes.

        Those are derivatives along the columns of R, (k,).
        """

    def gaps(self, points: np.ndarray) -> np.ndarray:
        """log ∫ exp ℓ(m, T(z)) dz less the collapsed value, at many m (S, a): zero where linear in z."""

    def gap_bends(
        self, m: np.ndarray, velocity: np.ndarray, turn: np.ndarray, state: Any = None
    ) -> np.ndarray:
        """The second derivative (k,) of the gaps along curves with these m′ and m″ (k, a), in sds."""
