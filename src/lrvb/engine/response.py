"""Step 4: the linear-response covariance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidModel
from ..numerics.algebra import gram, linear_response
from ..numerics.double import in_double
from ..statement.meanfield import MeanField, Moments
from .curvature import Curvature
from .fitting import Fit
from .functions import covariance, covariance_of


@dataclass(frozen=True)
class Response:
    """Σ̂ of the global statistics (a, a), beside the mean-field V = CCᵀ."""

    fit: Fit
    C: np.ndarray
    Sigma: np.ndarray

    @property
    def m(self) -> np.ndarray:
        """Flat mean parameters m*."""
        return self.fit.m

    @property
    def eta(self) -> np.ndarray:
        """Flat natural parameters η*."""
        return self.fit.eta

    @property
    def V(self) -> np.ndarray:
        """Covariance of q*: the mean-field answer."""
        return gram(self.C)

    @property
    def alpha(self) -> MeanField:
        """The product of the global blocks."""
        return self.fit.alpha

    @property
    def family_coordinates(self) -> np.ndarray:
        """All coordinates: every block is a family's."""
        return np.arange(self.alpha.size)

    def moments(self, m: Any) -> Moments:
        """Named moments of a flat vector."""
        return self.alpha.moments(m)

    def covariance(self, method: str = "lrvb") -> np.ndarray:
        """Σ̂ for "lrvb", V for "mfvb"."""
        return covariance(self, method)

    def of(
        self, f: Callable[[Any], Any], g: Callable[[Any], Any] | None = None, method: str = "lrvb"
    ) -> Any:
        r"""Covariance ∇fᵀ Σ̂ ∇g of quantities with E_q[φ] = f(m) and E_q[γ] = g(m).

        f and g map named moments to a number or an array; the result has the shape of f's value
        followed by that of g's, a float when both are numbers. Without g it is f's own covariance.
        See: app:function_covariance
        """
        return covariance_of(self, f, g, method)


@in_double
def respond(curvature: Curvature) -> Response:
    r"""Σ̂ = dm*/dt of the posterior tilted by tᵀθ: the linear-response estimate of Cov θ.

    Paper: eq:lrvb_derivative_defn
    """
    if not isinstance(curvature, Curvature):
        raise InvalidModel(
            f"respond takes the curvature that lrvb.linearize returns, not a {type(curvature).__name__}."
        )
    Sigma = linear_response(curvature.C, curvature.H, curvature.K)
    return Response(curvature.fit, curvature.C, Sigma)
