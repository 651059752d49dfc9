r"""The second order of fixed effects and precisions: cumulants by a tilt of the log joint.

Under a tilt by t(cᵀb + dᵀT) the log evidence is E_t + g_t. E has variance Σ̂_c|α + rᵀΣ̂r with
r = d + ∂cᵀμ/∂m; the precisions' optimum moves along η′ = r + H̃Σ̂r. g is asked for at both ends of a
short line along it, with the coefficients' factor tilted as well: its slope corrects the mean, its
second derivative, and what leaving the line adds, the variance. Two curvatures do for both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....collapsed.gaussian.block import BlockSum
from ....collapsed.gaussian.functionals import CoefficientResponse, Functionals
from ....engine.newton import curved
from ....engine.objective import Objective, Point
from ....engine.response import Response
from ....engine.second_order import SecondOrder
from ....errors import InvalidModel
from ....numerics.double import in_double
from ....numerics.second_differences import STEP


class Cumulants(NamedTuple):
    """Of one quantity: the correction of its mean, linear response's variance, and the corrected."""

    shift: float
    first: float
    variance: float


class TiltedBlock:
    """The second order at the optimum of precisions whose coefficients are in `block`, which knows its gap.

    `coefficients` are given the precisions' means.
    """

    @in_double
    def __init__(self, response: Response, block: BlockSum, coefficients: CoefficientResponse):
        self.response, self.block = response, block
        own = coefficients.of(Functionals(None, fixed=True))
        self.given, self.R = own.Sigma[0], own.R[0]  # Σ̂_b|α and ∂E b/∂m
        second = SecondOrder(response)
        self.shift, self.H = second.shift, second.H  # of the precisions' statistics
        self.g = _g(block, response.fit.point)

    @in_double
    def cumulants(self, c: np.ndarray, d: np.ndarray) -> Cumulants:
        """Of cᵀb + dᵀT."""
        base, Sigma = self.response.fit.point, self.response.Sigma
        r = d + self.R.T @ c
        first = float(c @ self.given @ c + r @ Sigma @ r)
        if first <= 0:
            return Cumulants(0.0, 0.0, 0.0)
        h = STEP / np.sqrt(first)
        ahead = h * (r + self.H @ (Sigma @ r))
        (up, g_up), (down, g_down) = self._at(h * c, ahead), self._at(-h * c, -ahead)
        rho = (up.residual - 2 * base.residual + down.residual) / h**2
        bend = (g_up - 2 * self.g + g_down) / h**2
        return Cumulants((g_up - g_down) / (2 * h), first, first + bend + float(self.shift @ rho))

    def _at(self, pull: np.ndarray, step: np.ndarray) -> tuple[Point, float]:
        """η* + step with the coefficients tilted, and g there."""
        fit = self.response.fit
        block = self.block.pulled(pull)
        point = Objective(fit.problem, block).at(fit.eta + step, state=fit.point.state)
        if not np.isfinite(point.elbo) or point.H is None:
            raise InvalidModel(
                "The second order is not known: a step of a fiftieth of an sd has no optimum of the "
                "coefficients. Use the uncorrected answer."
            )
        return point, _g(block, point)


def _g(block: BlockSum, point: Point) -> float:
    """−½ log det(I − VH̃), and the block's gap."""
    assert point.H is not None
    K = curved(point.residual, point.C, point.H).K
    return block.gap_at(point.state) - float(np.log(np.diag(K)).sum())
