"""The log density of data and global variables, with every row's own variables integrated out."""

from __future__ import annotations

import numpy as np

from ..collapsed.chunks import point_chunks
from ..collapsed.seam import Densities
from ..numerics.double import in_double
from ..statement.programs import global_density_program
from .fitting import Fit


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
