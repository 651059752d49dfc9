r"""A model in one file: copy it, rename it, change the two terms.

The example is a random-effects meta-analysis. Study n reports an effect y_n with a known standard
error s_n; the true effects z_n scatter around μ with precision τ:

    y_n | z_n ~ N(z_n, s_n²),   z_n | μ, τ ~ N(μ, 1/τ),   μ ~ N(0, σ_μ²),   τ ~ Gamma(a, b).

The posterior is approximated by q(μ) q(τ) Π_n q(z_n). Constants that no block appears in may be
left out of the terms: they move the ELBO and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import lrvb


class MetaAnalysis(lrvb.Model):
    """Random-effects meta-analysis with known standard errors; columns `effect`, `se`."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}
    local_blocks = {"z": lrvb.Normal()}  # one z a row

    def __init__(self, mu_var: float = 100.0, tau_shape: float = 1.0, tau_rate: float = 1.0):
        # Stored numbers are traced by JAX: another prior needs no new compilation.
        self.mu_var, self.tau_shape, self.tau_rate = mu_var, tau_shape, tau_rate

    def global_term(self, m: Any) -> Any:
        """E[log p(μ) + log p(τ)], from E μ² and from E τ, E log τ."""
        return (
            -m.mu.xx / (2 * self.mu_var)
            + (self.tau_shape - 1) * m.tau.log_x
            - self.tau_rate * m.tau.x
        )

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E[log p(y_n | z_n) + log p(z_n | μ, τ)] of one row."""
        misfit = row.effect**2 - 2 * row.effect * z.x + z.xx  # E (y − z)²
        spread = z.xx - 2 * z.x * m.mu.x + m.mu.xx  # E (z − μ)²
        return -misfit / (2 * row.se**2) + (m.tau.log_x - m.tau.x * spread) / 2


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    truth = {"mu": 0.5, "tau": 4.0}
    se = rng.uniform(0.1, 0.6, size=200)
    effect = truth["mu"] + rng.normal(size=200) / truth["tau"] ** 0.5 + se * rng.normal(size=200)

    posterior = lrvb.infer(MetaAnalysis(), {"effect": effect, "se": se})
    print(posterior.summary())
