"""Polish: how short HMC with control variates went, and its verdict on every quantity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .verdicts import DOUBTFUL, ESS, MODE, NO, TAIL, TRUST, Compared

AGREED, APART = 1.05, 1.15  # R̂ to which chains agree, and from which they do not
SETTLED = (
    1.1  # of every coordinate, above which nothing is trusted; of a quantity that two runs repeat
)
NEAR, FAR = 0.15, 0.5  # gap between linear response and HMC, of a mean in sds and of a log sd
CLOSE = 0.05  # a gap of every quantity to which no second run is needed: then the posterior is nearly normal
REPEATED = 0.1  # the same between two runs of HMC that confirm each other
CHANCE = (
    6.0  # Monte Carlo errors of both together that may be between them: three of their difference
)
ERROR = 0.05  # Monte Carlo error, of a mean in sds or of a log sd, above which nothing is confirmed


@dataclass(frozen=True, eq=False)
class Polish:
    """R̂, effective draws and Monte Carlo errors of every named quantity, (q,), and what was spent.

    `modes` are log evidences of all modes less that of the first. `concern` is a sentence that
    withholds trust from every quantity, empty where there is none, `severe` whether it is a "no",
    `unanswered` whether it is that linear response has no answer: then two runs may do without it.
    `second` (q,), where there was a second run, is how far apart the two runs are: a mean in sds, a log sd.
    `slowest` is the largest R̂ of the coordinates' ranks. `neck` (q,), of what drives a funnel, is the same
    distance between its draws and its marginal by Laplace's method; not a number of anything else. `tail`
    (q,) are tail indices of the draws on the sides that have no end.
    """

    r_hat: np.ndarray
    ess: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    modes: tuple[float, ...]
    rounds: int
    gradients: int
    seconds: float
    concern: str = ""
    severe: bool = False
    second: np.ndarray | None = None
    slowest: float = 1.0
    unanswered: bool = False
    neck: np.ndarray | None = None
    tail: np.ndarray | None = None

    def asks_again(self, found: Compared) -> bool:
        """Whether a second run must confirm the first: not where all is nearly normal, or unsettled."""
        if self.severe or not self.slowest <= SETTLED or (self.concern and not self.unanswered):
            return False
        return self.unanswered or bool((self.gap(found) > CLOSE).any())

    def gap(self, found: Compared) -> np.ndarray:
        """max(|shift|, |log sd ratio|) of linear response and HMC, (q,)."""
        return np.maximum(np.abs(found.shift), np.abs(np.log(np.maximum(found.ratio, 1e-300))))

    def between_runs(self, values: np.ndarray, chains: int) -> np.ndarray | None:
        """How far apart two runs, each half of the chains, are in values (n, p); ∞ where one was left out."""
        if self.second is None:
            return None
        if not (self.second <= FAR).all():
            return np.full(values.shape[1], np.inf)
        runs = np.split(values.reshape(-1, chains, values.shape[1]), 2, axis=1)
        mean, sd = (np.array([f(run, axis=(0, 1)) for run in runs]) for f in (np.mean, np.std))
        with np.errstate(all="ignore"):
            found = np.maximum(np.abs(mean[0] - mean[1]) / sd[0], np.abs(np.log(sd[1] / sd[0])))
        return np.where(np.ptp(values, axis=0) > 0, found, 0.0)

    def judge(
        self, found: Compared, others: float, hangs: np.ndarray | None = None
    ) -> list[tuple[str, str]]:
        """Verdict and reason of every quantity; `others` is the share of modes no chain has seen.

        `hangs` (q,) marks what goes with a quantity that has no finite sd: by default all, if one has none.
        """
        gap = self.gap(found)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(
                found.sd > 0, np.maximum(found.mean_error, found.sd_error) / found.sd, 0.0
            )
        second = self.second if self.second is not None else np.full(len(gap), np.nan)
        neck = self.neck if self.neck is not None else np.full(len(gap), np.nan)
        if hangs is None:
            hangs = np.full(len(gap), bool((found.tail > TAIL).any()))
        alone = ~hangs & bool((second <= FAR).all())
        columns = alone, gap, self.r_hat, self.ess, error, found.tail, second, neck
        return [self._one(others, *one) for one in zip(*columns, strict=True)]

    def _one(
        self,
        others: float,
        alone: bool,
        gap: float,
        r_hat: float,
        ess: float,
        error: float,
        tail: float,
        second: float,
        neck: float,
    ) -> tuple[str, str]:
        """`alone` is whether two runs of HMC can do without linear response.

        They cannot where they are apart in any quantity, nor for what hangs together with one that has no
        finite sd: its tails no run ends.
        """
        seen = f"R-hat {r_hat:.2f}, gap to linear response {gap:.2f}"
        seen += f", to a second run {second:.2f}" if second <= FAR else ""
        by_chance = not second > max(CLOSE, CHANCE * error)
        repeated = alone and second <= REPEATED and by_chance
        if others >= MODE:
            share = f"Another mode holds about {100 * others:.0f} % of the evidence"
            return (NO if others > 0.1 else DOUBTFUL), f"{share}, which this answer leaves out."
        if self.severe:
            return NO, self.concern
        if tail > TAIL:
            return NO, (
                f"Its tail index is {tail:.2f}: no sd is finite for all that the draws say; use lower "
                "and upper, which are quantiles."
            )
        if not r_hat <= APART:
            return NO, f"Chains disagree: {seen}."
        if not gap <= FAR and not repeated and not self.unanswered:
            return NO, f"Linear response and HMC differ: {seen}."
        if self.concern and not (self.unanswered and repeated):
            return DOUBTFUL, self.concern
        if second > FAR:
            return DOUBTFUL, f"A second run of HMC from far out came elsewhere; {seen}."
        if not self.slowest <= SETTLED:
            return DOUBTFUL, (
                f"Chains disagree in a coordinate that this may hang on (R-hat {self.slowest:.2f}); "
                f"{seen}."
            )
        if neck > REPEATED:
            return DOUBTFUL, (
                f"It drives a funnel whose neck the draws have missed or met too often: they are {neck:.2f} "
                f"off its marginal by Laplace's method; {seen}."
            )
        close = r_hat <= (SETTLED if repeated else AGREED)
        if not close or second > NEAR or not by_chance or (gap > NEAR and not repeated):
            return DOUBTFUL, f"Not confirmed: {seen}."
        if ess < ESS:
            return (
                DOUBTFUL,
                f"Only {ess:.0f} draws are effective, an error of {error:.2f} sd; {seen}.",
            )
        if error > ERROR:
            return DOUBTFUL, (
                f"Its Monte Carlo error, with squares that draws are likely to miss, is {error:.2f} sd; "
                f"{seen}."
            )
        return TRUST, f"Confirmed: {seen}."
