"""The log density of data and global variables, with every row's own variables integrated out."""

from __future__ import annotations

import numpy as np

from ..collapsed.chunks import point_chunks
from ..collapsed.seam import Densities
from ..numerics.double import in_double
from ..statement.programs import global_density_program
from .fitting import Fit
from .objective import Objective
from .second_order import thinned


class CollapsedDensity:
    """log p(x, α) as a function of the point moments m = T(α), up to α's base measure.

    It is global_term(m) + Σ_n max over q(z) of the row's term and entropy. Where rows are linear in z
    the maximum is log ∫ p(x_n, z | α) dz, and `exact` is True; otherwise it is a lower bound.
    """

    def __init__(self, fit: Fit):
        fit = fit.at_points()
        self.problem, self.exact = fit.problem, bool(fit.problem.structure.conjugate)
        self.rows = fit.bound()

    @in_double
    def at(self, points: np.ndarray, gradient: bool = False) -> Densities:
        """Values (S,), and with `gradient=True` gradients (S, a), at point moments (S, a)."""
        program = global_density_program(self.problem.structure, gradient)
        value = np.zeros(len(points))
        slope = np.zeros(points.shape) if gradient else None
        for here, part in point_chunks(points, 0):
            v, g = program(self.problem.traced, part)
            value[here] = np.asarray(v)[: here.stop - here.start]
            if slope is not None:
                slope[here] = np.asarray(g)[: here.stop - here.start]
        total = Densities(value, slope)
        return total if self.rows is None else total + self.rows.density(points, gradient)


class ThinnedDensity:
    """The same, with at most so many rows standing for all beyond the second order.

    With g and H̃ of all rows at the optimum, g₀ and H̃₀ of some that count for all, and d = m − m*, it is their
    density + (g − g₀)ᵀd + ½dᵀ(H̃ − H̃₀)d: what it errs by is of third order, where N rows leave d ∝ 1/√N.
    """

    def __init__(self, fit: Fit, most: int):
        some = thinned(fit, most)
        self.over = CollapsedDensity(some)
        own = Objective(some.problem, some.bound()).at(fit.eta)
        assert fit.curved is not None
        assert own.H is not None
        self.exact, self.m = self.over.exact, fit.m
        self.constant = fit.elbo - own.elbo
        self.slope, self.turn = fit.point.gradient - own.gradient, fit.curved.H - own.H

    def at(self, points: np.ndarray, gradient: bool = False) -> Densities:
        """Values (S,), and with `gradient=True` gradients (S, a), at point moments (S, a)."""
        d = points - self.m
        along = d @ self.turn
        value = self.constant + d @ self.slope + np.einsum("na,na->n", along, d) / 2
        slope = self.slope + along if gradient else None
        return Densities(value, slope) + self.over.at(points, gradient)
