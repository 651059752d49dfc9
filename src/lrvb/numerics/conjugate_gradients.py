"""(I − HV)x = r without a matrix: conjugate gradients in the inner product of V.

I − HV is symmetric in ⟨a, b⟩ = aᵀVb, and positive definite below a strict maximum of the ELBO. Coordinate
ascent drops H, so that V is the metric in which few iterations are needed. x is the Newton step of
η = ∂L/∂m where r is its residual, and Vx = Σ̂r the linear response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .lazy import jnp, lax


class Solution(NamedTuple):
    """x, Vx, the iterations used, whether I − HV was positive along the way, and what is left of r."""

    x: Any
    Vx: Any
    steps: Any
    positive: Any
    left: Any


class _State(NamedTuple):
    x: Any
    Vx: Any
    r: Any
    Vr: Any
    p: Any
    Vp: Any
    rho: Any
    steps: Any
    positive: Any


def solve(
    V: Callable[[Any], Any],
    H: Callable[[Any], Any],
    r: Any,
    *,
    tol: float = 1e-12,
    steps: int | None = None,
) -> Solution:
    """x and Vx for one r, traced by JAX; `tol` and what is left are shares of the residual's length √(rᵀVr).

    Steps are at most `steps`, of itself over twice as many as exact arithmetic needs. Where a direction of
    no ascent is met, the x reached before it is returned, or r itself (coordinate ascent) if it is the first.
    """
    Vr = V(r)
    rho = r @ Vr
    zero = jnp.zeros_like(r)
    most = 2 * r.size + 500 if steps is None else steps
    first = _State(zero, zero, r, Vr, r, Vr, rho, jnp.zeros((), jnp.int32), jnp.asarray(True))

    def unfinished(s: _State) -> Any:
        return s.positive & (s.rho > tol**2 * rho) & (s.steps < most)

    def step(s: _State) -> _State:
        Ap = s.p - H(s.Vp)
        curvature = s.Vp @ Ap
        positive = curvature > 0
        share = jnp.where(positive, s.rho / jnp.where(positive, curvature, 1.0), 0.0)
        r = s.r - share * Ap
        Vr = V(r)
        new = r @ Vr
        turn = new / s.rho
        return _State(
            s.x + share * s.p,
            s.Vx + share * s.Vp,
            r,
            Vr,
            r + turn * s.p,
            Vr + turn * s.Vp,
            new,
            s.steps + 1,
            positive,
        )

    last = lax.while_loop(unfinished, step, first)
    stuck = ~last.positive & (last.steps == 1)
    return Solution(
        jnp.where(stuck, r, last.x),
        jnp.where(stuck, first.Vr, last.Vx),
        last.steps,
        last.positive,
        jnp.where(rho > 0, jnp.sqrt(last.rho / rho), 0.0),
    )
