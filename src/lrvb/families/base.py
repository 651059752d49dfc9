"""Family: an exponential family stated by its statistics and its log partition A(η).

A family states one copy of its variable. Mean ∇A, covariance ∇²A, entropy A − η·m and the map back
from moments arrive from A(η) alone; shipped families override them with closed forms for speed and
precision, and the laws in `tests/laws` check every override against A.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from copy import copy as shallow
from typing import Any, ClassVar

import numpy as np

from ..errors import InvalidModel
from ..numerics.lazy import jax, jnp
from ..numerics.packing import Slot, pack, size, unpack

Stats = Any  # a NamedTuple of arrays: one field per statistic; η, m and T share it


class Family:
    r"""q(θ) ∝ h(θ) exp(η·T(θ)), log q = η·T − A(η) with respect to the base measure h.

    Subclasses give `Stats` (a NamedTuple naming the statistics), `slots`, `log_partition`, `valid`
    and `start`; everything else is derived. `batch=(K, ...)` makes independent copies: a family's
    own methods always speak of one copy.
    """

    Stats: ClassVar[Any]
    parameters: ClassVar[tuple[str, ...]] = ()

    def __init__(self, *, batch: tuple[int, ...] | int = ()):
        lengths = batch if isinstance(batch, tuple | list) else (batch,)
        self.batch = tuple(whole_number(self, "batch", n) for n in lengths)

    # ---- what a family states -------------------------------------------------------------

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Shape and name of each statistic of one copy, in the order of `Stats`."""
        raise NotImplementedError

    def log_partition(self, eta: Stats) -> Any:
        """A(η) = log ∫ h(θ) exp(η·T(θ)) dθ."""
        raise NotImplementedError

    def valid(self, eta: Stats) -> Any:
        """Whether η lies in the natural domain, where A is finite."""
        raise NotImplementedError

    def start(self) -> Stats:
        """Natural parameters of a vague, well-conditioned member, where a fit may start."""
        raise NotImplementedError

    # ---- derived; override for speed or precision -----------------------------------------

    def mean(self, eta: Stats) -> Stats:
        """m = ∇A(η) = E_q T."""
        gradient = jax.grad(lambda flat: self.log_partition(self.unflatten(flat, natural=True)))
        return self.unflatten(gradient(self.flatten(eta, natural=True)))

    def factor(self, eta: Stats) -> Any:
        """C with V = ∇²A(η) = Cov_q T = CCᵀ in flat mean coordinates, shape (size, size)."""
        hessian = jax.hessian(lambda flat: self.log_partition(self.unflatten(flat, natural=True)))
        return jnp.linalg.cholesky(hessian(self.flatten(eta, natural=True)))

    def entropy(self, eta: Stats) -> Any:
        """S = A(η) − η·m: entropy relative to the base measure."""
        m = self.flatten(self.mean(eta))
        return self.log_partition(eta) - self.flatten(eta, natural=True) @ m

    def natural(self, m: Stats) -> Stats:
        """η with ∇A(η) = m: the maximum of the concave η·m − A(η), by damped Newton.

        No step is longer than one standard deviation of T, so that a far m is approached safely;
        the search ends when rounding keeps the steps from shrinking.
        """
        target = self.flatten(m)

        def conjugate(flat: Any) -> Any:
            eta = self.unflatten(flat, natural=True)
            return jnp.where(self.valid(eta), flat @ target - self.log_partition(eta), -jnp.inf)

        def step(state: Any) -> Any:
            flat, damping, last, _, n = state
            eta = self.unflatten(flat, natural=True)
            C = self.factor(eta)
            residual = target - self.flatten(self.mean(eta))
            whitened = jnp.linalg.solve(C, residual)
            length = jnp.sqrt(whitened @ whitened)
            close = length < 0.05  # Newton converges from here, where rounding may hide the gain
            shorter = jnp.where(close, 1.0, damping / jnp.maximum(1.0, length))
            proposal = flat + jnp.linalg.solve(C.T, shorter * whitened)
            inside = self.valid(self.unflatten(proposal, natural=True))
            accept = (close & inside) | (conjugate(proposal) > conjugate(flat))
            done = (length < 1e-12) | (close & (length > last / 2))
            return (
                jnp.where(accept, proposal, flat),
                jnp.where(accept, jnp.minimum(1.0, 2 * damping), damping / 4),
                jnp.where(close, length, jnp.inf),
                done,
                n + 1,
            )

        def unfinished(state: Any) -> Any:
            return ~state[3] & (state[4] < 500)

        first = self.flatten(self.start(), natural=True)
        state = (jnp.asarray(first), jnp.asarray(1.0), jnp.asarray(jnp.inf), jnp.asarray(False), 0)
        return self.unflatten(jax.lax.while_loop(unfinished, step, state)[0], natural=True)

    def evaluate(self, eta: Stats) -> tuple[Any, Stats, Any, Any]:
        """(A, m, C, S) at η: log partition, mean, factor and entropy, sharing what they can."""
        return self.log_partition(eta), self.mean(eta), self.factor(eta), self.entropy(eta)

    def profile(self, eta: Stats) -> tuple[Stats, Any, Any]:
        """(m, S, valid) at η: what a search without matrices needs, sharing what they can."""
        return self.mean(eta), self.entropy(eta), self.valid(eta)

    def at(self, row: Any) -> Family:
        """The family whose base measure belongs to one row of data; most do not depend on it."""
        return self

    def near(self, eta: Stats) -> Family:
        """The same family, told that it is asked for A at η nearby; only where that costs less."""
        return self

    # ---- usual parameters, draws ----------------------------------------------------------

    def from_params(self, **params: Any) -> Stats:
        """Natural parameters from the usual ones, named in `parameters`."""
        raise NotImplementedError

    def params(self, eta: Stats) -> dict[str, Any]:
        """The usual parameters, named in `parameters`."""
        raise NotImplementedError

    def statistics(self, x: np.ndarray) -> Stats:
        """T(x) of draws x with one leading axis."""
        raise NotImplementedError

    def sample(self, eta: Stats, rng: np.random.Generator, n: int) -> np.ndarray:
        """n independent draws from q, along a leading axis."""
        raise NotImplementedError

    def unconstrained(self, eta: Stats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""Coordinates u of the variable that range over all of ℝᵏ, as (mean, W, R).

        u = mean + W (T − m) + a part uncorrelated with T whose covariance is R: W has shape
        (k, size), R (k, k). With linear response Cov(u) = W Σ̂ Wᵀ + R. See: `constrain`.
        """
        raise NotImplementedError

    def constrain(self, eta: Stats, u: np.ndarray) -> np.ndarray:
        """The variable from its unconstrained coordinates u, shape (n, k)."""
        raise NotImplementedError

    def carried(self, eta: Stats, other: Stats, u: np.ndarray) -> np.ndarray:
        """Coordinates at `other` of the variables that have coordinates u (n, k) at η; most know no η."""
        return u

    def contrasts(self) -> np.ndarray | None:
        """Linear functions (j, k) of u that say all of the variable, where u is redundant; else None.

        π has one coordinate fewer than its log gammas. See: `lift`.
        """
        return None

    def lift(self, v: np.ndarray) -> np.ndarray:
        """Some coordinates u (n, k) with these contrasts (n, j)."""
        return v

    def log_jacobian(self, eta: Stats, u: np.ndarray) -> np.ndarray:
        r"""log |∂θ/∂u| at coordinates u (n, k), (n,), so that ∫ f(θ) dθ = ∫ f(θ(u)) exp(log_jacobian) du.

        Where u has `contrasts` v it is log |∂θ/∂v|. Here by differences.
        """
        n, k = u.shape
        steps = 1e-5 * np.maximum(1.0, np.abs(u))
        columns = []
        for j in range(k):
            step = np.zeros((n, k))
            step[:, j] = steps[:, j]
            change = self.constrain(eta, u + step) - self.constrain(eta, u - step)
            columns.append(np.reshape(change, (n, -1)) / (2 * steps[:, [j]]))
        J = np.stack(columns, axis=2)
        if J.shape[1] != k:
            raise InvalidModel(
                f"{type(self).__name__} has {k} unconstrained coordinates for a variable of "
                f"{J.shape[1]} entries, so that its Jacobian is not square; write log_jacobian."
            )
        return np.linalg.slogdet(J)[1]

    def log_base_measure(self, x: np.ndarray) -> np.ndarray:
        """log h(x) of draws x with one leading axis, (n,); most families have h = 1."""
        return np.zeros(len(x))

    def from_statistics(self, stats: Stats) -> np.ndarray:
        """The variable x from T(x), with one leading axis: the inverse of `statistics`."""
        fields = self.Stats._fields
        if "x" in fields:
            return np.asarray(stats.x)
        if "log_x" in fields:
            return np.exp(np.asarray(stats.log_x))
        raise InvalidModel(
            f"{type(self).__name__} has no method from_statistics, which certified draws need; write it."
        )

    def at_scores(
        self,
        eta: Stats,
        score: np.ndarray,
        mean: np.ndarray,
        sd: np.ndarray,
        *,
        own_mean: bool = False,
    ) -> np.ndarray:
        """The variable where its unconstrained coordinates have these normal scores, (n, k).

        Of each coordinate mean and sd (k,) are given; its shape is the family's, so that with the mean
        and sd of q and independent scores the values are distributed as q. Here it is normal. With
        `own_mean` a variable that is reported on its own scale and on the log scale (x and log x)
        keeps q's E x where its spread is another, and E log x follows.
        """
        return self.constrain(eta, mean + sd * score)

    # ---- flat coordinates -----------------------------------------------------------------

    @property
    def size(self) -> int:
        """Flat coordinates of one copy."""
        return size(self.slots)

    @property
    def copies(self) -> int:
        """Number of independent copies."""
        return math.prod(self.batch)

    def single(self) -> Family:
        """The same family with one copy."""
        if not self.batch:
            return self
        one = shallow(self)
        one.batch = ()
        return one

    def flatten(self, stats: Stats, *, natural: bool = False) -> Any:
        """Flat coordinates (..., size) of statistics, or of natural parameters."""
        return pack(self.slots, stats, natural=natural)

    def unflatten(self, flat: Any, *, natural: bool = False) -> Stats:
        """Statistics, or natural parameters, from flat coordinates (..., size)."""
        return self.Stats(*unpack(self.slots, flat, natural=natural))

    def names(self, block: str) -> list[str | None]:
        """Name of every flat coordinate of all copies, batch-major; None where it has no name."""
        return list(_names(block, self.batch, tuple(self.slots)))

    def describe(self) -> Mapping[str, Any]:
        """Constructor arguments, JSON-friendly, so that a saved posterior can be read back."""
        return {"batch": list(self.batch)}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{k}={v!r}" for k, v in self.describe().items() if v != [])
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Family) or type(self) is not type(other):
            return False
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))

    def _key(self) -> Any:
        """What distinguishes two families of one class; hashable."""
        arguments = self.describe().items()
        return tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in arguments)


@functools.lru_cache(maxsize=256)
def _names(block: str, batch: tuple[int, ...], slots: tuple[Slot, ...]) -> tuple[str | None, ...]:
    labels: list[str | None] = []
    for copy in np.ndindex(*batch):
        for slot in slots:
            for index in slot.indices():
                where = ",".join(str(i) for i in (*copy, *index))
                variable = f"{block}[{where}]" if where else block
                labels.append(slot.label.format(variable) if slot.label else None)
    return tuple(labels)


def whole_number(family: Family, name: str, value: Any, *, least: int = 1) -> int:
    """A constructor argument that must be a whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidModel(
            f"{type(family).__name__}: {name}={value!r} must be a whole number, at least {least}."
        )
    return int(value)
