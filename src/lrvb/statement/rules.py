"""E_q f(θ) over one block, from values and derivatives of f at points that do not move.

Where log p is conditionally conjugate, f is linear in the block's statistics T. Its coefficients then
follow from f and two derivatives at one fixed anchor, and E_q f is *linear in the moments* of the block,
exactly and for all to see. Copies of a batch must not multiply each other (their Hessian is then block
diagonal, and one product with a vector of ones reads it off, however many there are).

Where f is not linear in T, `by_quadrature` sums over a fixed grid with the density of q as weights, and
`by_draws` over fixed normal draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..families import (
    Beta,
    Categorical,
    Dirichlet,
    Family,
    Gamma,
    GaussianChain,
    MarkovChain,
    MultivariateNormal,
    Normal,
    Tilted,
    Wishart,
)
from ..numerics.hermite import hermite
from ..numerics.lazy import jax, jnp
from ..numerics.sobol import normal_points

Function = Callable[[Any], Any]

STEP = 0.25  # of a grid, in sds: the trapezoidal rule is then exact to rounding for a smooth f
LOG_REACH = (-20.0, 8.0)  # sds of log τ: to the left its density falls only like e^{shape·u}
LOGIT_REACH = (-20.0, 20.0)
DRAWS = 64  # antithetic, with exact second moments: exact for cubics, as good as hundreds at random


def variable_shape(family: Family) -> tuple[int, ...]:
    """The shape of a block's variable, its copies in front."""
    one: tuple[int, ...] = ()
    if isinstance(family, GaussianChain):
        one = (family.length,)
    elif isinstance(family, MarkovChain):
        one = (family.length, family.dim)
    elif isinstance(family, Wishart):
        one = (family.dim, family.dim)
    elif isinstance(family, MultivariateNormal | Dirichlet | Categorical):
        one = (family.dim,)
    return (*family.batch, *one)


def exact_rule(family: Family) -> Callable[[Family, Any, Function], Any] | None:
    """The rule that is exact for conditionally conjugate f; None of a family that has none."""
    return next((rule for kind, rule in _EXACT.items() if isinstance(family, kind)), None)


def has_quadrature(family: Family) -> bool:
    """Whether a block's variable is one real number a copy."""
    return isinstance(family, Normal | Gamma | Beta)


def has_draws(family: Family) -> bool:
    """Whether a block is normal, so that fixed draws move with its moments."""
    return isinstance(family, MultivariateNormal | GaussianChain)


def has_scale(family: Family) -> bool:
    """Whether multiples of a block's variable are in its domain too."""
    return has_draws(family) or isinstance(family, Normal | Tilted | Gamma | Wishart)


def _jet(f: Function, at: Any, direction: Any) -> tuple[Any, Any, Any]:
    """f, ∇f and ∇²f · direction at a point."""
    (value, gradient), (_, turned) = jax.jvp(jax.value_and_grad(f), (at,), (direction,))
    return value, gradient, turned


def _normal(family: Family, m: Any, f: Function) -> Any:
    """f(0) + f′(0) E x + ½f″(0) E x²."""
    if not family.batch:
        low, middle, high = jax.vmap(f)(jnp.array([-1.0, 0.0, 1.0]))
        return middle + (high - low) / 2 * m.x + ((high + low) / 2 - middle) * m.xx
    zero = jnp.zeros(family.batch)
    value, g, h = _jet(f, zero, jnp.ones(family.batch))
    return value + jnp.sum(g * m.x) + jnp.sum(h * m.xx) / 2


def _gamma(family: Family, m: Any, f: Function) -> Any:
    """f = c + aτ + b log τ has f′(1) = a + b and f″(1) = −b."""
    if not family.batch:
        low, middle, high = jax.vmap(f)(jnp.array([0.5, 1.0, 2.0]))
        a = 2 * (high + low - 2 * middle)  # 2 + ½ − 2·1 = ½, and the logs cancel
        b = (high - low - 1.5 * a) / (2 * np.log(2.0))
        return middle + a * (m.x - 1) + b * m.log_x
    one = jnp.ones(family.batch)
    value, g, h = _jet(f, one, one)
    return value + jnp.sum((g + h) * (m.x - 1)) - jnp.sum(h * m.log_x)


def _beta(family: Family, m: Any, f: Function) -> Any:
    """f = c + a log p + b log(1 − p) has f′(½) = 2(a − b) and f″(½) = −4(a + b)."""
    half = jnp.full(family.batch, 0.5)
    value, g, h = _jet(f, half, jnp.ones(family.batch))
    a, b = (g - h / 2) / 4, -(g + h / 2) / 4
    return value + jnp.sum(a * (m.log_x + np.log(2.0)) + b * (m.log1m_x + np.log(2.0)))


def _dirichlet(family: Family, m: Any, f: Function) -> Any:
    """f = c + Σ a_k log π_k, as a function of positive numbers, has ∂f/∂π_k = a_k where all are 1."""
    one = jnp.ones(variable_shape(family))
    value, g = jax.value_and_grad(f)(one)
    return value + jnp.sum(g * m.log_x)


def _categorical(family: Any, m: Any, f: Function) -> Any:
    """f is affine in the indicators."""
    even = jnp.full(variable_shape(family), 1 / family.dim)
    value, g = jax.value_and_grad(f)(even)
    return value + jnp.sum(g * (m.x - even))


def _mvn(family: Family, m: Any, f: Function) -> Any:
    """f(0) + ∇f(0)ᵀE x + ½ tr(∇²f(0) E xxᵀ), one product a column of each copy's own block."""
    zero = jnp.zeros(variable_shape(family))
    value, g = jax.value_and_grad(f)(zero)
    directions = jnp.moveaxis(
        jnp.broadcast_to(jnp.eye(zero.shape[-1]), (*zero.shape, zero.shape[-1])), -1, 0
    )
    columns = jax.vmap(lambda e: jax.jvp(jax.grad(f), (zero,), (e,))[1])(directions)
    return value + jnp.sum(g * m.x) + jnp.sum(jnp.moveaxis(columns, 0, -1) * m.xx) / 2


def _wishart(family: Any, m: Any, f: Function) -> Any:
    """f = c + tr(AΛ) + b log|Λ| has ∇f(I) = A + bI and d²f(sI)/ds² = −bP."""
    P = family.dim
    eye = jnp.broadcast_to(jnp.eye(P), variable_shape(family))
    value, g, h = _jet(f, eye, eye)
    b = -jnp.trace(h, axis1=-2, axis2=-1) / P
    A = g - b[..., None, None] * eye
    return value + jnp.sum(A * (m.x - eye)) + jnp.sum(b * m.logdet_x)


def _coloured(f: Function, at: Any, colours: int) -> Any:
    """∇²f of a sequence times indicators of every `colours`-th place, (colours, *shape)."""
    place = jnp.arange(at.shape[-1]) % colours
    marks = jnp.broadcast_to(
        (place == jnp.arange(colours)[:, None])
        .astype(at.dtype)
        .reshape(colours, *(1,) * (at.ndim - 1), -1),
        (colours, *at.shape),
    )
    return jax.vmap(lambda e: jax.jvp(jax.grad(f), (at,), (e,))[1])(marks)


def _gaussian_chain(family: Family, m: Any, f: Function) -> Any:
    """A quadratic f whose Hessian is tridiagonal: three products read off both of its diagonals."""
    zero = jnp.zeros(variable_shape(family))
    value, g = jax.value_and_grad(f)(zero)
    columns = _coloured(f, zero, 3)
    t = jnp.arange(zero.shape[-1])
    own = jnp.moveaxis(columns, 0, -1)[..., t, t % 3]
    beside = jnp.moveaxis(columns, 0, -1)[..., t[:-1], t[1:] % 3]
    return value + jnp.sum(g * m.x) + jnp.sum(own * m.xx) / 2 + jnp.sum(beside * m.xy)


def _markov_chain(family: Any, m: Any, f: Function) -> Any:
    """f is affine in each state's indicators, and bilinear in neighbours'."""
    T, K = family.length, family.dim
    zero = jnp.zeros(variable_shape(family))
    value, g = jax.value_and_grad(f)(zero)
    t = np.arange(T)
    marks = np.zeros((3, K, T, K))
    for j in range(K):
        marks[t % 3, j, t, j] = 1.0
    shape = (3 * K, *(1,) * len(family.batch), T, K)
    directions = jnp.broadcast_to(jnp.asarray(marks).reshape(shape), (3 * K, *zero.shape))
    columns = jax.vmap(lambda e: jax.jvp(jax.grad(f), (zero,), (e,))[1])(directions)
    columns = jnp.moveaxis(columns.reshape(3, K, *zero.shape), (0, 1), (-2, -1))
    pairs = columns[..., t[:-1], :, t[1:] % 3, :]  # (T − 1, *batch, K, K): advanced axes come first
    pairs = jnp.moveaxis(pairs, 0, len(family.batch)) if family.batch else pairs
    return value + jnp.sum(g * m.x) + jnp.sum(pairs * m.xy)


_EXACT: dict[type[Family], Callable[[Family, Any, Function], Any]] = {
    Normal: _normal,
    Tilted: _normal,
    Gamma: _gamma,
    Beta: _beta,
    Dirichlet: _dirichlet,
    Categorical: _categorical,
    MultivariateNormal: _mvn,
    Wishart: _wishart,
    GaussianChain: _gaussian_chain,
    MarkovChain: _markov_chain,
}


def by_point(family: Family, m: Any, f: Function) -> Any:
    """f itself, at the variable whose statistics T the moments are: q is a single point."""
    return f(m.x if "x" in family.Stats._fields else jnp.exp(m.log_x))


# ---- where f is not linear in T -------------------------------------------------------------


def by_quadrature(family: Family, m: Any, f: Function) -> Any:
    """∫ f q: of a normal by Gauss and Hermite, else by the trapezoidal rule in log x or logit x.

    Normal nodes move with mean and sd, all copies of a batch at once. Others are held fixed under
    differentiation, and their weights are the density of q: derivatives are those of the integral.
    """
    if isinstance(family, Normal):
        nodes, weights = hermite(1.0, smallest=1e-30)
        sd = jnp.sqrt(m.xx - m.x**2)
        return jnp.asarray(weights) @ jax.vmap(lambda e: f(m.x + sd * e))(jnp.asarray(nodes))
    loc, scale, log_q, back = _grid(family, m)
    low, high = LOG_REACH if isinstance(family, Gamma) else LOGIT_REACH
    places = jnp.arange(low, high + STEP, STEP)
    u = jax.lax.stop_gradient(loc) + places.reshape(-1, *(1,) * len(family.batch)) * (
        jax.lax.stop_gradient(scale)
    )
    weights = jnp.exp(log_q(u)) * STEP * jax.lax.stop_gradient(scale)
    if not family.batch:
        return weights @ jax.vmap(lambda x: f(back(x)))(u)
    # Copies add up: each has weights of its own, which a gradient at one of them tells apart.
    centre = back(jax.lax.stop_gradient(loc))
    base = f(centre)

    def one(u: Any, w: Any) -> Any:
        x = back(u)
        return _apart(f, centre, x, w)

    return base + jnp.sum(jax.vmap(one)(u, weights))


def _apart(f: Function, centre: Any, x: Any, w: Any) -> Any:
    """Σ_k w_k (f_k(x_k) − f_k(c_k)) of an additive f, copy by copy."""
    flat = jnp.ravel(x)

    def moved(k: Any) -> Any:
        return f(jnp.ravel(centre).at[k].set(flat[k]).reshape(x.shape)) - f(centre)

    return jnp.ravel(w) @ jax.vmap(moved)(jnp.arange(flat.size))


def _grid(family: Family, m: Any) -> tuple[Any, Any, Function, Function]:
    """Centre and sd of u, its log density, and the variable from u."""
    eta, V = _natural(family, m)
    if isinstance(family, Gamma):
        A = _each(family, family.log_partition, eta)

        def gamma(u: Any) -> Any:
            return (eta.log_x + 1) * u + eta.x * jnp.exp(u) - A

        return m.log_x, jnp.sqrt(V[..., 1, 1]), gamma, jnp.exp
    A = _each(family, family.log_partition, eta)

    def beta(u: Any) -> Any:
        return (eta.log_x + 1) * -jax.nn.softplus(-u) + (eta.log1m_x + 1) * -jax.nn.softplus(u) - A

    spread = V[..., 0, 0] + V[..., 1, 1] - 2 * V[..., 0, 1]
    return m.log_x - m.log1m_x, jnp.sqrt(spread), beta, jax.nn.sigmoid


def _natural(family: Family, m: Any) -> tuple[Any, Any]:
    """η(m) and V: a search whose last two Newton steps are differentiated, which is exact to third order."""
    one = family.single()

    def solve(flat: Any) -> tuple[Any, Any]:
        start = one.natural(one.unflatten(jax.lax.stop_gradient(flat)))
        eta = jax.lax.stop_gradient(one.flatten(start, natural=True))
        for _ in range(2):
            C = one.factor(one.unflatten(eta, natural=True))
            gap = flat - one.flatten(one.mean(one.unflatten(eta, natural=True)))
            eta = eta + jnp.linalg.solve(C @ C.T, gap)
        C = one.factor(one.unflatten(eta, natural=True))
        return eta, C @ C.T

    flat = family.flatten(m).reshape(family.copies, family.size)
    eta, V = jax.vmap(solve)(flat)
    eta = family.unflatten(eta.reshape(*family.batch, family.size), natural=True)
    return eta, V.reshape(*family.batch, family.size, family.size)


def _each(family: Family, function: Function, eta: Any) -> Any:
    """A function of one copy's natural parameters, for all copies."""
    flat = family.flatten(eta, natural=True).reshape(family.copies, family.size)
    one = family.single()
    values = jax.vmap(lambda e: function(one.unflatten(e, natural=True)))(flat)
    return values.reshape(family.batch)


def by_draws(family: Family, m: Any, f: Function) -> Any:
    """The mean of f over fixed draws that move with mean and covariance of a normal block."""
    shape = variable_shape(family)
    e = jnp.asarray(normal_points(DRAWS, shape[-1]))
    if isinstance(family, GaussianChain):
        spread, joint = m.xx - m.x**2, m.xy - m.x[..., :-1] * m.x[..., 1:]
        a = joint / spread[..., :-1]
        s = jnp.sqrt(jnp.concatenate([spread[..., :1], spread[..., 1:] - a * joint], axis=-1))

        def draw(e: Any) -> Any:
            def step(before: Any, here: Any) -> Any:
                a, shock = here
                return (now := a * before + shock), now

            shocks = jnp.moveaxis(s * e, -1, 0)
            _, later = jax.lax.scan(step, shocks[0], (jnp.moveaxis(a, -1, 0), shocks[1:]))
            return m.x + jnp.moveaxis(jnp.concatenate([shocks[:1], later]), 0, -1)

    else:
        L = jnp.linalg.cholesky(m.xx - m.x[..., :, None] * m.x[..., None, :])

        def draw(e: Any) -> Any:
            return m.x + L @ e

    return jnp.mean(jax.vmap(lambda e: f(draw(e)))(e))
