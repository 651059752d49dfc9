"""Plain steps of priors, either way: what they are foretold to move, and what a fit finds there.

A step moves a mean, and it may move an interval over zero, so that it holds zero or holds it no more: then
a conclusion hangs on the prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .answering import PriorChange, PriorQuestions
from .estimate import Estimate
from .hyperparameters import Hyperparameter

PROB = 0.94  # of the intervals of which is asked whether they hold zero
OVER = 0.1  # sds by which an end must move for that to be more than a narrow escape


class Asked(NamedTuple):
    """Quantities by their names, their coordinates `at` (k,), and whether zero means something (k,).

    Of the logarithm of a scale zero is a matter of units, and no conclusion hangs on it.
    """

    names: Sequence[str]
    at: np.ndarray
    signed: np.ndarray


def asked(estimate: Estimate, names: Sequence[str]) -> Asked:
    """These quantities of an estimate."""
    at = np.array([estimate.index[name] for name in names], dtype=int)
    return Asked(names, at, ~np.isin(at, estimate.logarithms))


class Step(NamedTuple):
    """One hyperparameter's step: the change of means (k,) in sds, and which intervals go over zero (k,).

    Foretold, both are without a fit: the interval moves with its mean.
    """

    hyperparameter: Hyperparameter
    step: float
    change: np.ndarray
    over: np.ndarray

    @property
    def forth(self) -> bool:
        """Whether it is the plain step, not the one back."""
        return self.step == self.hyperparameter.step

    @property
    def size(self) -> float:
        """The largest change."""
        return float(np.abs(self.change).max(initial=0.0))

    @property
    def furthest(self) -> int:
        """Which quantity it moves most."""
        return int(np.argmax(np.abs(self.change)))

    @property
    def worst(self) -> int:
        """The same of those whose interval goes over zero, or of all."""
        size = np.abs(self.change)
        return int(np.argmax(np.where(self.over, size, -1.0) if self.over.any() else size))

    def said(self, names: Sequence[str], k: int | None = None) -> str:
        """In words, of quantity k, the worst unless it is given."""
        k = self.worst if k is None else k
        moved = f"moves the mean of {names[k]} by {self.change[k]:+.2g} sds"
        return f"{self.hyperparameter.said(self.step)} {moved}"


def plain_step_changes(
    questions: PriorQuestions, changes: Sequence[PriorChange], of: Asked
) -> list[Step]:
    """Every step either way, the furthest first; to the first order where no more can be foretold."""
    sd = np.where(questions.sd[of.at] > 0, questions.sd[of.at], np.inf)
    ends = np.stack(questions.intervals(PROB))[:, of.at]
    found = []
    for h, d_mean, _, at_steps in changes:
        for step, foretold in zip(h.steps, at_steps, strict=True):
            if step == 0:
                continue
            moved = np.where(np.isfinite(foretold).all(), foretold, step * d_mean)
            found.append(Step(h, step, moved / sd, of.signed & _over(ends, ends + moved, sd)))
    return sorted(found, key=lambda step: -step.size)


class FittedStep(NamedTuple):
    """A step by a fit of its own, and the intervals (2, k) before and after it."""

    step: Step
    before: np.ndarray
    after: np.ndarray


def fitted_step(questions: PriorQuestions, step: Step, of: Asked) -> FittedStep:
    """The same step by a fit of its own."""
    at = of.at
    sd = np.where(questions.sd[at] > 0, questions.sd[at], np.inf)
    there = questions.refitted(step.hyperparameter, step.step, PROB)
    ends = np.stack(questions.intervals(PROB))[:, at]
    moved = np.stack([there.lower, there.upper])[:, at]
    over = of.signed & _over(ends, moved, sd)
    found = step._replace(change=there.change[at] / sd, over=over)
    return FittedStep(found, ends, moved)


def _over(before: np.ndarray, after: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Which intervals (2, k) hold zero before or after only, the end that passed it having moved far."""
    holds = [(ends[0] < 0) & (ends[1] > 0) for ends in (before, after)]
    crossing = np.sign(before) != np.sign(after)
    far = (crossing & (np.abs(after - before) > OVER * sd)).any(0)
    return np.asarray((holds[0] != holds[1]) & far)
