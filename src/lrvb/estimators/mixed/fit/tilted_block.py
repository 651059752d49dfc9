r"""The second order of fixed effects and precisions: cumulants by a tilt of the log joint.

Under a tilt by t(cᵀb + dᵀT) the log evidence is E_t + g_t. E has variance Σ̂_c|α + rᵀΣ̂r with
r = d + ∂cᵀμ/∂m; the precisions' optimum moves along η′ = r + H̃Σ̂r. g is asked for at both ends of a
short line along it, with the coefficients' factor tilted as well: its slope corrects the mean, its
second derivative, and what leaving the line adds, the variance. Two curvatures do for both, and one for the
variance of precisions, roughly: the slope of g is known with all their means.
"""

from __future__ import annotations

from functools import cached_property
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
        base, first = self.response.fit.point, self.first(c, d)
        if first <= 0:
            return Cumulants(0.0, 0.0, 0.0)
        h = STEP / np.sqrt(first)
        ahead = h * self._velocity(c, d)
        (up, g_up), (down, g_down) = self._at(h * c, ahead), self._at(-h * c, -ahead)
        rho = (up.residual - 2 * base.residual + down.residual) / h**2
        bend = (g_up - 2 * self.g + g_down) / h**2
        return Cumulants((g_up - g_down) / (2 * h), first, first + bend + float(self.shift @ rho))

    def first(self, c: np.ndarray, d: np.ndarray) -> float:
        """Linear response's variance of cᵀb + dᵀT."""
        r = d + self.R.T @ c
        return float(c @ self.given @ c + r @ self.response.Sigma @ r)

    @in_double
    def rough_variance(self, d: np.ndarray) -> float:
        """Of dᵀT, by one end of the line: the tilted residual is ½h²ρ there, and dᵀshift the slope of g."""
        base, none = self.response.fit.point, np.zeros(len(self.given))
        first = self.first(none, d)
        h = STEP / np.sqrt(first)
        up, g_up = self._at(none, h * self._velocity(none, d))
        rho = 2 * (up.residual - base.residual + h * d) / h**2
        bend = 2 * (g_up - self.g - h * (d @ self.shift)) / h**2
        return first + bend + float(self.shift @ rho)

    def _velocity(self, c: np.ndarray, d: np.ndarray) -> np.ndarray:
        """η′."""
        r = d + self.R.T @ c
        return r + self.H @ (self.response.Sigma @ r)

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


class Asked:
    """What the second order says of cᵀb + dᵀT, found when it is asked for."""

    def __init__(self, second: TiltedBlock, c: np.ndarray, d: np.ndarray):
        self.second, self.c, self.d = second, c, d
        self.first = second.first(c, d)

    @cached_property
    def cumulants(self) -> Cumulants:
        """The corrections of mean and variance."""
        return self.second.cumulants(self.c, self.d)

    @property
    def rough_variance(self) -> float:
        """The corrected variance, of precisions alone, without those where they are not known."""
        if "cumulants" in self.__dict__:
            return self.cumulants.variance
        return self.second.rough_variance(self.d)


def _g(block: BlockSum, point: Point) -> float:
    """−½ log det(I − VH̃), and the block's gap."""
    assert point.H is not None
    K = curved(point.residual, point.C, point.H).K
    return block.gap_at(point.state) - float(np.log(np.diag(K)).sum())
