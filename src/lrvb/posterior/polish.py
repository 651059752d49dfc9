"""Polish: how short HMC with control variates went, and its verdict on every quantity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .verdicts import DOUBTFUL, ESS, MODE, NO, TAIL, TRUST, Compared

AGREED, APART = 1.05, 1.15  # R̂ to which chains agree, and from which they do not
NEAR, FAR = 0.15, 0.5  # gap between linear response and HMC, of a mean in sds and of a log sd
REPEATED = 0.1  # the same between two runs of HMC that confirm each other
ERROR = 0.07  # Monte Carlo error, of a mean in sds or of a log sd, above which nothing is confirmed


@dataclass(frozen=True, eq=False)
class Polish:
    """R̂, effective draws and Monte Carlo errors of every named quantity, (q,), and what was spent.

    `modes` are log evidences of all modes less that of the first. `concern` is a sentence that
    withholds trust from every quantity, empty where there is none, `severe` whether it is a "no".
    `second` (q,), where there was a second run, is how far apart the two runs are: a mean in sds, a log sd.
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

    def asks_again(self, found: Compared) -> bool:
        """Whether a second run of HMC could confirm what linear response does not.

        Not where anything has no finite sd: what hangs together with it has tails that no run ends.
        """
        if self.concern or (found.tail > TAIL).any():
            return False
        alone = (self.gap(found) > NEAR) & (self.r_hat <= AGREED) & (self.ess >= ESS)
        return bool(alone.any())

    def gap(self, found: Compared) -> np.ndarray:
        """max(|shift|, |log sd ratio|) of linear response and HMC, (q,)."""
        return np.maximum(np.abs(found.shift), np.abs(np.log(np.maximum(found.ratio, 1e-300))))

    def judge(self, found: Compared, others: float) -> list[tuple[str, str]]:
        """Verdict and reason of every quantity; `others` is the share of modes no chain has seen."""
        gap = self.gap(found)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.where(
                found.sd > 0, np.maximum(self.mean_error, self.sd_error) / found.sd, 0.0
            )
        second = self.second if self.second is not None else np.full(len(gap), np.nan)
        every = bool((second <= FAR).all())
        return [
            self._one(others, every, *one)
            for one in zip(gap, self.r_hat, self.ess, error, found.tail, second, strict=True)
        ]

    def _one(
        self,
        others: float,
        every: bool,
        gap: float,
        r_hat: float,
        ess: float,
        error: float,
        tail: float,
        second: float,
    ) -> tuple[str, str]:
        """`every` is whether a second run was near the first in every quantity."""
        seen = f"R-hat {r_hat:.2f}, gap to linear response {gap:.2f}"
        seen += f", to a second run {second:.2f}" if second <= FAR else ""
        repeated = every and second <= REPEATED
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
        if not gap <= FAR and not repeated:
            return NO, f"Linear response and HMC differ: {seen}."
        if self.concern:
            return DOUBTFUL, self.concern
        if r_hat > AGREED or (gap > NEAR and not repeated):
            return DOUBTFUL, f"Not confirmed: {seen}."
        if ess < ESS or error > ERROR:
            return (
                DOUBTFUL,
                f"Only {ess:.0f} draws are effective, an error of {error:.2f} sd; {seen}.",
            )
        if second > FAR:
            return DOUBTFUL, f"A second run of HMC from wider starts came elsewhere; {seen}."
        return TRUST, f"Confirmed: {seen}."
