"""Step 1: the optimum q*. A start, the way up, and what is kept of it."""

from __future__ import annotations

import numbers
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..collapsed.autodiff import AutodiffSum
from ..collapsed.gram import GramSum
from ..collapsed.partitions import as_partitions, partitioned_problem
from ..collapsed.seam import BoundSum, LocalSum
from ..data.sample import LARGE, sample_rows
from ..errors import InvalidModel, NotConverged
from ..numerics.double import in_double
from ..statement.meanfield import MeanField, Moments
from ..statement.parameters import initial, invalid_parts, optimum_in, usual_parameters
from ..statement.problem import Problem, at_points, state_problem
from .ascent import Search
from .convergence import Convergence
from .flatness import FLAT
from .newton import Curved, curved
from .objective import Objective, Point
from .wide import is_wide, newton_by_products


@dataclass(frozen=True)
class Fit:
    """The optimum: m*, η*, the ELBO's trace, and how far the last Newton step would still go."""

    problem: Problem
    point: Point
    alpha: MeanField
    trace: np.ndarray
    n_iter: int
    converged: bool
    reason: str
    stationarity: float
    chunk_size: int | None = None
    local_sum: LocalSum | None = None
    curved: Curved | None = None
    wide: bool = False  # too many coordinates for matrices: no curvature is at hand

    @property
    def model(self) -> Any:
        """The model that was fitted."""
        return self.problem.model

    @property
    def m(self) -> np.ndarray:
        """Flat mean parameters m*."""
        return self.point.m

    @property
    def eta(self) -> np.ndarray:
        """Flat natural parameters η*."""
        return self.point.eta

    @property
    def elbo(self) -> float:
        """E = L + S at the optimum."""
        return self.point.elbo

    @property
    def convergence(self) -> Convergence:
        """How the optimum was reached."""
        return Convergence(
            self.elbo, self.trace, self.n_iter, self.converged, self.reason, self.stationarity
        )

    @property
    def moments(self) -> Moments:
        """Named moments at the optimum."""
        return self.alpha.moments(self.point.m)

    def bound(self) -> BoundSum | None:
        """What sums over the rows, or integrates out; None without either."""
        if self.local_sum is None:
            return None
        return self.local_sum.bind(self.problem, self.chunk_size)

    def at_points(self) -> Fit:
        """The fit, whose problem is then asked at moments T(α) of single points only."""
        return replace(self, problem=at_points(self.problem))

    def params(self) -> dict[str, dict[str, Any]]:
        """The usual parameters of every global block at the optimum."""
        return usual_parameters(self.alpha, self.point.eta)

    def permuted(self, order: np.ndarray) -> Fit:
        """The same optimum with coordinate `order[i]` in place i, for a symmetry of the problem.

        A permutation of flat coordinates that leaves L as it is, such as one of components, takes
        optima to optima.
        """
        point = self.point.permuted(order)
        model = None if point.H is None else curved(point.residual, point.C, point.H)
        return replace(self, point=point, curved=model)


@in_double
def fit(
    model: Any,
    data: Any = None,
    *,
    init: Any = None,
    tol: float = 1e-8,
    max_iter: int = 200,
    progress: bool = False,
    chunk_size: int | None = None,
    local_sum: LocalSum | None = None,
) -> Fit:
    """Maximise the ELBO of a model over its mean-field family.

    `init` takes moments, usual parameters, or another fit or posterior; without it the start is
    found. `tol` is the longest Newton step, in linear-response standard deviations, at which the
    fit counts as converged. `chunk_size` rows are held at a time; `local_sum` chooses how row sums
    are computed. Stopping early gives a `NotConverged` warning, never a silent result.
    """
    if not isinstance(tol, numbers.Real) or not 0 < tol < 1:
        raise InvalidModel(f"tol={tol!r} must be a positive number below 1, such as 1e-8.")
    if not isinstance(max_iter, numbers.Integral) or isinstance(max_iter, bool) or max_iter < 1:
        raise InvalidModel(f"max_iter={max_iter!r} must be a whole number, 1 or more.")
    strategy: LocalSum
    parts = as_partitions(data)
    if parts is not None:
        chosen = default_sum if local_sum is None else (lambda _: local_sum)
        problem, strategy = partitioned_problem(model, parts, chosen)
    else:
        problem = model if isinstance(model, Problem) else state_problem(model, data)
        strategy = local_sum if local_sum is not None else default_sum(problem)
    sums = problem.rows is not None or local_sum is not None
    bound = strategy.bind(problem, chunk_size) if sums else None
    objective = Objective(problem, bound)
    search = Search(objective, max_iter, progress)
    try:
        few = init is None and not is_wide(
            objective
        )  # a sample would leave most blocks without rows
        sampled = _sampled_start(problem, strategy) if few else None
        start = initial(problem.alpha, init) if sampled is None else sampled
        search.begin(start, explicit=init is not None)
        if init is None and sampled is None:
            search.sweep_blocks()
        if sampled is None and optimum_in(init) is None:
            search.ascend()  # from another optimum Newton is the shorter way
        newton = newton_by_products if is_wide(objective) else Search.newton
        converged, reason, decrement = newton(search, tol)
    finally:
        search.close()
    result = Fit(
        problem=problem,
        point=search.point,
        alpha=problem.alpha,
        trace=np.array(search.trace),
        n_iter=search.n_iter,
        converged=converged,
        reason=reason,
        stationarity=decrement,
        chunk_size=chunk_size,
        local_sum=strategy if sums else None,
        curved=search.curved,
        wide=is_wide(objective),
    )
    if not converged:
        _refuse_unbounded(result)
        warnings.warn(_not_converged(result, tol, max_iter), stacklevel=callers_level())
    return result


def callers_level() -> int:
    """The stack level of the user's own line, for a warning raised by the caller."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("lrvb."):
        frame, level = frame.f_back, level + 1
    return level


def default_sum(problem: Problem) -> LocalSum:
    """The row sum a problem gets when none is chosen: by Gram matrices where features are declared."""
    declared = problem.model.features is not None and problem.structure.conjugate
    return GramSum() if declared else AutodiffSum()


def _sampled_start(problem: Problem, strategy: LocalSum) -> np.ndarray | None:
    """The optimum for a random sample of the rows, each counted N/n times; None for small data.

    It lies within a few posterior sds of the optimum for all rows, so that only Newton's last,
    quadratic steps have to pass over all of them.
    """
    rows = problem.rows
    if rows is None or (problem.total is None and rows.n <= LARGE):
        return None
    smaller = replace(problem, rows=sample_rows(rows), total=None)
    search = Search(Objective(smaller, strategy.bind(smaller)), 100, progress=False)
    try:
        search.begin(initial(problem.alpha, None), explicit=False)
    except InvalidModel:  # all rows will meet the same, and name the row by its place among all
        return None
    search.sweep_blocks()
    search.ascend()
    search.newton(1e-3)
    return search.point.eta


def _refuse_unbounded(result: Fit) -> None:
    """A fit that stopped while a block's own update leaves its domain has no optimum to return."""
    outside = invalid_parts(result.alpha, result.point.gradient)
    if outside:
        block, part = outside[0]
        raise InvalidModel(
            f"Block '{part}' has no proper optimum: its update ∂L/∂m lies outside the domain of "
            f"{result.alpha.blocks[block]!r}, so the ELBO grows without bound. Check the signs of "
            "the terms that contain it, that its prior is in global_term, and that no column has an "
            "offset so large that differences from it are lost to rounding.",
            block=block,
            part=part,
            fit=result,
        )


def _not_converged(result: Fit, tol: float, max_iter: int) -> NotConverged:
    """What to try depends on why the fit stopped: too few iterations, or nowhere to go."""
    remedy = f"Try max_iter={2 * max_iter}, or init= at a better start."
    if result.reason.startswith(FLAT):
        remedy = (
            "Neither data nor prior determine that direction: fix a symmetry of the model, such as a "
            "triangular loading matrix for a rotation, give a proper prior, or drop a column that is "
            "a combination of others."
        )
    elif "max_iter" not in result.reason:
        remedy = (
            "Try to centre columns with a large offset and to rescale large ones, which rounding "
            "blurs; another init=; or look for a parameter that the data and the prior leave "
            "undetermined."
        )
    step = f"the next Newton step is {result.stationarity:.1e} linear-response sds (tol={tol:.0e})"
    if not np.isfinite(result.stationarity):
        step = "the point reached does not lie below a maximum"
    return NotConverged(
        f"The fit stopped before convergence: {result.reason}; {step}. Standard deviations are "
        f"trustworthy only at the optimum. {remedy}",
        reason=result.reason,
        stationarity=result.stationarity,
    )
