"""Ordered categories: a rating is where a logistic variable around η falls among thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit, logit

from ..errors import InvalidData, InvalidModel
from ..numerics.functions import NUMPY, softplus
from ..numerics.hermite import hermite
from ..prior import Normal
from .base import Likelihood, Refuse
from .dispersion import Dispersion, Ordered
from .given import NOTHING, Given
from .links import LOGIT, Identity
from .totals import Totals
from .values import Values

NAME = "threshold"
_FAR = 1e8  # a threshold beyond which nothing is
_LARGEST = 300.0  # logarithm of what is a number, and its square


def threshold_prior(scale: float) -> Normal:
    """Normal(0, 5) of each, in rising order, where the predictors are at their means."""
    return Normal(0.0, 5.0)


class OwnScale(Identity):
    """The expected category on its own scale, though η is on the scale of log odds."""

    name, has_units = "logit", False


class Cumulative(Likelihood):
    """y in 1, …, K with P(y ≤ k) = σ(threshold[k] − η); `order` names the categories of a text."""

    name, link, discrete = "cumulative", OwnScale(), True
    cost = 2.0
    intercept, categorical, moves = False, True, NAME

    def __init__(self, order: Sequence[Any] | None = None):
        self.order = None if order is None else tuple(order)
        if self.order is not None and not (
            not isinstance(order, str) and 1 < len(self.order) == len(set(self.order))
        ):
            raise InvalidModel(
                f"order={order!r} must list two or more different categories, the lowest first."
            )

    def dispersions_of(self, y: Values) -> tuple[Dispersion, ...]:
        """As many thresholds as there are categories but one, beginning at the logits of their shares."""
        counts = y.counts().of_categories + 0.5
        first = logit(np.cumsum(counts)[:-1] / counts.sum())
        return (Dispersion(NAME, threshold_prior, Ordered(first)),)

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log σ(a − η) + log σ(η − b) + log(1 − exp(b − a)), between the thresholds b < a of y."""
        low, high = _between(y, given)
        inside = -xp.logaddexp(0.0, eta - high) - xp.logaddexp(0.0, low - eta)
        return inside + xp.log(-xp.expm1(low - high))

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """The whole of log p: all of it depends on a threshold."""
        if not _moderate(eta, given):
            low, high = _between(y, given)
            with np.errstate(divide="ignore"):
                gap = np.log(-np.expm1(low - high))
            return gap - softplus(eta - high) - softplus(low - eta)
        found = self.rest(y, np.exp(eta), given)
        found += eta
        return found

    def linear(self, y: np.ndarray) -> np.ndarray | None:
        """One."""
        return np.ones_like(y)

    def rest(self, y: np.ndarray, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """log(1 − exp(b − a)) − log(e + exp b)(1 + e exp(−a)), between the thresholds b < a of y."""
        b, c, d, gap = _expanded(y, given)
        product = c * e
        product += d
        product *= e
        product += b
        return np.subtract(gap, np.log(product, out=product), out=product)

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """σ(b − η) − σ(η − a), and σ(b − η)σ(η − b) + σ(η − a)σ(a − η)."""
        if _moderate(eta, given):
            b, c, _, _ = _expanded(y, given)
            e = np.exp(eta)
            up = b / (e + b)
            e = c * e
            down = e / (1.0 + e)
        else:
            low, high = _between(y, given)
            up, down = expit(low - eta), expit(eta - high)
        return up - down, up * (1 - up) + down * (1 - down)

    def probabilities(self, eta: np.ndarray, v: np.ndarray, given: Given) -> np.ndarray:
        """P(y = k) for η ~ N(eta, v), (K, …)."""
        below = [LOGIT.averaged(t - eta, v) for t in _thresholds(given)]
        below = [np.zeros_like(below[0]), *below, np.ones_like(below[0])]
        return np.diff(np.array(below), axis=0)

    def mean(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """1 + Σ_k P(y > k)."""
        return 1.0 + sum(expit(eta - t) for t in _thresholds(given))

    def mean_on_link(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The mean."""
        return self.mean(eta, given)

    def mean_moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd over η ~ N(eta, v) of the expected category in which e ~ N(0, own) is averaged."""
        root, first, second = np.sqrt(v), np.zeros_like(eta), np.zeros_like(eta)
        nodes = hermite(root.max(initial=0.0)) if v.any() else (np.zeros(1), np.ones(1))
        for x, weight in zip(*nodes, strict=True):
            at = eta + root * x
            value = 1.0 + sum(LOGIT.averaged(at - t, own) for t in _thresholds(given))
            first += weight * value
            second += weight * value**2
        return first, np.sqrt(np.maximum(second - first**2, 0.0))

    def slope(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Σ_k σ(η − t_k)σ(t_k − η)."""
        return np.asarray(sum(LOGIT.slope(eta - t) for t in _thresholds(given)))

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """1 + Σ_k (2k + 1) P(y > k), less the mean's square."""
        above = [expit(eta - t) for t in _thresholds(given)]
        square = 1.0 + sum((2 * k + 1) * part for k, part in enumerate(above, start=1))
        return np.asarray(square - (1.0 + sum(above)) ** 2)

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """σ(threshold − η) of the whole part of y."""
        thresholds = _thresholds(given)
        result = np.zeros(np.broadcast_shapes(np.shape(y), np.shape(eta)))
        for k, t in enumerate(thresholds, start=1):
            result = np.where(np.floor(y) == k, expit(t - eta), result)
        return np.where(np.asarray(y) >= len(thresholds) + 1, 1.0, result)

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Where a logistic variable falls."""
        place = eta + rng.logistic(size=np.shape(eta))
        return 1.0 + sum((place > t).astype(np.float64) for t in _thresholds(given))

    # ---- data -----------------------------------------------------------------------------

    def labels(self, ordered: list[Any] | None) -> list[Any] | None:
        """By the order given, or that of an ordered category."""
        return ordered if self.order is None else list(self.order)

    def encode(self, name: str, values: np.ndarray, labels: list[Any]) -> np.ndarray:
        """The numbers 1, …, K of labels."""
        place = {label: k for k, label in enumerate(labels, start=1)}
        strange = next((value for value in values if value not in place), None)
        if strange is not None:
            raise InvalidData(
                f"Column '{name}' has the value {strange!r}, which is not in order={labels}; add it "
                "there, or drop its rows.",
                column=name,
                value=strange,
            )
        return np.array([place[value] for value in values], dtype=np.float64)

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Whole numbers from 1."""
        bad = (y < 1) | (y != np.floor(y))
        if bad.any():
            row = int(np.argmax(bad))
            raise refuse(
                names["response"],
                row,
                y[row],
                "is no category, which must be whole numbers 1, 2, … without gaps",
                "Number the categories from 1, or give an ordered category",
            )

    def check_all(self, y: Values, name: str, labels: list[Any] | None) -> None:
        """Each of the categories 1, …, K occurs, and more than one."""
        K = int(y.high) if labels is None else len(labels)
        there = y.counts().values
        if len(there) < K:
            gap = int(np.argmax(np.append(there, np.inf) != np.arange(1, len(there) + 2)))
            empty, remedy = gap + 1, "the category out and number those that occur"
            if labels is not None:
                empty, remedy = labels[gap], f"it out of order={labels}"
            raise InvalidData(
                f"No row of '{name}' is in category {empty!r} of {K}, so that its threshold is "
                f"unknown; leave {remedy}.",
                column=name,
                value=empty,
            )
        if K < 2:
            raise InvalidData(
                f"Every row of '{name}' is in one category, so that nothing is left to explain; choose "
                "a response that varies.",
                column=name,
            )

    def label_remedy(self, name: str, labels: list[str]) -> str:
        """An order."""
        return (
            f"Say the order of its categories, family=lrvb.likelihoods.Cumulative(order={labels}) with "
            "the lowest first, or make it an ordered pandas category"
        )

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """The middle of the thresholds around y, with weight 1."""
        t = np.array([float(np.mean(part)) for part in _thresholds(given)])
        ends = np.concatenate([t[:1] - 2, t, t[-1:] + 2])
        k = y.astype(np.int64)
        return (ends[k - 1] + ends[k]) / 2, np.ones_like(y)

    def level(self, rows: Totals) -> float:
        """Zero: thresholds carry the level."""
        return 0.0

    def free_sides(self, y: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray] | None:
        """Up in the highest category, down in the lowest."""
        return np.where(y > 1, 1.0, -1.0), (y > 1) & (y < y.max())

    def free_words(self, y: np.ndarray, given: Given, response: str, listed: str) -> str:
        """The extremes on one side each."""
        return (
            f"The response '{response}' is separated perfectly by {listed}: on one side of it there are "
            "only lowest or only highest categories, so that the data set no limit to the effect"
        )

    def __repr__(self) -> str:
        return "Cumulative()" if self.order is None else f"Cumulative(order={list(self.order)})"


def _thresholds(given: Given) -> list[Any]:
    """Those given, in their order."""
    found, k = [], 1
    while f"{NAME}[{k}]" in given:
        found.append(given[f"{NAME}[{k}]"])
        k += 1
    return found


def _between(y: Any, given: Given) -> tuple[Any, Any]:
    """The thresholds below and above each y, far away where there is none."""
    thresholds = _thresholds(given)
    low, high = -_FAR * (y <= 1), _FAR * (y >= len(thresholds) + 1)
    for k, t in enumerate(thresholds, start=1):
        low, high = low + t * (y == k + 1), high + t * (y == k)
    return low, high


def _expanded(y: np.ndarray, given: Given) -> list[np.ndarray]:
    """Of each row, (e + exp b)(1 + e exp(−a)) = exp b + de + ce²: exp b, c, d, log(1 − exp(b − a))."""
    t = np.stack(np.broadcast_arrays(*_thresholds(given)))  # (K − 1, …)
    none = np.zeros((1, *t.shape[1:]))
    near = np.clip(t, -_LARGEST, _LARGEST)  # beyond there is no data, only draws to be thrown away
    b, c = np.concatenate([none, np.exp(near)]), np.concatenate([np.exp(-near), none])
    with np.errstate(divide="ignore"):
        gap = np.concatenate([none, np.log(-np.expm1(-np.diff(t, axis=0))), none])
    return [_at_category(y, part) for part in (b, c, 1.0 + b * c, gap)]


def _at_category(y: np.ndarray, of: np.ndarray) -> np.ndarray:
    """Each row's number of those (K, …) that belong to the categories."""
    place, shape = np.asarray(y).astype(np.int64) - 1, of.shape[1:]
    if of[0].size == 1 or (len(shape) > place.ndim and shape[0] == of[0].size):
        found = np.take(of.reshape(len(of), -1).T, place.reshape(-1), axis=1)
        lead = (found.shape[0], *(1,) * (len(shape) - place.ndim - 1)) * (len(shape) > place.ndim)
        return found.reshape(*lead, *place.shape)
    found = of[0]
    for k, part in enumerate(of[1:], start=1):
        found = np.where(place == k, part, found)
    return found


def _moderate(eta: np.ndarray, given: Given) -> bool:
    """Whether exponentials of η and of thresholds, and their products, are numbers."""
    most = max(eta.max(initial=0.0), -eta.min(initial=0.0))
    return bool(most + max(float(np.abs(t).max()) for t in _thresholds(given)) < _LARGEST)


CUMULATIVE = Cumulative()
