"""Averages over a normal variable of curves that change on a scale of one: Gauss–Hermite nodes."""

from __future__ import annotations

import functools

import numpy as np


def hermite(sd: float, smallest: float = 1e-18) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a standard normal, enough for a logistic curve under this sd.

    The error falls like exp(−2π√nodes / sd), so that the number of nodes follows sd², up to 320. Nodes
    are left out whose weight is below `smallest` times the largest: a curve that grows like exp η
    wants them from 1e-30 on. A number that does not vary is its own node.
    """
    if sd == 0:
        return np.zeros(1), np.ones(1)
    return _rule(int(np.clip(16 * np.ceil((20 * sd**2 + 12) / 16), 16, 320)), smallest)


@functools.cache
def _rule(nodes: int, smallest: float) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    kept = w > smallest * w.max()
    return x[kept], w[kept] / w.sum()
