"""What a variational fit's Gaussian block leaves out of the evidence: its levels' own sums.

The best Gaussian of all coefficients together has the evidence that `integrated.block` mends level by level:
each level's own sum, exact in all orders, and half the variance of what no level has alone. A fit with
separate factors is asked for the same, and for what lies between it and the best Gaussian.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from ....collapsed.gaussian.best_gaussian import NoOptimum
from ....collapsed.gaussian.block import BlockState, BlockSum
from ....collapsed.gaussian.optimum import IteratedOptimum
from ....collapsed.gaussian.outwards import Outwards
from ....collapsed.gaussian.own_effects import own_effects
from ....integrated.block.fitting import Gaussian, stated
from ....integrated.block.layout import Layout
from ....integrated.block.level_sums import Counts, counts, total
from ....integrated.block.model import Block
from ....statement.meanfield import MeanField
from ..design.design import Design
from ..design.standardised import Standardisation, fixed_prior
from ..fit.along_lines import Integrated, Moments
from ..fit.arrangement import Arrangement, arrange
from ..priors.stated import MixedPriors
from .judging import as_spreads
from .statement import state

STEP = 1e-4  # along a line, in sds of the precisions
EVEN = 0.03  # of a log density: a parabola is off by about an eighth of that
NEAR = 1e-6  # of a best Gaussian, of which the value alone is asked


@dataclass(frozen=True, eq=False)
class BlockGap:
    """log ∫ of the coefficients given the precisions, less the ELBO of a fit's block, at a state of it.

    States will be near the precisions' moments m; `state` is that of a fit with one factor there.
    """

    design: Design
    priors: MixedPriors
    standard: Standardisation
    alpha: MeanField
    m: np.ndarray
    state: BlockState | None = None

    def __call__(self, block: BlockSum, state: BlockState) -> float:
        """Tilts of the block are those of both."""
        if block.joint:
            return self.beyond(block, state)
        p = block.layout.p
        whole = self.arrangement.block.pulled(block.pull.rest[:p]).within(NEAR)
        best = whole.collapse(state.m, self.center)
        between = whole.tilted_value(best) - block.tilted_value(state)
        return between + self.beyond(whole, best)

    def evidence(self, moments: Moments) -> Callable[[np.ndarray], Integrated]:
        """log ∫ of the coefficients at points of a line; −∞ where there is none. The first holds 0."""
        whole = self.arrangement.block.with_gap(self)
        p = whole.layout.p
        nothing = -np.inf, np.nan, np.nan, np.full(p, np.nan), np.full((p, p), np.nan)
        path = Outwards(whole, self.center, _along(moments, np.zeros(1))[1][0])

        def at(x: np.ndarray) -> Integrated:
            (points, velocities), found = _along(moments, x), [nothing] * len(x)
            states: list[BlockState | None] = [None] * len(x)
            for i in np.argsort(np.abs(x)):
                with contextlib.suppress(NoOptimum):
                    states[i] = path.at(float(x[i]), points[i])

            def left_out(i: int) -> float:
                there = states[i]
                return np.nan if there is None else whole.gap_at(there)

            gaps = _between(x, left_out)
            for i, there in enumerate(states):
                if there is not None:
                    sums, best = whole.evaluate(points[i], 1, there), there.best
                    slope, beta = sums.gradient @ velocities[i], best.Sigma.blocks.Zrr[:p, :p]
                    found[i] = sums.value, slope, gaps[i], best.mu.rest[:p], beta
            return Integrated(*(np.array(part) for part in zip(*found, strict=True)))

        return at

    @cached_property
    def layout(self) -> Layout:
        """The rows and terms as `integrated.block` has them."""
        made = state(
            self.design, as_spreads(self.priors), self.standard, "one Gaussian block"
        ).inside
        assert isinstance(made, Block)
        return made.layout

    @cached_property
    def arrangement(self) -> Arrangement:
        """All coefficients in one factor."""
        prior = fixed_prior(self.priors, self.standard)
        return arrange(self.design, self.alpha, self.standard, prior, "variational")

    @cached_property
    def center(self) -> BlockState:
        """Of all coefficients in one factor, at m: with tangents, if it has them, for states near by."""
        block = self.arrangement.block
        found: BlockState | None = block.evaluate(self.m, state=self.state).state
        return block.collapse(self.m) if found is None else found

    @cached_property
    def counts(self) -> Counts:
        """How many nodes the sums have, wherever they are asked."""
        return counts(self.layout, self.gaussian(self.arrangement.block, self.center))

    def beyond(self, block: BlockSum, state: BlockState) -> float:
        """What the best Gaussian at a state of a joint block leaves out."""
        return total(self.layout, self.gaussian(block, state), self.counts)

    def gaussian(self, block: BlockSum, state: BlockState) -> Gaussian:
        """The best Gaussian at a state of a joint block, in the order of the design."""
        best, order, p = state.best, self.arrangement.order, block.layout.p
        v = block.layout.quadratic(*best.Sigma.blocks)
        effects, matrices, at = [], [], 0
        for term, place in zip(self.design.terms, self.arrangement.places, strict=True):
            if place.factor >= 0:
                effects.append(block.precisions.means(at, best.mu))
                matrices.append(block.precisions.matrix(at, state.m))
                at += 1
                continue
            s = block.precisions.s(state.m)
            assert isinstance(best, IteratedOptimum)
            own = own_effects(best, s)
            v = (1 - own.share) ** 2 * v + own.noise
            z = np.empty((block.layout.n, 1))
            z[self.design.factors[term.factor].codes[order], 0] = own.mean
            effects.append(z)
            matrices.append(np.array([[s]]))
        levels = [np.hstack([effects[t] for t in f.terms]) for f in self.layout.factors]
        precisions = [block_diag(*(matrices[t] for t in f.terms)) for f in self.layout.factors]
        variances = np.empty_like(v)
        variances[order] = v
        return stated(self.layout, [], precisions, best.mu.rest[:p], levels, variances)


def _between(x: np.ndarray, gap: Callable[[int], float]) -> np.ndarray:
    """What is left out at x (S,); where ends and middle differ by less than EVEN, a parabola between."""
    known = sorted({0, len(x) // 2, len(x) - 1})
    found = {i: gap(i) for i in known}
    three = [found[i] for i in known]
    if len(x) > 3 and np.ptp(three) < EVEN:
        return np.asarray(np.polyval(np.polyfit(x[known], three, 2), x))
    return np.array([found[i] if i in found else gap(i) for i in range(len(x))])


def _along(moments: Moments, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """m and ∂m/∂x at points x (S,), (S, a) each."""
    at, ahead, behind = np.split(moments(np.concatenate([x, x + STEP, x - STEP])), 3)
    return at, (ahead - behind) / (2 * STEP)
