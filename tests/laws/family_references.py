"""Moments of families to 40 digits, from textbooks, and unconstrained coordinates of their draws."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np

from lrvb import (
    MultivariateNormal,
    Tilted,
)

mp.mp.dps = 40


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
