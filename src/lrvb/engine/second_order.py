r"""One order further: means and variances from the one-loop evidence, without a refit.

The ELBO misses the fluctuations around q*; to first order they add −½ log det(I − VH̃), H̃ with the local
variables absorbed. Where rows are not linear in z it also misses what the best q(z) of a family leaves
out of each row's integral. With g the sum of both log Z ≈ E + g. Cumulants of a quantity are derivatives
of log Z under a tilt of the log joint by t times that quantity: those of E are the mean-field mean and
the linear response, those of g correct the bias of both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..data.sample import sample_rows
from ..errors import InvalidModel
from ..numerics.double import in_double
from ..numerics.lazy import jax, jnp
from ..numerics.second_differences import STEP, around, second_differences
from ..statement.programs import global_density_program, means_program
from .fitting import Fit
from .newton import curved
from .objective import Objective
from .response import Response


@dataclass(frozen=True)
class Refined:
    """Of every quantity: the shift of its mean, linear response's variance and the corrected; log Z.

    Where the density itself was asked, `off` (q, 2) is how far the second order's mean is from its mean, in
    its sds, and the ratio of the second order's sd to its sd: ∞ where that is not known. NaN elsewhere.
    """

    shift: np.ndarray
    first: np.ndarray
    variance: np.ndarray
    log_evidence: float
    off: np.ndarray | None = None


class Quantity(NamedTuple):
    """φ with E_q φ = f(m): ∇f (a,) and ∇²f (a, a) as functions of m; a linear f has no second."""

    gradient: Callable[[np.ndarray], np.ndarray]
    hessian: Callable[[np.ndarray], np.ndarray] | None = None


def linear(d: np.ndarray) -> Quantity:
    """dᵀT."""
    return Quantity(lambda m: d)


@in_double
def functions(F: Callable[[Any], Any], size: int) -> list[Quantity]:
    """The entries of F, a function of flat moments with values (size,)."""
    J, W = jax.jit(jax.jacrev(F)), jax.jit(jax.hessian(F))

    def one(i: int) -> Quantity:
        return Quantity(lambda m: np.asarray(J(m))[i], lambda m: np.asarray(W(m))[i])

    return [one(i) for i in range(size)]


def _directions(V_root: np.ndarray, Q: np.ndarray) -> np.ndarray:
    r"""b_k with V_rootᵀ b_k = q_k, the shortest in sds where V is singular.

    A statistic that cannot vary (log π of a single component) has a zero row there. What a b_k then
    misses weighs nothing: along it β = 1.
    """
    sd = np.sqrt((V_root**2).sum(1))
    moving = sd > 0
    scaled = V_root[moving] / sd[moving, None]
    found = np.zeros(Q.shape)
    found[moving] = np.linalg.lstsq(scaled.T, Q, rcond=None)[0] / sd[moving, None]
    return found


class _Tilted(NamedTuple):
    """Residual of the tilted fixed point, −½ log det(I − VH̃), and the moments, at one point of a line."""

    residual: np.ndarray
    loop: float
    m: np.ndarray


class _Line(NamedTuple):
    """Of one quantity: both variances, without the rows' gaps, and m′ and m″ of its line in sds."""

    first: float
    corrected: float
    velocity: np.ndarray
    turn: np.ndarray


class SecondOrder:
    """The second order at an optimum, of all rows or of a sample that stands for them.

    V, H̃ and Σ̂ are always those of all rows; with `most` at most so many rows say how H̃ changes. A
    `shift` that is known need not be found again.
    """

    def __init__(
        self, response: Response, most: int | None = None, shift: np.ndarray | None = None
    ):
        fit = response.fit
        assert fit.curved is not None
        self.response, self.V_root, self.H = response, fit.curved.C, fit.curved.H
        self.fit = fit if most is None else thinned(fit, most)
        self.rows = self.fit.bound()
        self.objective = Objective(self.fit.problem, self.rows)
        if shift is not None:
            self.shift = shift
        self._base = fit.point if self.fit is fit else self.objective.at(fit.eta)

    @cached_property
    def loop(self) -> float:
        """g at the optimum."""
        gaps = 0.0 if self.rows is None else self.rows.gaps(self.fit.m[None])[0]
        return float(self._own + gaps)

    @cached_property
    def _own(self) -> float:
        """−½ log det(I − VH̃) at the optimum."""
        assert self.response.fit.curved is not None
        return -float(np.log(np.diag(self.response.fit.curved.K)).sum())

    @cached_property
    @in_double
    def shift(self) -> np.ndarray:
        r"""Σ̂∇g of all statistics (a,): the correction of E T.

        Of the global part dg = ½ tr(Σ̂ dH̃) + ½ tr(B dV) with B = H̃ + H̃Σ̂H̃, so that Σ̂∇g is
        ½Σ̂c + ½(I + Σ̂H̃)e where c = ∂tr(Σ̂H̃)/∂m and e = ∂tr(BV)/∂η with Σ̂ and B held fixed: sums of
        second derivatives of ∂L̄/∂m along the columns of a root of Σ̂, and of the mean map along
        those of one of B. Rows add the slope of their gaps along the same root.
        """
        fit, Sigma = self.fit, self.response.Sigma
        assert fit.curved is not None
        beta, Q = np.linalg.eigh(fit.curved.B)  # I − CᵀHC
        R = self.V_root @ (Q / np.sqrt(beta))  # Σ̂ = RRᵀ
        near = around(fit.m, R)
        _, slopes = global_density_program(fit.problem.structure, True)(fit.problem.traced, near)
        c = second_differences(np.asarray(slopes))
        slope = np.zeros(R.shape[1])
        if self.rows is not None:
            bend, slope = self.rows.bends(fit.m, R, self._base.state)
            c = c + bend
        directions = _directions(self.V_root, Q)  # B = Σ_k (1/β_k − 1) b_k b_kᵀ
        means = means_program(fit.problem.structure)(around(fit.eta, directions))
        e = second_differences(np.asarray(means), 1 / beta - 1)
        shift = 0.5 * (Sigma @ (c + self.H @ e) + e) + R @ slope
        if not np.isfinite(shift).all():
            raise InvalidModel(
                "The second order of the means is not finite: a step of a fiftieth of an sd leaves the "
                "domain of the model's terms. Use the uncorrected means, or posterior.certify()."
            )
        return shift

    @in_double
    def mean(self, quantity: Quantity) -> float:
        """The correction of a quantity's mean, ∇fᵀΣ̂∇g + ½ tr(Σ̂∇²f)."""
        m = self.response.m
        own = 0.0 if quantity.hessian is None else 0.5 * (self.response.Sigma * quantity.hessian(m))
        return float(quantity.gradient(m) @ self.shift + np.sum(own))

    def variance(self, quantity: Quantity) -> tuple[float, float]:
        """Linear response's variance of one quantity, and the corrected. See: `variances`."""
        first, corrected = self.variances([quantity])[0]
        return first, corrected

    @in_double
    def variances(self, quantities: Sequence[Quantity]) -> np.ndarray:
        r"""Linear response's variances and the corrected (q, 2), in two evaluations of the curvature each.

        Under the tilt t the optimum moves as η′ = ∇f + H̃Σ̂∇f. On the straight line η* + tη′ the
        residual of the tilted fixed point is ½t²ρ, and leaving the line to follow the optimum adds
        (Σ̂∇g)ᵀρ to the second derivative of g along it. Gaps of the rows bend along m(t), all of them
        together.
        """
        lines = [self._line(quantity) for quantity in quantities]
        found = np.array([(line.first, line.corrected) for line in lines]).reshape(-1, 2)
        if self.rows is not None and len(lines):
            velocity, turn = (np.stack(part) for part in zip(*(e[2:] for e in lines), strict=True))
            bends = self.rows.gap_bends(self.fit.m, velocity, turn, self._base.state)
            found[:, 1] += found[:, 0] * bends
        return found

    def _line(self, quantity: Quantity) -> _Line:
        """Along one quantity's line: both variances without the gaps, and m′ and m″ in its sds."""
        m, Sigma = self.response.m, self.response.Sigma
        d = quantity.gradient(m)
        first = float(d @ Sigma @ d)
        if first <= 0:
            return _Line(0.0, 0.0, np.zeros(len(d)), np.zeros(len(d)))
        h = STEP / np.sqrt(first)
        ahead = h * (d + self.H @ (Sigma @ d))
        base = self._base
        up, down = (self._tilted(quantity, t, s, base.state) for t, s in ((h, ahead), (-h, -ahead)))
        rho = (up.residual - 2 * base.residual + down.residual) / h**2
        bend = (up.loop - 2 * self._own + down.loop) / h**2
        corrected = first + bend + float(self.shift @ rho)
        velocity, turn = up.m - down.m, up.m - 2 * base.m + down.m
        return _Line(first, corrected, velocity / (2 * STEP), turn / STEP**2)

    def _tilted(self, quantity: Quantity, t: float, step: np.ndarray, state: Any) -> _Tilted:
        """At η* + step, from the state of η*."""
        point = self.objective.at(self.response.eta + step, state=state)
        if not np.isfinite(point.elbo) or point.H is None:
            raise InvalidModel(
                "The second order of an sd is not known: a step of a fiftieth of an sd leaves the "
                "domain of the model's terms. Use the uncorrected sd, or posterior.certify()."
            )
        H = point.H if self.fit is self.response.fit else self.H + (point.H - self._base.H)
        if quantity.hessian is not None:
            H = H + t * quantity.hessian(point.m)
        residual = point.residual + t * quantity.gradient(point.m)
        return _Tilted(
            residual, -float(np.log(np.diag(curved(residual, point.C, H).K)).sum()), point.m
        )


@in_double
def refine(
    response: Response,
    asked: np.ndarray | Callable[[Any], Any],
    *,
    units: tuple[np.ndarray, np.ndarray] | None = None,
    shift: float = 0.0,
) -> Refined:
    """Second-order means and variances of dᵀT, for the rows d of `asked`, or of a function of flat T.

    With `units` (M, c) they are of T = M T′ + c, T′ the statistics of the fit; `shift` is added to the
    log evidence.
    """
    second = SecondOrder(response)
    M, c = (np.eye(len(response.m)), np.zeros(len(response.m))) if units is None else units
    if callable(asked):
        f = asked
        size = len(f(jnp.asarray(M @ response.m + c)))
        quantities = functions(lambda m: f(M @ m + c), size)
    else:
        quantities = [linear(d) for d in asked @ M]
    variances = second.variances(quantities)
    if not (variances[:, 1] > 0).all():
        bad = variances[:, 0] > 0
        if not (variances[bad, 1] > 0).all():
            raise InvalidModel(
                "The second-order variance of a quantity is not positive: the posterior is too far "
                "from the mean-field one for a correction. Use posterior.certify(), or MCMC."
            )
    moved = np.array([second.mean(q) for q in quantities])
    evidence = response.fit.elbo + second.loop + shift
    return Refined(moved, variances[:, 0], variances[:, 1], evidence)


def thinned(fit: Fit, most: int) -> Fit:
    """The fit with at most so many of its rows, which stand for all; itself where they are few."""
    problem = fit.problem
    if problem.rows is None or (problem.total is None and problem.rows.n <= most):
        return fit
    rows = sample_rows(problem.rows, most)
    return replace(fit, problem=replace(problem, rows=rows, total=None))
