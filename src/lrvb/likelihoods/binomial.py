"""Successes in trials, and single zeros and ones, whose probability follows from the linear predictor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.special import betainc, expit, gammaln

from ..numerics.functions import NUMPY
from ..numerics.hermite import hermite
from .base import Likelihood, LikelihoodRows, Refuse, require_counts
from .expectation import Expectation
from .given import NOTHING, Given
from .links import CLOGLOG, LOGIT, PROBIT, Link, ProbabilityLink, link_of
from .totals import Totals

_ENTRIES = 2**14  # nodes times rows at a time


def trials_of(given: Given) -> Any:
    """The trials of each row, one where nothing is said."""
    return given.get("trials", 1.0)


class Binomial(Likelihood):
    """y ~ Binomial(trials, g⁻¹(η)) with the column `trials`; link is "logit", "probit" or "cloglog"."""

    name, discrete, light_tails = "binomial", True, True
    extras: ClassVar[tuple[str, ...]] = ("trials",)
    links: ClassVar[tuple[Link, ...]] = (LOGIT, PROBIT, CLOGLOG)
    exponential, cost = "odds", 2.0
    link: ProbabilityLink = LOGIT

    def __init__(self, link: str | Link = "logit"):
        found = link_of(link, self.links, self.name)
        assert isinstance(found, ProbabilityLink)
        self.link = found
        if found is not LOGIT:
            self.name, self.exponential = f"{self.name}({found.name})", ""

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """y log p + (trials − y) log(1 − p) + log of the choices."""
        trials = trials_of(given)
        choices = xp.gammaln(trials + 1.0) - xp.gammaln(y + 1.0) - xp.gammaln(trials - y + 1.0)
        if self.link is LOGIT:
            return y * eta - trials * xp.logaddexp(0.0, eta) + choices
        up, down = self.link.log_probability(eta, xp), self.link.log_complement(eta, xp)
        return y * up + (trials - y) * down + choices

    def constant(self, y: Any, given: Given = NOTHING) -> Any:
        """The log of the choices."""
        trials = trials_of(given)
        return gammaln(trials + 1.0) - gammaln(y + 1.0) - gammaln(trials - y + 1.0)

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """y log p + (trials − y) log(1 − p)."""
        trials = trials_of(given)
        if self.link is LOGIT:
            return y * eta - trials * (np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))))
        if self.binary and self.link.symmetric:
            return self.link.log_probability((2 * y - 1) * eta)
        up, down = self.link.log_probability(eta), self.link.log_complement(eta)
        return y * up + (trials - y) * down

    def linear(self, y: np.ndarray) -> np.ndarray | None:
        """Of a logit, the successes."""
        return y if self.link is LOGIT else None

    def rest(self, y: np.ndarray, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Of a logit, −trials · log(1 + e)."""
        np.log1p(e, out=e)
        e *= -np.asarray(trials_of(given))
        return e

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """Of a logit, y − trials · σ(η) and trials · σ(η)σ(−η); else the sums of two logarithms'."""
        trials = trials_of(given)
        if self.link is LOGIT:
            small = np.exp(-np.abs(eta))
            share = np.where(eta >= 0, 1.0, small) / (1 + small)
            return y - trials * share, trials * (small / (1 + small) ** 2)
        if self.binary and self.link.symmetric:
            score, information = self.link.log_derivatives((2 * y - 1) * eta)
            return (2 * y - 1) * score, information
        up, up_information = self.link.log_derivatives(eta)
        down, down_information = self.link.complement_derivatives(eta)
        return (
            y * up + (trials - y) * down,
            y * up_information + (trials - y) * down_information,
        )

    def scale(self, given: Given) -> Any:
        """The link's."""
        return self.link.unit

    def mean(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """trials · p."""
        return trials_of(given) * self.link.inverse(eta)

    def slope(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """trials · ∂p/∂η."""
        return trials_of(given) * self.link.slope(eta)

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """trials · p(1 − p)."""
        return trials_of(given) * self.link.inverse(eta) * self.link.complement(eta)

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The regularised incomplete beta function of 1 − p."""
        trials = trials_of(given)
        inside = np.clip(np.floor(y), 0.0, trials - 1)
        value = betainc(trials - inside, inside + 1, self.link.complement(eta))
        return np.where(y < 0, 0.0, np.where(y >= trials, 1.0, value))

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Successes for each probability."""
        trials = np.asarray(trials_of(given)).astype(np.int64)
        return rng.binomial(trials, self.link.inverse(eta)).astype(np.float64)

    def rows(self, y: np.ndarray, given: Given = NOTHING) -> LikelihoodRows:
        """E log p; of a logit, from five averages that share the logistic curve."""
        return BinomialRows(self, y, given) if self.link is LOGIT else super().rows(y, given)

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Successes among the trials; without trials, zeros and ones."""
        name = names["response"]
        if "trials" not in given:
            _require_zero_or_one(name, y, refuse, "write the response as prop(successes, trials)")
            return
        require_counts(name, y, refuse, "successes")
        trials = given["trials"]
        if (y > trials).any():
            row = int(np.argmax(y > trials))
            raise refuse(
                name,
                row,
                y[row],
                f"is more than the {trials[row]:g} trials in '{names['trials']}'",
                "Correct one of the two, or drop the row",
            )

    def label_remedy(self, name: str, labels: list[str]) -> str:
        """Two labels are a zero and a one."""
        if len(labels) != 2:
            return super().label_remedy(name, labels)
        return f"Make it 0 and 1, with a column such as data['{name}'] == '{labels[1]}'"

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """The link of a proportion drawn towards one half, with its weight."""
        trials = trials_of(given)
        share = (y + 0.5) / (trials + 1)
        guess = self.link.apply(share)
        return guess, (trials + 1) * self.link.slope(guess) ** 2 / (share * (1 - share))

    def level(self, rows: Totals) -> float:
        """The link of the share of all trials together, half a success added where all or none succeed."""
        edge = 0.5 * (rows.y in (0, rows.trials))
        share = (rows.y + edge) / (rows.trials + 2 * edge)
        return float(self.link.apply(np.asarray(share))) - rows.offset / rows.n

    def free_sides(self, y: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray] | None:
        """Up where every trial succeeds, down where none does."""
        return np.where(y > 0, 1.0, -1.0), (y > 0) & (y < trials_of(given))

    def free_words(self, y: np.ndarray, given: Given, response: str, listed: str) -> str:
        """One outcome everywhere, or one on each side."""
        if np.ptp(y / trials_of(given)) == 0:
            everything = 0 if not y.any() else 1
            return (
                f"Every row of '{response}' has the same outcome {everything}, so that the data "
                f"set no limit to {listed}"
            )
        return (
            f"The response '{response}' is separated perfectly by {listed}: on one side of it there "
            "are only failures or only successes, so that the data set no limit to the effect"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(link={self.link.name!r})"


class Bernoulli(Binomial):
    """y ~ Bernoulli(g⁻¹(η)): a binomial response of one trial each, with its links."""

    name, binary = "bernoulli", True
    extras: ClassVar[tuple[str, ...]] = ()

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Zeros and ones."""
        _require_zero_or_one(
            names["response"],
            y,
            refuse,
            f'write prop(successes, trials) with family="{Binomial.name}" for counts',
        )


class BinomialRows(LikelihoodRows):
    r"""E log p from E of b(η) = log(1 + e^η) and of its first four derivatives, sharing σ(η)."""

    def __init__(self, likelihood: Binomial, y: np.ndarray, given: Given = NOTHING):
        super().__init__(likelihood, y, given)
        trials = trials_of(given)
        choices = gammaln(trials + 1) - gammaln(y + 1) - gammaln(trials - y + 1)
        self._trials, self._constant = trials, float(choices.sum())

    def at(self, mean: np.ndarray, v: np.ndarray) -> Expectation:
        """Gauss–Hermite sums, with nodes for the largest sd."""
        root = np.sqrt(v)
        sums = np.zeros((5, len(mean)))
        x, weights = hermite(root.max(initial=0.0))
        together = max(1, _ENTRIES // max(len(mean), 1))
        for start in range(0, len(x), together):
            here = slice(start, start + together)
            u, weight = mean + root * x[here, None], weights[here]
            p = expit(u)
            d = p * (1 - p)
            sums[0] += weight @ np.logaddexp(0.0, u)
            sums[1] += weight @ p
            sums[2] += weight @ d
            sums[3] += weight @ (d * (1 - 2 * p))
            sums[4] += weight @ (d * (1 - 6 * d))
        b, b1, b2, b3, b4 = self._trials * sums
        value = float(self.y @ mean - b.sum() + self._constant)
        return Expectation(value, self.y - b1, -b2 / 2, -b2, -b3 / 2, -b4 / 4)


def _require_zero_or_one(name: str, y: np.ndarray, refuse: Refuse, otherwise: str) -> None:
    bad = (y != 0) & (y != 1)
    if bad.any():
        row = int(np.argmax(bad))
        raise refuse(
            name, row, y[row], "is neither 0 nor 1", f"Recode the column as 0 and 1, or {otherwise}"
        )


BINOMIAL, BERNOULLI = Binomial(), Bernoulli()
