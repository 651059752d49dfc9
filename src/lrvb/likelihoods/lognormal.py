"""Positive numbers whose logarithm has normal noise of unknown size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..numerics.functions import NUMPY
from .base import LikelihoodRows, Refuse, require_positive
from .expectation import Expectation
from .gaussian import GAUSSIAN, Gaussian
from .given import NOTHING, Given
from .links import LOG, Link
from .totals import Totals


class LogNormal(Gaussian):
    """log y ~ N(η, sd²) with the dispersion `residual`, the sd: exp η is the median."""

    name = "lognormal"
    link: Link = LOG

    def working(self, y: np.ndarray) -> np.ndarray:
        """log y."""
        return np.log(y)

    def from_working(self, values: np.ndarray) -> np.ndarray:
        """exp."""
        return np.exp(values)

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """That of a normal log y, less log y."""
        return super().log_p(xp.log(y), eta, given, xp) - xp.log(y)

    def constant(self, y: Any, given: Given = NOTHING) -> Any:
        """−log y."""
        return -np.log(y)

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """(log y − η)/sd² and 1/sd²."""
        return super().derivatives(np.log(y), eta, given)

    def mean(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """exp(η + sd²/2)."""
        return np.exp(self.mean_on_link(eta, given))

    def mean_on_link(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """η + sd²/2."""
        return eta + np.square(given["residual"]) / 2

    def mean_moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Those of exp(η + sd²/2)."""
        return self.link.moments(self.mean_on_link(eta, given), v, own)

    def slope(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The mean."""
        return self.mean(eta, given)

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """mean² (exp sd² − 1)."""
        return self.mean(eta, given) ** 2 * np.expm1(np.square(given["residual"]))

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Φ((log y − η)/sd)."""
        with np.errstate(divide="ignore"):
            return super().cdf(np.log(np.maximum(y, 0.0)), eta, given)

    def quantile(self, prob: Any, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """exp(η + sd Φ⁻¹(prob))."""
        return np.exp(super().quantile(prob, eta, given))

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """exp of η and a residual."""
        return np.exp(super().draw(rng, eta, given))

    def rows(self, y: np.ndarray, given: Given = NOTHING) -> LikelihoodRows:
        """E log p in closed form."""
        return LogNormalRows(self, y, given)

    def averaged(
        self, mean: np.ndarray, v: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Another log-normal variable's, with variance v + sd² of its logarithm."""
        total = v + np.square(given["residual"])
        level = np.exp(mean + total / 2)
        return level, level**2 * np.expm1(total)

    def averaged_quantile(
        self, mean: np.ndarray, v: np.ndarray, prob: float, given: Given = NOTHING
    ) -> np.ndarray:
        """exp of a normal variable's."""
        return np.exp(GAUSSIAN.averaged_quantile(mean, v, prob, given))

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Positive numbers."""
        require_positive(names["response"], y, refuse, "a log-normal response")

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """log y, with its precision."""
        return GAUSSIAN.start(np.log(y), given)

    def level(self, rows: Totals) -> float:
        """The mean of log y less the offset."""
        return (rows.y - rows.offset) / rows.n


class LogNormalRows(LikelihoodRows):
    """Those of log y, less log y."""

    def at(self, mean: np.ndarray, v: np.ndarray) -> Expectation:
        """A parabola has two derivatives."""
        log_y = np.log(self.y)
        found = GAUSSIAN.rows(log_y, self.given).at(mean, v)
        return found._replace(value=found.value - float(log_y.sum()))


LOGNORMAL = LogNormal()
