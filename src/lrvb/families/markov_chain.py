"""MarkovChain: a sequence of choices in which each depends on its neighbours only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidModel
from ..numerics.double import double
from ..numerics.lazy import jax, jnp, lax
from ..numerics.packing import Slot
from .base import Family, whole_number


class MarkovChainStats(NamedTuple):
    """Slots of T(z) = (z_t, z_t z_{t+1}ᵀ), indicators of shapes (T, K) and (T−1, K, K).

    η, m and T share them.
    """

    x: Any
    xy: Any


class MarkovChain(Family):
    """q(z) ∝ exp(η·T(z)) on sequences of T indicator vectors of length K; cost linear in T.

    η are logits of states and of pairs of neighbours. Many η are the same q: a constant may move from
    the pairs to the states. In the form of a chain it has z_1 ~ p_1 and z_{t+1} | z_t ~ P_t.
    """

    Stats = MarkovChainStats
    parameters = ("initial", "transition")

    def __init__(self, length: int, dim: int, *, batch: tuple[int, ...] | int = ()):
        super().__init__(batch=batch)
        self.length = whole_number(self, "length", length, least=2)
        self.dim = whole_number(self, "dim", dim)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Probabilities of states, and of pairs of neighbours."""
        T, K = self.length, self.dim
        return Slot((T, K), "{}", support="positive"), Slot((T - 1, K, K), None)

    def log_partition(self, eta: MarkovChainStats) -> Any:
        """log Σ over all sequences, from last to first."""
        return jax.nn.logsumexp(_eliminate(eta)[0])

    def valid(self, eta: MarkovChainStats) -> Any:
        """No logit is NaN or +∞, and some sequence is possible."""
        finite = jnp.all(eta.x < jnp.inf) & jnp.all(eta.xy < jnp.inf)
        return finite & jnp.any(_eliminate(eta)[0] > -jnp.inf)

    def start(self) -> MarkovChainStats:
        """All sequences alike."""
        T, K = self.length, self.dim
        return MarkovChainStats(np.full((T, K), -np.log(K)), np.zeros((T - 1, K, K)))

    def mean(self, eta: MarkovChainStats) -> MarkovChainStats:
        """P(z_t = k) and P(z_t = i, z_{t+1} = j)."""
        return _mean(*_chain(eta))

    def factor(self, eta: MarkovChainStats) -> Any:
        r"""C from the parts of a chain that are uncorrelated: z_1, and each choice given its row.

        With d_tij = [z_t = i]([z_{t+1} = j] − P_tij), z_{t+1} = P_tᵀz_t + Σ_i d_ti and
        z_ti z_{t+1,j} = P_tij z_ti + d_tij. V is singular, and the last columns of C are zero.
        """
        p, P = _chain(eta)
        T, K = self.length, self.dim
        width = K + (T - 1) * K * K
        D = jnp.sqrt(p[:-1])[:, :, None, None] * _root(P)  # (t, i, j, column)
        first = jnp.zeros((K, width)).at[:, :K].set(_root(p[0]))

        def step(row: Any, here: Any) -> Any:
            P, D, t = here
            own = jax.vmap(lambda i, d: _placed(d, K + (t * K + i) * K, width))(jnp.arange(K), D)
            return (now := P.T @ row + own.sum(axis=0)), (now, P[:, :, None] * row[:, None] + own)

        _, (later, pairs) = lax.scan(step, first, (P, D, jnp.arange(T - 1)))
        rows = jnp.concatenate([first, later.reshape(-1, width), pairs.reshape(-1, width)])
        return jnp.pad(rows, ((0, 0), (0, self.size - width)))

    def entropy(self, eta: MarkovChainStats) -> Any:
        """−Σ p log p of the first state and of each choice given the one before."""
        return _entropy(*_chain(eta))

    def profile(self, eta: MarkovChainStats) -> tuple[MarkovChainStats, Any, Any]:
        """(m, S, valid) from one pass each way."""
        p, P = _chain(eta)
        finite = jnp.all(eta.x < jnp.inf) & jnp.all(eta.xy < jnp.inf)
        return _mean(p, P), _entropy(p, P), finite & jnp.all(jnp.isfinite(p[0]))

    def natural(self, m: MarkovChainStats) -> MarkovChainStats:
        """log p_1, and log P_t on the pairs."""
        P = jnp.where(m.x[:-1, :, None] > 0, m.xy / m.x[:-1, :, None], 1 / self.dim)
        rest = jnp.zeros((self.length - 1, self.dim))
        return MarkovChainStats(jnp.concatenate([jnp.log(m.x[:1]), rest]), jnp.log(P))

    def from_params(self, *, initial: Any, transition: Any) -> MarkovChainStats:
        """From probabilities of the first state (K,), and of each next one given the last (T−1, K, K)."""
        T, K = self.length, self.dim
        x = np.zeros((T, K))
        P = np.broadcast_to(np.asarray(transition, float), (T - 1, K, K))
        with np.errstate(divide="ignore"):
            x[0] = np.log(np.broadcast_to(np.asarray(initial, float), K))
            return MarkovChainStats(x, np.log(P))

    def params(self, eta: MarkovChainStats) -> dict[str, Any]:
        """Probabilities of the first state, and of each next one given the last."""
        with double():
            p, P = _chain(eta)
            return {"initial": np.asarray(p[0]), "transition": np.asarray(P)}

    def statistics(self, x: np.ndarray) -> MarkovChainStats:
        """The indicators, and the products of neighbours."""
        return MarkovChainStats(x, x[..., :-1, :, None] * x[..., 1:, None, :])

    def sample(self, eta: MarkovChainStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Indicators from first to last, shape (n, T, K)."""
        q = self.params(eta)
        states = np.zeros((n, self.length), dtype=int)
        for t in range(self.length):
            row = q["transition"][t - 1, states[:, t - 1]] if t else q["initial"][None]
            below = np.cumsum(row, axis=1)
            chosen = rng.uniform(size=n)[:, None] * below[:, -1:] >= below[:, :-1]
            states[:, t] = chosen.sum(axis=1)
        return np.eye(self.dim)[states]

    def unconstrained(self, eta: MarkovChainStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Not available: choices have no coordinates in ℝᵏ."""
        raise InvalidModel(
            "MarkovChain: choices among alternatives have no continuous coordinates, so joint "
            "draws leave them out; ask for their probabilities (posterior.mean or posterior.local)."
        )

    def constrain(self, eta: MarkovChainStats, u: np.ndarray) -> np.ndarray:
        """Not available: see `unconstrained`."""
        raise InvalidModel(
            "MarkovChain: choices among alternatives have no continuous coordinates."
        )

    def log_jacobian(self, eta: MarkovChainStats, u: np.ndarray) -> np.ndarray:
        """Not available: see `unconstrained`."""
        return np.asarray(self.constrain(eta, u))

    def describe(self) -> Mapping[str, Any]:
        """Constructor arguments."""
        return {"length": self.length, "dim": self.dim, "batch": list(self.batch)}


def _eliminate(eta: MarkovChainStats) -> tuple[Any, Any]:
    """From last to first: log mass of all that follows each first state (K,), and log P_t."""

    def step(after: Any, here: Any) -> Any:
        x, xy = here
        joint = xy + after
        mass = jax.nn.logsumexp(joint, axis=1)
        possible = mass > -jnp.inf
        return x + mass, joint - jnp.where(possible, mass, 0.0)[:, None]

    x, xy = jnp.asarray(eta.x), jnp.asarray(eta.xy)
    return lax.scan(step, x[-1], (x[:-1], xy), reverse=True)


def _chain(eta: MarkovChainStats) -> tuple[Any, Any]:
    """Probabilities of states p (T, K) and of choices given the last, P (T−1, K, K)."""
    mass, log_P = _eliminate(eta)
    P = jnp.exp(log_P)
    first = jax.nn.softmax(mass)

    def step(p: Any, P: Any) -> Any:
        return (now := p @ P), now

    return jnp.concatenate([first[None], lax.scan(step, first, P)[1]]), P


def _mean(p: Any, P: Any) -> MarkovChainStats:
    return MarkovChainStats(p, p[:-1, :, None] * P)


def _entropy(p: Any, P: Any) -> Any:
    return _surprise(p[0]) + jnp.sum(p[:-1] * _surprise(P))


def _root(p: Any) -> Any:
    """diag √p − p √pᵀ along the last axis: a root of diag p − ppᵀ."""
    return (jnp.eye(p.shape[-1]) - p[..., :, None]) * jnp.sqrt(p)[..., None, :]


def _placed(block: Any, start: Any, width: int) -> Any:
    """A (K, K) block among `width` columns, zero elsewhere."""
    rows = jnp.zeros((block.shape[0], width))
    return lax.dynamic_update_slice(rows, block, (0, start))


def _surprise(p: Any) -> Any:
    """−Σ p log p along the last axis, zero where p is."""
    return -jnp.sum(p * jnp.log(jnp.where(p > 0, p, 1.0)), axis=-1)
