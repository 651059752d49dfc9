"""How many draws are made, by what each costs."""

from __future__ import annotations

from lrvb.integrated.effort import FEWEST, QUICK, WORK, can_learn, enough, fewer


def test_draws_that_cost_little_are_all_made():
    """Others begin with half of them, and grow by halves; of many coordinates they only grow so."""
    budget = enough(4, 30)
    cheap, dear = 0.9 * QUICK / budget.final, 1.1 * QUICK / budget.final
    assert fewer(budget, 4, cheap) == budget
    half = fewer(budget, 4, dear)
    assert (half.final, half.explore, half.growth) == (1024, 128, 0.5)
    assert half.limit == budget.limit
    many = fewer(enough(8, 30), 8, dear)
    assert (many.final, many.growth) == (2048, 0.5)


def test_nothing_is_learnt_that_draws_tell_sooner():
    """As many points as draws, where what a cubic is off by is learnt too; but where draws take too long."""
    budget = fewer(enough(4, 30), 4, 1e5)
    draws = budget.final + budget.rounds * budget.explore
    assert can_learn(budget, 1e5, FEWEST, rest=True)
    assert not can_learn(budget, 1e5, FEWEST + 1, rest=True)
    assert can_learn(budget, 1e5, FEWEST + 1, rest=False)
    assert can_learn(budget, 1.1 * WORK / draws, FEWEST + 1, rest=True)
    assert not can_learn(budget, 1e7, FEWEST, rest=False)
