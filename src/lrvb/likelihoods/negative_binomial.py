"""Counts that vary more than Poisson ones: a gamma-distributed rate of each row, integrated out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import betainc, gammaln

from ..numerics.functions import NUMPY, softplus
from ..numerics.gamma import log_rising
from ..prior import HalfStudentT
from .base import Likelihood, Refuse, require_counts
from .dispersion import Dispersion
from .given import NOTHING, Given
from .links import LOG
from .poisson import POISSON
from .totals import Totals

_FAR = 700.0  # |η − log s| beyond which exponentials are no numbers, and nothing changes any more


def shape_prior(scale: float) -> HalfStudentT:
    """HalfStudentT(3, 10): counts from very overdispersed to all but Poisson."""
    return HalfStudentT(3.0, 10.0)


class NegativeBinomial(Likelihood):
    """y with mean μ = exp η and variance μ + μ²/shape; a large `shape` is Poisson."""

    name, link, discrete = "negbinomial", LOG, True
    dispersions = (Dispersion("shape", shape_prior),)
    exponential = "shape"

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log Γ(y + s)/(Γ(s) y!) + y(η − log(μ + s)) + s(log s − log(μ + s))."""
        shape = given["shape"]
        log_total = xp.logaddexp(eta, xp.log(shape))
        rising = xp.gammaln(y + shape) - xp.gammaln(shape + 0.0 * y) - xp.gammaln(y + 1.0)
        return rising + y * (eta - log_total) + shape * (xp.log(shape) - log_total)

    def log_zero(self, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log P(0) = −s log(1 + μ/s)."""
        shape = given["shape"]
        if xp is NUMPY:
            return -shape * softplus(np.asarray(eta - np.log(shape)))
        return -shape * xp.logaddexp(0.0 * eta, eta - xp.log(shape))

    def constant(self, y: Any, given: Given = NOTHING) -> Any:
        """−log y!."""
        return -gammaln(y + 1.0)

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """log Γ(y + s)/Γ(s) − y log s + yη − (y + s) log(1 + μ/s)."""
        return self.kernel_and_zero(y, eta, given)[0]

    def kernel_and_zero(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """The kernel and `log_zero`, which share a logarithm."""
        y, shape = np.asarray(y, dtype=np.float64), np.asarray(given["shape"], dtype=np.float64)
        log_shape = np.log(shape)
        more = softplus(np.asarray(eta - log_shape))
        value = y * eta - (y + shape) * more
        value += log_rising(y, shape) - y * log_shape
        more *= -shape
        return value, more

    def linear(self, y: np.ndarray) -> np.ndarray | None:
        """The counts."""
        return y

    def rest(self, y: np.ndarray, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """log Γ(y + s)/Γ(s) − y log s − (y + s) log(1 + e/s)."""
        return self.beside_zero(y, self.zero_at(e, given), given)

    def zero_at(self, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """`log_zero` of e = exp η, written over it."""
        shape = np.asarray(given["shape"], dtype=np.float64)
        e *= 1 / shape
        np.log1p(e, out=e)
        e *= -shape
        return e

    def beside_zero(
        self, y: np.ndarray, zero: np.ndarray, given: Given = NOTHING, more: Any = 0.0
    ) -> np.ndarray:
        """`rest`, and what is `more`, from `zero_at`, written over it."""
        shape = np.asarray(given["shape"], dtype=np.float64)
        zero *= 1 + y / shape
        zero += log_rising(y, shape) - y * np.log(shape) + more
        return zero

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """y − (y + s)π and (y + s)π(1 − π), π = μ/(μ + s)."""
        return self.derivatives_and_zero(y, eta, given)[:2]

    def derivatives_and_zero(
        self, y: Any, eta: Any, given: Given = NOTHING
    ) -> tuple[Any, Any, Any]:
        """The derivatives and `log_zero`, which share an exponential."""
        shape = given["shape"]
        share, left, log_left = self._shares(eta, given)
        first = (y + shape) * share
        return y - first, first * left, shape * log_left

    def zero_derivatives(self, eta: Any, given: Given = NOTHING) -> tuple[Any, Any, Any]:
        """`log_zero` a, a′ = −sπ and −a″ = sπ(1 − π)."""
        first, second, a = self.derivatives_and_zero(0.0, eta, given)
        return a, first, second

    def _shares(self, eta: Any, given: Given) -> tuple[Any, Any, Any]:
        """π = μ/(μ + s), 1 − π and log(1 − π), each to all digits where it is tiny."""
        odds = np.exp(np.clip(eta - np.log(given["shape"]), -_FAR, _FAR))
        left = 1 / (1 + odds)
        return odds * left, left, -np.log1p(odds)

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """μ + μ²/shape."""
        mean = np.exp(eta)
        return mean + mean**2 / given["shape"]

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """I(s/(μ + s); s, k + 1) with k the whole part of y."""
        shape = given["shape"]
        share = np.exp(np.log(shape) - np.logaddexp(eta, np.log(shape)))
        inside = np.floor(np.maximum(y, 0.0))
        return np.where(y < 0, 0.0, betainc(shape, inside + 1, share))

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """A Poisson count of each row's own gamma rate."""
        shape = np.broadcast_to(given["shape"], np.shape(eta))
        return rng.poisson(np.exp(eta) * rng.gamma(shape) / shape).astype(np.float64)

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Whole numbers from 0."""
        require_counts(names["response"], y, refuse)

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """As of Poisson counts."""
        return POISSON.start(y, given)

    def level(self, rows: Totals) -> float:
        """As of Poisson counts."""
        return POISSON.level(rows)

    def free_sides(self, y: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray] | None:
        """A zero is the more probable the lower its rate."""
        return POISSON.free_sides(y, given)

    def free_words(self, y: np.ndarray, given: Given, response: str, listed: str) -> str:
        """As of Poisson counts."""
        return POISSON.free_words(y, given, response, listed)


NEGATIVE_BINOMIAL = NegativeBinomial()
