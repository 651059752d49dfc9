"""One order further: means and sds from the one-loop evidence.

The ELBO misses the fluctuations around q*; to first order they add −½ log det(I − VH), so that
log Z ≈ E − ½ log det(I − VH), with the local variables absorbed in H. Cumulants are derivatives of
log Z under a tilt t·θ: the ELBO's own give the mean-field mean and the linear response, and those of
the added term correct the bias of both. It needs a term that is linear in z (so that H_z = 0). All means
together take one batch of gradients (`mean_shift`), and each variance two short refits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..collapsed.autodiff import AutodiffSum
from ..errors import InvalidModel
from ..numerics.double import in_double
from ..statement.programs import means_program
from .ascent import Search
from .density import CollapsedDensity
from .fitting import Fit
from .newton import Curved
from .objective import Objective, Point
from .response import Response

STEP = 0.02  # in sds: the error of a second difference is 4e-4/12 of a fourth derivative
TILT = 0.1  # in units of 1/sd: differences of fourth order in it are below 1e-4 of an sd


@dataclass(frozen=True)
class Refined:
    """Of every direction d: the shift of E dᵀT, and the corrected variance; and log Z."""

    shift: np.ndarray
    variance: np.ndarray
    log_evidence: float


class _Tilted(Objective):
    """The objective of the log joint tilted by tᵀT."""

    tilt: np.ndarray

    def at(self, eta: np.ndarray, order: int = 2, state: Any = None) -> Point:
        point = super().at(eta, order, state)
        elbo, gradient = point.elbo + float(self.tilt @ point.m), point.gradient + self.tilt
        return replace(point, elbo=elbo, gradient=gradient)


@in_double
def refine(
    response: Response,
    directions: np.ndarray,
    *,
    units: np.ndarray | None = None,
    shift: float = 0.0,
) -> Refined:
    """Second-order means and variances of linear functions dᵀT of the global statistics.

    With `units` M, directions are of T = M T′ + c, T′ the statistics of the fit; `shift` is added to
    the log evidence.
    """
    fit = response.fit
    directions = directions if units is None else directions @ units
    base = _require(fit)
    moved, variance = directions @ mean_shift(response), np.zeros(len(directions))
    assert fit.curved is not None
    H = fit.curved.H
    for k, d in enumerate(directions):
        first = float(d @ response.Sigma @ d)
        h = TILT / np.sqrt(first)
        ahead = d + H @ (response.Sigma @ d)  # dη*/dt
        up, down = (_tilted_loop(fit, t * d, t * ahead) for t in (h, -h))
        variance[k] = first + (up - 2 * base + down) / h**2
        if not variance[k] > 0:
            raise InvalidModel(
                "The second-order variance of a quantity is not positive: the posterior is too far "
                "from the mean-field one for a correction. Use the uncorrected sd, or MCMC."
            )
    return Refined(moved, variance, fit.elbo + base + shift)


@in_double
def mean_shift(response: Response) -> np.ndarray:
    r"""Σ̂∇g of all statistics (a,), g = −½ log det(I − VH̃): the second order's correction of E T.

    With dg = ½ tr(Σ̂ dH̃) + ½ tr(B dV), B = H̃ + H̃Σ̂H̃, it is ½Σ̂c + ½(I + Σ̂H̃)e where
    c = ∂tr(Σ̂H̃)/∂m and e = ∂tr(BV)/∂η with Σ̂ and B held fixed: sums of second differences of the
    gradient ∂L̄/∂m along the columns of a root of Σ̂, and of the mean map along those of one of B.
    """
    fit = response.fit
    _require(fit)
    assert fit.curved is not None
    C, H, Sigma = fit.curved.C, fit.curved.H, response.Sigma
    beta, Q = np.linalg.eigh(fit.curved.B)  # I − CᵀHC
    R = C @ (Q / np.sqrt(beta))  # Σ̂ = RRᵀ
    gradient = CollapsedDensity(fit).at(_around(fit.m, R), gradient=True).gradient
    assert gradient is not None
    c = _second_differences(gradient, np.ones(len(beta)))
    directions = np.linalg.solve(C.T, Q)  # B = Σ_k (1/β_k − 1) b_k b_kᵀ
    means = means_program(fit.problem.structure)(_around(fit.eta, directions))
    e = _second_differences(np.asarray(means), 1 / beta - 1)
    shift = 0.5 * (Sigma @ (c + H @ e) + e)
    if not np.isfinite(shift).all():
        raise InvalidModel(
            "The second order of the means is not finite: a step of a fiftieth of an sd leaves the "
            "domain of the model's terms. Use the uncorrected means, or posterior.certify()."
        )
    return shift


def _around(point: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The point, and its neighbours a step ahead and behind along each column, (2a + 1, a)."""
    steps = STEP * directions.T
    return np.concatenate([point[None], point + steps, point - steps])


def _second_differences(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Σ_k weights_k ∂²values along column k, from values (2a + 1, a) at `_around`."""
    a = len(weights)
    return weights @ (values[1 : a + 1] - 2 * values[0] + values[a + 1 :]) / STEP**2


def _require(fit: Fit) -> float:
    """−½ log det(I − VH) at the optimum, where the correction exists."""
    assert fit.curved is not None
    if not fit.problem.structure.conjugate:
        raise InvalidModel(
            "The second order needs rows that are linear in their local variables, such as "
            'NormalPoisson(local="tilted"); this model\'s are not.'
        )
    return _loop(fit.curved)


def _loop(model: Curved) -> float:
    return float(-np.log(np.diag(model.K)).sum())


def _tilted_loop(fit: Fit, tilt: np.ndarray, ahead: np.ndarray | float = 0.0) -> float:
    """−½ log det(I − VH) at the optimum of the tilted problem, by Newton from η* + ahead."""
    strategy = fit.local_sum or AutodiffSum()
    rows = strategy.bind(fit.problem, fit.chunk_size) if fit.problem.rows is not None else None
    objective = _Tilted(fit.problem, rows)
    objective.tilt = tilt
    search = Search(objective, 50, progress=False)
    try:
        search.begin(fit.eta + ahead, explicit=False)
    except InvalidModel:  # the straight line has left the domain
        search.begin(fit.eta, explicit=False)
    converged, reason, _ = search.newton(1e-8)
    if not converged or search.curved is None or not search.curved.is_concave:
        raise InvalidModel(f"A tilted refit for the second order did not converge: {reason}.")
    return _loop(search.curved)
