"""Central intervals of named quantities, made where the quantity's posterior is nearly normal."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from ..engine.response import Response
from ..numerics.packing import Slot


def intervals(response: Response, prob: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the central intervals of every flat coordinate.

    Real quantities: normal. Positive ones with their own log among the statistics (Gamma):
    exp of the log's interval. Other one-sided ones: the log-normal with the same mean and sd.
    """
    with np.errstate(over="ignore"):  # an upper end beyond all numbers is infinite
        return _intervals(response, prob)


def _intervals(response: Response, prob: float) -> tuple[np.ndarray, np.ndarray]:
    z = NormalDist().inv_cdf(0.5 + prob / 2)
    m, sd = response.fit.m, np.sqrt(np.diag(response.Sigma))
    lower, upper = m - z * sd, m + z * sd
    for name, family in response.alpha.blocks.items():
        start = response.alpha.slices[name].start
        supports = [s for slot in family.slots for s in _supports(slot)]
        fields = dict(zip(family.Stats._fields, family.slots, strict=True))
        for copy in range(family.copies):
            first = start + copy * family.size
            for i, support in enumerate(supports):
                at = first + i
                if support == "real":
                    continue
                if set(fields) == {"x", "log_x"} and i == 0:
                    lower[at], upper[at] = np.exp(m[at + 1] + np.array([-z, z]) * sd[at + 1])
                    continue
                sign = 1.0 if support == "positive" else -1.0
                ends = sorted(sign * _lognormal(abs(m[at]), sd[at], z))
                lower[at], upper[at] = ends
    return lower, upper


def _supports(slot: Slot) -> list[str]:
    support, indices = slot.support, slot.indices()
    if slot.symmetric:
        return [support if i == j else "real" for i, j in indices]
    return [support] * len(indices)


def _lognormal(mean: float, sd: float, z: float) -> np.ndarray:
    """Ends of the central interval of the log-normal with this mean and sd."""
    if sd == 0:  # known exactly, such as the log weight of a single component
        return np.array([mean, mean])
    scale = np.sqrt(np.log1p((sd / mean) ** 2))
    return np.exp(np.log(mean) - scale**2 / 2 + np.array([-z, z]) * scale)
