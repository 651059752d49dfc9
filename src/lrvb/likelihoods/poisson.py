"""Counts whose logarithmic rate is the linear predictor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import gammaincc, gammaln

from ..numerics.functions import NUMPY
from .base import Likelihood, LikelihoodRows, Refuse, require_counts
from .expectation import Expectation
from .given import NOTHING, Given
from .links import LOG
from .totals import Totals


class Poisson(Likelihood):
    """y ~ Poisson(exp η)."""

    name, link, discrete, light_tails = "poisson", LOG, True, True
    exponential = "rate"

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """yη − exp η − log y!."""
        return y * eta - xp.exp(eta) - xp.gammaln(y + 1.0)

    def log_zero(self, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log P(0) = −exp η."""
        return -xp.exp(eta)

    def constant(self, y: Any, given: Given = NOTHING) -> Any:
        """−log y!."""
        return -gammaln(y + 1.0)

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """yη − exp η."""
        return y * eta - np.exp(eta)

    def linear(self, y: np.ndarray) -> np.ndarray | None:
        """The counts."""
        return y

    def rest(self, y: np.ndarray, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """−e."""
        return self.zero_at(e, given)

    def zero_at(self, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """`log_zero` of e = exp η, written over it."""
        return np.negative(e, out=e)

    def beside_zero(
        self, y: np.ndarray, zero: np.ndarray, given: Given = NOTHING, more: Any = 0.0
    ) -> np.ndarray:
        """`rest`, and what is `more`, from `zero_at`, written over it."""
        zero += more
        return zero

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """y − exp η and exp η."""
        rate = np.exp(eta)
        return y - rate, rate

    def derivatives_and_zero(
        self, y: Any, eta: Any, given: Given = NOTHING
    ) -> tuple[Any, Any, Any]:
        """The derivatives and `log_zero`, which share an exponential."""
        rate = np.exp(eta)
        return y - rate, rate, -rate

    def kernel_and_zero(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """The kernel and `log_zero`, which share an exponential."""
        zero = -np.exp(eta)
        return y * eta + zero, zero

    def zero_derivatives(self, eta: Any, given: Given = NOTHING) -> tuple[Any, Any, Any]:
        """`log_zero` a, a′ and −a″."""
        rate = np.exp(eta)
        return -rate, -rate, rate

    def expected_log_p(self, y: Any, mean: Any, v: Any, xp: Any = NUMPY) -> Any:
        """E log p = yη̄ − exp(η̄ + v/2) − log y! for η ~ N(η̄, v)."""
        return y * mean - xp.exp(mean + v / 2) - xp.gammaln(y + 1.0)

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The mean."""
        return np.exp(eta)

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Γ(k + 1, exp η)/Γ(k + 1) with k the whole part of y."""
        return np.where(y < 0, 0.0, gammaincc(np.floor(np.maximum(y, 0.0)) + 1, np.exp(eta)))

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """A count for each rate."""
        return rng.poisson(np.exp(eta)).astype(np.float64)

    def rows(self, y: np.ndarray, given: Given = NOTHING) -> LikelihoodRows:
        """E log p in closed form."""
        return PoissonRows(self, y, given)

    def averaged(
        self, mean: np.ndarray, v: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """The moments of a log-normal rate, and the counts' own noise."""
        rate = np.exp(mean + v / 2)
        return rate, rate + rate**2 * np.expm1(v)

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Whole numbers from 0."""
        require_counts(names["response"], y, refuse)

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """log(y + ½), with weight y + ½."""
        return np.log(y + 0.5), y + 0.5

    def level(self, rows: Totals) -> float:
        """The log of the rate in Σy = rate · Σ exp(offset), half a count added to none."""
        return float(np.log(rows.y + 0.5 * (rows.y == 0))) - rows.exposure

    def free_sides(self, y: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray] | None:
        """A zero is the more probable the lower its rate."""
        return np.full(len(y), -1.0), y > 0

    def free_words(self, y: np.ndarray, given: Given, response: str, listed: str) -> str:
        """Zeros everywhere, or wherever an effect would lower them."""
        if not y.any():
            return (
                f"Every count in '{response}' is zero, so that the data set no lower limit to "
                f"{listed}"
            )
        return (
            f"All counts in '{response}' are zero wherever {listed} would lower them, so that the "
            "data set no limit to the effect"
        )


class PoissonRows(LikelihoodRows):
    """E log p and all its derivatives from the expected rate."""

    def __init__(self, likelihood: Poisson, y: np.ndarray, given: Given = NOTHING):
        super().__init__(likelihood, y, given)
        self._constant = float(gammaln(y + 1.0).sum())

    def at(self, mean: np.ndarray, v: np.ndarray) -> Expectation:
        """Σ E log p as in `expected_log_p`, with the factorials summed once."""
        with np.errstate(over="ignore"):
            rate = np.exp(mean + v / 2)
        value = float(self.y @ mean - rate.sum() - self._constant)
        return Expectation(value, self.y - rate, -rate / 2, -rate, -rate / 2, -rate / 4)


POISSON = Poisson()
