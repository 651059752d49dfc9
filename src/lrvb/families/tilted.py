"""Tilted: one real variable whose base measure is a likelihood."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidModel
from ..numerics.double import double
from ..numerics.lazy import jax, jnp, lax
from ..numerics.packing import Slot
from ..numerics.quadrature import support, trapezoid
from .base import Family, whole_number
from .normal import Normal, NormalStats

_WIDER = 1.4  # is the support whose nodes are to serve other η
_REST = 1e-9  # of the mass, that nodes placed for another η may leave out
_WAVE = 0.125  # of the sums over every fourth of them: 2·0.25¹⁶ is left of the error of all


class Tilted(Family):
    r"""q(z) ∝ exp(η₁ z + η₂ z² + ℓ(z)): a Gaussian tilted by a log likelihood ℓ.

    `log_likelihood` is ℓ(z) or ℓ(z, row) of one real z, written with `jax.numpy`; it must be
    smooth and concave, as are Poisson (y z − eᶻ), Bernoulli, binomial and negative binomial in the
    linear predictor. A family with ℓ(z, row) belongs to one row of data: see `at`. The domain
    is η₂ < 0: the Gaussian part is proper whatever ℓ is.

    A, the moments and V are integrals over z by the trapezoidal rule with `nodes` nodes, which
    converges exponentially. With ℓ on a scale of one, as those above, 64 nodes give eleven digits
    up to a standard deviation of 4.5 of the Gaussian part, six at 10, four at 20: a wider one
    wants more nodes.
    """

    Stats = NormalStats
    slots = (Slot((), "{}"), Slot((), None))
    parameters = ("loc", "scale")

    def __init__(
        self,
        log_likelihood: Callable[..., Any],
        *,
        nodes: int = 64,
        batch: tuple[int, ...] | int = (),
    ):
        super().__init__(batch=batch)
        self.log_likelihood = log_likelihood
        self.nodes = whole_number(self, "nodes", nodes, least=8)
        self._needs_row = _argument_count(log_likelihood) == 2
        self._support: tuple[Any, Any, Any] | None = None

    def near(self, eta: NormalStats) -> Tilted:
        """The same family with the nodes of this η: ℓ is asked there once for A at many η.

        A is then NaN at an η whose integrand these nodes do not reach, or not resolve.
        """
        _, safe = self._inside(eta)
        found = Tilted(self.log_likelihood, nodes=self.nodes, batch=self.batch)
        c, left, right = support(found._bound(), safe.x, safe.xx)
        found._support = c, _WIDER * left, _WIDER * right
        return found

    def at(self, row: Any) -> Tilted:
        """The family of one row: ℓ(z) = log_likelihood(z, row)."""
        if not self._needs_row:
            return self
        return Tilted(lambda z: self.log_likelihood(z, row), nodes=self.nodes, batch=self.batch)

    def log_partition(self, eta: NormalStats) -> Any:
        """log ∫ exp(η₁ z + η₂ z² + ℓ(z)) dz."""
        inside, safe = self._inside(eta)
        if self._support is None:
            A = _log_partition(self._bound(), safe, self.nodes)
        else:
            A = _log_partition_at(self._bound(), safe, self.nodes, self._support)
        return jnp.where(inside, A, jnp.nan)

    def valid(self, eta: NormalStats) -> Any:
        """The precision −2η₂ of the Gaussian part is positive."""
        return (eta.xx < 0) & jnp.isfinite(eta.xx) & jnp.isfinite(eta.x)

    def start(self) -> NormalStats:
        """A standard normal Gaussian part."""
        return NormalStats(np.zeros(()), np.full((), -0.5))

    def mean(self, eta: NormalStats) -> NormalStats:
        """(E z, E z²)."""
        return self._integrate(eta).mean()

    def factor(self, eta: NormalStats) -> Any:
        """C in the orthonormal basis s, s² − 1 − κ₃s of z = μ + σs, with κ₃ = E s³."""
        return self._integrate(eta).factor()

    def entropy(self, eta: NormalStats) -> Any:
        """A − η·m = −E log q + E ℓ: entropy relative to the base measure exp ℓ."""
        return self._integrate(eta).entropy

    def evaluate(self, eta: NormalStats) -> tuple[Any, NormalStats, Any, Any]:
        """(A, m, C, S) from one quadrature."""
        integral = self._integrate(eta)
        return integral.log_partition, integral.mean(), integral.factor(), integral.entropy

    def natural(self, m: NormalStats) -> NormalStats:
        """η with the moments m, by Newton's method for mean and log variance of z.

        η₂ < 0 is our requirement and no barrier of A, so a step changes the Gaussian part's
        precision fourfold at most, and takes the change of η₁ that goes with that.
        """
        variance = m.xx - m.x**2

        def step(state: Any) -> Any:
            eta, last, _, n = state
            q = self._integrate(eta)
            first = (m.x - q.loc) / q.scale
            second = (jnp.log(variance) - 2 * jnp.log(q.scale) - q.skewness * first) / q.pivot**2
            xx = jnp.clip(second / q.scale**2, 3 * eta.xx, -0.75 * eta.xx)
            x = (first / q.scale - q.skewness * q.scale * xx) - 2 * q.loc * xx
            length = jnp.sqrt(first**2 + second**2)
            done = (length < 1e-13) | ((length < 1e-4) & (length > last / 2))
            return NormalStats(eta.x + x, eta.xx + xx), length, done, n + 1

        start = NormalStats(m.x / variance, -0.5 / variance)
        state = (start, jnp.full_like(variance, jnp.inf), jnp.zeros_like(variance, bool), 0)
        return lax.while_loop(lambda s: ~s[2] & (s[3] < 200), step, state)[0]

    def _integrate(self, eta: NormalStats) -> _Integral:
        """All integrals at one η; NaN outside the domain."""
        inside, safe = self._inside(eta)
        integral = _integrate(self._bound(), safe, self.nodes)
        return jax.tree.map(lambda value: jnp.where(inside, value, jnp.nan), integral)

    def _inside(self, eta: NormalStats) -> tuple[Any, NormalStats]:
        """Whether η lies in the domain, and η, or another where it does not."""
        inside = self.valid(eta)
        return inside, NormalStats(jnp.where(inside, eta.x, 0.0), jnp.where(inside, eta.xx, -0.5))

    def _bound(self) -> Callable[[Any], Any]:
        """ℓ(z), which must not wait for a row any more."""
        if self._needs_row:
            raise InvalidModel(
                "Tilted: its log likelihood takes (z, row), so it has a density only for one row "
                "of data. Use it as a local block, or bind a row first: family.at(row)."
            )
        return self.log_likelihood

    # ---- usual parameters, draws ----------------------------------------------------------

    def from_params(self, *, loc: Any, scale: Any) -> NormalStats:
        """From mean and standard deviation of the Gaussian part."""
        return Normal().from_params(loc=loc, scale=scale)

    def params(self, eta: NormalStats) -> dict[str, Any]:
        """Mean and standard deviation of the Gaussian part."""
        return Normal().params(eta)

    def statistics(self, x: np.ndarray) -> NormalStats:
        """(z, z²)."""
        return NormalStats(x, x**2)

    def sample(self, eta: NormalStats, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws by inverting the distribution function on a fine grid, shape (n,)."""
        with double():
            c, left, right = support(self._bound(), jnp.asarray(eta.x), jnp.asarray(eta.xx))
            z = jnp.linspace(c - left, c + right, 4097)
            log_q = np.asarray(eta.x * z + eta.xx * z**2 + jax.vmap(self._bound())(z))
        q = np.exp(log_q - log_q.max())
        below = np.concatenate([[0.0], np.cumsum((q[1:] + q[:-1]) / 2)])
        return np.interp(rng.uniform(size=n) * below[-1], below, np.asarray(z))

    def unconstrained(self, eta: NormalStats) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """z itself."""
        with double():
            center = np.asarray(self.mean(eta).x)
        return np.array([center]), np.array([[1.0, 0.0]]), np.zeros((1, 1))

    def constrain(self, eta: NormalStats, u: np.ndarray) -> np.ndarray:
        """z = u."""
        return u[:, 0]

    def log_jacobian(self, eta: NormalStats, u: np.ndarray) -> np.ndarray:
        """Zero."""
        return np.zeros(len(u))

    def log_base_measure(self, x: np.ndarray) -> np.ndarray:
        """ℓ(x)."""
        with double():
            return np.asarray(jax.vmap(self._bound())(jnp.asarray(x)))

    def describe(self) -> Mapping[str, Any]:
        """Not available: a function cannot be written to a file."""
        raise InvalidModel(
            "Tilted: its log likelihood is a function and cannot be saved; a model that uses it "
            "must rebuild the block itself."
        )

    def __repr__(self) -> str:
        name = getattr(self.log_likelihood, "__name__", repr(self.log_likelihood))
        batch = f", batch={self.batch}" if self.batch else ""
        return f"Tilted({name}, nodes={self.nodes}{batch})"

    def _key(self) -> Any:
        return (self.log_likelihood, self.nodes, self.batch)


class _Integral(NamedTuple):
    """What one quadrature yields: A, S, and z = μ + σs with κ₃ = E s³, pivot = sd(s² − κ₃s)."""

    log_partition: Any
    entropy: Any
    loc: Any
    scale: Any
    skewness: Any
    pivot: Any

    def mean(self) -> NormalStats:
        return NormalStats(self.loc, self.loc**2 + self.scale**2)

    def factor(self) -> Any:
        variance = self.scale**2
        first = jnp.stack([self.scale, jnp.zeros_like(self.scale)])
        cross = 2 * self.loc * self.scale + variance * self.skewness
        return jnp.stack([first, jnp.stack([cross, variance * self.pivot])])


class _Raw(NamedTuple):
    """log ∫ exp ℓ around the mode c, the slope of η·T there, and the first moments of d = z − c."""

    log_mass: Any
    c: Any
    slope: Any
    moments: tuple[Any, ...]


def _raw(ll: Callable[[Any], Any], eta: NormalStats, nodes: int, powers: int) -> _Raw:
    """Trapezoidal rule around the mode c, in d = z − c so that nothing cancels when |c| ≫ σ.

    The nodes are held fixed under differentiation: ∇A and ∇²A are then the moments of the same
    rule. One pass over the nodes keeps rows in fast memory; its raw moments about the mode are
    safe to centre, because the mean of a concave f lies within √3 σ of the mode.
    """
    fixed = lax.stop_gradient(eta)
    c, left, right = lax.stop_gradient(support(ll, fixed.x, fixed.xx))
    rule = trapezoid(left, right, nodes)
    base = ll(c)
    slope = eta.x + 2 * eta.xx * c
    smaller = 1 / rule.ratio

    def add(i: Any, state: Any) -> Any:
        grown, shrunk, sums = state
        d, w = lax.stop_gradient(rule.node(grown, shrunk))
        term = w * jnp.exp(d * (slope + d * eta.xx) + (ll(c + d) - base))
        total = []
        for moment in sums:
            total.append(moment + term)
            term = term * d
        return grown * rule.ratio, shrunk * smaller, tuple(total)

    zeros = (jnp.zeros_like(slope),) * (powers + 1)
    start = (rule.first, 1 / rule.first, zeros)
    _, _, (mass, *moments) = lax.fori_loop(0, nodes, add, start, unroll=2)
    log_mass = jnp.log(mass * rule.weight) + base
    return _Raw(log_mass, c, slope, tuple(moment / mass for moment in moments))


def _log_partition(ll: Callable[[Any], Any], eta: NormalStats, nodes: int) -> Any:
    """A alone."""
    raw = _raw(ll, eta, nodes, 0)
    return raw.log_mass + raw.c * (eta.x + raw.c * eta.xx)


def _log_partition_at(
    ll: Callable[[Any], Any], eta: NormalStats, nodes: int, place: tuple[Any, Any, Any]
) -> Any:
    """A alone, by nodes placed for another η; NaN where they end too soon or are too far apart.

    Sums over every fourth node, S₀ to S₃, tell the error a of a rule of four times the step: it is a
    wave (S₀ − S₂, S₁ − S₃) of length a/2 of the whole. That of all nodes is a¹⁶.
    """
    c, left, right = place
    rule = trapezoid(left, right, nodes)
    base, slope, smaller = ll(c), eta.x + 2 * eta.xx * c, 1 / rule.ratio

    def exponent(d: Any) -> Any:
        return d * (slope + d * eta.xx) + (ll(c + d) - base)

    def add(i: Any, state: Any) -> Any:
        grown, shrunk, sums = state
        total = []
        for part in sums:
            d, w = rule.node(grown, shrunk)
            total.append(part + w * jnp.exp(exponent(d)))
            grown, shrunk = grown * rule.ratio, shrunk * smaller
        return grown, shrunk, tuple(total)

    start = (rule.first, 1 / rule.first, (jnp.zeros_like(slope),) * 4)
    _, _, sums = lax.fori_loop(0, -(-nodes // 4), add, start)
    total = sum(sums)
    wave = jnp.hypot(sums[0] - sums[2], sums[1] - sums[3])
    ends = jnp.exp(exponent(-left)) + jnp.exp(exponent(right))
    mass = total * rule.weight
    known = (wave < _WAVE * total) & (ends * (left + right) < _REST * mass)
    A = jnp.log(mass) + base + c * (eta.x + c * eta.xx)
    return jnp.where(known & jnp.isfinite(A), A, jnp.nan)


def _integrate(ll: Callable[[Any], Any], eta: NormalStats, nodes: int) -> _Integral:
    """A, entropy and four moments from one quadrature."""
    log_mass, c, slope, (m1, m2, m3, m4) = _raw(ll, eta, nodes, 4)
    variance = m2 - m1**2
    scale = jnp.sqrt(variance)
    skewness = (m3 - 3 * m1 * m2 + 2 * m1**3) / scale**3
    kurtosis = (m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4) / variance**2
    return _Integral(
        log_partition=log_mass + c * (eta.x + c * eta.xx),
        entropy=log_mass - m1 * slope - m2 * eta.xx,
        loc=c + m1,
        scale=scale,
        skewness=skewness,
        pivot=jnp.sqrt(kurtosis - 1 - skewness**2),
    )


def _argument_count(function: Callable[..., Any]) -> int:
    """1 for ℓ(z), 2 for ℓ(z, row)."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        raise InvalidModel(
            f"Tilted: log_likelihood must be a function of (z) or (z, row), not {function!r}."
        ) from None
    count = sum(a.kind in kinds and a.default is inspect.Parameter.empty for a in arguments)
    if count not in (1, 2):
        raise InvalidModel(
            f"Tilted: log_likelihood must take (z) or (z, row); it takes {count} arguments."
        )
    return count
