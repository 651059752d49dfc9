r"""Rows with one normal variable that are not linear in it: what q(z) leaves out, and how L̄ bends.

A row's gap is I(m) − L̄(m) with I = log ∫ exp ℓ(m, T(z)) dz, and Gauss–Hermite nodes under q(z) give I and its
derivatives; those of L̄ are ∂ℓ/∂m with q(z) held fixed, and H̃. The third derivative of L̄ needs no more than
how q(z) follows m: with η its natural parameters and F(m, η) = ℓ(m, μ(η)) + S(η), which has its maximum
L̄(m) at η(m), it is D³F along (m′, η′). So one optimum a row answers each question,
and a search for it begins at `starts`, those of a point near by.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..numerics.algebra import cholesky, local_root, solve_lower
from ..numerics.hermite import hermite
from ..numerics.lazy import jax, jnp
from ..statement.programs import shared
from ..statement.structure import Structure
from .row_optimum import RowOptimum, collapse, local_hessians, solve_upper

#: 16 nodes for derivatives: of corrections in sds they are off by 2e-4 where sd(z) is 2.5.
_FEWER = 0.4
Term = Callable[[Any, Any, Any], Any]


def _optimum(structure: Structure, term: Term, m: Any, row: Any, start: Any = None) -> RowOptimum:
    local = structure.local.at(structure.row(row))
    return collapse(local, lambda z: term(m, z, row), structure.conjugate, start)


def _term(structure: Structure, traced: Any) -> Term:
    return lambda m, z, row: structure.local_term(traced, m, z, structure.row(row))


def _gap(term: Term, q: RowOptimum, row: Any, scale: float) -> Callable[[Any], Any]:
    """I(m) − ℓ(m, z) as a function of m, with nodes and q(z) held fixed.

    The term at the statistics of a single z is the log density itself.
    """
    x, w = (jnp.asarray(part) for part in hermite(scale))
    sd = q.C[0, 0]
    at = q.z[0] + sd * x
    log_q = -0.5 * x**2 - jnp.log(sd) - 0.5 * jnp.log(2 * jnp.pi)
    nodes = jnp.stack([at, at**2], axis=1)

    def gap(m: Any) -> Any:
        values = jax.vmap(lambda z: term(m, z, row))(nodes)
        return jax.nn.logsumexp(values - log_q, b=w) - term(m, q.z, row)

    return gap


def _along(f: Callable[..., Any], *direction: Any) -> Callable[..., Any]:
    """Df along a fixed direction."""
    return lambda *at: jax.jvp(f, at, direction)[1]


def _summed(own: Callable[..., Any], weights: Any, *given: Any) -> Any:
    """Σ_n w_n of a row's vector; rows without a weight have no value."""
    return jnp.where(weights > 0, jax.vmap(own, out_axes=-1)(*given), 0.0) @ weights


@shared
def gap_program(structure: Structure) -> Callable[..., Any]:
    """(traced, points, columns, weights) → Σ_n w_n of the gaps at each point."""

    def gaps(traced: Any, points: Any, columns: Any, weights: Any) -> Any:
        term = _term(structure, traced)

        def one(m: Any) -> Any:
            def own(row: Any) -> Any:
                q = _optimum(structure, term, m, row)
                return _gap(term, q, row, 1.0)(m) - q.S

            return _summed(own, weights, columns)

        return jax.vmap(one)(points)

    return gaps


@shared
def gap_slope_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, columns, weights, starts) → Σ_n w_n of the gaps' gradient in m, (a,)."""

    def slope(traced: Any, m: Any, columns: Any, weights: Any, starts: Any) -> Any:
        term = _term(structure, traced)

        def own(row: Any, start: Any) -> Any:
            return jax.grad(_gap(term, _optimum(structure, term, m, row, start), row, _FEWER))(m)

        return _summed(own, weights, columns, starts)

    return slope


@shared
def gap_bend_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, m′, m″, columns, weights, starts) → Σ_n w_n of the gaps' second derivative along each.

    That of L̄ is m′ᵀH̃m′: the term's own, and what q(z) adds by following m. See: eq:nuisance_lrvb_est
    """

    def bends(
        traced: Any, m: Any, velocity: Any, turn: Any, columns: Any, weights: Any, starts: Any
    ) -> Any:
        term = _term(structure, traced)

        def own(row: Any, start: Any) -> Any:
            q = _optimum(structure, term, m, row, start)
            gap = _gap(term, q, row, _FEWER)
            H_za, H_zz = local_hessians(structure, term, m, q.z, row)
            root = local_root(H_za, q.C, H_zz)

            def one(v: Any, a: Any) -> Any:
                def curve(t: Any) -> Any:
                    return gap(m + t * v + 0.5 * t**2 * a)

                followed = root @ v
                start, ahead = jnp.zeros(()), jnp.ones(())
                return _along(_along(curve, ahead), ahead)(start) - followed @ followed

            return jax.vmap(one)(velocity, turn)

        return _summed(own, weights, columns, starts)

    return bends


@shared
def row_bend_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, R, columns, weights, starts) → Σ_n w_n ∂ tr(RRᵀH̃)/∂m, (a,)."""

    def bend(traced: Any, m: Any, R: Any, columns: Any, weights: Any, starts: Any) -> Any:
        term = _term(structure, traced)

        def own(row: Any, start: Any) -> Any:
            z = _optimum(structure, term, m, row, start).z
            eta = jax.grad(term, 1)(m, z, row)
            local = structure.local.at(structure.row(row))

            def F(m: Any, eta: Any) -> Any:
                z, S, _ = local.profile(eta)
                return term(m, z, row) + S

            K = cholesky(-jax.hessian(F, 1)(m, eta))
            pull = jax.jacfwd(jax.grad(F, 0), 1)(m, eta).T
            follow = solve_upper(K, solve_lower(K, pull))  # η′ along each coordinate of m

            def trace(m: Any, eta: Any) -> Any:
                def one(r: Any) -> Any:
                    direction = (r, follow @ r)
                    return _along(_along(F, *direction), *direction)(m, eta)

                return jax.vmap(one)(R.T).sum()

            by_m, by_eta = jax.grad(trace, (0, 1))(m, eta)
            return by_m + follow.T @ by_eta

        return _summed(own, weights, columns, starts)

    return bend
