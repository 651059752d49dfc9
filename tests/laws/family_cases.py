"""Every family at typical and at extreme parameters, with its moments to 40 digits.

The reference of a case starts from the natural parameters as stored (64-bit numbers taken as exact)
and knows nothing but the textbook: mean, covariance of T and A(η).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np

from lrvb import (
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    GaussianChain,
    MarkovChain,
    MultivariateNormal,
    Normal,
    Tilted,
    Wishart,
)
from lrvb.families import Family

mp.mp.dps = 40


@dataclass(frozen=True, eq=False)
class FamilyCase:
    """A family at one parameter value.

    `reference(eta)` gives (A, m, V) in flat coordinates as mpmath numbers; `coordinates(x)` the
    unconstrained coordinates of draws. Extreme cases (`typical=False`) are out of reach of autodiff
    and of sampling. `log_partition_atol` is what rounding leaves of A.
    """

    name: str
    stated: Family
    params: dict[str, Any]
    reference: Callable[[Any], tuple[Any, Any, Any]]
    coordinates: Callable[[np.ndarray, Any], np.ndarray] | None = None
    typical: bool = True
    log_partition_atol: float = 1e-12
    row: Any = None

    def __str__(self) -> str:
        return self.name

    @property
    def family(self) -> Family:
        """The family, bound to its row where it needs one."""
        return self.stated.at(self.row)

    def compiled(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(family, *arguments), compiled once for all cases of one stated family."""
        return _compiled(self.stated, function)(self.row, *arguments)

    @property
    def eta(self) -> Any:
        """Natural parameters."""
        return self.family.from_params(**self.params)


@functools.cache
def _compiled(stated: Family, function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(lambda row, *arguments: function(stated.at(row), *arguments))


def _exact(value: Any) -> Any:
    """A 64-bit array as exact mpmath numbers."""
    array = np.asarray(value)
    if array.ndim == 0:
        return mp.mpf(float(array))
    return mp.matrix(array.tolist())


def _upper(P: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(P) for j in range(i, P)]


# ---- references ---------------------------------------------------------------------------


def normal_reference(eta):
    """x ~ N(μ, v): Var x = v, Cov(x, x²) = 2μv, Var x² = 2v² + 4μ²v."""
    first, second = _exact(eta.x), _exact(eta.xx)
    v = -1 / (2 * second)
    mu = first * v
    A = mp.log(2 * mp.pi * v) / 2 + mu**2 / (2 * v)
    V = mp.matrix([[v, 2 * mu * v], [2 * mu * v, 2 * v**2 + 4 * mu**2 * v]])
    return A, mp.matrix([mu, mu**2 + v]), V


def gamma_reference(eta):
    """τ ~ Gamma(a, b)."""
    a, b = _exact(eta.log_x) + 1, -_exact(eta.x)
    V = mp.matrix([[a / b**2, 1 / b], [1 / b, mp.psi(1, a)]])
    m = mp.matrix([a / b, mp.psi(0, a) - mp.log(b)])
    return mp.loggamma(a) - a * mp.log(b), m, V


def mvn_reference(eta):
    """x ~ N(μ, Σ), by Isserlis' theorem."""
    precision = -2 * _exact(eta.xx)
    S = precision**-1
    P = S.rows
    mu = S * _exact(eta.x)
    pairs = _upper(P)
    n = P + len(pairs)
    V = mp.matrix(n, n)
    for i in range(P):
        for j in range(P):
            V[i, j] = S[i, j]
        for k, (r, c) in enumerate(pairs):
            V[i, P + k] = V[P + k, i] = mu[r] * S[i, c] + mu[c] * S[i, r]
    for k, (r, c) in enumerate(pairs):
        for q, (s, d) in enumerate(pairs):
            V[P + k, P + q] = (
                S[r, s] * S[c, d]
                + S[r, d] * S[c, s]
                + mu[r] * mu[s] * S[c, d]
                + mu[r] * mu[d] * S[c, s]
                + mu[c] * mu[s] * S[r, d]
                + mu[c] * mu[d] * S[r, s]
            )
    m = mp.matrix([*mu, *(mu[r] * mu[c] + S[r, c] for r, c in pairs)])
    A = P * mp.log(2 * mp.pi) / 2 - mp.log(mp.det(precision)) / 2 + (mu.T * precision * mu)[0] / 2
    return A, m, V


def wishart_reference(eta):
    """Λ ~ Wishart(ν, W)."""
    W = (-2 * _exact(eta.x)) ** -1
    P = W.rows
    nu = 2 * _exact(eta.logdet_x) + P + 1
    logdet = mp.log(mp.det(W))
    pairs = _upper(P)
    n = len(pairs)
    V = mp.matrix(n + 1, n + 1)
    for k, (r, c) in enumerate(pairs):
        V[k, n] = V[n, k] = 2 * W[r, c]
        for q, (s, d) in enumerate(pairs):
            V[k, q] = nu * (W[r, s] * W[c, d] + W[r, d] * W[c, s])
    half = [(nu - i) / 2 for i in range(P)]
    V[n, n] = mp.fsum(mp.psi(1, a) for a in half)
    log_mean = mp.fsum(mp.psi(0, a) for a in half) + P * mp.log(2) + logdet
    A = nu * (logdet + P * mp.log(2)) / 2 + P * (P - 1) * mp.log(mp.pi) / 4
    A += mp.fsum(mp.loggamma(a) for a in half)
    return A, mp.matrix([*(nu * W[r, c] for r, c in pairs), log_mean]), V


def dirichlet_reference(eta):
    """π ~ Dirichlet(α); Beta is K = 2."""
    alpha = [mp.mpf(float(a)) + 1 for part in eta for a in np.ravel(part)]
    K, total = len(alpha), mp.fsum(alpha)
    V = mp.matrix(K, K)
    for i in range(K):
        for j in range(K):
            V[i, j] = (mp.psi(1, alpha[i]) if i == j else 0) - mp.psi(1, total)
    A = mp.fsum(mp.loggamma(a) for a in alpha) - mp.loggamma(total)
    return A, mp.matrix([mp.psi(0, a) - mp.psi(0, total) for a in alpha]), V


def categorical_reference(eta):
    """z ~ Categorical(softmax η)."""
    weights = [mp.exp(mp.mpf(float(e))) for e in eta.x]
    total = mp.fsum(weights)
    p = mp.matrix([w / total for w in weights])
    return mp.log(total), p, mp.diag(list(p)) - p * p.T


def gaussian_chain_reference(eta):
    """The normal with the whole tridiagonal precision, and those of its products that are neighbours."""
    T = len(eta.x)
    xx = np.diag(eta.xx) + np.diag(eta.xy / 2, 1) + np.diag(eta.xy / 2, -1)
    A, m, V = mvn_reference(MultivariateNormal.Stats(eta.x, xx))
    pairs = _upper(T)
    kept = [*range(T), *(T + pairs.index((t, t)) for t in range(T))]
    kept += [T + pairs.index((t, t + 1)) for t in range(T - 1)]
    return A, mp.matrix([m[i] for i in kept]), mp.matrix([[V[i, j] for j in kept] for i in kept])


def markov_chain_reference(eta):
    """All sequences, one by one."""
    T, K = np.shape(eta.x)
    size = T * K + (T - 1) * K * K
    sequences = list(itertools.product(range(K), repeat=T))
    weights, found = [], []
    for z in sequences:
        on = [t * K + k for t, k in enumerate(z)]
        on += [T * K + (t * K + z[t]) * K + z[t + 1] for t in range(T - 1)]
        flat = [*np.ravel(eta.x), *np.ravel(eta.xy)]
        weights.append(mp.exp(mp.fsum(mp.mpf(float(flat[i])) for i in on)))
        found.append(on)
    total = mp.fsum(weights)
    m, second = mp.matrix(size, 1), mp.matrix(size, size)
    for w, on in zip(weights, found, strict=True):
        for i in on:
            m[i] += w / total
            for j in on:
                second[i, j] += w / total
    return mp.log(total), m, second - m * m.T


def tilted_reference(log_likelihood, slope):
    """q(z) ∝ exp(η₁z + η₂z² + ℓ(z)) by 600 geometric trapezoids over a fall of e⁻⁸⁰."""

    def reference(eta):
        first, second = _exact(eta.x), _exact(eta.xx)

        def f(z):
            return first * z + second * z**2 + log_likelihood(z)

        def bisect(rising, lo, hi):
            for _ in range(60):
                middle = (lo + hi) / 2
                lo, hi = (middle, hi) if rising(middle) else (lo, middle)
            return lo

        mode = bisect(lambda z: first + 2 * second * z + slope(z) > 0, mp.mpf(-99), mp.mpf(99))
        left, right = (
            bisect(lambda d, s=s: f(mode) - f(mode + s * d) < 80, mp.mpf(0), mp.mpf(400))
            for s in (-1, 1)
        )
        lean = mp.log(left / right) + mp.mpf(10) ** -9
        moments = [mp.mpf(0)] * 5
        for i in range(601):
            u = mp.mpf(i) / 300 - 1
            d = right * mp.expm1(-lean * u) / mp.expm1(-lean)
            term = right * -lean * mp.exp(-lean * u) / mp.expm1(-lean) / 300
            term *= mp.exp(f(mode + d) - f(mode))
            for k in range(5):
                moments[k] += term * d**k
        mass, *raw = moments
        m1, m2, m3, m4 = (r / mass for r in raw)
        mu, v = mode + m1, m2 - m1**2
        third = m3 - 3 * m1 * m2 + 2 * m1**3
        fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
        cross = third + 2 * mu * v
        V = mp.matrix([[v, cross], [cross, fourth + 4 * mu * third + 4 * mu**2 * v - v**2]])
        return f(mode) + mp.log(mass), mp.matrix([mu, mu**2 + v]), V

    return reference


# ---- unconstrained coordinates of draws ---------------------------------------------------


def wishart_coordinates(x, params):
    """(log A_jj, A_ij) with x = L A Aᵀ Lᵀ."""
    A = np.linalg.inv(np.linalg.cholesky(params["scale"])) @ np.linalg.cholesky(x)
    P = A.shape[-1]
    below = A[(slice(None), *np.tril_indices(P, -1))]
    return np.concatenate([np.log(A[:, np.arange(P), np.arange(P)]), below], axis=1)


def real(x, params):
    """x itself."""
    return x.reshape(len(x), -1)


def log(x, params):
    """log x."""
    return np.log(x)[:, None]


def log_gammas(x, params):
    """log x_k + log G with a G ~ Gamma(α₀) of its own: the logs of independent gammas."""
    alpha = np.array(list(params.values()), dtype=float)
    logs = np.log(x) if x.ndim == 2 else np.stack([np.log(x), np.log1p(-x)], axis=1)
    total = np.random.default_rng(7).gamma(alpha.sum(), size=len(x))
    return logs + np.log(total)[:, None]


# ---- likelihoods --------------------------------------------------------------------------


POISSON = Tilted(lambda z, y: y * z - jnp.exp(z))
BERNOULLI = Tilted(lambda z, y: y * z - jax.nn.softplus(z))


def poisson_reference(y):
    """ℓ(z) = yz − eᶻ."""
    return tilted_reference(lambda z: y * z - mp.exp(z), lambda z: y - mp.exp(z))


def bernoulli_reference(y):
    """ℓ(z) = yz − log(1 + eᶻ)."""
    return tilted_reference(
        lambda z: y * z - mp.log1p(mp.exp(z)), lambda z: y - 1 / (1 + mp.exp(-z))
    )


# ---- the cases ----------------------------------------------------------------------------

SCALE = np.array([[2.0, 0.7, -0.3], [0.7, 1.0, 0.2], [-0.3, 0.2, 0.5]])
LOC = np.array([1.0, -2.0, 0.5])


def _cases() -> list[FamilyCase]:
    cases = []

    def add(
        name, family, reference, coordinates=None, typical=True, atol=1e-12, row=None, **params
    ):
        case = FamilyCase(name, family, params, reference, coordinates, typical, atol, row)
        cases.append(case)

    add("Normal", Normal(), normal_reference, real, loc=2.0, scale=0.3)
    add("Normal-narrow", Normal(), normal_reference, typical=False, loc=1e3, scale=1e-5)
    add("Normal-wide", Normal(), normal_reference, typical=False, loc=-1.0, scale=1e8)

    add("Gamma", Gamma(), gamma_reference, log, shape=3.0, rate=2.0)
    add("Gamma-small", Gamma(), gamma_reference, log, shape=0.2, rate=0.5)
    add("Gamma-tiny", Gamma(), gamma_reference, typical=False, shape=1e-3, rate=1e-6)
    add("Gamma-huge", Gamma(), gamma_reference, typical=False, shape=1e8, rate=1e6)

    mvn = MultivariateNormal(3)
    add("MultivariateNormal", mvn, mvn_reference, real, loc=LOC, cov=SCALE)
    one = MultivariateNormal(1)
    add("MultivariateNormal-1", one, mvn_reference, real, loc=LOC[:1], cov=SCALE[:1, :1])
    add(
        "MultivariateNormal-narrow",
        mvn,
        mvn_reference,
        typical=False,
        loc=1e3 * LOC,
        cov=1e-8 * SCALE,
    )
    add("MultivariateNormal-wide", mvn, mvn_reference, typical=False, loc=LOC, cov=1e14 * SCALE)

    wishart = Wishart(3)
    add("Wishart", wishart, wishart_reference, wishart_coordinates, dof=5.3, scale=SCALE)
    add(
        "Wishart-1",
        Wishart(1),
        wishart_reference,
        wishart_coordinates,
        dof=3.0,
        scale=SCALE[:1, :1],
    )
    add("Wishart-tiny", wishart, wishart_reference, typical=False, dof=2.001, scale=1e-6 * SCALE)
    add("Wishart-huge", wishart, wishart_reference, typical=False, dof=1e8, scale=1e-6 * SCALE)

    dirichlet = Dirichlet(3)
    add("Dirichlet", dirichlet, dirichlet_reference, log_gammas, concentration=[0.5, 2.0, 7.0])

    def extreme(name, concentration, **options):
        add(
            name,
            dirichlet,
            dirichlet_reference,
            None,
            False,
            concentration=concentration,
            **options,
        )

    extreme("Dirichlet-tiny", [1e-3, 2e-3, 3e-3])
    extreme("Dirichlet-huge", [1e8, 2e8, 3e8])
    extreme("Dirichlet-mixed", [1e-3, 1.0, 1e8], atol=1e-6)  # log Γ(1e8) = 1.7e9 cancels

    add("Beta", Beta(), dirichlet_reference, log_gammas, a=2.0, b=3.5)
    add("Beta-tiny", Beta(), dirichlet_reference, typical=False, a=1e-3, b=2e-3)
    add("Beta-huge", Beta(), dirichlet_reference, typical=False, a=1e8, b=1e6)

    categorical = Categorical(3)
    add("Categorical", categorical, categorical_reference, probs=[0.2, 0.3, 0.5])
    add(
        "Categorical-sure",
        categorical,
        categorical_reference,
        typical=False,
        probs=[1e-12, 1e-100, 1.0],
    )

    chain = GaussianChain(4)

    def gaussian_chain(name, loc, diagonal, offdiagonal, coordinates=None):
        add(
            name,
            chain,
            gaussian_chain_reference,
            coordinates,
            coordinates is not None,
            loc=loc,
            diagonal=diagonal,
            offdiagonal=offdiagonal,
        )

    ends = np.array([3.0, 4.0, 5.0, 2.0])
    gaussian_chain("GaussianChain", [1.0, -2.0, 0.5, 0.3], ends, [1.0, -2.0, 0.7], real)
    gaussian_chain("GaussianChain-narrow", [1e3, 2.0, -1e3, 5.0], 1e8 * ends, [1e8, -2e8, 7e7])
    walk = np.array([1.001, 2.0, 2.0, 1.0])  # a random walk of small steps and unknown level
    gaussian_chain("GaussianChain-walk", [3.0, 3.1, 3.0, 2.9], 100 * walk, [-100.0] * 3)

    markov = MarkovChain(3, 3)
    row = np.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    sure = np.array([[1e-9, 1.0, 1e-7], [1e-8, 1e-8, 1.0], [1.0, 1e-9, 1e-7]])

    def markov_chain(name, typical, initial, *transition):
        rows = np.stack([rows / rows.sum(axis=1, keepdims=True) for rows in transition])
        add(name, markov, markov_chain_reference, None, typical, initial=initial, transition=rows)

    markov_chain("MarkovChain", True, [0.2, 0.3, 0.5], row, row.T)
    markov_chain("MarkovChain-sure", False, [1e-9, 1.0 - 2e-9, 1e-9], sure, sure)

    def tilted(name, family, reference, y, loc, scale, coordinates=None):
        typical = coordinates is not None
        where = "" if typical else f"-at-{loc:g}-sd-{scale:g}"
        add(
            f"Tilted-{name}-{y:g}{where}",
            family,
            reference(y),
            coordinates,
            typical,
            row=y,
            loc=loc,
            scale=scale,
        )

    tilted("Poisson", POISSON, poisson_reference, 0.0, 0.5, 1.5, real)
    tilted("Poisson", POISSON, poisson_reference, 3.0, 0.5, 1.5, real)
    tilted("Bernoulli", BERNOULLI, bernoulli_reference, 1.0, -0.5, 2.0, real)
    for y, loc, scale in itertools.product((0.0, 1e4), (-5.0, 10.0), (4.47, 0.01)):
        tilted("Poisson", POISSON, poisson_reference, y, loc, scale)
    for loc, scale in itertools.product((-5.0, 10.0), (4.47, 0.01)):
        tilted("Bernoulli", BERNOULLI, bernoulli_reference, 1.0, loc, scale)
    return cases


CASES = _cases()
TYPICAL = [case for case in CASES if case.typical]
