r"""The effect e_n of each row's own, integrated out inside its row term.

Under q, e = a − f(ζ − ζ̄) + noise with ζ = c_nᵀw; the response lets a follow ζ̄ and the rows' precision s.
A factor of its own, tilted by the likelihood, has e = u − ζ with u apart from ζ: f = 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..seam import LocalResponse
from .optimum import IteratedOptimum


class OwnEffects(NamedTuple):
    """Of each row (N,): mean a, ∂a/∂ζ̄, ∂a/∂s, the share f, and the variance of the noise."""

    mean: np.ndarray
    follow: np.ndarray
    scale: np.ndarray
    share: np.ndarray
    noise: np.ndarray

    def some(self, rows: slice) -> OwnEffects:
        """Those of some rows."""
        return OwnEffects(*(part[rows] for part in self))

    def effect(self, zeta: LocalResponse, at: int) -> LocalResponse:
        """e in place of ζ, first of each row's variables; `at` is the flat coordinate of s."""
        z = zeta.z.copy()
        z[:, 0] = self.mean
        return self._moved(zeta, z, -self.share, self.follow, at)

    def predictor(self, zeta: LocalResponse, at: int) -> LocalResponse:
        """ζ + e in place of ζ, first of each row's variables; `at` is the flat coordinate of s."""
        z = zeta.z.copy()
        z[:, 0] += self.mean
        return self._moved(zeta, z, 1 - self.share, 1 + self.follow, at)

    def _moved(
        self, zeta: LocalResponse, z: np.ndarray, under_q: np.ndarray, gain: np.ndarray, at: int
    ) -> LocalResponse:
        R = zeta.R.copy()
        R[:, 0] *= gain[:, None]
        R[:, 0, at] += self.scale
        return LocalResponse(z, self._scaled(zeta.V, under_q), self._scaled(zeta.Sigma, gain), R)

    def _scaled(self, cov: np.ndarray, gain: np.ndarray) -> np.ndarray:
        """The covariance after ζ → gain · ζ + noise."""
        cov = cov.copy()
        cov[:, 0] *= gain[:, None]
        cov[:, :, 0] *= gain[:, None]
        cov[:, 0, 0] += self.noise
        return cov


def own_effects(best: IteratedOptimum, s: float) -> OwnEffects:
    """From the rows' terms: ℓ_η = sa, so a follows ζ̄ by ℓ_ηη/s, and ℓ_v = −sf/2."""
    terms = best.terms
    mean = terms.e / s
    return OwnEffects(mean, terms.ee / s, (terms.es - mean) / s, -2 * terms.v / s, terms.noise)
