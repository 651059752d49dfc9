"""A number with normal noise of unknown size."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ..numerics.functions import NUMPY
from ..prior import Gamma
from .base import Likelihood, LikelihoodRows
from .dispersion import Dispersion
from .expectation import Expectation
from .given import NOTHING, Given
from .links import IDENTITY, Link

HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))

# τ ~ Gamma(½, ½(0.01·s)²): one residual of size 0.01 s. Residuals are many and may be tiny beside the
# effects, so this prior is much weaker than theirs.
RESIDUAL_SHAPE = 0.5
RESIDUAL_SIZE = 0.01


def residual_prior(scale: float) -> Gamma:
    """Gamma(½, ½(0.01 s)²) of the residual precision."""
    return Gamma(RESIDUAL_SHAPE, 0.5 * (RESIDUAL_SIZE * scale) ** 2)


class Gaussian(Likelihood):
    """y ~ N(η, sd²) with the dispersion `residual`, the sd."""

    name, quadratic, translates, varies = "gaussian", True, True, True
    link: Link = IDENTITY
    dispersions = (Dispersion("residual", residual_prior),)

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """−½((y − η)/sd)² − log sd − ½ log 2π."""
        sd = given["residual"]
        return -0.5 * ((y - eta) / sd) ** 2 - xp.log(sd) - HALF_LOG_2PI

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """(y − η)/sd² and 1/sd²."""
        precision = np.asarray(given["residual"]) ** -2.0
        score = (y - eta) * precision
        return score, np.broadcast_to(precision, np.shape(score))

    def scale(self, given: Given) -> Any:
        """The residual's sd."""
        return given["residual"]

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The residual's."""
        return np.broadcast_to(np.square(given["residual"]), eta.shape)

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Φ((y − η)/sd)."""
        return ndtr((y - eta) / given["residual"])

    def quantile(self, prob: Any, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """η + sd Φ⁻¹(prob)."""
        return eta + given["residual"] * ndtri(prob)

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """η and a residual."""
        return rng.normal(eta, given["residual"])

    def rows(self, y: np.ndarray, given: Given = NOTHING) -> LikelihoodRows:
        """E log p in closed form."""
        return GaussianRows(self, y, given)

    def averaged(
        self, mean: np.ndarray, v: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Variances add."""
        return mean, v + self.variance(mean, given)

    def averaged_quantile(
        self, mean: np.ndarray, v: np.ndarray, prob: float, given: Given = NOTHING
    ) -> np.ndarray:
        """Another normal variable's."""
        return mean + np.sqrt(v + self.variance(mean, given)) * ndtri(prob)

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """The response, with its precision."""
        return y, 1 / self.variance(y, given)


class GaussianRows(LikelihoodRows):
    """E log p = log p(y | η̄) − ½v/sd²."""

    def at(self, mean: np.ndarray, v: np.ndarray) -> Expectation:
        """A parabola has two derivatives."""
        precision = 1 / self.likelihood.variance(mean, self.given)
        value = self.likelihood.log_p(self.y, mean, self.given) - 0.5 * v * precision
        zero = np.zeros_like(mean)
        return Expectation(
            float(value.sum()),
            (self.y - mean) * precision,
            -0.5 * precision,
            -precision,
            zero,
            zero,
        )


GAUSSIAN = Gaussian()
