"""Step 1: the optimum q*. A few coordinate-ascent sweeps, then Newton in a trust region."""

from __future__ import annotations

import numbers
import sys
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from .errors import InvalidModel, NotConverged
from .gram import GramSum
from .local_sums import AutodiffSum, BoundSum, LocalSum
from .meanfield import MeanField, Moments
from .newton import Curved, curved, trust_region_step
from .partitions import as_partitions, partitioned_problem
from .precision import in_double
from .problem import Problem, global_program, state_problem
from .starts import initial, invalid_parts
from .tables import Rows

SMALL = 100  # up to this many global coordinates the curvature costs less than another compilation
SWEEPS = 4  # coordinate-ascent sweeps at most before Newton takes over, where both cost the same
MANY_SWEEPS = 60  # the same where the curvature is what costs
SAMPLE = 20_000  # rows of the preliminary fit that gives a large one its start


@dataclass(frozen=True)
class Point:
    """The objective at η: m, C (V = CCᵀ), the ELBO, ∂L̄/∂m with z collapsed, and H̃ if asked for."""

    eta: np.ndarray
    m: np.ndarray
    C: np.ndarray
    elbo: float
    gradient: np.ndarray
    H: np.ndarray | None
    failed: int = -1

    @property
    def residual(self) -> np.ndarray:
        """∂E/∂m = ∂L̄/∂m − η, zero at the optimum."""
        return stationarity(self.eta, self.gradient)


def stationarity(eta: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """∂E/∂m = ∂L/∂m − η: the fixed point is where it vanishes, η = ∂L/∂m.

    Paper: eq:fixed_pt
    """
    return gradient - eta


@dataclass(frozen=True)
class Fit:
    """The optimum: m*, η*, the ELBO's trace, and how far the last Newton step would still go."""

    problem: Problem | None
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

    @property
    def model(self) -> Any:
        """The model that was fitted."""
        return self.problem.model if self.problem is not None else None

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
    def moments(self) -> Moments:
        """Named moments at the optimum."""
        return self.alpha.moments(self.point.m)

    def params(self) -> dict[str, dict[str, Any]]:
        """The usual parameters of every global block at the optimum."""
        from .starts import usual_parameters

        return usual_parameters(self.alpha, self.point.eta)


class Objective:
    """The ELBO with local variables collapsed, as a function of the global η."""

    def __init__(self, problem: Problem, sum_over_rows: BoundSum | None):
        self.problem, self.rows = problem, sum_over_rows
        self.small = problem.alpha.size <= SMALL

    def at(self, eta: np.ndarray, order: int = 2) -> Point:
        """Value and gradient, and with `order=2` the curvature; invalid η has ELBO −inf."""
        if self.small:
            order = 2
        program = global_program(self.problem.structure, order)
        q, value, gradient, H = program(self.problem.traced, np.ascontiguousarray(eta))
        m, gradient = np.asarray(q.m), np.asarray(gradient)
        if not bool(q.valid):
            return Point(eta, m, np.zeros((0, 0)), -np.inf, gradient, None)
        elbo = float(value) + float(q.S)
        curvature = np.asarray(H) if order == 2 else None
        failed = -1
        if self.rows is not None:
            sums = self.rows.evaluate(m, order)
            elbo, gradient, failed = elbo + sums.value, gradient + sums.gradient, sums.failed
            if curvature is not None:
                curvature = curvature + sums.curvature
        if failed >= 0 or not (np.isfinite(elbo) and np.isfinite(gradient).all()):
            elbo = -np.inf
        C = self.problem.alpha.dense({k: np.asarray(c) for k, c in q.C.items()})
        return Point(eta, m, C, elbo, gradient, curvature, failed)


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
    bound = strategy.bind(problem, chunk_size) if problem.rows is not None else None
    objective = Objective(problem, bound)
    search = _Search(objective, max_iter, progress)
    try:
        sampled = _sampled_start(problem, strategy) if init is None else None
        start = initial(problem.alpha, init) if sampled is None else sampled
        search.begin(start, explicit=init is not None)
        if init is None and sampled is None:
            search.sweep_blocks()
        if sampled is None and not isinstance(getattr(init, "fit", init), Fit):
            search.ascend()  # from another optimum Newton is the shorter way
        converged, reason, decrement = search.newton(tol)
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
        local_sum=strategy,
        curved=search.curved,
    )
    if not converged:
        _refuse_unbounded(result)
        warnings.warn(_not_converged(result, tol, max_iter), stacklevel=_callers_level())
    return result


def _callers_level() -> int:
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
    if rows is None or (problem.total is None and rows.n <= 4 * SAMPLE):
        return None
    taken = min(rows.n, SAMPLE)
    chosen = np.sort(np.random.default_rng(0).choice(rows.n, taken, replace=False))
    weights = np.ones(taken) if rows.weights is None else np.asarray(rows.weights)[chosen]
    columns = {k: c[chosen] for k, c in rows.columns.items()}
    sample = Rows(columns, weights=weights * (rows.n / taken))
    smaller = replace(problem, rows=sample, total=None)
    search = _Search(Objective(smaller, strategy.bind(smaller)), 100, progress=False)
    try:
        search.begin(initial(problem.alpha, None), explicit=False)
    except InvalidModel:  # all rows will meet the same, and name the row by its place among all
        return None
    search.sweep_blocks()
    search.ascend()
    search.newton(1e-3)
    return search.point.eta


class _Search:
    """The path from the start to the optimum: current point, trace and progress bar."""

    def __init__(self, objective: Objective, max_iter: int, progress: bool):
        self.objective, self.max_iter = objective, max_iter
        self.trace: list[float] = []
        self.n_iter = 0
        self.bar = tqdm(total=None, desc="lrvb", unit="pass", disable=not progress)
        self.point: Point
        self.curved: Curved | None = None

    def begin(self, eta: np.ndarray, *, explicit: bool) -> None:
        """Evaluate the start, and say clearly what is wrong if that fails."""
        point = self.objective.at(eta, order=1)
        if not np.isfinite(point.elbo):
            raise _bad_start(self.objective.problem, point, explicit)
        self._move(point)

    def sweep_blocks(self) -> None:
        """One sweep, block after block: locations first, so that scales are learnt from residuals."""
        alpha = self.objective.problem.alpha
        order = sorted(alpha.blocks, key=lambda b: "xx" not in alpha.blocks[b].Stats._fields)
        for block in order:
            target = self.point.eta.copy()
            target[alpha.slices[block]] = self.point.gradient[alpha.slices[block]]
            self._towards(target)
        self.n_iter = 1  # all blocks together

    def ascend(self) -> None:
        """Coordinate ascent η ← ∂L/∂m, for as long as it is the cheaper way up.

        It ends when a sweep gains little, when it is not accepted, or, with a costly curvature,
        when successive sweeps shorten too slowly to be worth following.
        """
        small, last = self.objective.small, np.inf
        for sweep in range(SWEEPS if small else MANY_SWEEPS):
            before = self.point.elbo
            if self.n_iter >= self.max_iter or not self._towards(self.point.gradient):
                return
            length = float(np.linalg.norm(self.point.C.T @ self.point.residual))
            if small and self.point.elbo - before < 0.1:
                return
            slow = sweep >= 3 and length > (0.9 if sweep < 8 else 0.5) * last
            if not small and (length < 1e-10 or slow):
                return
            last = length

    def newton(self, tol: float) -> tuple[bool, str, float]:
        """Trust-region Newton; returns whether it converged, why it stopped, and the decrement."""
        radius, rejected, best = 10.0 * np.sqrt(self.objective.problem.alpha.size), 0, np.inf
        if self.point.H is None:
            self.point = self.objective.at(self.point.eta)
        model = curved(self.point.residual, self.point.C, _curvature(self.point))
        while True:
            self.curved, decrement = model, model.decrement
            if decrement <= tol:
                return True, f"the Newton step is {decrement:.0e} linear-response sds", decrement
            if decrement < 1e-6 and decrement >= 0.5 * best:
                return True, f"rounding: Newton steps stay at {decrement:.0e} sds", decrement
            if self.n_iter >= self.max_iter:
                return False, f"max_iter={self.max_iter} iterations were used", decrement
            if radius < 1e-9:
                return False, "no step, however short, increases the ELBO", decrement
            if not np.isfinite(model.B).all():
                return False, "the curvature of the ELBO is not finite", decrement
            step = trust_region_step(model, radius)
            trial = self.objective.at(self.point.eta + step.delta)
            rounding = 1e-12 * (1.0 + abs(self.point.elbo))
            gain = trial.elbo - self.point.elbo
            if step.gain < rounding:  # the gain drowns in rounding: ask for a smaller residual
                accept = gain >= -rounding and trial.H is not None
                better = None
                if accept:
                    better = curved(trial.residual, trial.C, _curvature(trial))
                    accept = better.decrement < decrement
            else:
                accept, better = gain > 1e-4 * step.gain, None
                if not accept and decrement < 0.1 and trial.H is not None:
                    # Terms that cancel make the ELBO noisier than its size tells; steps that halve
                    # so close to a maximum are convergence all the same.
                    better = curved(trial.residual, trial.C, _curvature(trial))
                    accept = better.decrement < 0.5 * decrement
            self.n_iter += 1
            if not accept:
                rejected += 1
                radius = 0.25 * min(radius, step.length)
                self._show()
                if step.gain < rounding and rejected > 2 and decrement < 1e-4:
                    return decrement < 1e-6, "rounding limits the Newton steps", decrement
                continue
            if gain > 0.75 * step.gain and step.length > 0.8 * radius:
                radius *= 3.0
            elif gain < 0.25 * step.gain:
                radius *= 0.5
            best, rejected = min(best, decrement), 0
            self._move(trial, counted=True)
            model = better or curved(trial.residual, trial.C, _curvature(trial))

    def _towards(self, target: np.ndarray) -> bool:
        """Move to η = target, or part of the way: the direction always ascends (natural gradient)."""
        direction = target - self.point.eta
        for damping in (1.0, 0.5, 0.1, 0.01):
            trial = self.objective.at(self.point.eta + damping * direction, order=1)
            if trial.elbo >= self.point.elbo - 1e-14 * abs(self.point.elbo):
                self._move(trial)
                return True
        return False

    def _move(self, point: Point, *, counted: bool = False) -> None:
        self.point = point
        self.trace.append(point.elbo)
        self.n_iter += not counted and len(self.trace) > 1
        self._show()

    def _show(self) -> None:
        self.bar.update(1)
        self.bar.set_postfix_str(f"ELBO {self.point.elbo:.6g}", refresh=False)

    def close(self) -> None:
        """End the progress bar."""
        self.bar.close()


def _curvature(point: Point) -> np.ndarray:
    assert point.H is not None
    return point.H


def _bad_start(problem: Problem, point: Point, explicit: bool) -> InvalidModel:
    """The error for a start at which the ELBO is not finite, as precise as can be."""
    name = type(problem.model).__name__
    outside = invalid_parts(problem.alpha, point.eta) if explicit else []
    if outside:
        block, part = outside[0]
        return InvalidModel(
            f"init of block '{part}' lies outside the domain of "
            f"{problem.alpha.blocks[block]!r}; check its values.",
            block=block,
            part=part,
        )
    advice = " Check the values given as init." if explicit else ""
    if point.failed >= 0:
        assert problem.rows is not None
        held = {} if problem.total is not None else problem.rows.columns
        row = {k: np.asarray(v[point.failed]).tolist() for k, v in held.items()}
        shown = ", ".join(f"{k}={v}" for k, v in row.items() if np.size(v) <= 6 and k != "_row")
        shown = f" ({shown})" if shown else ""
        return InvalidModel(
            f"local_term of {name} has no finite maximum over {', '.join(problem.local.blocks) or 'm'} "
            f"at row {point.failed}{shown}: it is not a number, or it grows without bound. Check "
            "the signs in local_term, for logarithms or divisions of zero, and for overflow."
            f"{advice}",
            row=point.failed,
            values=row,
        )
    return InvalidModel(
        f"The ELBO of {name} is not finite at the start: global_term, or its gradient, is not a "
        f"number there. Check for logarithms or divisions of zero, and for overflow.{advice}"
    )


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
    if "max_iter" not in result.reason:
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
