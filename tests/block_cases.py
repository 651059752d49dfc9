"""Small mixed models with their dense matrices, for checks of the block of coefficients."""

from __future__ import annotations

import copy
import functools
from typing import NamedTuple

import numpy as np

from lrvb.collapsed.gaussian.arrow import Blocks, Prior
from lrvb.collapsed.gaussian.block import BlockSum
from lrvb.collapsed.gaussian.incidence import Vector
from lrvb.collapsed.gaussian.layout import Cross, Grouping, Layout
from lrvb.collapsed.gaussian.least_squares import LeastSquares
from lrvb.collapsed.gaussian.precisions import Precisions, PriorTerm
from lrvb.collapsed.gaussian.reweighted import Reweighted
from lrvb.collapsed.gaussian.row_terms import Averaged, Joint
from lrvb.collapsed.gaussian.tilted_rows import TiltedRows
from lrvb.families import Family, Gamma, Wishart
from lrvb.likelihoods import BINOMIAL, POISSON
from lrvb.numerics.double import double
from lrvb.statement.meanfield import MeanField
from lrvb.statement.parameters import initial


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


# ---- blocks with their rows ------------------------------------------------------------------

KINDS = (
    "gaussian",
    "poisson",
    "binomial",
    "poisson, joint",
    "binomial, joint",
    "poisson, tilted",
)
UNCOUPLED = ("gaussian", "poisson, tilted")  # ℓ_v is constant: Σ̂_w|α is the Hessian's inverse
CENTER = np.array([0.1, 0.2])


@functools.cache
def block_of(kind: str, crossed: bool, separate: bool) -> tuple[BlockSum, np.ndarray, np.ndarray]:
    """A block of 60 rows, moments m of its precisions, and C with V = CCᵀ of theirs."""
    shape = Shape(2, ((6, 2), (3, 2))) if crossed else Shape(2, ((6, 2),))
    layout, rng = layout_of(shape, n=60, seed=11), np.random.default_rng(12)
    families: dict[str, Family] = {"first": Wishart(2)}
    terms = [PriorTerm("first", 0, (0, 1))]
    if crossed:  # two independent coefficients
        families |= {"one": Gamma(), "two": Gamma()}
        terms += [PriorTerm("one", 1, (0,)), PriorTerm("two", 1, (1,))]
    owned = not kind.endswith(("poisson", "binomial"))
    if owned:
        families["own"] = Gamma()
    alpha = MeanField(families)
    precisions = Precisions(layout, alpha, terms, 0.1 * np.eye(2), "own" if owned else None)
    masks = precisions.masks() if separate else None
    eta = 0.6 * dense_rows(layout) @ rng.normal(size=layout.size)
    counts = rng.poisson(np.exp(eta)).astype(float)
    trials = np.full(60, 2.0)
    choices = rng.binomial(2, 1 / (1 + np.exp(-eta))).astype(float)
    given: LeastSquares | Reweighted
    if kind == "gaussian":
        given = LeastSquares(layout, eta + rng.normal(size=60), masks)
    else:
        rows = {
            "poisson": lambda: Averaged(POISSON, counts),
            "binomial": lambda: Averaged(BINOMIAL, choices, {"trials": trials}),
            "poisson, joint": lambda: Joint(Averaged(POISSON, counts)),
            "binomial, joint": lambda: Joint(Averaged(BINOMIAL, choices, {"trials": trials})),
            "poisson, tilted": lambda: TiltedRows(POISSON, counts),
        }[kind]()
        given = Reweighted(layout, rows, np.full(60, 0.1), masks)
    usual = {"first": {"dof": 8.0, "scale": np.array([[0.3, 0.05], [0.05, 0.2]])}}
    usual |= {name: {"shape": 5.0, "rate": 2.0} for name in families if name != "first"}
    with double():
        q = alpha.evaluate(initial(alpha, usual))
        m, C = np.asarray(q.m), np.asarray(alpha.dense(q.C))
    return BlockSum(given, precisions, CENTER, 0.0), m, C


def tilted_mean(block: BlockSum, m: np.ndarray, direction: np.ndarray, h: float) -> np.ndarray:
    """μ when the log joint gains h·directionᵀw: a prior whose centre has moved by P⁻¹."""
    prior = block.precisions.prior(m)
    layout, here = block.layout, block.center
    first = layout.G * layout.q
    z = np.linalg.solve(prior.first, direction[:first].reshape(layout.G, layout.q).T).T
    moved = vector(
        layout, np.concatenate([z.ravel(), np.linalg.solve(prior.rest, direction[first:])])
    )
    other = copy.copy(block)
    other.center = here + moved.times(h)
    return flat(other.collapse(m).best.mu)
