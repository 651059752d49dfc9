"""What a variational fit's Gaussian block leaves out of the evidence: its levels' own sums.

The best Gaussian of all coefficients together has the evidence that `integrated.block` mends level by level:
each level's own sum, exact in all orders, and half the variance of what no level has alone. A fit with
separate factors is asked for the same, and for what lies between it and the best Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from ....collapsed.gaussian.block import BlockState, BlockSum
from ....collapsed.gaussian.optimum import IteratedOptimum
from ....collapsed.gaussian.own_effects import own_effects
from ....integrated.block.fitting import Gaussian, stated
from ....integrated.block.layout import Layout
from ....integrated.block.level_sums import gap
from ....integrated.block.model import Block
from ....statement.meanfield import MeanField
from ..design.design import Design
from ..design.standardised import Standardisation, fixed_prior
from ..fit.along_lines import Integrated
from ..fit.arrangement import Arrangement, arrange
from ..priors.stated import MixedPriors
from .judging import as_spreads
from .statement import state


@dataclass(frozen=True, eq=False)
class BlockGap:
    """log ∫ of the coefficients given the precisions, less the ELBO of a fit's block, at a state of it.

    States will be near the precisions' moments m.
    """

    design: Design
    priors: MixedPriors
    standard: Standardisation
    alpha: MeanField
    m: np.ndarray

    def __call__(self, block: BlockSum, state: BlockState) -> float:
        """Tilts of the block are those of both."""
        if block.joint:
            return gap(self.layout, self.gaussian(block, state)).total
        p = block.layout.p
        whole = self.arrangement.block.pulled(block.pull.rest[:p])
        best = whole.collapse(state.m, self.center)
        between = whole.tilted_value(best) - block.tilted_value(state)
        return between + gap(self.layout, self.gaussian(whole, best)).total

    def evidence(self, points: np.ndarray) -> Integrated:
        """log ∫ of the coefficients at point moments of the precisions (S, a); −∞ where there is none."""
        whole = self.arrangement.block.with_gap(self)
        p = whole.layout.p
        nothing = -np.inf, np.full(p, np.nan), np.full((p, p), np.nan)
        found = []
        for m in points:
            at = whole.evaluate(m, 1, self.center)
            if at.state is None:
                found.append(nothing)
                continue
            best = at.state.best
            covariance = best.Sigma.blocks.Zrr[:p, :p]
            found.append((at.value + whole.gap_at(at.state), best.mu.rest[:p], covariance))
        return Integrated(*(np.array(part) for part in zip(*found, strict=True)))

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
        """Of all coefficients in one factor, at m: with tangents, from which states near by begin."""
        found: BlockState = self.arrangement.block.evaluate(self.m).state
        return found

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
