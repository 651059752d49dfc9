"""Parameters of the rows beside η: where each lies, in which coordinates it is drawn, and its prior."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from scipy.special import expit, gammaln, log_expit

from ..prior import Beta, Exponential, HalfNormal, HalfStudentT, Normal

#: of a coordinate that ranges over ℝ: the value itself, its logarithm, or its log odds
Coordinate = Literal["free", "log", "logit"]

SdPriors = (HalfStudentT, HalfNormal, Exponential)


class Range:
    """Where a dispersion lies, as a map from coordinates u (n, k) in all of ℝᵏ to values (n, k).

    State `kinds` (one for each coordinate), `start` (k,), `natural`, `log_jacobian` and what priors it
    `takes`, with words for an error. The density of u follows.
    """

    kinds: tuple[Coordinate, ...]
    #: the kinds of priors that may be stated, and what to say where another is
    takes: ClassVar[tuple[type, ...]]
    words: ClassVar[str]
    #: whether values are positive, whatever the coordinates
    positive: ClassVar[bool] = False

    @property
    def size(self) -> int:
        """Coordinates, and values."""
        return len(self.kinds)

    def start(self) -> np.ndarray:
        """Where a search for the mode begins, (k,)."""
        return np.zeros(self.size)

    def natural(self, u: np.ndarray) -> np.ndarray:
        """Values at n points."""
        raise NotImplementedError

    def log_jacobian(self, u: np.ndarray) -> np.ndarray:
        """log |∂ values/∂u|, (n,)."""
        raise NotImplementedError

    def log_mass(self, prior: Any) -> float:
        """The logarithm of what a prior, independent of every value, has within the range."""
        return 0.0

    def log_density(self, prior: Any, u: np.ndarray) -> np.ndarray:
        """log p(u) of values that are independent by the prior, given that they are in the range, (n,)."""
        values = prior.log_density(self.natural(u)).sum(1)
        return values + self.log_jacobian(u) - self.log_mass(prior)

    def labels(self, name: str) -> tuple[str, ...]:
        """A name for every value."""
        return (name,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items())})"


class Positive(Range):
    """φ > low, with the coordinate log(φ − low); a search begins at `first`, or one above `low`."""

    kinds = ("log",)
    takes: ClassVar[tuple[type, ...]] = SdPriors
    positive = True
    words = (
        "a parameter of the response, which takes lrvb.prior.HalfStudentT(df, scale), "
        "HalfNormal(scale) or Exponential(rate)"
    )

    def __init__(self, low: float = 0.0, first: float | None = None):
        self.low, self.first = low, low + 1.0 if first is None else first

    def start(self) -> np.ndarray:
        """The coordinate of `first`."""
        return np.log([self.first - self.low])

    def natural(self, u: np.ndarray) -> np.ndarray:
        """low + e^u."""
        return self.low + np.exp(u)

    def log_jacobian(self, u: np.ndarray) -> np.ndarray:
        """u."""
        return u[:, 0]

    def log_mass(self, prior: Any) -> float:
        """log P(φ > low)."""
        return _log_mass_beyond(prior, self.low) if self.low else 0.0


class Probability(Range):
    """0 < φ < 1, with the coordinate log φ/(1 − φ)."""

    kinds = ("logit",)
    takes, positive = (Beta,), True
    words = "a probability, which takes lrvb.prior.Beta(a, b)"

    def natural(self, u: np.ndarray) -> np.ndarray:
        """1/(1 + e^−u), a rounding below one at most."""
        return np.minimum(expit(u), 1 - 2.0**-53)

    def log_jacobian(self, u: np.ndarray) -> np.ndarray:
        """log φ(1 − φ)."""
        return (log_expit(u) + log_expit(-u))[:, 0]


class Ordered(Range):
    """φ₁ < … < φ_k, with the coordinates φ₁ and log(φ_j − φ_(j−1)); begins at `first` (k,)."""

    takes = (Normal,)
    words = "thresholds, which take lrvb.prior.Normal(mean, sd) of each, in rising order"

    def __init__(self, first: np.ndarray):
        self.first = np.asarray(first, dtype=np.float64)
        free: tuple[Coordinate, ...] = ("free",)
        gaps: tuple[Coordinate, ...] = ("log",)
        self.kinds = free * min(1, len(self.first)) + gaps * (len(self.first) - 1)

    def start(self) -> np.ndarray:
        """The coordinates of `first`."""
        return np.concatenate([self.first[:1], np.log(np.diff(self.first))])

    def natural(self, u: np.ndarray) -> np.ndarray:
        """φ₁ and sums of gaps."""
        return np.cumsum(np.column_stack([u[:, :1], np.exp(u[:, 1:])]), axis=1)

    def log_jacobian(self, u: np.ndarray) -> np.ndarray:
        """The sum of the gaps' logarithms."""
        return u[:, 1:].sum(1)

    def log_mass(self, prior: Any) -> float:
        """−log k!: one of k! orders, all of the same probability."""
        return -float(gammaln(self.size + 1))

    def labels(self, name: str) -> tuple[str, ...]:
        """`name[1]` to `name[k]`."""
        return tuple(f"{name}[{j}]" for j in range(1, self.size + 1))


@cache
def _log_mass_beyond(prior: Any, low: float) -> float:
    """log P(φ > low) for a prior of a positive number."""
    from scipy.integrate import quad  # whose import takes as long as a small fit

    below = quad(lambda value: float(np.exp(prior.log_density(value))), 0.0, low)[0]
    return float(np.log1p(-below))


POSITIVE, PROBABILITY = Positive(), Probability()


class Dispersion(NamedTuple):
    """A parameter of the rows beside η: its name, the default prior at the data's scale, its range.

    A density is `given` every value by its label: the name, or `name[1]`, … of several.
    """

    name: str
    prior: Callable[[float], Any]
    range: Range = POSITIVE

    @property
    def labels(self) -> tuple[str, ...]:
        """Of its values."""
        return self.range.labels(self.name)


def split_coordinates(
    dispersions: tuple[Dispersion, ...], u: np.ndarray
) -> list[tuple[Dispersion, np.ndarray]]:
    """Every dispersion with its part (n, k) of the coordinates u (n, K)."""
    ends = np.cumsum([dispersion.range.size for dispersion in dispersions])
    return [
        (dispersion, u[:, end - dispersion.range.size : end])
        for dispersion, end in zip(dispersions, ends, strict=True)
    ]


def values_at(dispersions: tuple[Dispersion, ...], u: np.ndarray) -> list[np.ndarray]:
    """Every value (n,), in the order of the labels, at coordinates u (n, K)."""
    return [
        column
        for dispersion, part in split_coordinates(dispersions, u)
        for column in dispersion.range.natural(part).T
    ]


def labels_of(dispersions: tuple[Dispersion, ...]) -> tuple[str, ...]:
    """The labels of all values."""
    return tuple(label for dispersion in dispersions for label in dispersion.labels)
