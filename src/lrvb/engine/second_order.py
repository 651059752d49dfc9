"""One order further: means and sds from the one-loop evidence.

The ELBO misses the fluctuations around q*; to first order they add −½ log det(I − VH), so that
log Z ≈ E − ½ log det(I − VH), with the local variables absorbed in H. Cumulants are derivatives of
log Z under a tilt t·θ: the ELBO's own give the mean-field mean and the linear response, and those of
the added term correct the bias of both. It needs a term that is linear in z (so that H_z = 0), and
two refits a quantity, from the optimum and therefore short.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..collapsed.autodiff import AutodiffSum
from ..errors import InvalidModel
from ..numerics.double import in_double
from .ascent import Search
from .fitting import Fit
from .newton import Curved
from .objective import Objective, Point
from .response import Response

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
def refine(response: Response, directions: np.ndarray) -> Refined:
    """Second-order means and variances of linear functions dᵀT of the global statistics."""
    fit = response.fit
    base = _require(fit)
    shift, variance = np.zeros(len(directions)), np.zeros(len(directions))
    for k, d in enumerate(directions):
        first = float(d @ response.Sigma @ d)
        h = TILT / np.sqrt(first)
        up, down = (_tilted_loop(fit, sign * h * d) for sign in (1.0, -1.0))
        shift[k] = (up - down) / (2 * h)
        variance[k] = first + (up - 2 * base + down) / h**2
        if not variance[k] > 0:
            raise InvalidModel(
                "The second-order variance of a quantity is not positive: the posterior is too far "
                "from the mean-field one for a correction. Use the uncorrected sd, or MCMC."
            )
    return Refined(shift, variance, fit.elbo + base)


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


def _tilted_loop(fit: Fit, tilt: np.ndarray) -> float:
    """−½ log det(I − VH) at the optimum of the tilted problem, reached by Newton from the untilted."""
    strategy = fit.local_sum or AutodiffSum()
    rows = strategy.bind(fit.problem, fit.chunk_size) if fit.problem.rows is not None else None
    objective = _Tilted(fit.problem, rows)
    objective.tilt = tilt
    search = Search(objective, 50, progress=False)
    search.begin(fit.eta, explicit=False)
    converged, reason, _ = search.newton(1e-8)
    if not converged or search.curved is None or not search.curved.is_concave:
        raise InvalidModel(f"A tilted refit for the second order did not converge: {reason}.")
    return _loop(search.curved)
