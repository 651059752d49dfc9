"""What weighted draws leave unknown: Monte Carlo errors of means and sds, and whether those are known."""

from __future__ import annotations

import numpy as np

from .control import Control
from .tails import product_tail
from .verdicts import SLIGHT


def unknown(
    weights: np.ndarray,
    control: Control | None,
    values: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """k̂ (q,) of weighted squares, and errors of means and sds (q,) each, of values (n, q) at draws.

    With a control, whose points go on after the draws, the squares count as the difference of the weights
    has them. An sd errs by half of the largest square that so many should have, at least; where that is next
    to nothing k̂ is −∞.
    """
    own = (values - mean)[: len(weights)]
    left = weights if control is None else weights - control.shares
    index, largest = np.array([product_tail(left, d**2) for d in own.T]).T
    if control is not None:
        first, second = control.errors(weights, values, mean, sd)
    else:
        first, second = (np.sqrt(weights**2 @ part**2) for part in (own, half(own, sd)))
    least = largest / (2 * np.where(sd > 0, sd, 1.0))
    quality = np.where(largest < SLIGHT * sd**2, -np.inf, index)
    return quality, [first, np.maximum(second, least)]


def half(centered: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """What each draw adds to an sd: ((f − μ)² − σ²)/2σ."""
    return (centered**2 - sd**2) / (2 * np.where(sd > 0, sd, 1.0))
