"""Draws from densities known at the nodes of a sum: logarithms are joined by a spline, by cells.

Few nodes are enough for a sum and far too few for a draw, so a cubic spline through the log density
gives finer nodes, between which it is taken to be straight: every cell is an exponential, whose
distribution function has an inverse.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..numerics.lazy import interpolate

FLOOR = 50.0  # fall of a log density beyond which nothing is ever drawn: e^−50
FINE = 32  # cells of a line, at least
_FLAT = 1e-5  # rise of a cell below which its ends' mean is its own, to its square
CHUNK = 2**15  # draws at a time


def spline_weights(at: np.ndarray, nodes: int) -> np.ndarray:
    """Weights (..., nodes) of the values at 0, 1, …, nodes − 1 in their cubic spline's at `at`."""
    return np.asarray(interpolate.CubicSpline(np.arange(nodes), np.eye(nodes))(at))


@lru_cache(maxsize=64)
def _finer(nodes: int, cells: int) -> np.ndarray:
    """What makes of values at nodes those of their spline at `cells` to a step, (nodes, finer nodes)."""
    return np.ascontiguousarray(spline_weights(np.arange((nodes - 1) * cells + 1) / cells, nodes).T)


class Line:
    """m densities on lines of Q equidistant nodes, from their logarithms (m, Q) up to constants.

    Every step of the nodes has so many cells: as many as make FINE of a line, unless told.
    """

    def __init__(self, log_p: np.ndarray, cells: int = 0):

        Q = log_p.shape[1]
        self.cells = cells or -(-FINE // (Q - 1))
        top = log_p.max(axis=1, keepdims=True)
        f = np.maximum(log_p - top, -FLOOR) @ _finer(Q, self.cells)
        self.height, self.rise = f[:, :-1], np.diff(f, axis=1)
        e = np.exp(f)
        areas = np.diff(e, axis=1)  # ∫₀¹ e^(f + rise·s) ds = (e^(f + rise) − e^f)/rise
        flat = np.abs(self.rise) < _FLAT
        areas /= np.where(flat, 1.0, self.rise)
        np.copyto(areas, e[:, :-1] * (1 + self.rise / 2), where=flat)
        self.total = np.cumsum(areas, axis=1, out=areas)

    def draw(self, which: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Places in steps of the nodes, (k,), where lines `which` have the quantiles u (k,)."""
        places = np.empty(len(which))
        for start in range(0, len(which), CHUNK):
            here = slice(start, start + CHUNK)
            places[here] = self._draw(which[here], u[here])
        return places

    def _draw(self, which: np.ndarray, u: np.ndarray) -> np.ndarray:
        total = self.total[which]
        asked = u * total[:, -1]
        cell = np.minimum((total < asked[:, None]).sum(1), total.shape[1] - 1)
        each = np.arange(len(which))
        before = np.where(cell > 0, total[each, cell - 1], 0.0)
        height, rise = self.height[which, cell], self.rise[which, cell]
        share = (asked - before) * np.exp(-height)  # ∫₀ˣ e^(rise·s) ds
        bent = np.abs(rise) > 1e-8
        slope = np.where(bent, rise, 1.0)
        inside = np.maximum(share * slope, -1 + 1e-15)
        x = np.where(bent, np.log1p(inside) / slope, share)
        return (cell + np.clip(x, 0.0, 1.0)) / self.cells


def draw_each(log_p: np.ndarray, rng: np.random.Generator, cells: int = 0) -> np.ndarray:
    """One draw from each of m densities (m, Q), in steps of the nodes; some at a time, which fit a cache."""
    few = max(1, CHUNK // (max(FINE, cells * (log_p.shape[1] - 1)) + 1))
    places = np.empty(len(log_p))
    for start in range(0, len(log_p), few):
        line = Line(log_p[start : start + few], cells)
        count = len(line.total)
        places[start : start + few] = line.draw(np.arange(count), rng.random(count))
    return places


def draw_alike(
    log_ps: Sequence[np.ndarray],
    which: Sequence[np.ndarray],
    rng: np.random.Generator,
    cells: int = 0,
) -> list[np.ndarray]:
    """Draws `which` (k,) from each of several lots of lines (m, Q): those of one length Q together."""
    found = [np.empty(0)] * len(log_ps)
    lengths = np.array([log_p.shape[1] for log_p in log_ps])
    for Q in np.unique(lengths):
        at = np.flatnonzero(lengths == Q).tolist()
        before = np.cumsum([0, *(len(log_ps[i]) for i in at)])
        every = np.concatenate([which[i] + start for i, start in zip(at, before[:-1], strict=True)])
        line = Line(np.concatenate([log_ps[i] for i in at]), cells)
        places = line.draw(every, rng.random(len(every)))
        ends = np.cumsum([len(which[i]) for i in at])[:-1]
        for i, part in zip(at, np.split(places, ends), strict=True):
            found[i] = part
    return found
