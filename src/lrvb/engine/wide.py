"""Many global coordinates: Newton and linear response by products, without any a × a matrix.

V is block diagonal, and H̃v is one forward derivative of the gradient over the rows. (I − H̃V)x = r is solved
by conjugate gradients in the inner product of V. See: numerics.conjugate_gradients, eq:spec_lrvb
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..collapsed.autodiff import WIDE_GLOBAL
from ..statement.programs import global_product_program
from .ascent import Search
from .objective import Objective, Point

MOST = 1000  # steps of conjugate gradients
SOLVED = 1e-6  # share of a right-hand side that a solve may leave
_BATCH = 16  # vectors multiplied at a time
_HALVINGS = 8


class Solved(NamedTuple):
    """x and Vx = Σ̂r of several r, (k, a), and whether I − H̃V was positive along each of them.

    left (k,) is the share of each r's length √(rᵀVr) that was not solved for.
    """

    x: np.ndarray
    Vx: np.ndarray
    positive: np.ndarray
    left: np.ndarray


class Products:
    """V and H̃ at a point, as products with several vectors (k, a)."""

    def __init__(self, objective: Objective, point: Point):
        self.objective, self.point = objective, point

    def V(self, v: np.ndarray) -> np.ndarray:
        """CCᵀv, copy by copy."""
        alpha, result = self.objective.problem.alpha, np.empty_like(v)
        assert self.point.factors is not None
        for name, C in self.point.factors.items():
            here = alpha.slices[name]
            copies = v[:, here].reshape(len(v), *C.shape[:2])
            white = np.einsum("cij,kci->kcj", C, copies)
            result[:, here] = np.einsum("cij,kcj->kci", C, white).reshape(len(v), -1)
        return result

    def H(self, v: np.ndarray) -> np.ndarray:
        """H̃v, a few at a time."""
        problem, rows = self.objective.problem, self.objective.rows
        program = global_product_program(problem.structure)
        parts = []
        size = 1 if len(v) == 1 else _BATCH
        for first in range(0, len(v), size):
            part = v[first : first + size]
            given = np.zeros((size, v.shape[1]))
            given[: len(part)] = part
            total = np.asarray(program(problem.traced, self.point.m, given))
            if rows is not None:  # by autodiff alone, whose sums have products
                total = total + rows.products(self.point.m, given)  # type: ignore[attr-defined]
            parts.append(total[: len(part)])
        return np.concatenate(parts)

    def solve(self, r: np.ndarray, tol: float = 1e-10) -> Solved:
        """(I − H̃V)x = r for the rows of r (k, a), in at most `MOST` steps."""
        x, Vx = np.zeros_like(r), np.zeros_like(r)
        p, rest = r.copy(), r.copy()
        Vr = self.V(rest)
        Vp, rho = Vr.copy(), np.einsum("ka,ka->k", rest, Vr)
        first, positive = rho.copy(), np.ones(len(r), dtype=bool)
        for step in range(MOST):
            active = np.flatnonzero(positive & (rho > tol**2 * first))
            if not len(active):
                break
            Ap = p[active] - self.H(Vp[active])
            curvature = np.einsum("ka,ka->k", Vp[active], Ap)
            bad = curvature <= 0
            positive[active[bad]] = False
            if step == 0:  # a direction of no ascent at once: coordinate ascent
                x[active[bad]], Vx[active[bad]] = r[active[bad]], Vr[active[bad]]
            if bad.all():
                break
            active, Ap, curvature = active[~bad], Ap[~bad], curvature[~bad]
            share = (rho[active] / curvature)[:, None]
            x[active] += share * p[active]
            Vx[active] += share * Vp[active]
            rest[active] -= share * Ap
            Vr[active] = self.V(rest[active])
            new = np.einsum("ka,ka->k", rest[active], Vr[active])
            turn = (new / rho[active])[:, None]
            p[active] = rest[active] + turn * p[active]
            Vp[active] = Vr[active] + turn * Vp[active]
            rho[active] = new
        there = first > 0
        left = np.sqrt(np.divide(rho, first, out=np.zeros_like(rho), where=there))
        return Solved(x, Vx, positive, left)


def is_wide(objective: Objective) -> bool:
    """Whether a problem has too many global coordinates for matrices, and rows that can do without."""
    able = objective.rows is None or hasattr(objective.rows, "products")
    return objective.problem.alpha.size > WIDE_GLOBAL and able


def newton_by_products(search: Search, tol: float) -> tuple[bool, str, float]:
    """Newton steps, halved until the ELBO rises; as `Search.newton`, without matrices."""
    objective, last = search.objective, np.inf
    while True:
        point = search.point
        found = Products(objective, point).solve(point.residual[None], tol=SOLVED)
        decrement = float(np.sqrt(max(point.residual @ found.Vx[0], 0.0)))
        small, stays = decrement <= tol and found.positive[0], 1e-6 > decrement >= 0.5 * last
        if (small or stays) and found.positive[0] and not found.left[0] <= SOLVED:
            why = f"{MOST} steps of conjugate gradients leave {found.left[0]:.0e} of a Newton step"
            return False, why, decrement
        if small:
            return True, f"the Newton step is {decrement:.0e} linear-response sds", decrement
        if stays:
            return True, f"rounding: Newton steps stay at {decrement:.0e} sds", decrement
        if search.n_iter >= search.max_iter:
            return False, f"max_iter={search.max_iter} iterations were used", decrement
        for halving in range(_HALVINGS):
            eta = point.eta + 0.5**halving * found.x[0]
            trial = objective.at(eta, order=1, state=point.state)
            if trial.elbo >= point.elbo - 1e-13 * abs(point.elbo):
                break
        else:
            return False, "no step, however short, increases the ELBO", decrement
        last = decrement
        search.move(trial)


def covariance_columns(objective: Objective, point: Point, J: np.ndarray) -> tuple[Any, Any]:
    """Σ̂Jᵀ and VJᵀ for the rows of J (k, a), each as (k, a). See: eq:spec_lrvb."""
    products = Products(objective, point)
    return products.solve(J), products.V(J)
