"""Rows' sums of every group at nodes that stay where they are, for any θ.

Where the fixed effects' columns are linear in the random ones' within every group, X_g = R_g A_g, as those
of times, treatments and their products are beside an intercept and a slope of every patient, rows depend on
w = z + A_g β alone. Their sums at nodes of w are made once, and a point costs its prior there: the sum of
exp(ℓ_g(w)) N(w; A_g β, Σ) over the nodes, of which only those are kept that matter at some of the
points that the posterior may reach. Where an sd is so small that the nodes are too coarse for its
prior, every other node gives another sum, and a point is computed from its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .coordinates import Kind
from .factor_density import FAR
from .inside import Evaluated
from .mode import differenced
from .slopes import Slopes

MOST = 2e6  # nodes that are kept
_POINTS = 128  # at a time: what fits a processor's cache with a group's nodes
_FINER = (0.5, 1.0, 1.4, 2.0)  # steps of the sums at one point, over those that are tried here
_TOLERANCE = 1e-2  # of the whole log density
_SHIFT = 0.3  # of a step, by which nodes are moved to see what they leave out
_RIM = 4.0  # of the fall of the log integrand, up to where nodes end
_SURE = (
    0.03  # of the whole log density, that nodes may be off by beyond what they are at the center
)
_CHEAPER = 2.5  # times what they are counted for, that sums of exponentials' products take less


class _Nodes(NamedTuple):
    """A group's nodes v = w − w₀: features (5, K) v₁, v₂, v₁², v₂², v₁v₂ (or v, v²) and ℓ + log cell (K,).

    The first `coarse` are every other node along each axis, the last `rim` those at the ends.
    """

    features: np.ndarray
    level: np.ndarray
    coarse: int
    rim: int


class _Sum(NamedTuple):
    """Of a group at n points: the sum of the integrand over its top, its log, and what that is off by."""

    total: np.ndarray
    log_sum: np.ndarray
    off: np.ndarray


def can_hold(inside: Slopes) -> bool:
    """Whether nodes that stay serve all θ, and are not too many."""
    few = inside.G * float(inside.nodes**inside.q) < MOST
    return few and not inside.rows.likelihood.kinds and inside.within_groups() is not None


class Held:
    """log p(y, θ) of one factor, from sums of rows that are known; points (T, d) are what it must reach."""

    def __init__(self, inside: Slopes, points: np.ndarray):
        found = inside.within_groups()
        assert found is not None
        self.inside, self.p, self.A = inside, inside.p, found
        self.reach(points, at_any_price=False)

    def reach(self, points: np.ndarray, at_any_price: bool = True) -> None:
        """Nodes that suffice at the points (T, d), the first of which is the center, or are too many."""
        points = points[self.inside._possible(points)]
        for finer in _FINER:
            met = self._make(points, finer)
            if not (at_any_price or self.share < 1):
                return
            off = self._sums(met)[0] - self._moved_by(_SHIFT)._sums(met)[0]
            if np.abs(off).max() < _TOLERANCE:
                break
        self.known = self._sums(points[:1])[1][0]  # at the center, which those show to be right

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.inside.kinds

    @property
    def work(self) -> float:
        """What a point costs, in evaluations of a row's density."""
        return sum(nodes.level.size for nodes in self.nodes) / 4

    @property
    def share(self) -> float:
        """A point's cost over that of the rows: above 1 where few of them leave effects far to go."""
        inside = self.inside
        times = 1.0 if inside._exponential is None else _CHEAPER
        return times * self.work / (inside.cost * inside.work)

    def saves(self, points: np.ndarray) -> bool:
        """Whether these nodes, with the rows where they are too coarse, cost less than the rows alone."""
        return self.share < 1 and self.share < 1 - float(self.unsure(points).mean())

    def unsure(self, theta: np.ndarray) -> np.ndarray:
        """At which of n points nodes are too coarse, so that rows are asked, (n,)."""
        return self._sums(theta)[1] > self.known + _SURE

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where an sd is beyond double precision."""
        value, off = self._sums(theta)
        unsure = off > self.known + _SURE
        if unsure.any():
            value[unsure] = self.inside.log_density(theta[unsure])
        return value

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What the log density is off by at n points, (n,), from the rows with twice the nodes."""
        off, cut, _ = self.inside._off(theta)
        finer = self.inside.log_density(theta) - (off - self.inside._known)
        return np.abs(self.log_density(theta) - finer) + cut

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point: differences, or the rows' where nodes are too coarse."""
        if self.unsure(theta[None]).any():
            return self.inside.derivatives(theta)
        return differenced(lambda points: self._sums(points)[0], 1e-2)(theta)

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with E z (n, Gq) and E z_i z_j (n, Gq(q + 1)/2) of every group."""
        inside, n, q = self.inside, len(theta), self.inside.q
        pairs, counts = inside._pairs, inside.groups.counts
        value, off = self._value(theta), np.zeros(n)
        first, second = np.zeros((n, inside.G, q)), np.zeros((n, inside.G, len(pairs)))
        away = self._away(theta)
        for at, g, P, found in self._run(theta, value):
            value[at] += counts[g] * found.log_sum
            off[at] += counts[g] * found.off
            raw = P @ self.nodes[g].features.T / found.total[:, None]
            shift, mean = away[at, g], raw[:, :q]
            first[at, g] = mean - shift
            for row, (i, j) in enumerate(pairs):
                both = raw[:, q + row] - shift[:, i] * mean[:, j] - shift[:, j] * mean[:, i]
                second[at, g, row] = both + shift[:, i] * shift[:, j]
        result = Evaluated(value, first.reshape(n, -1), second.reshape(n, -1))
        unsure = off > self.known + _SURE
        if unsure.any():
            for part, exact in zip(result, inside.evaluate(theta[unsure]), strict=True):
                part[unsure] = exact
        return result

    # ---- parts ------------------------------------------------------------------------------

    def _sums(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log p(y, θ) from the nodes at n points, and what it is off by, (n,) each."""
        value, off, counts = self._value(theta), np.zeros(len(theta)), self.inside.groups.counts
        for at, g, _, found in self._run(theta, value):
            value[at] += counts[g] * found.log_sum
            off[at] += counts[g] * found.off
        return value, off

    def _make(self, points: np.ndarray, finer: float) -> np.ndarray:
        """The nodes of every group: a lattice along the axes of its spread at the first point.

        The points that it serves: all but those for which it would have too many nodes.
        """
        inside = self.inside
        ends = inside._ends(points)
        means = np.einsum("gqp,np->ngq", self.A, points[:, : self.p])
        w = ends.z + means
        self.center, C = w[0], ends.C[0]
        corners = np.array(np.meshgrid(*[[0.0, 1.0]] * inside.q)).reshape(inside.q, -1).T
        e = ends.low[:, :, None] + (ends.high - ends.low)[:, :, None] * corners
        reached = w[:, :, None] + np.einsum("ngij,ngcj->ngci", ends.C, e) - self.center[:, None]
        e = np.linalg.solve(C[:, None], reached[..., None])[..., 0]
        own = np.diagonal(ends.C, axis1=2, axis2=3)
        step = (ends.high - ends.low) * own / own[0] / ((inside.nodes - 1) * finer)
        low, high, step, met = _lattice(e.min(2), e.max(2), step)
        self.lattice = C, low, high, step
        self._precision, _ = inside._precision(points[met])
        self._about = means[met] - self.center
        self.nodes = self._all_nodes(0.0)
        return points[met]

    def _moved_by(self, shift: float) -> Held:
        """The same sums on nodes moved by a part of a step."""
        moved = object.__new__(Held)
        moved.__dict__.update(self.__dict__)
        moved.nodes = self._all_nodes(shift)
        return moved

    def _all_nodes(self, shift: float) -> list[_Nodes]:
        """Of every group; its rows are asked once."""
        C, groups = self.lattice[0], range(self.inside.G)
        axes = [self._axes(g, shift) for g in groups]
        grids = [np.stack(np.meshgrid(*own, indexing="ij"), axis=-1) for own in axes]
        v = [
            e.reshape(-1, len(own)) @ C[g].T for g, own, e in zip(groups, axes, grids, strict=True)
        ]
        f = self.inside.at_nodes(self.center, v)
        return [self._of_group(g, *own) for g, own in enumerate(zip(axes, v, f, strict=True))]

    def _axes(self, g: int, shift: float) -> list[np.ndarray]:
        """The places of a group's lattice along each axis, moved by a part of a step."""
        _, low, high, step = (part[g] for part in self.lattice)
        return [np.arange(a + shift * h, b + h, h) for a, b, h in zip(low, high, step, strict=True)]

    def _of_group(self, g: int, axes: list[np.ndarray], v: np.ndarray, f: np.ndarray) -> _Nodes:
        """Nodes where the integrand at some of the points is within `FAR` of its top."""
        C, _, _, step = (part[g] for part in self.lattice)
        features = np.stack([*v.T, *(v[:, i] * v[:, j] for i, j in self.inside._pairs)])
        heights = self._prior(self._precision, self._about[:, [g]])[:, 0] @ features + f
        fall = (heights.max(1, keepdims=True) - heights).min(0)
        kept = fall < FAR
        cell = np.log(step).sum() + np.log(np.diagonal(C)).sum()
        rim = fall > FAR - _RIM
        odd = np.stack(np.meshgrid(*[np.arange(len(a)) % 2 for a in axes], indexing="ij"))
        coarse = ~rim & ~odd.reshape(len(axes), -1).any(0)
        order = np.flatnonzero(kept)[np.argsort((rim * 1 - coarse)[kept], kind="stable")]
        counts = int(coarse.sum()), int((rim & kept).sum())
        return _Nodes(np.ascontiguousarray(features[:, order]), f[order] + cell, *counts)

    def _prior(self, precision: np.ndarray, away: np.ndarray) -> np.ndarray:
        """Coefficients (n, G, 2 or 5) of −½(v − δ)ᵀΛ(v − δ) in the features, but for its constant."""
        n, G, q = away.shape
        found = np.empty((n, G, q + len(self.inside._pairs)))
        found[..., :q] = away @ precision
        for row, (i, j) in enumerate(self.inside._pairs, start=q):
            found[..., row] = -(0.5 if i == j else 1.0) * precision[:, [i], j]
        return found

    def _away(self, theta: np.ndarray) -> np.ndarray:
        """δ = A_g β − w₀, (n, G, q)."""
        return np.einsum("gqp,np->ngq", self.A, theta[:, : self.p]) - self.center

    def _value(self, theta: np.ndarray) -> np.ndarray:
        """What all nodes have in common; −∞ at points that are not possible."""
        inside, value = self.inside, np.full(len(theta), -np.inf)
        there = inside._possible(theta)
        at = theta[there]
        precision, logdet = inside._precision(at)
        away = self._away(at)
        pulled = (np.einsum("nij,ngj->ngi", precision, away) * away).sum(2) @ inside.groups.counts
        levels = inside.groups.counts.sum()
        constant = levels * (inside.q * np.log(2 * np.pi) + logdet) / 2
        value[there] = inside._log_prior(at) - pulled / 2 - constant
        return value

    def _run(
        self, theta: np.ndarray, value: np.ndarray
    ) -> Iterator[tuple[np.ndarray, int, np.ndarray, _Sum]]:
        """Some possible points and a group at a time: the integrand (n, K), and its sum."""
        possible, every = np.flatnonzero(np.isfinite(value)), 2.0**self.inside.q
        for start in range(0, len(possible), _POINTS):
            at = possible[start : start + _POINTS]
            precision, _ = self.inside._precision(theta[at])
            prior = self._prior(precision, self._away(theta[at]))
            for g, nodes in enumerate(self.nodes):
                f = prior[:, g] @ nodes.features
                f += nodes.level
                top = f.max(1)
                f -= top[:, None]
                P = np.exp(f, out=f)
                total = P @ np.ones(len(nodes.level))
                coarse = every * (P[:, : nodes.coarse] @ np.ones(nodes.coarse))
                rim = P[:, len(nodes.level) - nodes.rim :] @ np.ones(nodes.rim)
                # of a normal density 1 + ε with every other node is 1 + ε⁴/8 with all
                off = (coarse / total - 1) ** 4 / 8 + rim / total
                yield at, g, P, _Sum(total, top + np.log(total), off)


def _lattice(
    low: np.ndarray, high: np.ndarray, step: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Ends and steps (G, q) of nodes that serve points (T, G, q), and which of these they are.

    Of points whose nodes together would be more than `MOST` the one that asks for most goes, the first never:
    one with an sd next to nothing asks for steps so small that all others would have too many.
    """
    met = np.arange(len(low))
    while True:
        each = low[met].min(0), high[met].max(0), step[met].min(0)
        if len(met) == 1 or _size(*each) <= MOST:
            return *each, met
        left = [np.delete(met, i) for i in range(1, len(met))]
        met = min(left, key=lambda m: _size(low[m].min(0), high[m].max(0), step[m].min(0)))


def _size(low: np.ndarray, high: np.ndarray, step: np.ndarray) -> float:
    """Nodes of all lattices."""
    return float(((high - low) / step + 1).prod(1).sum())
