"""What users ask of a mixture: weights, covariances, separations, memberships, each with its sd."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from ..errors import InvalidData, InvalidModel
from ..posterior import Posterior


class ComponentFunctions:
    """Function covariances of a fitted mixture; mixed into `GaussianMixture`."""

    posterior_: Posterior

    def component_weights(self) -> pd.DataFrame:
        """E π_k with its sds. See: app:function_covariance"""

        def weights(eta: Any) -> Any:
            concentration = eta["pi"].log_x + 1
            return concentration / concentration.sum()

        return self._of_natural(weights, [f"pi[{k}]" for k in range(self._shape[0])])

    def component_covariances(self) -> pd.DataFrame:
        """E Σ_k = E Λ_k⁻¹, entry by entry, with sds."""
        K, P = self._shape
        upper = np.triu_indices(P)

        def entries(eta: Any) -> Any:
            return _expected_covariance(eta, P)[:, upper[0], upper[1]].reshape(-1)

        names = self._columns
        labels = [
            f"Sigma[{k},{names[i]},{names[j]}]"
            for k in range(K)
            for i, j in zip(*upper, strict=True)
        ]
        return self._of_natural(entries, labels)

    def component_sds(self) -> pd.DataFrame:
        """√(E Σ_k)_ii: the spread of each component along each column, with sds."""
        K, P = self._shape

        def spreads(eta: Any) -> Any:
            S = _expected_covariance(eta, P)
            return jnp.sqrt(jnp.diagonal(S, axis1=1, axis2=2)).reshape(-1)

        labels = [f"sd[{k},{name}]" for k in range(K) for name in self._columns]
        return self._of_natural(spreads, labels)

    def component_correlations(self) -> pd.DataFrame:
        """Correlations within each component, from E Σ_k, with sds."""
        K, P = self._shape
        rows, columns = np.triu_indices(P, 1)

        def correlations(eta: Any) -> Any:
            S = _expected_covariance(eta, P)
            sd = jnp.sqrt(jnp.diagonal(S, axis1=1, axis2=2))
            R = S / (sd[:, :, None] * sd[:, None, :])
            return R[:, rows, columns].reshape(-1)

        names = self._columns
        labels = [
            f"corr[{k},{names[i]},{names[j]}]"
            for k in range(K)
            for i, j in zip(rows, columns, strict=True)
        ]
        return self._of_natural(correlations, labels)

    def separation(self, first: int, second: int) -> pd.Series:
        """Mahalanobis distance between two means, with the average of their precisions; and its sd."""
        K, _ = self._shape
        for k in (first, second):
            if not 0 <= k < K:
                raise InvalidModel(f"There is no component {k}; they are 0 to {K - 1}.")
        if first == second:
            raise InvalidModel(f"Component {first} is at distance zero from itself; name two.")

        def distance(m: Any) -> Any:
            d = m.mu.x[first] - m.mu.x[second]
            return jnp.sqrt(d @ ((m.Lambda.x[first] + m.Lambda.x[second]) / 2) @ d)

        mean, cov = self._of_moments(distance)
        return pd.Series({"mean": float(mean), "sd": float(np.sqrt(cov))})

    def membership(self, x: Any) -> pd.DataFrame:
        """Probability of each component for one point x, with the sds that its parameters cause."""
        K, P = self._shape
        x = np.asarray(x, dtype=float).reshape(-1)
        if x.shape != (P,) or not np.isfinite(x).all():
            raise InvalidData(f"x must hold {P} finite numbers, one per column; it is {x!r}.")
        centred = (x - self._scaling.center) / self._scaling.scale  # type: ignore[attr-defined]

        def probabilities(m: Any) -> Any:
            xx = jnp.outer(centred, centred)
            square = jnp.sum(m.Lambda.x * (xx + m.mu.xx), axis=(1, 2))
            square = square - 2 * jnp.einsum("kab,a,kb->k", m.Lambda.x, centred, m.mu.x)
            return jax.nn.softmax(m.pi.log_x + 0.5 * m.Lambda.logdet_x - 0.5 * square)

        mean, cov = self._of_moments(probabilities)
        return _table(mean, cov, [f"z[{k}]" for k in range(K)])

    # ---- shared ---------------------------------------------------------------------------

    @property
    def _shape(self) -> tuple[int, int]:
        return self.means_.shape  # type: ignore[attr-defined,no-any-return]

    @property
    def _columns(self) -> list[str]:
        names = getattr(self, "feature_names_in_", range(self._shape[1]))
        return [str(name) for name in names]

    def _of_natural(self, g: Any, labels: list[str]) -> pd.DataFrame:
        response = self.posterior_.response
        mean = response.at_natural(g)
        return _table(mean, response.of_natural(g), labels)

    def _of_moments(self, f: Any) -> tuple[np.ndarray, Any]:
        """Value and covariance in the fit's own coordinates, where nothing cancels."""
        assert self.posterior_.chart is not None
        inner = self.posterior_.chart.inner
        return inner.at_moments(f), inner.of(f)


def _expected_covariance(eta: Any, P: int) -> Any:
    """E Λ⁻¹ = W⁻¹/(ν − P − 1), W⁻¹ = −2η; not a number where ν ≤ P + 1, where it does not exist."""
    dof = 2 * eta["Lambda"].logdet_x + P + 1
    factor = jnp.where(dof > P + 1, dof - P - 1, jnp.nan)
    return -2 * eta["Lambda"].x / factor[:, None, None]


def _table(mean: Any, cov: Any, labels: list[str]) -> pd.DataFrame:
    sd = np.sqrt(np.diag(np.atleast_2d(cov)))
    return pd.DataFrame({"mean": np.asarray(mean).reshape(-1), "sd": sd}, index=labels)
