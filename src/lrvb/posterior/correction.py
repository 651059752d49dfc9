"""How far one order moves the answer of the one before, and when that is a reason to look twice."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from ..engine.fitting import callers_level
from ..engine.response import Response
from ..engine.second_order import Refined
from ..errors import LargeCorrection

FACTOR = 20.0  # a group of 400 rows that move together; more is rarer than a slip in a term
LARGE_SHIFT = 0.5  # of the second order, in sds: a correction that large is no answer
LARGE_CHANGE = 0.5  # of a variance by the second order, relative
# of a mean, in sds, and of an sd: what certificates count as wrong
WRONG_SHIFT, WRONG_RATIO = 0.2, 1.15


def warn_large_correction(response: Response) -> None:
    """One `LargeCorrection` warning where a block's sds change by more than `FACTOR`, up or down.

    A term with E[x]² in place of E[x²] leaves q without that term's curvature, so that its mean-field
    sd is the prior's, or none; strong correlations between blocks do the same honestly.
    """
    mean_field, corrected = np.sqrt(np.diag(response.V)), np.sqrt(np.diag(response.Sigma))
    largest: tuple[float, str, str, int] | None = None
    for i, name in enumerate(response.alpha.names()):
        if name is None or not mean_field[i] > 0 or not corrected[i] > 0:
            continue
        ratio = float(corrected[i] / mean_field[i])
        size = max(ratio, 1 / ratio)
        if size > FACTOR and (largest is None or size > largest[0]):
            largest = size, name, response.alpha.block_of(i), i
    if largest is None:
        return
    size, name, block, i = largest
    fields = response.alpha.blocks[block].Stats._fields
    slip = f"m.{block}.x**2 for m.{block}.xx" if "xx" in fields else "z.x**2 for z.xx"
    warnings.warn(
        LargeCorrection(
            f"Linear response changes the sd of block '{block}' {size:.0f}-fold ({name}: mean field "
            f"{mean_field[i]:.3g}, linear response {corrected[i]:.3g}). Either the blocks are that "
            "strongly correlated, as an intercept is with the effects of large groups, and the "
            "corrected sd is the one to use; or a term has the square of a mean where the mean of "
            f"the square belongs, such as {slip}.",
            block=block,
            quantity=name,
            sd=float(corrected[i]),
            mfvb_sd=float(mean_field[i]),
        ),
        stacklevel=callers_level(),
    )


def warn_large_second_order(second: Refined, names: Iterable[Any]) -> None:
    """One `LargeCorrection` where the second order moves a mean by half an sd, or a variance by half.

    Where the density itself was asked: where that says otherwise, or is not known itself.
    """
    unasked = np.full((len(second.shift), 2), np.nan)
    off = unasked if second.off is None else second.off
    for name, shift, first, variance, (apart, wide) in zip(
        names, second.shift, second.first, second.variance, off, strict=True
    ):
        if not first > 0:
            continue
        moved, ratio = float(shift / np.sqrt(first)), float(variance / first)
        if np.isinf(apart):
            why = f"The density of '{name}', or of a precision on which it depends, has no values two sds "
            why += "from the mean: it is not known"
        elif np.isinf(wide):
            why = f"Much of the variance of '{name}' lies in a long tail of its density, whose weight is "
            why += "not known"
        elif np.isnan(apart):
            if abs(moved) <= LARGE_SHIFT and abs(ratio - 1) <= LARGE_CHANGE:
                continue
            why = f"The second order moves the mean of '{name}' by {moved:+.2f} sds and makes its variance "
            why += f"{ratio:.2f} times linear response's. "
            why += "A correction that large is not to be trusted itself"
        else:
            if abs(apart) <= WRONG_SHIFT and 1 / WRONG_RATIO <= wide <= WRONG_RATIO:
                continue
            why = f"Where the density is asked along a line of the precisions, '{name}' or its logarithm has "
            why += f"by the second order a mean {apart:+.2f} sds from there, and an sd {wide:.2f} times its: "
            why += "not to be trusted"
        warnings.warn(
            LargeCorrection(
                f"{why}: use posterior.certify(), or MCMC.",
                quantity=name,
                shift=moved,
                ratio=ratio,
            ),
            stacklevel=callers_level(),
        )
        return


def warn_large_elsewhere(names: Iterable[str | None], shift: np.ndarray, sd: np.ndarray) -> None:
    """One `LargeCorrection` where means that nobody asked for, but all depend on, move by half an sd."""
    for name, moved in zip(names, shift / sd, strict=True):
        if abs(moved) > LARGE_SHIFT:
            warnings.warn(
                LargeCorrection(
                    f"The second order moves the mean of '{name}', on which what was asked for depends, "
                    f"by {moved:+.2f} sds. A correction that large is not to be trusted, nor what "
                    "follows from it: use posterior.certify(), or MCMC.",
                    quantity=name,
                    shift=float(moved),
                ),
                stacklevel=callers_level(),
            )
            return
