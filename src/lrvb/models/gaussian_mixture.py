"""A mixture of K multivariate normals with full precision matrices: the paper's third model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..families import Categorical, Dirichlet, MultivariateNormal, Wishart
from ..numerics.lazy import jnp, special
from ..statement.model import Model
from .densities import LOG_2PI, wishart_log_density
from .mixture_clumps import from_clumps
from .mixture_features import feature_weights
from .mixture_sweeps import MixturePriors


class NormalMixture(Model):
    """x_n | z_nk = 1 ~ N(μ_k, Λ_k⁻¹), z_n ~ π, with q(μ_k) q(Λ_k) q(π) Π_n q(z_n).

    Priors: μ_k ~ N(mean, precision⁻¹), Λ_k ~ Wishart(dof, scale) with `inverse_scale` = scale⁻¹,
    π ~ Dirichlet(concentration). An improper prior leaves its normalising constant out of the ELBO:
    zero precision, dof ≤ P − 1 or a singular inverse scale, zero concentration.
    Paper: eq:normal_mixture_model, sec:normal_mixture_model, app:mvn_details
    """

    columns: tuple[str, ...] | None = ("x",)

    def __init__(
        self,
        n_components: int,
        mean: np.ndarray,
        precision: np.ndarray,
        dof: float,
        inverse_scale: np.ndarray,
        concentration: float,
    ):
        self.K, self.P = int(n_components), len(mean)
        self.mean, self.precision = np.asarray(mean, float), np.asarray(precision, float)
        self.dof, self.inverse_scale = float(dof), np.asarray(inverse_scale, float)
        self.concentration = float(concentration)
        self.proper_mean = bool(np.all(np.linalg.eigvalsh(self.precision) > 0))
        proper_scale = bool(np.all(np.linalg.eigvalsh(self.inverse_scale) > 0))
        self.proper_Lambda = dof > self.P - 1 and proper_scale
        self.proper_pi = concentration > 0

    def global_blocks(self, rows: Any) -> dict[str, Any]:
        """μ and Λ in K copies, and π."""
        return {
            "mu": MultivariateNormal(self.P, batch=(self.K,)),
            "Lambda": Wishart(self.P, batch=(self.K,)),
            "pi": Dirichlet(self.K),
        }

    def local_blocks(self, rows: Any) -> dict[str, Any]:
        """The component of each row."""
        return {"z": Categorical(self.K)}

    def features(self, row: Any) -> Any:
        """φ(x) = (1, x, svec xxᵀ): the term is linear in it."""
        first, second = np.triu_indices(self.P)
        return jnp.concatenate([jnp.ones(1), row.x, row.x[first] * row.x[second]])

    def global_term(self, m: Any) -> Any:
        """E_q of the three log priors, over all components."""
        K, P = self.K, self.P
        cross = m.mu.x[:, :, None] * self.mean
        square = m.mu.xx - cross - jnp.swapaxes(cross, 1, 2) + self.mean[:, None] * self.mean
        term = -0.5 * jnp.sum(self.precision * square)
        term += wishart_log_density(
            m.Lambda, self.dof, self.inverse_scale, proper=self.proper_Lambda
        )
        term += (self.concentration - 1) * jnp.sum(m.pi.log_x)
        if self.proper_mean:
            term += 0.5 * K * (jnp.linalg.slogdet(self.precision)[1] - P * LOG_2PI)
        if self.proper_pi:
            term += special.gammaln(K * self.concentration) - K * special.gammaln(
                self.concentration
            )
        return term

    def local_term(self, m: Any, z: Any, phi: Any) -> Any:
        """E_q[log p(x_n, z_n | μ, Λ, π)]: linear in z_n and in φ(x_n)."""
        return z.x @ self.log_densities(m, phi)

    def log_densities(self, m: Any, phi: Any) -> Any:
        """E_q[log π_k + log N(x | μ_k, Λ_k⁻¹)] of each component (K,), linear in φ(x).

        `log_densities` of this module is the same for many rows, without cancellation.
        """
        return feature_weights(m.mu, m.Lambda, m.pi.log_x, jnp) @ phi

    def elsewhere(self, params: Any, rows: Any) -> Any:
        """Optima with a component on a clump of rows, such as those of one rounded value."""
        fixed = self.mean, self.precision, self.dof, self.inverse_scale, self.concentration
        priors = MixturePriors(*fixed)
        return from_clumps(params, rows.columns["x"], rows.weights, priors)


def log_densities(
    x: np.ndarray,
    mean: np.ndarray,
    roots: np.ndarray,
    logdet: np.ndarray,
    log_weight: np.ndarray,
    spread: np.ndarray | float = 0.0,
) -> np.ndarray:
    """log π_k + log N(x_n | μ_k, Λ_k⁻¹) of all rows and components, (N, K), without cancellation.

    x (N, P), mean (K, P), roots (K, P, P) with Λ_k = R_kR_kᵀ, logdet = log|Λ_k| and log_weight = log π_k
    (K,). With their expectations under q, and spread = tr(Λ_k Cov μ_k), it is the expectation of all.
    """
    distance = np.stack(
        [
            (((x - center) @ root) ** 2).sum(axis=1)
            for center, root in zip(mean, roots, strict=True)
        ],
        axis=1,
    )
    return log_weight + 0.5 * (logdet - x.shape[1] * LOG_2PI) - 0.5 * (distance + spread)
