"""Steps 2 and 3: V and the effective H at the optimum."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..collapsed.autodiff import AutodiffSum
from ..collapsed.partitions import PartitionedSum
from ..collapsed.seam import LocalSum
from ..errors import InvalidModel, NotAMaximum
from ..numerics.algebra import gram
from ..numerics.double import in_double
from ..statement.meanfield import MeanField
from .fitting import Fit
from .flatness import flat_direction, in_words, loadings
from .newton import Curved, curved
from .objective import Objective


@dataclass(frozen=True)
class Curvature:
    """C with V = CCᵀ (a, a), and H with the local variables absorbed (a, a)."""

    fit: Fit
    C: np.ndarray
    H: np.ndarray
    K: np.ndarray  # Cholesky factor of I − CᵀHC

    @property
    def V(self) -> np.ndarray:
        """Covariance of q*: the mean-field answer."""
        return gram(self.C)

    @property
    def alpha(self) -> MeanField:
        """The product of the global blocks."""
        return self.fit.alpha


@in_double
def linearize(fit: Fit, *, local_sum: LocalSum | None = None) -> Curvature:
    """V and H at the optimum, or `NotAMaximum` where it is not a strict one.

    The fit's last Newton step has assembled both; `local_sum` computes H anew in another way.
    """
    if not isinstance(fit, Fit):
        raise InvalidModel(
            f"linearize takes the fit that lrvb.fit returns, not a {type(fit).__name__}."
        )
    if fit.wide:
        raise InvalidModel(
            f"The model has {len(fit.m)} global coordinates, too many for matrices of them; lrvb.infer "
            "gives a posterior that solves for the quantities asked for."
        )
    if local_sum is None and fit.curved is not None:
        require_maximum(fit, fit.curved)
        return Curvature(fit, fit.curved.C, fit.curved.H, fit.curved.K)
    rows = None
    if fit.problem.rows is not None:
        strategy = local_sum or fit.local_sum or AutodiffSum()
        if isinstance(fit.local_sum, PartitionedSum) and local_sum is not None:
            strategy = replace(fit.local_sum, inner=local_sum)
        rows = strategy.bind(fit.problem, fit.chunk_size)
    point = Objective(fit.problem, rows).at(fit.eta, state=fit.point.state)
    assert point.H is not None
    model = curved(point.residual, point.C, point.H)
    require_maximum(fit, model)
    return Curvature(fit, model.C, model.H, model.K)


def require_maximum(fit: Fit, model: Curved) -> None:
    """Raise `NotAMaximum`, naming the direction, unless I − CᵀHC is positive definite beyond rounding."""
    B = model.B
    if not np.isfinite(B).all():
        raise NotAMaximum(
            "The curvature of the ELBO is not finite at the optimum. Check the second derivatives "
            "of global_term and local_term."
        )
    flat = flat_direction(model)
    if flat is None and model.is_concave:
        return
    if flat is not None:
        low, u = flat.eigenvalue, flat.u
    else:
        eigenvalues, Q = np.linalg.eigh(B)
        low, u = float(eigenvalues[0]), Q[:, 0]
    block, part, _ = max(fit.alpha.parts(), key=lambda p: float((u[p[2]] ** 2).sum()))
    carriers = loadings(fit.alpha, model.C, u)
    direction = in_words(fit.alpha, carriers)
    evidence = {"eigenvalue": low, "block": block, "part": part, "direction": carriers}
    if flat is not None:
        raise NotAMaximum(
            f"I - VH has eigenvalue {low:.1e} along {direction}, which cannot be told from zero "
            f"(known to within {flat.noise:.0e}): neither data nor prior determine that direction, "
            "and its sd would be rounding. Try: (a) fix a symmetry of the model, such as a "
            "triangular loading matrix for a rotation; (b) a proper prior on that block; (c) drop a "
            "column that is a combination of others.",
            **evidence,
            noise=flat.noise,
        )
    raise NotAMaximum(
        f"I - VH has eigenvalue {low:.1e}, strongest in block '{part}', along {direction}. Linear "
        "response exists only at a strict maximum of the ELBO. Try: (a) a better start, a component "
        "may be empty or two may coincide; (b) more iterations, the last Newton step was "
        f"{fit.stationarity:.0e} sds; (c) a proper prior on that block; (d) check the signs in the "
        "model's terms.",
        **evidence,
    )
