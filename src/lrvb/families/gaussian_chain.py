"""GaussianChain: a real sequence in which each value depends on its neighbours only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..numerics.lazy import jnp, lax
from ..numerics.packing import Slot
from .base import Family, whole_number


class GaussianChainStats(NamedTuple):
    """Slots of T(x) = (x_t, x_t², x_t x_{t+1}), shapes (T,), (T,), (T−1,); η, m and T share them."""

    x: Any
    xx: Any
    xy: Any


class GaussianChain(Family):
    """q(x) ∝ exp(η·T(x)), a normal x (T,) with tridiagonal precision Λ.

    η = (Λμ, −Λ_tt/2, −Λ_{t,t+1}). Everything follows from its form as a Markov chain,
    x_1 − μ_1 = s_1 ε_1 and x_{t+1} − μ_{t+1} = a_t (x_t − μ_t) + s_{t+1} ε_{t+1}, at a cost linear in T;
    only C, which is a dense matrix, costs T².
    """

    Stats = GaussianChainStats
    parameters = ("loc", "diagonal", "offdiagonal")

    def __init__(self, length: int, *, batch: tuple[int, ...] | int = ()):
        super().__init__(batch=batch)
        self.length = whole_number(self, "length", length, least=2)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The values, their squares, and the products of neighbours."""
        T = self.length
        return Slot((T,), "{}"), Slot((T,), None), Slot((T - 1,), None)

    def log_partition(self, eta: GaussianChainStats) -> Any:
        """½ T log 2π + Σ log s_t + ½ Σ (s_t h̃_t)², with h̃ what elimination leaves of Λμ."""
        return _log_partition(_eliminate(eta))

    def valid(self, eta: GaussianChainStats) -> Any:
        """The precision matrix is positive definite: every pivot 1/s_t² is positive."""
        return _valid(_eliminate(eta))

    def start(self) -> GaussianChainStats:
        """Independent standard normals."""
        T = self.length
        return GaussianChainStats(np.zeros(T), np.full(T, -0.5), np.zeros(T - 1))

    def mean(self, eta: GaussianChainStats) -> GaussianChainStats:
        """(μ_t, μ_t² + Σ_tt, μ_t μ_{t+1} + Σ_{t,t+1})."""
        chain = _eliminate(eta)
        return _mean(chain, *_forward(*chain))

    def factor(self, eta: GaussianChainStats) -> Any:
        r"""C in the orthonormal basis ε_t, (ε_t² − 1)/√2, e_t ε_{t+1}/sd(e_t) with e = x − μ.

        e_{t+1}² = a_t² e_t² + 2 a_t s_{t+1} e_t ε_{t+1} + s_{t+1}² ε_{t+1}², and
        e_t e_{t+1} = a_t e_t² + s_{t+1} e_t ε_{t+1}, so that no variance is a difference.
        """
        chain = _eliminate(eta)
        return _factor(chain, *_forward(*chain))

    def entropy(self, eta: GaussianChainStats) -> Any:
        """½ T log 2πe + Σ log s_t."""
        return _entropy(_eliminate(eta))

    def evaluate(self, eta: GaussianChainStats) -> tuple[Any, GaussianChainStats, Any, Any]:
        """(A, m, C, S) from one pass each way."""
        chain = _eliminate(eta)
        forward = _forward(*chain)
        return (
            _log_partition(chain),
            _mean(chain, *forward),
            _factor(chain, *forward),
            _entropy(chain),
        )

    def profile(self, eta: GaussianChainStats) -> tuple[GaussianChainStats, Any, Any]:
        """(m, S, valid) from one pass each way."""
        chain = _eliminate(eta)
        return _mean(chain, *_forward(*chain)), _entropy(chain), _valid(chain)

    def natural(self, m: GaussianChainStats) -> GaussianChainStats:
        """From the means, variances and neighbours' covariances, which any chain has as they please."""
        spread = m.xx - m.x**2
        joint = m.xy - m.x[:-1] * m.x[1:]
        a = joint / spread[:-1]
        pivot = 1 / jnp.concatenate([spread[:1], spread[1:] - a * joint])
        diagonal = pivot + jnp.concatenate([a**2 * pivot[1:], jnp.zeros(1)])
        return _natural(m.x, diagonal, -a * pivot[1:], jnp)

    def from_params(self, *, loc: Any, diagonal: Any, offdiagonal: Any) -> GaussianChainStats:
        """From the mean (T,), and diagonal (T,) and off-diagonal (T−1,) of the precision matrix."""
        T = self.length
        mu, ends, beside = (np.asarray(v, dtype=float) for v in (loc, diagonal, offdiagonal))
        mu, ends = np.broadcast_to(mu, T), np.broadcast_to(ends, T)
        return _natural(mu, ends, np.broadcast_to(beside, T - 1), np)

    def params(self, eta: GaussianChainStats) -> dict[str, Any]:
        """Mean, and diagonal and off-diagonal of the precision matrix."""
        loc = _located(eta)[0]
        return {"loc": loc, "diagonal": -2 * np.asarray(eta.xx), "offdiagonal": -np.asarray(eta.xy)}

    def statistics(self, x: np.ndarray) -> GaussianChainStats:
        """(x_t, x_t², x_t x_{t+1})."""
        return GaussianChainStats(x, x**2, x[..., :-1] * x[..., 1:])

    def sample(self, eta: GaussianChainStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws from first to last, shape (n, T)."""
        loc, a, s = _located(eta)
        e = s * rng.normal(size=(n, self.length))
        for t in range(1, self.length):
            e[:, t] += a[t - 1] * e[:, t - 1]
        return loc + e

    def unconstrained(self, eta: GaussianChainStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x itself."""
        T = self.length
        return _located(eta)[0], np.eye(T, self.size), np.zeros((T, T))

    def constrain(self, eta: GaussianChainStats, u: np.ndarray) -> np.ndarray:
        """x = u."""
        return u

    def log_jacobian(self, eta: GaussianChainStats, u: np.ndarray) -> np.ndarray:
        """Zero."""
        return np.zeros(len(u))

    def describe(self) -> Mapping[str, Any]:
        """Constructor arguments."""
        return {"length": self.length, "batch": list(self.batch)}


class _Chain(NamedTuple):
    """e_{t+1} = a_t e_t + s_{t+1} ε_{t+1}: a (T−1,), innovation variances s² (T,), and h̃ (T,)."""

    a: Any
    variance: Any
    h: Any


def _eliminate(eta: GaussianChainStats) -> _Chain:
    """From last to first.

    s_t⁻² = Λ_tt − Λ²_{t,t+1} s²_{t+1}, a_t = −Λ_{t,t+1} s²_{t+1} and h̃_t = h_t + a_t h̃_{t+1}.
    """

    def step(after: Any, here: Any) -> Any:
        variance, h = after
        x, xx, xy = here
        a = xy * variance
        now = (-1 / (2 * xx + a * xy), x + a * h)
        return now, (a, *now)

    x, xx, xy = (jnp.asarray(part) for part in eta)
    last = (-0.5 / xx[-1], x[-1])
    _, (a, variance, h) = lax.scan(step, last, (x[:-1], xx[:-1], xy), reverse=True)
    return _Chain(a, jnp.append(variance, last[0]), jnp.append(h, last[1]))


def _forward(a: Any, variance: Any, h: Any) -> tuple[Any, Any]:
    """From first to last: means μ_t and variances Σ_tt."""

    def step(before: Any, here: Any) -> Any:
        a, variance, h = here
        now = (a * before[0] + variance * h, a**2 * before[1] + variance)
        return now, now

    first = (variance[0] * h[0], variance[0])
    _, (loc, spread) = lax.scan(step, first, (a, variance[1:], h[1:]))
    return jnp.append(first[0], loc), jnp.append(first[1], spread)


def _log_partition(chain: _Chain) -> Any:
    variance = chain.variance
    return 0.5 * jnp.sum(jnp.log(2 * jnp.pi * variance) + variance * chain.h**2)


def _entropy(chain: _Chain) -> Any:
    return 0.5 * jnp.sum(jnp.log(2 * jnp.pi * jnp.e * chain.variance))


def _valid(chain: _Chain) -> Any:
    variance = chain.variance
    return jnp.all((variance > 0) & jnp.isfinite(variance) & jnp.isfinite(chain.h))


def _mean(chain: _Chain, loc: Any, spread: Any) -> GaussianChainStats:
    joint = loc[:-1] * loc[1:] + chain.a * spread[:-1]
    return GaussianChainStats(loc, loc**2 + spread, joint)


def _factor(chain: _Chain, loc: Any, spread: Any) -> Any:
    a, variance, _ = chain
    s, T = jnp.sqrt(variance), loc.size
    Phi = _carried(a)  # Φ_tk: how much of e_k is in e_t
    L = Phi * s
    pairs = s[1:] * jnp.sqrt(spread[:-1])  # sd of s_{t+1} e_t ε_{t+1}
    squares = jnp.concatenate([jnp.sqrt(2.0) * L**2, 2 * Phi[:, 1:] ** 2 * (a * pairs)], axis=1)
    crossed = a[:, None] * squares[:-1] + jnp.eye(T - 1, 2 * T - 1, T) * pairs[:, None]
    linear = jnp.concatenate(
        [2 * loc[:, None] * L, loc[:-1, None] * L[1:] + loc[1:, None] * L[:-1]]
    )
    quadratic = jnp.concatenate([squares, crossed])
    return jnp.block([[L, jnp.zeros((T, 2 * T - 1))], [linear, quadratic]])


def _carried(a: Any) -> Any:
    """Φ (T, T) with Φ_tk = a_k ⋯ a_{t−1} for k ≤ t, zero beyond."""
    T = a.shape[0] + 1

    def step(row: Any, here: Any) -> Any:
        a, t = here
        row = (a * row).at[t].set(1.0)
        return row, row

    first = jnp.zeros(T).at[0].set(1.0)
    _, rows = lax.scan(step, first, (a, jnp.arange(1, T)))
    return jnp.concatenate([first[None], rows])


def _natural(loc: Any, diagonal: Any, offdiagonal: Any, xp: Any) -> GaussianChainStats:
    """η from the mean and the two diagonals of Λ."""
    none = xp.zeros(1)
    after = xp.concatenate([offdiagonal * loc[1:], none])
    before = xp.concatenate([none, offdiagonal * loc[:-1]])
    return GaussianChainStats(diagonal * loc + after + before, -0.5 * diagonal, -offdiagonal)


def _located(eta: GaussianChainStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means, coefficients a and innovation sds, in plain NumPy."""
    x, xx, xy = (np.array(part, dtype=float) for part in eta)
    T = len(x)
    a, variance, h = np.zeros(T - 1), np.zeros(T), x.copy()
    variance[-1] = -0.5 / xx[-1]
    for t in range(T - 2, -1, -1):
        a[t] = xy[t] * variance[t + 1]
        variance[t] = -1 / (2 * xx[t] + a[t] * xy[t])
        h[t] += a[t] * h[t + 1]
    loc = variance * h
    for t in range(1, T):
        loc[t] += a[t - 1] * loc[t - 1]
    return loc, a, np.sqrt(variance)
