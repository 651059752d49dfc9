"""The word that follows from what draws say: a case for each rule of the page on certificates."""

from __future__ import annotations

import numpy as np
import pytest

from lrvb.posterior.verdicts import DOUBTFUL, NO, REPAIRED, TRUST, Compared, Draws, judge

SOUND = {"method": "importance", "exact": True, "k_hat": 0.2, "ess": 500.0}


def verdict(
    shift: float = 0.0,
    ratio: float = 1.0,
    error: float = 0.005,
    tail: float = 0.1,
    quality: float = 0.3,
    heavy: bool = False,
    sd: float = 2.0,
    **draws: object,
) -> str:
    """Of one quantity: its mean moves by `shift` sds, and linear response's sd is `ratio` times its own."""
    numbers = (3 + shift * sd, sd, 3.0, ratio * sd, error * sd, error * sd, tail, quality, heavy)
    found = Compared(*(np.array([number]) for number in numbers))
    ((word, why),) = judge(Draws(**(SOUND | draws)), found)
    assert why.endswith(".")
    return word


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, TRUST),
        ({"shift": 0.09}, TRUST),
        ({"shift": -0.09, "ratio": 1.09}, TRUST),
        ({"ratio": 1 / 1.09}, TRUST),
        ({"shift": 0.12}, REPAIRED),
        ({"shift": -0.3}, REPAIRED),
        ({"ratio": 1.13}, REPAIRED),
        ({"ratio": 0.5}, REPAIRED),
    ],
)
def test_agreement_is_a_tenth(asked: dict, expected: str) -> None:
    """Of an sd for means, ten per cent for sds; beyond it exact numbers that are sound stand in."""
    assert verdict(**asked) == expected
    assert verdict(**asked, sd=1e-6) == expected  # whatever the unit


@pytest.mark.parametrize(
    "worse",
    [
        {"k_hat": 0.55},
        {"k_hat": np.nan},
        {"ess": 60.0},
        {"error": 0.07},
        {"quality": 0.9},
        {"method": "hmc", "quality": 1.1},
        {"exact": False},
        {"others": 0.05},
        {"looked": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("shift", [0.0, 0.3])
def test_what_is_not_known_is_doubtful(worse: dict, shift: float) -> None:
    """Uneven weights, few draws, large errors, chains apart, a bound, another mode, or none looked for."""
    assert verdict(shift=shift, **worse) == DOUBTFUL
    assert verdict(shift=0.7, **worse) != TRUST


@pytest.mark.parametrize(
    "wrong",
    [
        {"heavy": True},
        {"tail": 0.45},
        {"others": 0.3},
        {"k_hat": 0.9, "shift": 0.7},
        {"ess": 20.0, "ratio": 0.5},
        {"exact": False, "ratio": 2.0},
    ],
    ids=str,
)
def test_what_is_seen_to_be_wrong_is_not_to_be_trusted(wrong: dict) -> None:
    """No finite sd, a mode with a large share, or a disagreement beyond half an sd that nothing confirms."""
    assert verdict(**wrong) == NO


def test_errors_do_not_make_up_for_a_disagreement() -> None:
    """Confirmed is what stays short of a wrong answer (0.2 sd) with three errors more."""
    assert verdict(shift=0.1, error=0.02) == TRUST
    assert verdict(shift=0.11, error=0.05) == DOUBTFUL
    assert verdict(shift=0.19, error=0.05) != TRUST


def test_what_is_known_exactly_is_trusted() -> None:
    """A log weight of a single component: no sd, no difference."""
    zero, one = np.zeros(1), np.ones(1)
    found = Compared(one, zero, one, zero, zero, zero, zero, 0.3 * one, one > 1)
    assert judge(Draws(**SOUND), found)[0][0] == TRUST
