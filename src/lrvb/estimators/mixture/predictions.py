"""What a fitted mixture says of rows: their components, their densities, and rows of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax

from ...errors import InvalidData
from ...models.gaussian_mixture import log_densities
from ...posterior.posterior import Posterior
from .fitted import check_fitted
from .matrix import checked_matrix, generator, whole_number
from .scaling import Scaling


class MixturePredictions:
    """scikit-learn's questions about rows."""

    posterior_: Posterior
    means_: np.ndarray
    covariances_: np.ndarray
    precisions_cholesky_: np.ndarray
    weights_: np.ndarray
    random_state: Any
    _scaling: Scaling

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row."""
        return self._log_responsibilities(X).argmax(axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each component for each row: q(z) given q(μ), q(Λ), q(π)."""
        return softmax(self._log_responsibilities(X), axis=1)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of each row under the mixture with the posterior-mean parameters."""
        X = self._checked(X)
        roots = self.precisions_cholesky_
        logdet = 2 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
        densities = log_densities(X, self.means_, roots, logdet, np.log(self.weights_))
        _require_reached(densities)
        return logsumexp(densities, axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Rows and their components, drawn from the mixture with the posterior-mean parameters."""
        check_fitted(self)
        n = whole_number("n_samples", n_samples)
        rng = generator(self.random_state)
        counts = rng.multinomial(n, self.weights_)
        parts = [
            rng.multivariate_normal(mean, cov, int(count))
            for mean, cov, count in zip(self.means_, self.covariances_, counts, strict=True)
        ]
        return np.concatenate(parts), np.repeat(np.arange(len(counts)), counts)

    def _checked(self, X: Any) -> np.ndarray:
        check_fitted(self)
        return checked_matrix(self, X, reset=False)

    def _log_responsibilities(self, X: Any) -> np.ndarray:
        """E_q[log π_k + log N(x | μ_k, Λ_k⁻¹)] in the fit's own coordinates, (N, K)."""
        X = self._checked(X)
        Z = self._scaling.inward(X)
        optimum = self.posterior_.fit
        m, params = optimum.moments, optimum.params()
        Lambda = np.asarray(m.Lambda.x)
        found = log_densities(
            Z,
            params["mu"]["loc"],
            np.linalg.cholesky(Lambda),
            np.asarray(m.Lambda.logdet_x),
            np.asarray(m.pi.log_x),
            np.sum(Lambda * params["mu"]["cov"], axis=(1, 2)),
        )
        _require_reached(found)
        return found


def _require_reached(densities: np.ndarray) -> None:
    """Refuse a row so far out that its distance from the components overflows."""
    bad = np.flatnonzero(~np.isfinite(densities).all(axis=1))
    if len(bad):
        raise InvalidData(
            f"Row {int(bad[0])} of X lies so far from all components that its squared distance is "
            "beyond the range of numbers; check its units.",
            row=int(bad[0]),
        )
