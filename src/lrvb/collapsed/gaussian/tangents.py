"""How the best Gaussian factor moves when the precisions, or a tilt of w, move a little.

The stationarity conditions of `optimum`, differentiated: M δμ = b + Cᵀ(ℓ_ηv δv + ℓ_ηs δs), and
δΣ = −Σ(CᵀδW C + δP)Σ with δW = −2(ℓ_vη δη̄ + ℓ_vv δv + ℓ_vs δs), affine in the variances δv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...numerics.anderson import Unsettled, solve_affine
from .arrow import Blocks, Prior, posterior_precision
from .best_gaussian import NoResponse, Tangent
from .feedback import feedback
from .incidence import Vector
from .layout import Cross
from .optimum import IteratedOptimum, level_covariances

if TYPE_CHECKING:
    from .reweighted import Reweighted

_TOL = 1e-8  # relative: as many digits as a curvature is asked for


def tangent(
    given: Reweighted,
    best: IteratedOptimum,
    b: Vector,
    change: Prior | None,
    ds: float,
    guess: np.ndarray | None = None,
) -> Tangent:
    """The response to a tilt b of the means' equation, to δP = `change`, and to δs.

    `guess` is a δv to start from, such as that of a point nearby.
    """
    layout, rows, terms, v = given.layout, given.rows, best.terms, best.v
    zero = np.zeros(layout.n)
    ev, vv = (terms.ev, terms.vv) if rows.coupled else (zero, zero)
    es, vs, ss = (terms.es, terms.vs, terms.ss) if rows.scaled else (zero, zero, zero)

    def parts(dv: np.ndarray) -> tuple[Vector, Blocks, np.ndarray]:
        pull = layout.adjoint(ev * dv + es * ds) if rows.coupled or ds else layout.zeros()
        dmu = best.M.solve(b + pull)
        d_eta = layout.forward(dmu)
        dW = -2 * (ev * d_eta + vv * dv + vs * ds)
        dQ = layout.cross(dW) if rows.coupled or ds else _nothing(best)
        dQ = dQ if change is None else posterior_precision(dQ, change)
        return dmu, best.Sigma.tangent(dQ), d_eta

    answer = feedback(layout, level_covariances(best.Sigma), vv)

    def improved(u: np.ndarray) -> np.ndarray:
        away = layout.quadratic(*parts(v * u)[1]) - v * u
        return u + (away + answer.follow(vv * away) if rows.coupled else away) / v

    # in units of v, so that no row's variance is forgotten beside a larger one
    try:
        dv = v * solve_affine(improved, zero if guess is None else guess / v, _TOL)
    except Unsettled as error:
        raise NoResponse from error
    dmu, blocks, d_eta = parts(dv)
    scale = float(es @ d_eta + vs @ dv + ss.sum() * ds) if rows.scaled else 0.0
    return Tangent(dmu, blocks, scale, dv)


def _nothing(best: IteratedOptimum) -> Cross:
    Z11, Z1r, Zrr = best.M.blocks
    return Cross(np.zeros_like(Z11), np.zeros_like(Z1r), np.zeros_like(Zrr))
