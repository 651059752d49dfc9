"""The verdict on each quantity: linear response against draws of the exact density, in one sentence."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

TRUST, REPAIRED, DOUBTFUL, NO = "trust", "repaired", "doubtful", "do not trust"
NOT_CHECKED = "not checked"

SHIFT = 0.1  # of a mean, in sds, that is no disagreement
RATIO = np.log(1.1)  # of sds
WRONG_SHIFT, WRONG_RATIO = 0.2, np.log(1.15)  # an error that must not be trusted
SURE = 3.0  # Monte Carlo errors that must lie between it and what was seen
LARGE_SHIFT, LARGE_RATIO = 0.5, np.log(1.5)  # a disagreement that needs no exact referee
K_HAT = 0.5  # below, weights have a finite variance and their errors are what they say
ALLOWED = 0.02  # of a Monte Carlo error that may excuse a disagreement
K_SQUARE = 0.6  # the same of weights times squares, whose k̂ is near a half for an exponential tail
SLIGHT = 0.02  # of a variance: where the largest of them is less, their tail does not matter
ROUGH = 0.3  # from which a repaired sd stands on so few squares that better draws are made
ESS = 100.0  # effective draws below which draws confirm nothing
R_HAT = 1.05
ERROR = 0.06  # of a mean in sds, and of a log sd: with more, 10 % cannot be told from 20 %
TAIL = 0.4  # tail index from which an sd is not finite for all that the draws can say
MODE = 0.01  # share of the evidence from which another mode matters
LEFT_OUT = np.expm1(
    2 * (WRONG_RATIO - RATIO)
)  # of a variance, by modes of less: what its sd has room for


class Draws(NamedTuple):
    """What is known of the draws as a whole: how they were made and whether they can be averaged.

    `others` is the share of the evidence of modes that the draws have not seen, `looked` whether
    any were looked for.
    """

    method: str
    exact: bool
    k_hat: float
    ess: float
    others: float = 0.0
    looked: bool = True


class Compared(NamedTuple):
    """Of every quantity, (q,): both means and sds, Monte Carlo errors, tail index, and its own quality.

    That is R̂ of chains, and of weights k̂ of their products with the squared deviation, on which an sd
    stands. `heavy` marks tails that the density itself has, whatever the draws are worth; `left` is what
    modes that the draws did not see would add to the variance, of it.
    """

    mean: np.ndarray
    sd: np.ndarray
    lrvb_mean: np.ndarray
    lrvb_sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    tail: np.ndarray
    quality: np.ndarray
    heavy: np.ndarray
    left: np.ndarray | None = None

    @property
    def shift(self) -> np.ndarray:
        """(certified − linear response's mean) in certified sds; zero for what is known exactly."""
        return _ratio(self.mean - self.lrvb_mean, self.sd, 0.0)

    @property
    def ratio(self) -> np.ndarray:
        """Linear response's sd over the certified; one for what is known exactly."""
        return _ratio(self.lrvb_sd, self.sd, 1.0)


def judge(draws: Draws, found: Compared) -> list[tuple[str, str]]:
    """Verdict and reason of every quantity."""
    sound, why = _soundness(draws)
    shift, log_ratio = found.shift, np.log(np.maximum(found.ratio, 1e-300))
    error = _ratio(found.mean_error, found.sd, 0.0)
    sd_error = _ratio(found.sd_error, found.sd, 0.0)
    return [
        far_mode(left)
        if left > LEFT_OUT and draws.others < MODE
        else _verdict(draws, sound, why, *numbers)
        for left, *numbers in zip(
            np.zeros(len(shift)) if found.left is None else found.left,
            shift,
            log_ratio,
            error,
            sd_error,
            found.tail,
            found.quality,
            found.heavy,
            strict=True,
        )
    ]


def another_mode(share: float) -> tuple[str, str]:
    """The verdict where a mode that the answer does not know holds a share of the evidence."""
    words = f"Another mode holds about {100 * share:.0f} % of the evidence"
    return (NO if share > 0.1 else DOUBTFUL), f"{words}, which this answer leaves out."


def far_mode(left: float) -> tuple[str, str]:
    """The verdict where modes of little evidence are so far away that the sd needs them."""
    ratio = float(np.sqrt(1 + left))
    return (NO if np.log(ratio) > LARGE_RATIO else DOUBTFUL), (
        f"Another mode holds less than {100 * MODE:.0f} % of the evidence, but so far away that with it the "
        f"sd would be {ratio:.2f} times as large; this answer leaves it out."
    )


def _soundness(draws: Draws) -> tuple[bool, str]:
    """Whether averages over the draws can be believed, and if not why."""
    if draws.method == "importance" and not draws.k_hat < K_HAT:
        return False, f"k-hat is {draws.k_hat:.2f}, so that the weights have no reliable average"
    if draws.ess < ESS:
        return False, f"only {draws.ess:.0f} draws are effective"
    return True, ""


def _verdict(
    draws: Draws,
    sound: bool,
    why: str,
    shift: float,
    log_ratio: float,
    error: float,
    sd_error: float,
    tail: float,
    quality: float,
    heavy: bool,
) -> tuple[str, str]:
    size = f"{np.exp(log_ratio):.2f} of the certified"
    difference = f"the mean moves by {shift:+.2f} sd and linear response's sd is {size}"
    large = abs(shift) > LARGE_SHIFT or abs(log_ratio) > LARGE_RATIO
    if draws.others >= MODE:
        return another_mode(draws.others)
    if heavy or (sound and tail > TAIL):
        return NO, (
            f"Its tail index is {tail:.2f}: no sd is finite for all that the draws say; use lower "
            "and upper, which are quantiles."
        )
    if sound and draws.method == "hmc" and quality > R_HAT:
        sound, why = False, f"chains disagree (R-hat {quality:.2f})"
    if sound and draws.method == "importance" and quality > K_SQUARE:
        sound, why = False, f"the weights of its square have k-hat {quality:.2f}, its sd no average"
    if not sound:
        return (
            NO if large else DOUBTFUL
        ), f"It cannot be confirmed: {why}; as far as seen {difference}."
    if not draws.exact:
        return (NO if large else DOUBTFUL), (
            "Rows are not linear in their local variables, so that the density is a bound; by it "
            f"{difference}."
        )
    if error > ERROR or sd_error > ERROR:
        return (NO if large else DOUBTFUL), (
            f"Monte Carlo errors of {error:.2f} sd and {100 * sd_error:.0f} % are too large to tell; "
            f"{difference}. Ask for more draws."
        )
    close = abs(shift) <= SHIFT + min(error, 1.5 * ALLOWED)
    agrees = close and abs(log_ratio) <= RATIO + min(sd_error, ALLOWED)
    room = WRONG_SHIFT - abs(shift), WRONG_RATIO - abs(log_ratio)
    sure = SURE * error <= room[0] and SURE * sd_error <= room[1]
    if agrees and not sure:
        return DOUBTFUL, (
            f"Monte Carlo errors of {error:.2f} sd and {100 * sd_error:.0f} % are too large to confirm "
            f"it, though as far as seen {difference}. Ask for more draws."
        )
    if not draws.looked:
        return DOUBTFUL, (
            f"Too few fits from other starts ended at an optimum to rule out other modes, within the "
            f"budget if one was given; in this one {difference}."
        )
    if agrees:
        return TRUST, f"Confirmed: {difference}."
    return REPAIRED, f"Linear response was off: {difference}; the certified numbers are shown."


def _ratio(a: np.ndarray, b: np.ndarray, otherwise: float) -> np.ndarray:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((b > 0) | (a != 0), a / b, otherwise)
