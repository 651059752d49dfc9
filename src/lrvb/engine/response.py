"""Step 4: the linear-response covariance, and covariances of functions of the moments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..errors import InvalidModel, LrvbError
from ..numerics.algebra import linear_response
from ..numerics.double import in_double
from ..statement.meanfield import MeanField
from .curvature import Curvature
from .fitting import Fit


@dataclass(frozen=True)
class Response:
    """Σ̂ of the global statistics (a, a), beside the mean-field V = CCᵀ."""

    fit: Fit
    C: np.ndarray
    Sigma: np.ndarray

    @property
    def V(self) -> np.ndarray:
        """Covariance of q*: the mean-field answer."""
        return self.C @ self.C.T

    @property
    def alpha(self) -> MeanField:
        """The product of the global blocks."""
        return self.fit.alpha

    def covariance(self, method: str = "lrvb") -> np.ndarray:
        """Σ̂ for "lrvb", V for "mfvb"."""
        if method == "lrvb":
            return self.Sigma
        if method == "mfvb":
            return self.V
        raise InvalidModel(f"method={method!r} must be 'lrvb' or 'mfvb'.")

    @in_double
    def of(
        self, f: Callable[[Any], Any], g: Callable[[Any], Any] | None = None, method: str = "lrvb"
    ) -> Any:
        r"""Covariance ∇fᵀ Σ̂ ∇g of quantities with E_q[φ] = f(m) and E_q[γ] = g(m).

        f and g map named moments to a number or an array; the result has the shape of f's value
        followed by that of g's, a float when both are numbers. Without g it is f's own covariance.
        Exact when the variational means follow the tilted posterior's exactly.
        Paper: app:function_covariance, lem:theta_function_covariance
        """
        J_f, shape_f = self._jacobian(f)
        J_g, shape_g = (J_f, shape_f) if g is None else self._jacobian(g)
        result = (J_f @ self.covariance(method) @ J_g.T).reshape((*shape_f, *shape_g))
        return float(result) if result.ndim == 0 else result

    @in_double
    def of_natural(self, g: Callable[[Any], Any], method: str = "lrvb") -> Any:
        r"""Covariance of quantities whose expectation g is known in natural parameters.

        E_q[φ] = g(η) has ∂g/∂m = ∂g/∂η V⁻¹. g maps a mapping of blocks to natural parameters to a
        number or an array; the result is as for `of`. See: app:function_covariance
        """

        def of_flat(eta: Any) -> Any:
            return jnp.asarray(g(self.alpha.natural(eta)), dtype=jnp.float64)

        J_eta = np.asarray(jax.jacrev(of_flat)(jnp.asarray(self.fit.eta)))
        shape = J_eta.shape[:-1]
        J = self.in_means(J_eta.reshape(-1, J_eta.shape[-1]))
        result = (J @ self.covariance(method) @ J.T).reshape((*shape, *shape))
        return float(result) if result.ndim == 0 else result

    def in_means(self, J_eta: np.ndarray) -> np.ndarray:
        """The Jacobian in m from that in η, both (p, a): J_η V⁻¹, block by block."""
        J = np.zeros_like(J_eta)
        for _, _, here in self.alpha.parts():
            if J_eta[:, here].any():
                V = self.C[here, here] @ self.C[here, here].T
                J[:, here] = np.linalg.solve(V, J_eta[:, here].T).T
        return J

    @in_double
    def at_moments(self, f: Callable[[Any], Any]) -> np.ndarray:
        """f(m*) for a function of named moments."""
        return np.asarray(f(self.alpha.moments(jnp.asarray(self.fit.m))))

    @in_double
    def at_natural(self, g: Callable[[Any], Any]) -> np.ndarray:
        """g(η*) for a function of named natural parameters."""
        return np.asarray(g(self.alpha.natural(jnp.asarray(self.fit.eta))))

    def _jacobian(self, f: Callable[[Any], Any]) -> tuple[np.ndarray, tuple[int, ...]]:
        """The Jacobian of f at m*, (p, a), and the shape of f's value."""

        def of_flat(m: Any) -> tuple[Any, Any]:
            value = jnp.asarray(f(self.alpha.moments(m)))
            if value.dtype == bool or jnp.issubdtype(value.dtype, jnp.complexfloating):
                raise TypeError(f"its value is of type {value.dtype}, not a real number")
            return value.astype(jnp.float64), value

        try:
            J, value = map(np.asarray, jax.jacrev(of_flat, has_aux=True)(jnp.asarray(self.fit.m)))
        except LrvbError:
            raise
        except Exception as error:
            first = str(error).partition("\n")[0].rstrip(".")[:200]
            raise InvalidModel(
                f"The function cannot be differentiated ({type(error).__name__}: {first}). Write it "
                "with the model's moments and jax.numpy, and return a number or an array."
            ) from error
        if not (np.isfinite(value).all() and np.isfinite(J).all()):
            raise InvalidModel(
                "The function or its derivative is not finite at the posterior's moments. Check for "
                "logarithms, roots or divisions of zero or of negative numbers."
            )
        shape = J.shape[:-1]
        return J.reshape(-1, J.shape[-1]), shape


@in_double
def respond(curvature: Curvature) -> Response:
    r"""Σ̂ = dm*/dt of the posterior tilted by tᵀθ: the linear-response estimate of Cov θ.

    Paper: eq:lrvb_derivative_defn
    """
    Sigma = linear_response(curvature.C, curvature.H, curvature.K)
    return Response(curvature.fit, curvature.C, Sigma)
