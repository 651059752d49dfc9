"""What a best Gaussian q(w) given the precisions offers, however it was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...errors import InvalidData, NotAMaximum
from .arrow import Arrow, Blocks, Prior, Separate
from .incidence import Vector
from .layout import Layout


class BestGaussian(Protocol):
    """The optimum: what a value, a gradient and tangents are made of."""

    @property
    def mu(self) -> Vector:
        """Means."""

    @property
    def Sigma(self) -> Arrow | Separate:
        """Covariance under q."""

    @property
    def M(self) -> Arrow:
        """The inverse Hessian of the means."""

    @property
    def value(self) -> float:
        """Σ_n ℓ."""

    @property
    def scale(self) -> float:
        """Σ_n ∂ℓ/∂s."""


class Tangent(NamedTuple):
    """δμ, the change of Σ's blocks, of Σ_n ∂ℓ/∂s, and of the rows' variances where they matter."""

    mu: Vector
    blocks: Blocks
    scale: float
    v: np.ndarray | None = None


class NoOptimum(InvalidData):
    """There is no best Gaussian given the precisions, or it was not found."""

    def __init__(self) -> None:
        super().__init__(
            "The coefficients have no finite optimum, even with the precisions held fixed. Rescale "
            "columns with very large values, check the offset, and look for fixed effects that the "
            "data leave undetermined; a proper prior such as "
            "priors={'fixed': lrvb.prior.Normal(0, 10)} helps."
        )


class NoResponse(NotAMaximum):
    """The best Gaussian exists, but what moves it a little moves it without end."""

    def __init__(self) -> None:
        super().__init__(
            "The coefficients' response does not settle: the rows' variances and weights drive each "
            "other. Levels with very few rows and a wide prior do that; state a prior with larger "
            "precisions of the random effects, or put the smallest levels together."
        )


class RowsGiven(Protocol):
    """Rows whose best Gaussian can be found: `LeastSquares`, or `Reweighted` for any likelihood."""

    @property
    def layout(self) -> Layout:
        """The rows' incidence with the coefficients."""

    @property
    def masks(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Which blocks of w share a factor; None: all, jointly."""

    def solve(
        self, prior: Prior, pull: Vector, s: float, start: Any = None, tol: float | None = None
    ) -> BestGaussian:
        """The best q(w) under the log prior −½wᵀPw + pullᵀw, or `NoOptimum`; `start` is one nearby.

        To `tol`, relative in variances and in sds of means: as well as numbers allow without.
        """

    def extrapolate(self, best: Any, steps: Sequence[tuple[float, Tangent]]) -> Any:
        """A start: where the best Gaussian will be after steps along its tangents."""

    def combined(
        self, parts: Sequence[tuple[float, Any]], steps: Sequence[tuple[float, Tangent]]
    ) -> Any:
        """A start: Σ of weights, which add to one, times best Gaussians, and of steps from the first.

        The last is the nearest, and the start where that is too far from it.
        """

    def tangent(
        self,
        best: Any,
        b: Vector,
        change: Prior | None,
        ds: float,
        guess: np.ndarray | None = None,
    ) -> Tangent:
        """The response to a tilt b of the means' equation, to δP = `change`, and to δs, or `NoResponse`.

        `guess` is a δv to start from, such as that of a point nearby.
        """

    def conditional(self, best: Any, prior: Prior) -> Blocks:
        """Σ̂_w|α in the blocks that rows touch, or `NoResponse`."""
