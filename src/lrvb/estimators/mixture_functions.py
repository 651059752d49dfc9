"""What users ask of a mixture: weights, covariances, separations, memberships, each with its sd."""

from __future__ import annotations

import numbers
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..errors import InvalidData, InvalidModel
from ..posterior import Posterior
from ..response import Response
from .mixture_scales import Scaling


class ComponentFunctions:
    """Function covariances of a fitted mixture; mixed into `GaussianMixture`."""

    posterior_: Posterior
    means_: np.ndarray
    _scaling: Scaling

    def component_weights(self) -> pd.DataFrame:
        """E π_k with sds.

        See: app:function_covariance
        """

        def weights(eta: Any) -> Any:
            concentration = eta["pi"].log_x + 1
            return concentration / concentration.sum()

        return self._of_natural(weights, [f"pi[{k}]" for k in range(self._shape[0])])

    def component_covariances(self) -> pd.DataFrame:
        """E Σ_k = E Λ_k⁻¹, entry by entry, with sds."""
        K, P = self._shape
        i, j = np.triu_indices(P)

        def entries(eta: Any) -> Any:
            return _expected_covariance(eta, P)[:, i, j].reshape(-1)

        s = self._units
        return self._of_natural(entries, self._labels("Sigma", i, j), np.tile(s[i] * s[j], K))

    def component_sds(self) -> pd.DataFrame:
        """√(E Σ_k)_ii: the spread of each component along each column, with sds."""
        K, P = self._shape

        def spreads(eta: Any) -> Any:
            S = _expected_covariance(eta, P)
            return jnp.sqrt(jnp.diagonal(S, axis1=1, axis2=2)).reshape(-1)

        labels = [f"sd[{k},{name}]" for k in range(K) for name in self._columns]
        return self._of_natural(spreads, labels, np.tile(self._units, K))

    def component_correlations(self) -> pd.DataFrame:
        """Correlations within each component, from E Σ_k, with sds."""
        _, P = self._shape
        i, j = np.triu_indices(P, 1)

        def correlations(eta: Any) -> Any:
            S = _expected_covariance(eta, P)
            sd = jnp.sqrt(jnp.diagonal(S, axis1=1, axis2=2))
            return (S / (sd[:, :, None] * sd[:, None, :]))[:, i, j].reshape(-1)

        return self._of_natural(correlations, self._labels("corr", i, j))

    def separation(self, first: int, second: int) -> pd.Series:
        """Distance of two means in sds of their components, √(dᵀ(E Λ_j + E Λ_k)d/2), with its sd."""
        check_is_fitted(self)
        K, _ = self._shape
        for k in (first, second):
            if isinstance(k, bool) or not isinstance(k, numbers.Integral) or not 0 <= k < K:
                raise InvalidModel(f"There is no component {k!r}; they are 0 to {K - 1}.")
        if first == second:
            raise InvalidModel(f"Component {first} is at distance zero from itself; name two.")

        def distance(m: Any) -> Any:
            d = m.mu.x[first] - m.mu.x[second]
            return jnp.sqrt(d @ ((m.Lambda.x[first] + m.Lambda.x[second]) / 2) @ d)

        inner = self._inner
        mean = float(inner.at_moments(distance))
        if not mean > 1e-8:
            raise InvalidModel(
                f"The means of components {first} and {second} coincide; the distance from zero to "
                "zero has no standard deviation."
            )
        return pd.Series({"mean": mean, "sd": float(np.sqrt(inner.of(distance)))})

    def membership(self, x: Any) -> pd.DataFrame:
        """Probability of each component for one point x, with the sds that its parameters cause."""
        check_is_fitted(self)
        K, P = self._shape
        x = np.asarray(x, dtype=float).reshape(-1)
        if x.shape != (P,) or not np.isfinite(x).all():
            raise InvalidData(f"x must hold {P} finite numbers, one per column; it is {x!r}.")
        z = self._scaling.inward(x)

        def probabilities(m: Any) -> Any:
            square = jnp.sum(m.Lambda.x * (z[:, None] * z + m.mu.xx), axis=(1, 2))
            square = square - 2 * jnp.einsum("kab,a,kb->k", m.Lambda.x, z, m.mu.x)
            return jax.nn.softmax(m.pi.log_x + 0.5 * m.Lambda.logdet_x - 0.5 * square)

        inner = self._inner
        labels = [f"z[{k}]" for k in range(K)]
        return _table(inner.at_moments(probabilities), inner.of(probabilities), labels)

    # ---- shared ---------------------------------------------------------------------------

    @property
    def _shape(self) -> tuple[int, int]:
        check_is_fitted(self)
        K, P = self.means_.shape
        return K, P

    @property
    def _columns(self) -> list[str]:
        names = getattr(self, "feature_names_in_", range(self._shape[1]))
        return [str(name) for name in names]

    @property
    def _units(self) -> np.ndarray:
        return self._scaling.scale

    @property
    def _inner(self) -> Response:
        """The response in the fit's own coordinates, where nothing cancels."""
        assert self.posterior_.chart is not None
        return self.posterior_.chart.inner

    def _labels(self, word: str, i: np.ndarray, j: np.ndarray) -> list[str]:
        names = self._columns
        return [
            f"{word}[{k},{names[a]},{names[b]}]"
            for k in range(self._shape[0])
            for a, b in zip(i, j, strict=True)
        ]

    def _of_natural(self, g: Any, labels: list[str], units: Any = 1.0) -> pd.DataFrame:
        """The table of `units` · g(η)."""
        inner = self._inner
        table = _table(inner.at_natural(g), inner.of_natural(g), labels)
        return table.mul(np.broadcast_to(units, len(table)), axis=0)


def _expected_covariance(eta: Any, P: int) -> Any:
    """E Λ⁻¹ = W⁻¹/(ν − P − 1), W⁻¹ = −2η; not a number where ν ≤ P + 1, where it does not exist."""
    dof = 2 * eta["Lambda"].logdet_x + P + 1
    factor = jnp.where(dof > P + 1, dof - P - 1, jnp.nan)
    return -2 * eta["Lambda"].x / factor[:, None, None]


def _table(mean: Any, cov: Any, labels: list[str]) -> pd.DataFrame:
    sd = np.sqrt(np.diag(np.atleast_2d(cov)))
    return pd.DataFrame({"mean": np.asarray(mean).reshape(-1), "sd": sd}, index=labels)
