"""Weighted draws of θ from sums that are frozen near its mode, checked with all rows.

A cubic of the frozen density is drawn from, or, where no cubic follows it, the density itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .importance import Budget, Weighted, integrate, resampled
from .inside import Evaluated
from .path import Path
from .proposals import Target, fit_blocks, probed
from .surrogate import CHECKED, K_HAT, OFF, NotSmooth, learn
from .wanting import in_sds, uncertain

Progress = Callable[[int, int], None]

DRAWS = Budget(final=2048, limit=8192)
POINTS = DRAWS.final + DRAWS.rounds * DRAWS.explore
EXACT = 12  # draws at which the density is measured with all rows


class Drawn(NamedTuple):
    """Draws and their θ (n, d), what their log density is off by, and some of them, evenly, (k,)."""

    weighted: Weighted
    theta: np.ndarray
    off: float
    some: np.ndarray


def draw(path: Path, exact: Target, seed: int, progress: Progress | None) -> Drawn:
    """From the frozen density itself; `NotSmooth` where it is not that of the rows."""
    p, log = path.p, np.array(path.inside.kinds) == "log"

    def target(x: np.ndarray) -> np.ndarray:
        value = path.log_density(x)
        if np.isposinf(value).any():
            raise NotSmooth("Frozen sums are beyond double precision within the posterior's reach.")
        return value

    weighted = integrate(
        target,
        probed(target, path.start, path.axes),
        lambda x, w: fit_blocks(x, w, p),
        DRAWS,
        seed,
        progress,
        uncertain(lambda x: in_sds(path.natural(x), log)),
    )
    some = resampled(weighted.weights, CHECKED, seed)
    return _checked(path, exact, weighted, 0.0, some, seed)


def draw_cubic(path: Path, exact: Target, seed: int, progress: Progress | None) -> Drawn:
    """From a cubic of it; `NotSmooth` where there is none, or that is not the density of the rows."""

    def evaluate(x: np.ndarray) -> Evaluated:
        nothing = np.empty((len(x), 0))
        return Evaluated(path.log_density(x), nothing, nothing)

    found = learn(
        path.log_density,
        evaluate,
        probed(path.log_density, path.start, path.axes, (1.0, 3.0)),
        len(path.start),
        lambda x, w: fit_blocks(x, w, path.p),
        Budget(final=4096),
        seed,
        progress,
    )
    return _checked(path, exact, found.weighted, found.off, found.at, seed)


def _checked(
    path: Path, exact: Target, weighted: Weighted, known: float, some: np.ndarray, seed: int
) -> Drawn:
    """`NotSmooth` where draws from the posterior have another density with all rows.

    What the density drawn from is off by from the frozen one is `known`, from many more draws than the rows
    can be asked of.
    """
    theta = path.natural(weighted.x)
    at = resampled(weighted.weights, EXACT, seed + 1)
    rows = exact(theta[at]) + path.log_volume(weighted.x[at, path.p :])
    frozen = path.log_density(weighted.x[at])
    off = float(np.hypot(known, np.sqrt(np.mean((rows - frozen) ** 2))))
    if not (off < OFF and weighted.k_hat < K_HAT):
        raise NotSmooth(
            f"The log density of frozen sums is off by {off:.2g} over the posterior, where {OFF} would "
            f"do, or too few draws stand for all (k-hat {weighted.k_hat:.2f}).",
            off=off,
        )
    return Drawn(weighted, theta, off, some)
