"""How many draws an integration takes, by what each costs; or that it would take too long."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..errors import LrvbError
from .importance import Budget

EASY = 1.2e8  # evaluations of a row's density within which all draws are taken: about two seconds
FROZEN = 1e7  # evaluations from which on frozen sums save time: about a sixth of a second
FEW_LEVELS = 100  # below which hardly any log density is smooth enough for them
QUICK = 5e6  # evaluations that are never worth saving: less than a tenth of a second
LONG = 1.2e9  # evaluations that few points may cost, where rows are so many: about twenty seconds
WORK = 6e8  # evaluations of a row's density that one integration may cost: a few seconds
PATIENT = 6e9  # that it may cost where answers would be doubted otherwise: some twenty seconds
LAST = 2e10  # and where nothing else would answer: a minute or two
APART = 100_000  # rows from which on sums may be over parts that are elsewhere
FEWEST_NODES = 1 / 3  # of the work with as many nodes as are tried first
FEWEST = 512  # final draws below which nothing can be said


class TooMuchWork(LrvbError):
    """Sums that would take too long."""


def enough(d: int, levels: int) -> Budget:
    """The draws that d coordinates and a smallest factor of so many levels need, to begin with."""
    first = 4096 if d > 10 or levels <= 6 else 2048
    return Budget(final=first, limit=16384, patience=65536)


def fewer(budget: Budget, d: int, work: float) -> Budget:
    """Half of them to begin with, and as few more as will do, where a point costs more than its share."""
    if work * budget.final < QUICK:
        return budget
    budget = replace(budget, growth=0.5)
    return (
        budget if d > 6 else replace(budget, final=budget.final // 2, explore=budget.explore // 2)
    )


def affordable(budget: Budget, work: float, last: bool = False) -> Budget:
    """The budget, with no more draws than are worth their time; `TooMuchWork` for too few.

    Where answers would be doubted without more of them they may cost `PATIENT`; where this is the `last` way
    to any answer, the fewest may cost `LAST`.
    """
    bound = LAST if last else WORK
    most = bound / work
    easy = EASY / work
    explore = budget.explore if easy > 2048 else budget.explore // 2
    left = most - budget.rounds * explore
    if left < FEWEST:
        raise TooMuchWork(
            f"Exact sums would take about {work * (FEWEST + budget.rounds * explore):.0e} evaluations "
            f"of a row's density, more than the {bound:.0e} that are worth their time.",
            work=work,
        )
    powers = FEWEST * 2 ** np.arange(12)

    def within(most: float) -> int:
        return int(powers[powers <= max(most, FEWEST)].max())

    final = min(budget.final, within(left), within(max(easy, 2 * FEWEST)))
    limit = min(budget.limit, max(final, within(WORK / work - budget.rounds * explore)))
    patience = min(budget.patience, max(limit, within(PATIENT / work)))
    return replace(budget, final=final, explore=explore, limit=limit, patience=patience)


def is_long(budget: Budget, work: float, bound: float = EASY) -> bool:
    """Whether all draws would take long."""
    return work * (budget.final + budget.rounds * budget.explore) > bound


def can_learn(budget: Budget, work: float, points: int, rest: bool) -> bool:
    """Whether so many points end in time; with a `rest` that is learnt too, sooner than draws would."""
    if rest and points > FEWEST and not is_long(budget, work, WORK):
        return False
    return work * points <= LONG
