"""The fewest rows without which a conclusion would change, found by influence and confirmed by refits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..errors import LrvbError
from .answering import RowQuestions

SHARE = 0.5  # of the rows, beyond which nothing is left of the data to speak of
AT_ONCE = 0.02  # of the rows, up to which influences add up well enough to be taken together
FEW = 3  # rows that are taken together in any case
ROUNDS = 12  # refits towards a change, each of which has the influences anew
TRIMS = 6  # refits that look for fewer rows of the last round
SMALL = 6  # rows, of so many or fewer each is tried again, whether it is needed


@dataclass(frozen=True, eq=False)
class Fragility:
    """The fewest rows found without which a conclusion about one quantity changes.

    `sign` and `interval` are the labels of rows without which the mean changes its sign, and the interval
    holds zero; None where half of the rows do not do it. Each set is one that a refit confirmed:
    `mean_without` and `interval_without` are its mean and its interval. `stopped` says why a search
    ended early.
    """

    name: str
    mean: float
    lower: float
    upper: float
    n: int
    sign: list[Any] | None
    interval: list[Any] | None
    mean_without: dict[str, float] = field(default_factory=dict)
    interval_without: dict[str, tuple[float, float]] = field(default_factory=dict)
    stopped: dict[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        lines = [
            f"{self.name}: mean {self.mean:.4g}, interval {self.lower:.4g} to {self.upper:.4g}, "
            f"from {self.n} rows"
        ]
        for what, rows in (("interval", self.interval), ("sign", self.sign)):
            said = "the interval holds zero" if what == "interval" else "the sign flips"
            if what == "interval" and self.lower <= 0 <= self.upper:
                lines.append("  the interval holds zero already")
            elif rows is None:
                why = self.stopped.get(what, f"up to {SHARE:.0%} of the rows were left out")
                lines.append(f"  no rows were found without which {said}: {why}")
            else:
                shown = ", ".join(map(str, rows[:6])) + (" …" if len(rows) > 6 else "")
                count = f"{len(rows)} row{'s' if len(rows) > 1 else ''}"
                low, high = self.interval_without[what]
                lines.append(
                    f"  {said} without {count} ({len(rows) / self.n:.2%}: {shown}): a refit has mean "
                    f"{self.mean_without[what]:.4g}, interval {low:.4g} to {high:.4g}"
                )
        return "\n".join(lines)


class _State(NamedTuple):
    """A fit without the rows `out`, whose own rows are at `places` among all."""

    out: np.ndarray
    questions: RowQuestions
    places: np.ndarray
    mean: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class _Search:
    """Rows are left out greedily, some at a time, with the influences of the fit without those before."""

    i: int
    prob: float
    sign: float  # of the mean of all rows
    n: int

    def without(self, first: RowQuestions, out: np.ndarray) -> _State:
        """The fit without these rows."""
        questions, places = first.without(out)
        lower, upper = (float(ends[self.i]) for ends in questions.intervals(self.prob))
        return _State(out, questions, places, float(questions.estimate.m[self.i]), lower, upper)

    def gap(self, state: _State, what: str) -> float:
        """How far the mean, or the interval's nearer end, is from zero; none is left below 0."""
        if what == "sign":
            return self.sign * state.mean
        return state.lower if self.sign > 0 else -state.upper

    def order(self, state: _State) -> tuple[np.ndarray, np.ndarray]:
        """Rows by what leaving them out brings the mean towards zero, the largest first, and that."""
        change = state.questions.influence(np.array([self.i]), refits=0).values[:, 0]
        gain = np.zeros(self.n)
        gain[state.places] = -self.sign * change
        gain[state.out] = 0.0
        rows = np.argsort(-gain, kind="stable")
        rows = rows[gain[rows] > 0]
        return rows, gain[rows]

    def run(self, first: RowQuestions, state: _State, what: str) -> tuple[_State, str | None]:
        """The fit in which the change has come, or the last one and why it has not."""
        start = state
        for _ in range(ROUNDS):
            rows, gain = self.order(state)
            need = int(np.searchsorted(np.cumsum(gain), self.gap(state, what))) + 1
            most = int(SHARE * self.n) - len(state.out)
            if not len(rows) or most < 1:
                return state, None
            together = max(FEW, int(AT_ONCE * self.n))
            count = min(need if need <= together else max(together, need // 2), len(rows), most)
            following = self.without(first, np.concatenate([state.out, rows[:count]]))
            if self.gap(following, what) <= 0:
                return self.spared(first, self.trimmed(first, state, following, what), what), None
            state = following
        done = len(state.out) - len(start.out)
        return state, f"after {ROUNDS} refits without {done} rows more it has not come"

    def trimmed(self, first: RowQuestions, before: _State, after: _State, what: str) -> _State:
        """The same change with fewer rows of the last round, by halving."""
        low, high = len(before.out), len(after.out)
        for _ in range(TRIMS):
            if high - low < 2:
                break
            middle = (low + high) // 2
            between = self.without(first, after.out[:middle])
            if self.gap(between, what) <= 0:
                after, high = between, middle
            else:
                low = middle
        return after

    def spared(self, first: RowQuestions, after: _State, what: str) -> _State:
        """The same change with fewer rows of a small set: those found later may do without one before."""
        for row in after.out[::-1] if len(after.out) <= SMALL else ():
            rest = after.out[after.out != row]
            if not len(rest):
                break
            try:
                fewer = self.without(first, rest)
            except LrvbError:  # of a fit that was not asked for: the set stands
                continue
            if self.gap(fewer, what) <= 0:
                after = fewer
        return after


def fragile(questions: RowQuestions, name: str, i: int, prob: float) -> Fragility:
    """The fewest rows for a change of the interval, and then of the sign."""
    mean = float(questions.estimate.m[i])
    lower, upper = (float(ends[i]) for ends in questions.intervals(prob))
    labels = list(questions.labels)
    n = len(labels)
    search = _Search(i, prob, 1.0 if mean >= 0 else -1.0, n)
    state = _State(np.zeros(0, dtype=int), questions, np.arange(n), mean, lower, upper)
    found: dict[str, list[Any] | None] = {"interval": None, "sign": None}
    means, ends, stopped = {}, {}, {}
    for what in found:
        if search.gap(state, what) > 0:
            try:
                state, why = search.run(questions, state, what)
            except LrvbError as error:
                stopped[what] = str(error)
                continue
            if why is not None:
                stopped[what] = why
        if len(state.out) and search.gap(state, what) <= 0:
            found[what] = [labels[row] for row in state.out]
            means[what], ends[what] = state.mean, (state.lower, state.upper)
    return Fragility(
        name, mean, lower, upper, n, found["sign"], found["interval"], means, ends, stopped
    )
