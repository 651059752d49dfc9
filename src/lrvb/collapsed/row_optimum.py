"""One row's local variables at their own optimum, given the global moments.

Conjugate (the term is linear in z): η_z = ∂ℓ/∂m_z in one step. Otherwise a safeguarded Newton
iteration on the fixed point, the same matrix as linear response itself; beyond `WIDE` local coordinates,
such as a chain has, by conjugate gradients, so that no matrix is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..numerics.algebra import cholesky, solve_lower, whitened
from ..numerics.conjugate_gradients import solve
from ..numerics.lazy import jax, jnp
from ..statement.meanfield import MeanField
from ..statement.structure import Structure

#: Local coordinates beyond which no d × d matrix is formed.
WIDE = 32

_MAX_STEPS = 200
_SURE = 1e-4
_ROUNDING = 1e-15  # of the value: a large constant in the term drowns gains smaller than this
_SOLVED = 1e-6  # share of a right-hand side that may be left unsolved
_STEP = 1e-9  # length in whitened units below which one further Newton step is below rounding


class RowOptimum(NamedTuple):
    """q(z) of one row at its optimum: mean z, factor C (V_z = CCᵀ), entropy, and whether found.

    Of a wide z there is no C: see `factor` and `response`. Natural parameters η are kept where a
    search may start from them.
    """

    z: Any
    C: Any
    S: Any
    found: Any
    eta: Any = None


class _State(NamedTuple):
    eta: Any
    z: Any
    C: Any
    S: Any
    value: Any
    damping: Any
    steps: Any
    done: Any


class _Wide(NamedTuple):
    eta: Any
    z: Any
    S: Any
    value: Any
    share: Any
    steps: Any
    done: Any


def is_searched(structure: Structure) -> bool:
    """Whether a row's optimum is searched for by Newton's steps, which may start near it."""
    return not structure.conjugate and 0 < structure.local.size <= WIDE


def collapse(
    local: MeanField, term: Callable[[Any], Any], conjugate: bool, start: Any = None
) -> RowOptimum:
    """max over q(z) of term(m_z) + S(z), for one row; vectorise it over rows with vmap.

    A search begins at natural parameters `start`, where those are in the domain.
    """
    if not local.blocks:
        return RowOptimum(jnp.zeros(0), jnp.zeros((0, 0)), jnp.zeros(()), jnp.asarray(True))
    if conjugate and local.size > WIDE:
        z, S, valid = local.profile(jax.grad(term)(jnp.zeros(local.size)))
        return RowOptimum(z, None, S, valid)
    if conjugate:
        q = local.evaluate(jax.grad(term)(jnp.zeros(local.size)))
        return RowOptimum(q.m, local.dense(q.C), q.S, q.valid)
    return _newton_by_products(local, term) if local.size > WIDE else _newton(local, term, start)


def response(local: MeanField, term: Callable[[Any], Any], z: Any, r: Any, conjugate: bool) -> Any:
    """Σ̂_z|α r (d, a) for the columns of r (d, a) at the row's optimum z, by products alone.

    NaN where conjugate gradients do not find it, as where z is no strict maximum. See: eq:nuisance_lrvb_est
    """
    eta = jax.grad(term)(z)
    V, H = _spread(local, eta), _curvature(term, z)
    if conjugate:
        return jax.vmap(V, 1, 1)(r)

    def one(column: Any) -> Any:
        found = solve(V, H, column)
        return jnp.where(found.positive & (found.left <= _SOLVED), found.Vx, jnp.nan)

    return jax.vmap(one, 1, 1)(r)


def _spread(local: MeanField, eta: Any) -> Callable[[Any], Any]:
    """v → Vv = ∂m/∂η v."""
    return lambda v: jax.jvp(lambda e: local.profile(e)[0], (eta,), (v,))[1]


def _curvature(term: Callable[[Any], Any], z: Any) -> Callable[[Any], Any]:
    """w → Hw."""
    return lambda w: jax.jvp(jax.grad(term), (z,), (w,))[1]


def _newton_by_products(local: MeanField, term: Callable[[Any], Any]) -> RowOptimum:
    """Newton on η = ∂ℓ/∂m with (I − HV)δ = r by conjugate gradients, halved until the value rises."""

    def step(state: _Wide) -> _Wide:
        r = jax.grad(term)(state.z) - state.eta
        found = solve(_spread(local, state.eta), _curvature(term, state.z), r, tol=1e-6)
        length = jnp.sqrt(jnp.maximum(r @ found.Vx, 0.0))
        eta = state.eta + state.share * found.x
        z, S, valid = local.profile(jnp.where(jnp.isfinite(eta), eta, state.eta))
        value = term(z) + S
        certain = (length < _SURE) & (state.share == 1)
        rises = value >= state.value - _ROUNDING * jnp.abs(state.value)
        accept = jnp.isfinite(length) & valid & jnp.isfinite(value) & (rises | certain)
        return _Wide(
            jnp.where(accept, eta, state.eta),
            jnp.where(accept, z, state.z),
            jnp.where(accept, S, state.S),
            jnp.where(accept, value, state.value),
            jnp.where(accept, jnp.minimum(1.0, 2 * state.share), state.share / 4),
            state.steps + 1,
            accept & (length < _STEP) & (state.share == 1),
        )

    eta = jnp.asarray(local.start())
    z, S, valid = local.profile(eta)
    first = _Wide(eta, z, S, term(z) + S, jnp.ones(()), jnp.zeros((), jnp.int32), ~valid)
    last = jax.lax.while_loop(lambda s: ~s.done & (s.steps < _MAX_STEPS), step, first)
    return RowOptimum(last.z, None, last.S, last.done & valid)


def factor(local: MeanField, term: Callable[[Any], Any], z: Any) -> Any:
    """C with V_z = CCᵀ at the row's optimum z, where η = ∂ℓ/∂m_z."""
    return local.dense(local.evaluate(jax.grad(term)(z)).C)


def cross(term: Any, m: Any, z: Any, row: Any) -> Any:
    """H_zα (d, a) of one row, along whichever of both has fewer coordinates."""
    if z.size > m.size:
        return jax.jacfwd(jax.grad(term, 1), 0)(m, z, row)
    return jax.jacfwd(jax.grad(term, 0), 1)(m, z, row).T


def local_hessians(structure: Structure, term: Any, m: Any, z: Any, row: Any) -> tuple[Any, Any]:
    """H_zα (d, a) and H_z (d, d) of one row; H_z is None where the term is linear in z."""
    H_za = cross(term, m, z, row)
    if structure.conjugate:
        return H_za, None
    return H_za, jax.hessian(term, 1)(m, z, row)


def _newton(local: MeanField, term: Callable[[Any], Any], start: Any = None) -> RowOptimum:
    """Damped Newton on η = ∂ℓ/∂m: (B + λ)u = Cᵀr, δη = (r + HCu)/(1 + λ), accepted on ascent."""
    identity = jnp.eye(local.size)

    def evaluated(eta: Any) -> Any:
        q = local.evaluate(eta)
        value = term(q.m) + q.S
        return q.m, local.dense(q.C), q.S, value, q.valid & jnp.isfinite(value)

    def step(state: _State) -> _State:
        gradient = jax.grad(term)(state.z)
        H = jax.hessian(term)(state.z)
        r = gradient - state.eta
        K = cholesky(whitened(state.C, H) + state.damping * identity)
        u = solve_lower(K, state.C.T @ r)
        u = solve_upper(K, u)
        eta = state.eta + (r + H @ (state.C @ u)) / (1 + state.damping)
        length = jnp.sqrt(u @ u)
        z, C, S, value, valid = evaluated(jnp.where(jnp.isfinite(eta), eta, state.eta))
        # Short undamped steps are past what the value can resolve: there Newton contracts by itself.
        certain = (length < _SURE) & (state.damping == 0)
        rises = value >= state.value - _ROUNDING * jnp.abs(state.value)
        accept = jnp.isfinite(length) & valid & (rises | certain)
        softer = jnp.where(state.damping < 1e-2, 0.0, state.damping / 10)
        harder = jnp.maximum(4 * state.damping, 0.1)
        return _State(
            jnp.where(accept, eta, state.eta),
            jnp.where(accept, z, state.z),
            jnp.where(accept, C, state.C),
            jnp.where(accept, S, state.S),
            jnp.where(accept, value, state.value),
            jnp.where(accept, softer, harder),
            state.steps + 1,
            accept & (length < _STEP) & (state.damping == 0),
        )

    eta = jnp.asarray(local.start())
    if start is not None:
        eta = jnp.where(evaluated(start)[-1], start, eta)
    z, C, S, value, valid = evaluated(eta)
    zero = jnp.zeros(())
    first = _State(eta, z, C, S, value, zero, jnp.zeros((), jnp.int32), ~valid)
    last = jax.lax.while_loop(lambda s: ~s.done & (s.steps < _MAX_STEPS), step, first)
    return RowOptimum(last.z, last.C, last.S, last.done & valid, last.eta)


def solve_upper(K: Any, y: Any) -> Any:
    """K⁻ᵀy for lower triangular K."""
    return solve_lower(K.T[::-1, ::-1], y[::-1])[::-1]
