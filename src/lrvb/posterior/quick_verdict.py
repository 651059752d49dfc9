"""The verdict without draws: how large the second order is, and whether some rows know another mode.

Where the second order is small it is very nearly the error of linear response; where it is large it is
no answer, but a warning. It never sees another mode, so that fits from far starts look for one. On its way
from too small to too large it may be zero where the answer is wrong, so that of few rows the density is asked
at a few points of linear response's normal.
"""

from __future__ import annotations

import numpy as np

from ..engine.modes import Modes, share_of
from ..engine.response import Response
from ..engine.second_order import SecondOrder, linear
from ..errors import LrvbError
from ..numerics.double import in_double
from ..numerics.sobol import normal_points
from .correction import LARGE_CHANGE, LARGE_SHIFT
from .rivals import Rivals
from .starts import SOME, look_around_some
from .target import Target
from .verdicts import DOUBTFUL, LEFT_OUT, MODE, NO, TRUST, another_mode, far_mode

ROWS = 4096  # that say how the curvature changes, and so the sds; means are of all rows
FEWEST = 4  # rows for each coordinate, below which a sample of them says nothing
STARTS = 8
FREE = 5e5  # of them, in up to 50 coordinates, take about a second, as a certificate may
STEPS = 20  # curvatures of a fit from a far start
FAR_SHIFT, FAR_CHANGE = 0.15, 0.2  # of any quantity, from which none is sure
POINTS = 32  # of the normal, at which the density of few rows is asked
EQUAL = 0.85  # share of them, for each pair of coordinates, that weights must leave effective
SHIFT, RATIO = 0.08, np.log(1.08)  # of an sd: somewhat less than a certificate allows


def rows_for(response: Response, quantities: int) -> int:
    """Rows for which verdicts on so many quantities cost less than the fit, or about a second; else 0.

    Both are counted in curvatures of single rows, never in seconds: answers are the same everywhere.
    """
    fit = response.fit
    n = fit.problem.n
    spent = max(n * max(fit.n_iter, 1), FREE * min(1.0, 50 / len(response.m)))
    for rows in (ROWS, ROWS // 4):
        rows = min(n, rows)
        enough = rows == n or rows >= FEWEST * len(response.m)
        if enough and rows * 2 * quantities + 4 * n + min(n, SOME) * STARTS * STEPS <= spent:
            return max(rows, 1)
    return 0


@in_double
def quick_verdicts(
    response: Response, directions: np.ndarray, rows: int, seed: int = 0
) -> list[tuple[str, str]]:
    """Verdict and reason of dᵀT, for the rows d of `directions` (q, a); sds from at most so many rows."""
    modes = look_around_some(response, seed, STARTS)
    elsewhere = response.fit.problem.total is not None
    means = SecondOrder(response, rows if elsewhere else None)
    second = SecondOrder(response, rows, means.shift)
    shift = directions @ means.shift
    first, corrected = second.variances([linear(d) for d in directions]).T
    ratio = np.where(first > 0, corrected / np.where(first > 0, first, 1.0), 1.0)
    sd = np.sqrt(first)
    moved = np.where(sd > 0, shift / np.where(sd > 0, sd, 1.0), 0.0)
    few = not elsewhere and rows >= response.fit.problem.n
    left = np.zeros(len(sd))
    if modes.others:
        rivals = Rivals.of(modes.others)
        left = rivals.left_out(rivals.T @ directions.T, directions @ response.m, sd).sum(axis=0)
    return judge_sizes(moved, ratio, modes, bent(response) if few else False, left)


def bent(response: Response) -> bool:
    """Whether weights of the density at a few points of linear response's normal are far from equal."""
    target = Target(response)
    x = normal_points(POINTS, target.size)
    log_w = target(target.center + x @ target.root.T) + np.einsum("ij,ij->i", x, x) / 2
    w = np.exp(log_w - log_w.max())
    return bool(w.mean() ** 2 < EQUAL ** max(1.0, target.size / 2) * np.mean(w**2))


def judge_sizes(
    shift: np.ndarray,
    ratio: np.ndarray,
    modes: Modes,
    bends: bool = False,
    left: np.ndarray | None = None,
) -> list[tuple[str, str]]:
    """Verdicts from shifts of means in sds and ratios of variances, corrected over linear response's.

    Nothing is trusted where the density `bends` away from linear response's normal. `left` (q,) is what far
    modes of little evidence would add to each variance, of it.
    """
    share = share_of(modes.others + modes.near)  # without draws the near ones are missed as well
    if share >= MODE:
        return [another_mode(share)] * len(shift)
    large = (np.abs(shift) > LARGE_SHIFT) | ~(np.abs(ratio - 1) <= LARGE_CHANGE)
    near = large | (np.abs(shift) > FAR_SHIFT) | (np.abs(ratio - 1) > FAR_CHANGE)
    left = np.zeros(len(shift)) if left is None else left
    return [
        far_mode(float(out))
        if out > LEFT_OUT
        else _verdict(float(s), float(r), bool(own), bool(near.any()), bends)
        for s, r, own, out in zip(shift, ratio, large, left, strict=True)
    ]


def _verdict(
    shift: float, ratio: float, large: bool, somewhere: bool, bends: bool
) -> tuple[str, str]:
    by = f"by the second order the mean moves by {shift:+.2f} sd"
    by += f" and linear response's sd is {ratio**-0.5:.2f} of the corrected" if ratio > 0 else ""
    if large:
        return NO, f"Too far off to be corrected: {by}; use posterior.certify()."
    if abs(shift) > SHIFT or abs(np.log(ratio)) > 2 * RATIO:
        return DOUBTFUL, f"Linear response is off: {by}; see posterior.refined() and certify()."
    if somewhere:
        return DOUBTFUL, f"Other quantities are too far off for this one to be sure: {by}."
    if bends:
        return DOUBTFUL, f"The density is not that of a normal, although {by}; use certify()."
    return TRUST, f"Without draws: {by}, and {STARTS} far starts found no other mode."


def not_known(error: LrvbError) -> str:
    """Why there is no verdict, as the end of a sentence."""
    return str(error).rstrip(".")
