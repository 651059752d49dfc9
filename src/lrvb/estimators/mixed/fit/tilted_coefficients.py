r"""The second order of a fixed effect: cumulants of what was integrated out, by a tilt of the log joint.

Under a tilt by t·cᵀb the log evidence is E_t + g_t. E has mean cᵀμ and variance Σ̂_c|α + rᵀΣ̂r with
r = ∂cᵀμ/∂m; the precisions' optimum moves along η′ = r + H̃Σ̂r. g is asked for at both ends of a
short line along it, with the coefficients' factor tilted as well: its slope corrects the mean, its
second derivative, and what leaving the line adds, the variance. Two curvatures do for both.
"""

from __future__ import annotations

import numpy as np

from ....collapsed.gaussian.block import BlockSum
from ....collapsed.gaussian.functionals import Functionals
from ....engine.newton import curved
from ....engine.objective import Objective
from ....engine.second_order import SecondOrder
from ....errors import InvalidModel
from ....numerics.double import in_double
from ....numerics.second_differences import STEP


@in_double
def fixed_effect(second: SecondOrder, c: np.ndarray) -> tuple[float, float, float]:
    """Of cᵀb: the correction of its mean, linear response's variance, and the corrected."""
    response, block = second.response, second.rows
    assert isinstance(block, BlockSum)
    fit, Sigma = response.fit, response.Sigma
    own = block.coefficients(fit.m, fit.point.state).of(Functionals(None, fixed=True))
    r = own.R[0].T @ c
    first = float(c @ own.Sigma[0] @ c + r @ Sigma @ r)
    h = STEP / np.sqrt(first)
    ahead = h * (r + second.H @ (Sigma @ r))
    up, down = (_tilted(second, block.pulled(t * c), s) for t, s in ((h, ahead), (-h, -ahead)))
    rho = (up[0] - 2 * fit.point.residual + down[0]) / h**2
    bend = (up[1] - 2 * second.loop + down[1]) / h**2
    return (up[1] - down[1]) / (2 * h), first, first + bend + float(second.shift @ rho)


def _tilted(second: SecondOrder, block: BlockSum, step: np.ndarray) -> tuple[np.ndarray, float]:
    """Residual of the tilted fixed point and g, at η* + step."""
    point = Objective(second.fit.problem, block).at(second.response.eta + step)
    if not np.isfinite(point.elbo) or point.H is None:
        raise InvalidModel(
            "The second order of a fixed effect is not known: a step of a fiftieth of an sd has no "
            "optimum of the coefficients. Use the uncorrected answer."
        )
    own = -np.log(np.diag(curved(point.residual, point.C, point.H).K)).sum()
    return point.residual, float(own + block.gaps(point.m[None])[0])
