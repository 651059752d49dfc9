"""Rows' log densities averaged over a normal η: E log p, E ∂log p/∂η and −E ∂²log p/∂η²."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..density import Columns, Density

NODES = {
    0.12: 3,
    0.35: 5,
    0.8: 7,
    1.5: 13,
    3.0: 25,
}  # up to sds of η: a logistic curve's error is below 1e-6
MOST = 41


class Averages(NamedTuple):
    """Of every row, (N,) each."""

    value: np.ndarray
    score: np.ndarray
    information: np.ndarray


def average(
    likelihood: Density,
    columns: Columns,
    phi: Sequence[float],
    mean: np.ndarray,
    v: np.ndarray,
    widest: float | None = None,
) -> Averages:
    """Under η ~ N(mean, v), by Gauss–Hermite sums; widest is the largest sd, of other rows too."""
    sd = np.sqrt(v)
    value, score, information = np.zeros((3, len(mean)))
    for x, weight in nodes(sd_of(v) if widest is None else widest):
        eta = mean + x * sd
        value += weight * likelihood.log_p(columns, eta, phi)
        first, second = likelihood.derivatives(columns, eta, phi)
        score += weight * first
        information += weight * second
    return Averages(value, score, information)


def sd_of(v: np.ndarray) -> float:
    """The largest sd of variances v."""
    return float(np.sqrt(v.max(initial=0.0)))


def nodes(sd: float) -> Iterator[tuple[float, float]]:
    """Nodes of a standard normal and their weights, enough for an η of this sd."""
    count = next((count for most, count in NODES.items() if sd <= most), MOST)
    return gauss_hermite(count)


def gauss_hermite(count: int) -> Iterator[tuple[float, float]]:
    """So many nodes and their weights."""
    return zip(*_rule(count), strict=True)


@functools.cache
def _rule(count: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.hermite_e.hermegauss(count)
    return x, w / w.sum()
