"""The way up: coordinate-ascent sweeps, then Newton in a trust region, the ELBO never falling."""

from __future__ import annotations

import time

import numpy as np

from ..errors import InvalidModel
from ..statement.parameters import invalid_parts
from ..statement.problem import Problem
from .flatness import FLAT, flat_direction, in_words, loadings
from .newton import Curved, curved, trust_region_step
from .objective import Objective, Point

SWEEPS = 4  # coordinate-ascent sweeps at most before Newton takes over, where both cost the same
MANY_SWEEPS = 60  # the same where the curvature is what costs
SHORT = 1e-9  # a sweep of this many mean-field sds leaves nothing to Newton
LEVEL = 0.01  # of log evidence: a sweep that gains less is followed by Newton, wherever it began


class Search:
    """The path from the start to the optimum: current point, trace and progress bar."""

    def __init__(self, objective: Objective, max_iter: int, progress: bool, until: float = np.inf):
        from tqdm.auto import tqdm

        self.objective, self.max_iter, self.until = objective, max_iter, until
        self.trace: list[float] = []
        self.n_iter = 0
        self.bar = tqdm(total=None, desc="lrvb", unit="pass", disable=not progress)
        self.point: Point
        self.curved: Curved | None = None

    def begin(self, eta: np.ndarray, *, explicit: bool) -> None:
        """Evaluate the start, and say clearly what is wrong if that fails."""
        point = self.objective.at(eta, order=1)
        if not np.isfinite(point.elbo):
            raise point.error or _bad_start(self.objective.problem, point, explicit)
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
            length = self.point.step
            if small and self.point.elbo - before < 0.1:
                return
            slow = sweep >= 3 and length > (0.9 if sweep < 8 else 0.5) * last
            if not small and (length < SHORT or slow):
                return
            last = length

    def climb(self, sweeps: int) -> float:
        """Up to so many further sweeps, however short their steps; what the last of them gained."""
        gain = 0.0
        for _ in range(sweeps):
            before = self.point.elbo
            if self.is_late or not self._towards(self.point.gradient):
                return 0.0
            gain = self.point.elbo - before
            if gain < LEVEL:
                break
        return gain

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self.until

    def newton(self, tol: float, first: float = 10.0) -> tuple[bool, str, float]:
        """Trust-region Newton; returns whether it converged, why it stopped, and the decrement.

        The first step is at most `first` sds for each coordinate, root mean square.
        """
        radius, rejected, best = first * np.sqrt(self.objective.problem.alpha.size), 0, np.inf
        if self.point.H is None:
            self.point = self.objective.at(self.point.eta, state=self.point.state)
        model = curved(self.point.residual, self.point.C, _curvature(self.point))
        while True:
            self.curved, decrement = model, model.decrement
            if decrement <= tol and flat_direction(model) is None:
                return True, f"the Newton step is {decrement:.0e} linear-response sds", decrement
            if decrement < 1e-6 and decrement >= 0.5 * best:
                return self._stop(True, f"rounding: Newton steps stay at {decrement:.0e} sds")
            if self.n_iter >= self.max_iter:
                return False, f"max_iter={self.max_iter} iterations were used", decrement
            if self.is_late:
                return False, "the time was up", decrement
            if radius < 1e-9:
                return self._stop(False, "no step, however short, increases the ELBO")
            if not np.isfinite(model.B).all():
                return False, "the curvature of the ELBO is not finite", decrement
            step = trust_region_step(model, radius)
            trial = self.objective.at(self.point.eta + step.delta, state=self.point.state)
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
                    return self._stop(decrement < 1e-6, "rounding limits the Newton steps")
                continue
            if gain > 0.75 * step.gain and step.length > 0.8 * radius:
                radius *= 3.0
            elif gain < 0.25 * step.gain:
                radius *= 0.5
            best, rejected = min(best, decrement), 0
            self._move(trial, counted=True)
            model = better or curved(trial.residual, trial.C, _curvature(trial))

    def _stop(self, converged: bool, reason: str) -> tuple[bool, str, float]:
        """Nothing more can be gained: converged, unless a direction is left undetermined."""
        assert self.curved is not None
        flat = flat_direction(self.curved)
        if flat is not None:
            alpha = self.objective.problem.alpha
            carriers = loadings(alpha, self.curved.C, flat.u)
            converged, reason = False, f"{FLAT} along {in_words(alpha, carriers)}"
        return converged, reason, self.curved.decrement

    def _towards(self, target: np.ndarray) -> bool:
        """Move to η = target, or part of the way: the direction always ascends (natural gradient)."""
        direction = target - self.point.eta
        for damping in (1.0, 0.5, 0.1, 0.01):
            eta = self.point.eta + damping * direction
            trial = self.objective.at(eta, order=1, state=self.point.state)
            if trial.elbo >= self.point.elbo - 1e-14 * abs(self.point.elbo):
                self._move(trial)
                return True
        return False

    def _move(self, point: Point, *, counted: bool = False) -> None:
        self.point = point
        self.trace.append(point.elbo)
        self.n_iter += not counted and len(self.trace) > 1
        self._show()

    def move(self, point: Point) -> None:
        """Take a step that was found elsewhere."""
        self._move(point)

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
