"""Covariances of functions: of moments, and of expectations known in natural parameters.

They ask only for m, V, Σ̂ and names, so that they serve the engine's response and every estimate alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..errors import InvalidModel, LrvbError
from ..numerics.double import in_double
from ..numerics.lazy import jax, jnp
from ..statement.meanfield import MeanField, Moments


class Estimated(Protocol):
    """Statistics with mean m (a,), mean-field covariance V and linear-response covariance Σ̂ (a, a)."""

    @property
    def m(self) -> np.ndarray:
        """Means."""

    @property
    def V(self) -> np.ndarray:
        """Covariance of q*."""

    @property
    def Sigma(self) -> np.ndarray:
        """Linear-response covariance."""

    def moments(self, m: Any) -> Moments:
        """Named moments of a flat vector."""

    @property
    def alpha(self) -> MeanField:
        """The product of the families among the blocks."""

    @property
    def eta(self) -> np.ndarray:
        """Their natural parameters."""

    @property
    def family_coordinates(self) -> np.ndarray:
        """Where the families' coordinates are among all."""


def covariance(q: Estimated, method: str = "lrvb") -> np.ndarray:
    """Σ̂ for "lrvb", V for "mfvb"."""
    if method == "lrvb":
        return q.Sigma
    if method == "mfvb":
        return q.V
    raise InvalidModel(f"method={method!r} must be 'lrvb' or 'mfvb'.")


@in_double
def covariance_of(
    q: Estimated,
    f: Callable[[Any], Any],
    g: Callable[[Any], Any] | None = None,
    method: str = "lrvb",
) -> Any:
    r"""Covariance ∇fᵀ Σ̂ ∇g of quantities with E_q[φ] = f(m) and E_q[γ] = g(m).

    f and g map named moments to a number or an array; the result has the shape of f's value
    followed by that of g's, a float when both are numbers. Without g it is f's own covariance.
    Exact when the variational means follow the tilted posterior's exactly.
    Paper: app:function_covariance, lem:theta_function_covariance
    """
    J_f, shape_f = _jacobian(q, f)
    J_g, shape_g = (J_f, shape_f) if g is None else _jacobian(q, g)
    result = (J_f @ covariance(q, method) @ J_g.T).reshape((*shape_f, *shape_g))
    return float(result) if result.ndim == 0 else result


@in_double
def covariance_of_natural(q: Estimated, g: Callable[[Any], Any], method: str = "lrvb") -> Any:
    r"""Covariance of quantities whose expectation g is known in natural parameters.

    E_q[φ] = g(η) has ∂g/∂m = ∂g/∂η V⁻¹. g maps a mapping of blocks to natural parameters to a
    number or an array; the result is as for `covariance_of`. See: app:function_covariance
    """

    def of_flat(eta: Any) -> Any:
        return jnp.asarray(g(q.alpha.natural(eta)), dtype=jnp.float64)

    J_eta = np.asarray(jax.jacrev(of_flat)(jnp.asarray(q.eta)))
    shape = J_eta.shape[:-1]
    J = in_means(q, J_eta.reshape(-1, J_eta.shape[-1]))
    result = (J @ covariance(q, method) @ J.T).reshape((*shape, *shape))
    return float(result) if result.ndim == 0 else result


def in_means(q: Estimated, J_eta: np.ndarray) -> np.ndarray:
    """The Jacobian in m (p, a) from that in the families' η: J_η V⁻¹, block by block."""
    V, at = q.V, q.family_coordinates
    J = np.zeros((len(J_eta), len(q.m)))
    for _, _, here in q.alpha.parts():
        if J_eta[:, here].any():
            block = V[np.ix_(at[here], at[here])]
            J[:, at[here]] = _solved(block, J_eta[:, here])
    return J


def _solved(V: np.ndarray, J_eta: np.ndarray) -> np.ndarray:
    """J_η V⁻¹, in units of V's own sds, so that large and small statistics do not hide each other."""
    sd = np.sqrt(np.diag(V))
    try:
        scaled = np.linalg.solve(V / np.outer(sd, sd), (J_eta / sd).T)
    except np.linalg.LinAlgError as error:
        raise InvalidModel(
            "The covariance of a block's statistics under q is singular to working precision, so that "
            "functions of its natural parameters have no sd; rescale the data, or use draws."
        ) from error
    return scaled.T / sd


@in_double
def at_natural(q: Estimated, g: Callable[[Any], Any]) -> np.ndarray:
    """g(η*) for a function of named natural parameters."""
    return np.asarray(g(q.alpha.natural(jnp.asarray(q.eta))))


def _jacobian(q: Estimated, f: Callable[[Any], Any]) -> tuple[np.ndarray, tuple[int, ...]]:
    """The Jacobian of f at m*, (p, a), and the shape of f's value."""

    def of_flat(m: Any) -> tuple[Any, Any]:
        value = jnp.asarray(f(q.moments(m)))
        if value.dtype == bool or jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise TypeError(f"its value is of type {value.dtype}, not a real number")
        return value.astype(jnp.float64), value

    try:
        J, value = map(np.asarray, jax.jacrev(of_flat, has_aux=True)(jnp.asarray(q.m)))
    except LrvbError:
        raise
    except Exception as error:
        first = str(error).partition("\n")[0].rstrip(".")[:200]
        raise InvalidModel(
            f"The function cannot be differentiated ({type(error).__name__}: {first}). Write it "
            f"with the model's moments, such as {_example(q)}, and jax.numpy, and return a number or an "
            "array."
        ) from error
    if not (np.isfinite(value).all() and np.isfinite(J).all()):
        raise InvalidModel(
            "The function or its derivative is not finite at the posterior's moments. Check for "
            "logarithms, roots or divisions of zero or of negative numbers."
        )
    shape = J.shape[:-1]
    return J.reshape(-1, J.shape[-1]), shape


def _example(q: Estimated) -> str:
    """How the moments of the first block are written."""
    named = q.moments(jnp.asarray(q.m))
    first = next(iter(named))
    block = f"m.{first}" if first.isidentifier() else f"m[{first!r}]"
    return f"{block}.{named[first]._fields[0]}"
