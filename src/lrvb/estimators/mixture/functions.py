"""What users ask of a mixture: weights, covariances, separations, memberships, each with its sd."""

from __future__ import annotations

import functools
import numbers
from typing import Any

import numpy as np
import pandas as pd

from ...data.tables import Row, shortened
from ...engine.functions import in_means
from ...engine.response import Response
from ...errors import InvalidData, InvalidModel
from ...models.gaussian_mixture import NormalMixture
from ...numerics.lazy import jax, jnp
from ...numerics.program import Program
from ...posterior.posterior import Posterior
from ...posterior.table import BEYOND, table
from ...statement.meanfield import MeanField
from .fitted import check_fitted
from .scaling import Scaling

NO_SPREAD = (
    "A component without rows has its prior, and E Λ⁻¹ exists only with more than P + 1 degrees of "
    "freedom: give wishart_dof_prior above that, or fit fewer components"
)


class ComponentFunctions:
    """Function covariances of a fitted mixture; mixed into `GaussianMixture`."""

    posterior_: Posterior
    means_: np.ndarray
    _scaling: Scaling

    def component_weights(self) -> pd.DataFrame:
        """E π_k with sds.

        See: app:function_covariance
        """
        K, _ = self._shape
        response = self._response
        alpha = np.asarray(response.alpha.natural(response.fit.eta)["pi"].log_x) + 1
        mean = alpha / alpha.sum()
        J_eta = np.zeros((K, response.alpha.size))
        J_eta[:, response.alpha.slices["pi"]] = (np.eye(K) - mean[:, None]) / alpha.sum()
        return _table(response, mean, in_means(response, J_eta), [f"pi[{k}]" for k in range(K)])

    def component_covariances(self) -> pd.DataFrame:
        """E Σ_k = E Λ_k⁻¹, entry by entry, with sds."""
        K, P = self._shape
        i, j = np.triu_indices(P)
        s = self._scaling.scale
        return self._spread(0, self._labels("Sigma", i, j), np.tile(s[i] * s[j], K))

    def component_sds(self) -> pd.DataFrame:
        """√(E Σ_k)_ii: the spread of each component along each column, with sds."""
        K, _ = self._shape
        labels = [f"sd[{k},{name}]" for k in range(K) for name in self._columns]
        return self._spread(1, labels, np.tile(self._scaling.scale, K))

    def component_correlations(self) -> pd.DataFrame:
        """Correlations within each component, from E Σ_k, with sds."""
        labels = self._labels("corr", *np.triu_indices(self._shape[1], 1))
        return self._spread(2, labels, np.ones(len(labels)))

    def separation(self, first: int, second: int) -> pd.Series:
        """Distance of two means in sds of their components, √(dᵀ(E Λ_j + E Λ_k)d/2), with its sd."""
        K, P = self._shape
        for k in (first, second):
            if isinstance(k, bool) or not isinstance(k, numbers.Integral) or not 0 <= k < K:
                raise InvalidModel(f"There is no component {k!r}; they are 0 to {K - 1}.")
        if first == second:
            raise InvalidModel(f"Component {first} is at distance zero from itself; name two.")
        response = self._response
        pair = np.array([first, second])
        mean, J = separation_program(K, P)(response.fit.m, pair)
        if not float(mean) > 1e-8:
            raise InvalidModel(
                f"The means of components {first} and {second} coincide; the distance from zero to "
                "zero has no standard deviation."
            )
        row: pd.Series = _table(response, mean, np.asarray(J)[None], [0]).iloc[0]
        return row.rename(f"separation({first},{second})")

    def membership(self, x: Any) -> pd.DataFrame:
        """Probability of each component for one point x, with the sds that its parameters cause."""
        K, P = self._shape
        try:
            point = np.asarray(x, dtype=float).reshape(-1)
        except (TypeError, ValueError):  # what is no number is refused as what is not finite
            point = np.full(P, np.nan)
        if point.shape != (P,) or not np.isfinite(point).all():
            raise InvalidData(
                f"x must hold {P} finite numbers, one per column; it is {shortened(x)}."
            )
        response = self._response
        mean, J = membership_program(K, P)(response.fit.m, self._scaling.inward(point))
        return _table(response, mean, np.asarray(J), [f"z[{k}]" for k in range(K)])

    # ---- shared ---------------------------------------------------------------------------

    @property
    def _shape(self) -> tuple[int, int]:
        check_fitted(self)
        K, P = self.means_.shape
        return K, P

    @property
    def _columns(self) -> list[str]:
        names = getattr(self, "feature_names_in_", range(self._shape[1]))
        return [str(name) for name in names]

    @property
    def _response(self) -> Response:
        """The response in the fit's own coordinates, where nothing cancels."""
        return self.posterior_.response

    def _labels(self, word: str, i: np.ndarray, j: np.ndarray) -> list[str]:
        names = self._columns
        return [
            f"{word}[{k},{names[a]},{names[b]}]"
            for k in range(self._shape[0])
            for a, b in zip(i, j, strict=True)
        ]

    def _spread(self, which: int, labels: list[str], units: np.ndarray) -> pd.DataFrame:
        """One of the three tables of `spread_program`, times the units of its entries."""
        response = self._response
        mean, J_eta = (part[which] for part in spread_program(*self._shape)(response.fit.eta))
        J = in_means(response, np.asarray(J_eta))
        return _table(response, mean, J, labels, units, why=NO_SPREAD)


def _table(
    response: Response,
    mean: Any,
    J: np.ndarray,
    labels: list[Any],
    units: Any = 1.0,
    why: str = BEYOND,
) -> pd.DataFrame:
    """Functions with Jacobian J in the fit's statistics, times the units of their values."""
    sd = np.sqrt(np.einsum("fa,ab,fb->f", J, response.Sigma, J, optimize=True))
    return table(labels, mean=units * np.asarray(mean).reshape(-1), sd=units * sd, why=why)


# ---- values and derivatives ----------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def spread_program(K: int, P: int) -> Program:
    """η → covariances, sds and correlations from E Λ⁻¹, and their Jacobians in η.

    E Λ⁻¹ = W⁻¹/(ν − P − 1), W⁻¹ = −2η; not a number where ν ≤ P + 1, where it does not exist.
    """
    alpha = _mean_field(K, P)
    i, j = np.triu_indices(P)
    a, b = np.triu_indices(P, 1)

    def spreads(flat: Any) -> Any:
        eta = alpha.natural(flat)["Lambda"]
        excess = jnp.where(eta.logdet_x > 0, 2 * eta.logdet_x, jnp.nan)
        S = -2 * eta.x / excess[:, None, None]
        sd = jnp.sqrt(jnp.diagonal(S, axis1=1, axis2=2))
        R = S / (sd[:, :, None] * sd[:, None, :])
        return S[:, i, j].reshape(-1), sd.reshape(-1), R[:, a, b].reshape(-1)

    return Program(lambda flat: (spreads(flat), jax.jacfwd(spreads)(flat)))


@functools.lru_cache(maxsize=64)
def separation_program(K: int, P: int) -> Program:
    """(m, pair) → the distance of two components' means, and its gradient."""
    alpha = _mean_field(K, P)

    def distance(flat: Any, pair: Any) -> Any:
        m = alpha.moments(flat)
        d = m.mu.x[pair[0]] - m.mu.x[pair[1]]
        return jnp.sqrt(d @ m.Lambda.x[pair].mean(axis=0) @ d)

    return Program(jax.value_and_grad(distance))


@functools.lru_cache(maxsize=64)
def membership_program(K: int, P: int) -> Program:
    """(m, x) → the probabilities of q(z) at x, and their Jacobian."""
    model = _model(K, P)
    alpha = _mean_field(K, P)

    def probabilities(flat: Any, x: Any) -> Any:
        phi = model.features(Row({"x": x}))
        return jax.nn.softmax(model.log_densities(alpha.moments(flat), phi))

    return Program(lambda flat, x: (probabilities(flat, x), jax.jacrev(probabilities)(flat, x)))


def _model(K: int, P: int) -> NormalMixture:
    """The model with any prior: the density of a row does not know it."""
    return NormalMixture(K, np.zeros(P), np.eye(P), P + 2.0, np.eye(P), 1.0)


def _mean_field(K: int, P: int) -> MeanField:
    return MeanField(_model(K, P).global_blocks(None))
