"""Where to integrate exp f for a concave f of one real variable, and with which nodes.

Everything speaks of one integral, is bounded in time, and is meant to run under `vmap` over rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .lazy import jax, jnp, lax

Function = Callable[[Any], Any]

_DROP = 36.0  # the support ends where exp f has fallen by e^−36: what is left out is below 1e-11
_CROWDING = 1.5  # nodes are cosh(1.5) ≈ 2.4 times as dense around the mode as at the ends
_MAX_STEPS = 100  # bisection alone gets from 1e8 scales to one scale in 27


def support(ll: Function, eta1: Any, eta2: Any) -> tuple[Any, Any, Any]:
    """Mode c of f(z) = η₁z + η₂z² + ℓ(z), and the distances to its left and right where f ends.

    The mode is found to a quarter of a scale, which is all that placing nodes needs.
    """

    def slope(z: Any) -> tuple[Any, Any]:
        first, second = jax.jvp(jax.grad(ll), (z,), (jnp.ones_like(z),))
        return eta1 + 2 * eta2 * z + first, 2 * eta2 + second

    c = _mode(slope, -eta1 / (2 * eta2), 1 / jnp.sqrt(-2 * eta2))
    base, tangent = ll(c), eta1 + 2 * eta2 * c
    width = jnp.sqrt(-2 * _DROP / slope(c)[1])

    def fall(d: Any) -> Any:
        return base - ll(c + d) - d * (tangent + eta2 * d)

    left, right = jax.vmap(lambda side: _reach(lambda d: fall(side * d), width))(
        jnp.array([-1.0, 1.0])
    )
    return c, left, right


class Rule(NamedTuple):
    """A trapezoidal rule: node i is `node(g, 1/g)` at g = first · ratioⁱ, with its relative weight.

    `weight` is common to all nodes.
    """

    node: Callable[[Any, Any], tuple[Any, Any]]
    first: Any
    ratio: Any
    weight: Any


def trapezoid(left: Any, right: Any, n: int) -> Rule:
    """Trapezoidal rule with n nodes on [−left, right].

    The nodes are d(u) = a sinh(κu + b) + const at n equidistant u in [−1, 1], with d(0) = 0: they
    crowd geometrically towards the steeper side, and around the mode.
    """
    lean = (right - left) / (right + left)
    kappa = jnp.sqrt(jnp.log(right / left) ** 2 + _CROWDING**2)
    tanh_b = jnp.clip(lean / jnp.tanh(kappa / 2), -1 + 1e-12, 1 - 1e-12)
    first = jnp.exp(-kappa) * jnp.sqrt((1 + tanh_b) / (1 - tanh_b))
    last = first * jnp.exp(2 * kappa)
    a = (left + right) / (last - 1 / last - first + 1 / first)

    def node(grown: Any, shrunk: Any) -> tuple[Any, Any]:
        return a * (grown - shrunk - first + 1 / first) - left, grown + shrunk

    return Rule(node, first, jnp.exp(2 * kappa / (n - 1)), 2 * a * kappa / (n - 1))


def _mode(slope: Function, start: Any, step: Any) -> Any:
    """Zero of a decreasing slope: Newton's method in a bracket found by doubling.

    It bisects where Newton's steps do not halve: an exponential or overflowing ℓ far from its mode.
    """

    def body(state: Any) -> Any:
        z, lo, hi, step, last, _, n = state
        value, curvature = slope(z)
        rising = value > 0
        lo, hi = jnp.where(rising, z, lo), jnp.where(rising, hi, z)
        bracketed = jnp.isfinite(lo) & jnp.isfinite(hi)
        newton = -value / curvature
        size = jnp.abs(newton)
        done = size * jnp.sqrt(-curvature) < 0.25
        limit = jnp.where(bracketed, last / 2, jnp.minimum(step, last / 2))
        fits = (lo < z + newton) & (z + newton < hi) & (size <= limit)
        jump = jnp.where(bracketed, (lo + hi) / 2 - z, jnp.where(rising, step, -step))
        last = jnp.where(fits, size, jnp.where(bracketed, jnp.abs(jump), jnp.inf))
        step = jnp.where(fits | bracketed, step, 2 * step)
        move = jnp.where(done, 0.0, jnp.where(fits, newton, jump))
        return z + move, lo, hi, step, last, done, n + 1

    inf = jnp.full_like(start, jnp.inf)
    state = (start, -inf, inf, step, inf, jnp.zeros_like(start, dtype=bool), 0)
    return lax.while_loop(lambda s: ~s[5] & (s[6] < _MAX_STEPS), body, state)[0]


def _reach(fall: Function, width: Any) -> Any:
    """Distance at which a convex fall from the mode reaches _DROP, to a tenth.

    Newton's method for log fall against log distance, where Gaussian and linear tails are straight
    lines and exponential ones nearly so.
    """

    def body(state: Any) -> Any:
        d, lo, hi, _, n = state
        value, derivative = jax.value_and_grad(fall)(d)
        inside = value < _DROP
        lo, hi = jnp.where(inside, d, lo), jnp.where(inside, hi, d)
        done = (value > 0.98 * _DROP) & (value < 1.1 * _DROP)
        newton = d * (_DROP / value) ** (value / (d * derivative))
        fits = (lo < newton) & (newton < hi)
        other = jnp.where(hi < jnp.inf, jnp.where(lo > 0, jnp.sqrt(lo * hi), hi / 8), 8 * d)
        return jnp.where(done, d, jnp.where(fits, newton, other)), lo, hi, done, n + 1

    zero = jnp.zeros_like(width)
    state = (width, zero, zero + jnp.inf, jnp.zeros_like(width, dtype=bool), 0)
    return lax.while_loop(lambda s: ~s[3] & (s[4] < _MAX_STEPS), body, state)[0]
