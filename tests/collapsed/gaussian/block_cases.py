"""Small mixed models with their dense matrices, for checks of the block of coefficients."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrvb.collapsed.gaussian.arrow import Blocks, Prior
from lrvb.collapsed.gaussian.incidence import Vector
from lrvb.collapsed.gaussian.layout import Cross, Grouping, Layout


class Shape(NamedTuple):
    """Columns of X, levels and coefficients of each factor (none: no factor at all)."""

    p: int
    factors: tuple[tuple[int, int], ...]
    nested: bool = False


SHAPES = {
    "intercepts": Shape(2, ((5, 1),)),
    "slopes": Shape(3, ((5, 2),)),
    "three coefficients": Shape(1, ((4, 3),)),
    "crossed": Shape(2, ((6, 2), (4, 1))),
    "crossed slopes": Shape(2, ((6, 1), (3, 2))),
    "three factors": Shape(1, ((6, 1), (4, 2), (2, 1))),
    "nested": Shape(2, ((8, 1), (4, 1)), nested=True),
    "no factor": Shape(3, ()),
    "no fixed effects": Shape(0, ((5, 2),)),
    "no fixed effects, crossed": Shape(0, ((5, 2), (3, 1))),
}


def layout_of(shape: Shape, n: int = 40, seed: int = 0) -> Layout:
    """Random rows of a shape, sorted by the first factor, every level with a row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, shape.p))
    groupings = []
    for f, (levels, q) in enumerate(shape.factors):
        codes = np.concatenate([np.arange(levels), rng.integers(0, levels, n - levels)])
        codes = np.sort(codes) if f == 0 else rng.permutation(codes)
        if shape.nested and f > 0:
            codes = groupings[0].codes * levels // groupings[0].levels
        groupings.append(Grouping(codes, rng.normal(size=(n, q)), levels))
    if not groupings:
        groupings = [Grouping(np.zeros(n, dtype=np.int64), np.zeros((n, 0)), 0)]
    return Layout(X, groupings[0], groupings[1:])


def dense_rows(layout: Layout) -> np.ndarray:
    """C (N, size), its columns in the order of `flat`: first factor by level, β, other factors."""
    C = np.zeros((layout.n, layout.size))
    start = 0
    parts = [layout.first, None, *layout.others]
    for part in parts:
        if part is None:
            C[:, start : start + layout.p] = layout.X
            start += layout.p
            continue
        q = part.R.shape[1]
        for n in range(layout.n):
            for j in range(q):
                C[n, start + part.codes[n] * q + j] = part.R[n, j]
        start += part.levels * q
    return C


def flat(w: Vector) -> np.ndarray:
    """A vector over w in one piece."""
    return np.concatenate([w.z.reshape(-1), w.rest])


def vector(layout: Layout, w: np.ndarray) -> Vector:
    """The two pieces of a flat vector."""
    first = layout.G * layout.q
    return Vector(w[:first].reshape(layout.G, layout.q), w[first:])


def dense_cross(layout: Layout, K: Cross) -> np.ndarray:
    """A matrix of arrow shape in full."""
    first = layout.G * layout.q
    full = np.zeros((layout.size, layout.size))
    for k in range(layout.G):
        at = slice(k * layout.q, (k + 1) * layout.q)
        full[at, at] = K.D[k]
    B = K.B.toarray() if hasattr(K.B, "toarray") else K.B
    full[:first, first:], full[first:, :first], full[first:, first:] = B, B.T, K.A
    return full


def blocks_of(layout: Layout, full: np.ndarray) -> Blocks:
    """The blocks of a full matrix that rows touch."""
    first, q = layout.G * layout.q, layout.q
    levels = [full[k * q : (k + 1) * q, k * q : (k + 1) * q] for k in range(layout.G)]
    Z11 = np.stack(levels) if levels else np.zeros((0, q, q))
    return Blocks(Z11, full[:first, first:], full[first:, first:])


def random_prior(layout: Layout, seed: int = 1) -> Prior:
    """Any positive definite prior precision."""
    rng = np.random.default_rng(seed)
    first, rest = (rng.normal(size=(k, k)) for k in (layout.q, layout.r))
    return Prior(first @ first.T + np.eye(layout.q), rest @ rest.T + np.eye(layout.r))
