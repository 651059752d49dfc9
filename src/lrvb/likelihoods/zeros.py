"""Counts with a probability of zero of their own: zero-inflated ones, and hurdles.

Both stand on a count likelihood with P(0) = exp a(η), whose a, a′ and a″ are all that is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ..numerics.functions import NUMPY
from ..numerics.hermite import hermite
from ..prior import Beta
from .base import Likelihood, Refuse
from .dispersion import PROBABILITY, Dispersion
from .given import NOTHING, Given
from .links import LOG
from .negative_binomial import NEGATIVE_BINOMIAL, NegativeBinomial
from .poisson import POISSON, Poisson
from .totals import Totals

_TINY = -1e-7  # log P(0) from which on log(1 − P(0)) is that of −log P(0), to 1e-7
_LOW = -700.0  # η below which exp η is no longer a number


def uniform(scale: float) -> Beta:
    """Beta(1, 1) of a probability."""
    return Beta(1.0, 1.0)


def log_positive(a: Any, xp: Any = NUMPY) -> Any:
    """log(1 − e^a) for a < 0, without cancellation."""
    near = a > -0.7
    return xp.where(
        near,
        xp.log(-xp.expm1(xp.where(near, a, -0.7))),
        xp.log1p(-xp.exp(xp.where(near, -0.7, a))),
    )


def _log_positive_of_many(a: np.ndarray) -> np.ndarray:
    """The same of an array, quicker: its digits are lost only where a is tiny and so is its part."""
    tiny = a > _TINY if a.max(initial=-np.inf) > _TINY else None
    positive = np.asarray(np.exp(a if tiny is None else np.minimum(a, _TINY)))
    np.subtract(1.0, positive, out=positive)
    np.log(positive, out=positive)
    return positive if tiny is None else np.where(tiny, np.log(-a), positive)


def rows_along(y: np.ndarray, eta: np.ndarray, given: Given) -> int | None:
    """The axis of η along which rows are, where y and all that is given have length 1 along all others.

    None where shapes broadcast in another way.
    """
    axis = eta.ndim - y.ndim
    shapes = [np.shape(part) for part in given.values()]
    if (
        y.ndim == 0
        or axis < 0
        or y.size != y.shape[0]
        or eta.shape[axis] != y.size
        or np.broadcast_shapes(eta.shape, *shapes) != eta.shape
        or any(
            len(shape) > y.ndim + axis or shape[axis:] != (1,) * len(shape[axis:])
            for shape in shapes
        )
    ):
        return None
    return axis


class _Zeros(Likelihood):
    """What zero-inflated counts and hurdles have in common."""

    link, discrete = LOG, True
    cost = 2.0
    base: ClassVar[Poisson | NegativeBinomial]
    #: the name of the probability
    zero: ClassVar[str]

    def constant(self, y: Any, given: Given = NOTHING) -> Any:
        """−log y!."""
        return self.base.constant(y, given)

    def linear(self, y: np.ndarray) -> np.ndarray | None:
        """The counts."""
        return y

    def sharpness(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """That of the counts, whatever the zeros add to the variance."""
        return self.base.sharpness(eta, given)

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Whole numbers from 0."""
        self.base.check(y, given, names, refuse)

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """As of Poisson counts."""
        return POISSON.start(y, given)

    def level(self, rows: Totals) -> float:
        """As of Poisson counts."""
        return POISSON.level(rows)

    def free_words(self, y: np.ndarray, given: Given, response: str, listed: str) -> str:
        """Nothing but zeros, or ones after a hurdle."""
        return (
            f"The counts in '{response}' are zero, or too small, wherever {listed} would move them, so "
            "that the data set no limit to the effect"
        )


class _ZeroInflated(_Zeros):
    r"""y = 0 with probability zi, and else a count with mean μ = exp η; E[y] = (1 − zi)μ."""

    zero, concave = "zi", False

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log(1 − zi) + log p(y | η), and of a zero log(zi + (1 − zi)P(0))."""
        zi = given["zi"]
        counted = xp.log1p(-zi) + self.base.log_p(y, eta, given, xp)
        zero = xp.log(zi + (1 - zi) * xp.exp(self.base.log_zero(eta, given, xp)))
        return xp.where(y == 0, zero, counted)

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """The same but for −log y!."""
        y, eta, zi = np.asarray(y), np.asarray(eta), np.asarray(given["zi"], dtype=np.float64)
        axis = rows_along(y, eta, given)
        value, zero = self.base.kernel_and_zero(y, eta, given)
        if axis is None:
            within = np.log(zi + (1 - zi) * np.exp(zero))
            return np.where(y == 0, within, value + np.log1p(-zi))
        value += np.log1p(-zi)
        none = np.flatnonzero(y == 0)
        zero = np.take(zero, none, axis=axis)
        np.exp(zero, out=zero)
        zero *= 1 - zi
        zero += zi
        np.moveaxis(value, axis, 0)[none] = np.moveaxis(np.log(zero, out=zero), axis, 0)
        return value

    def rest(self, y: np.ndarray, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """log(1 − zi) and what the counts have, and of a zero log(zi + (1 − zi)P(0))."""
        zi = np.asarray(given["zi"], dtype=np.float64)
        zero, none = self.base.zero_at(e, given), np.flatnonzero(y == 0)
        within = np.exp(np.take(zero, none, axis=-1))
        within *= 1 - zi
        within += zi
        value = self.base.beside_zero(y, zero, given, np.log1p(-zi))
        value[..., none] = np.log(within, out=within)
        return value

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """Of a zero: w a′ and −w a″ − w(1 − w)a′², w = (1 − zi)e^a/(zi + (1 − zi)e^a)."""
        zi = given["zi"]
        score, information, zero = self.base.derivatives_and_zero(y, eta, given)
        counted = (1 - zi) * np.exp(zero)
        w = np.where(np.asarray(y) == 0, counted / (zi + counted), 1.0)
        some, mixed = w > 0, (w > 0) & (w < 1)  # 0 · ∞ is no number
        bent = w * (1 - w) * np.where(mixed, score, 0.0) ** 2
        return w * np.where(some, score, 0.0), w * np.where(some, information, 0.0) - bent

    def scale(self, given: Given) -> Any:
        """The angle of the complex rates that make p(0) zero, over π: e^−μ = −zi/(1 − zi)."""
        zi = np.asarray(given["zi"])
        return np.arctan2(np.pi, np.log1p(-zi) - np.log(zi)) / np.pi

    def mean(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """(1 − zi)μ."""
        return (1 - given["zi"]) * np.exp(eta)

    def slope(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The mean."""
        return self.mean(eta, given)

    def mean_on_link(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """η + log(1 − zi)."""
        return eta + np.log1p(-np.asarray(given["zi"]))

    def mean_moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Those of a log-normal variable."""
        return self.link.moments(self.mean_on_link(eta, given), v, own)

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """(1 − zi)(V + zi μ²) with V the counts' own."""
        zi = given["zi"]
        return (1 - zi) * (self.base.variance(eta, given) + zi * np.exp(2 * eta))

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """zi + (1 − zi)F(y) from 0 on."""
        zi = given["zi"]
        return np.where(y < 0, 0.0, zi + (1 - zi) * self.base.cdf(y, eta, given))

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Counts, some of them made zero."""
        y = self.base.draw(rng, eta, given)
        return np.where(rng.uniform(size=y.shape) < given["zi"], 0.0, y)

    def free_sides(self, y: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray] | None:
        """A zero is possible whatever its rate."""
        return np.zeros(len(y)), y > 0


class _Hurdle(_Zeros):
    r"""y = 0 with probability hurdle, and else a positive count; E[y] = (1 − hurdle)μ/(1 − P(0))."""

    zero = apart = "hurdle"

    def part(self, y: Any, given: Given) -> Any:
        """log hurdle of a zero, log(1 − hurdle) of any other count."""
        h = np.asarray(given["hurdle"], dtype=np.float64)
        with np.errstate(divide="ignore"):  # no hurdle, no zeros
            return np.where(np.asarray(y) == 0, np.log(h), np.log1p(-h))

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log hurdle of a zero; else log(1 − hurdle) + log p(y | η) − log(1 − P(0))."""
        h = given["hurdle"]
        positive = log_positive(self.base.log_zero(eta, given, xp), xp)
        counted = xp.log1p(-h) + self.base.log_p(y, eta, given, xp) - positive
        return xp.where(y == 0, xp.log(h + 0.0 * eta), counted)

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """The same but for −log y!."""
        y, eta = np.asarray(y), np.asarray(eta)
        h = np.asarray(given["hurdle"], dtype=np.float64)
        axis = rows_along(y, eta, given)
        with np.errstate(divide="ignore"):  # no hurdle, no zeros
            zero = np.log(h)
        if axis is None:
            return np.where(y == 0, zero, self._counted(y, eta, given) + np.log1p(-h))
        some = np.flatnonzero(y)
        counted = self._counted(y[some], np.take(eta, some, axis=axis), given)
        counted += np.log1p(-h)
        result = np.empty(eta.shape)
        result[...] = zero
        np.moveaxis(result, axis, 0)[some] = np.moveaxis(counted, axis, 0)
        return result

    def _counted(self, y: np.ndarray, eta: np.ndarray, given: Given) -> np.ndarray:
        """log p(y | η) − log(1 − P(0)) of positive counts, but for −log y!."""
        if eta.min(initial=0.0) < _LOW:
            within = np.maximum(eta, _LOW)
            return self._counted(y, within, given) + (y - 1) * (eta - within)
        value, a = self.base.kernel_and_zero(y, eta, given)
        return np.subtract(value, _log_positive_of_many(a), out=np.asarray(value))

    def rest(self, y: np.ndarray, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """log(1 − hurdle) and what the counts have, less log(1 − P(0)); log hurdle of a zero."""
        h, some = np.asarray(given["hurdle"], dtype=np.float64), np.flatnonzero(y)
        zero = self.base.zero_at(np.take(e, some, axis=-1), given)
        positive = _log_positive_of_many(zero)
        counted = self.base.beside_zero(y[some], zero, given, np.log1p(-h))
        counted -= positive
        with np.errstate(divide="ignore"):  # no hurdle, no zeros
            e[...] = np.log(h)
        e[..., some] = counted
        return e

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """With r = P(0)/(1 − P(0)): the counts' score + r a′, information − r a″ − r(1 + r)a′²."""
        score, information = self.base.derivatives(y, eta, given)
        r, first, second = self._of_zero(eta, given)
        there = y != 0
        # near r = ∞ the sums cancel: log(1 − P(0)) = η there, but for terms of the order of μ
        small = r > 1e7
        r = np.where(small, 0.0, r)
        more = r * first
        bent = r * second - (1 + r) * more * first
        return (
            np.where(there, score + np.where(small, -1.0, more), 0.0),
            np.where(there, information + np.where(small, 0.0, bent), 0.0),
        )

    def _of_zero(self, eta: Any, given: Given) -> tuple[Any, Any, Any]:
        """r = P(0)/(1 − P(0)), a′ and −a″."""
        a, first, second = self.base.zero_derivatives(np.clip(eta, _LOW, -_LOW), given)
        return -np.exp(a) / np.expm1(a), first, second

    def scale(self, given: Given) -> Any:
        """A half: the complex rates with P(0) = 1 are at an angle of π/2."""
        return 0.5

    def mean(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """(1 − hurdle)μ/(1 − P(0))."""
        within = np.maximum(eta, _LOW)
        positive = -np.expm1(self.base.log_zero(within, given))
        return (1.0 - np.asarray(given["hurdle"])) * np.exp(within) / positive

    def slope(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """mean · (1 + r a′)."""
        r, first, _ = self._of_zero(eta, given)
        return self.mean(eta, given) * (1 + r * first)

    def mean_on_link(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """η + log(1 − hurdle) − log(1 − P(0))."""
        within = np.maximum(eta, _LOW)
        positive = log_positive(self.base.log_zero(within, given))
        return within + np.log1p(-np.asarray(given["hurdle"])) - positive

    def mean_moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """By quadrature over η and, within it, over e."""
        first, second = np.zeros(eta.shape), np.zeros(eta.shape)
        root, inner = np.sqrt(v), np.sqrt(own)
        for x, weight in zip(*hermite(root.max(initial=0.0)), strict=True):
            value = np.zeros(eta.shape)
            for e, part in zip(*hermite(inner.max(initial=0.0)), strict=True):
                value += part * self.mean(eta + root * x + inner * e, given)
            first += weight * value
            second += weight * value**2
        return first, np.sqrt(np.maximum(second - first**2, 0.0))

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """m(V/μ + μ) − m² with m the mean and V the counts' own variance."""
        mean, within = self.mean(eta, given), np.maximum(eta, _LOW)
        rate = np.exp(within)
        return mean * (self.base.variance(within, given) / rate + rate) - mean**2

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """hurdle + (1 − hurdle)(F(y) − P(0))/(1 − P(0)) from 0 on."""
        h, a = given["hurdle"], self.base.log_zero(np.maximum(eta, _LOW), given)
        share = (self.base.cdf(y, eta, given) - np.exp(a)) / -np.expm1(a)
        return np.where(y < 0, 0.0, h + (1 - h) * np.where(y < 1, 0.0, share))

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Quantiles of the counts at probabilities beyond P(0), some of them made zero.

        Where rates are so small that such a probability rounds to 1, the count is 1.
        """
        zero = np.exp(self.base.log_zero(eta, given))
        beyond = zero + (1 - zero) * rng.uniform(size=np.shape(eta))
        below = np.minimum(beyond, np.nextafter(1.0, 0.0))
        y = np.maximum(self.base.quantile(below, eta, given), 1.0)
        return np.where(rng.uniform(size=y.shape) < given["hurdle"], 0.0, y)

    def free_sides(self, y: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray] | None:
        """A zero says nothing of its rate; a one is the more probable the lower it is."""
        return np.where(y == 0, 0.0, -1.0), y > 1


_ZI = Dispersion("zi", uniform, PROBABILITY)
_HURDLE = Dispersion("hurdle", uniform, PROBABILITY)


class ZeroInflatedPoisson(_ZeroInflated):
    """y = 0 with probability zi, and else y ~ Poisson(exp η)."""

    name, base = "zero_inflated_poisson", POISSON
    dispersions = (_ZI,)


class ZeroInflatedNegativeBinomial(_ZeroInflated):
    """y = 0 with probability zi, and else negative binomial with mean exp η and `shape`."""

    name, base = "zero_inflated_negbinomial", NEGATIVE_BINOMIAL
    cost = 4.0
    dispersions = (*NEGATIVE_BINOMIAL.dispersions, _ZI)


class HurdlePoisson(_Hurdle):
    """y = 0 with probability hurdle, and else y ~ Poisson(exp η) given y > 0."""

    name, base = "hurdle_poisson", POISSON
    dispersions = (_HURDLE,)


class HurdleNegativeBinomial(_Hurdle):
    """y = 0 with probability hurdle, and else negative binomial given y > 0."""

    name, base, concave = "hurdle_negbinomial", NEGATIVE_BINOMIAL, False
    cost = 4.0
    dispersions = (*NEGATIVE_BINOMIAL.dispersions, _HURDLE)


ZERO_INFLATED_POISSON = ZeroInflatedPoisson()
ZERO_INFLATED_NEGATIVE_BINOMIAL = ZeroInflatedNegativeBinomial()
HURDLE_POISSON = HurdlePoisson()
HURDLE_NEGATIVE_BINOMIAL = HurdleNegativeBinomial()
