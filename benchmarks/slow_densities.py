"""Log densities on which chains are slow, with independent draws of each: the truth without a sampler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_expit, logsumexp

DRAWS = 200_000  # of the truth
NODES = 4001  # of a grid in one variable


class Slow(NamedTuple):
    """log p of a dictionary of arrays, where to start, independent draws of it, and functions of them.

    `functions` are written for an array module, as `lambda v, xp: ...`.
    """

    log_density: Callable[[dict[str, Any]], Any]
    start: dict[str, np.ndarray]
    draw: Callable[[np.random.Generator, int], dict[str, np.ndarray]]
    functions: dict[str, Callable[[dict[str, Any], Any], Any]]


def _jnp() -> Any:
    import jax.numpy as jnp

    return jnp


def funnel(d: int, sd: float) -> Slow:
    """Neal's: v ~ N(0, sd²) and d variables N(0, eᵛ)."""

    def log_density(p: dict[str, Any]) -> Any:
        jnp = _jnp()
        v, x = p["v"], p["x"]
        return -0.5 * (v / sd) ** 2 - 0.5 * (x**2).sum() * jnp.exp(-v) - 0.5 * d * v

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        v = sd * rng.standard_normal(n)
        return {"v": v, "x": np.exp(v / 2)[:, None] * rng.standard_normal((n, d))}

    return Slow(log_density, {"v": np.zeros(()), "x": np.ones(d)}, draw, {})


def banana(bend: float, wide: float, d: int = 2) -> Slow:
    """x₀ ~ N(0, wide²), x_i ~ N(bend·x₀², 1)."""

    def log_density(p: dict[str, Any]) -> Any:
        x = p["x"]
        return -0.5 * (x[0] / wide) ** 2 - 0.5 * ((x[1:] - bend * x[0] ** 2) ** 2).sum()

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        x = rng.standard_normal((n, d))
        x[:, 0] *= wide
        x[:, 1:] += bend * x[:, :1] ** 2
        return {"x": x}

    return Slow(log_density, {"x": np.zeros(d)}, draw, {})


def squiggle() -> Slow:
    """x₁ − sin(5x₀)/2 and x₀, independent normals of sds 0.1 and 1."""

    def log_density(p: dict[str, Any]) -> Any:
        jnp, x = _jnp(), p["x"]
        return -0.5 * x[0] ** 2 - 0.5 * ((x[1] - 0.5 * jnp.sin(5 * x[0])) / 0.1) ** 2

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        x = rng.standard_normal((n, 2))
        x[:, 1] = 0.1 * x[:, 1] + 0.5 * np.sin(5 * x[:, 0])
        return {"x": x}

    return Slow(log_density, {"x": np.zeros(2)}, draw, {})


def ring(radius: float, width: float) -> Slow:
    """In the plane, r ~ N(radius, width²) around the origin."""

    def log_density(p: dict[str, Any]) -> Any:
        jnp, x = _jnp(), p["x"]
        r = jnp.sqrt((x**2).sum() + 1e-12)
        return -0.5 * ((r - radius) / width) ** 2 - jnp.log(r)

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        r, turn = radius + width * rng.standard_normal(n), 2 * np.pi * rng.random(n)
        return {"x": np.abs(r)[:, None] * np.column_stack([np.cos(turn), np.sin(turn)])}

    return Slow(log_density, {"x": np.array([radius, 0.0])}, draw, {})


def mixture(d: int, shares: list[float], centers: list[float], sds: list[float]) -> Slow:
    """Normals N(center·1, sd²I) in d dimensions."""
    w, m, s = np.array(shares), np.array(centers), np.array(sds)

    def log_density(p: dict[str, Any]) -> Any:
        from jax.nn import logsumexp

        jnp = _jnp()
        away = ((p["x"][None] - m[:, None]) ** 2).sum(axis=1)
        return logsumexp(jnp.log(w) - 0.5 * away / s**2 - d * jnp.log(s))

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        k = rng.choice(len(w), size=n, p=w)
        return {"x": m[k][:, None] + s[k][:, None] * rng.standard_normal((n, d))}

    return Slow(log_density, {"x": np.zeros(d)}, draw, {})


def student(d: int, df: float) -> Slow:
    """A multivariate t."""

    def log_density(p: dict[str, Any]) -> Any:
        jnp = _jnp()
        return -0.5 * (df + d) * jnp.log1p((p["x"] ** 2).sum() / df)

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        scale = np.sqrt(df / rng.chisquare(df, n))
        return {"x": scale[:, None] * rng.standard_normal((n, d))}

    return Slow(log_density, {"x": np.zeros(d)}, draw, {})


def gammas(shape: float, d: int) -> Slow:
    """Logarithms of d independent Gamma(shape, 1)."""

    def log_density(p: dict[str, Any]) -> Any:
        jnp = _jnp()
        return (shape * p["x"] - jnp.exp(p["x"])).sum()

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        log_u = np.log(rng.random((n, d)))
        return {"x": np.log(rng.gamma(shape + 1, size=(n, d))) + log_u / shape}

    return Slow(log_density, {"x": np.zeros(d)}, draw, {"g": lambda v, xp: xp.exp(v["x"][..., 0])})


def schools(y: list[float], error: list[float], scale: float, df: float = 1.0) -> Slow:
    """A centred one-way layout with known errors, μ ~ N(0, 10²), τ half-t: a grid of log τ."""
    Y, E = np.array(y), np.array(error)

    def log_prior(t: Any, xp: Any) -> Any:
        return -0.5 * (df + 1) * xp.log1p((xp.exp(t) / scale) ** 2 / df) + t

    def log_density(p: dict[str, Any]) -> Any:
        jnp = _jnp()
        theta, mu, t = p["theta"], p["mu"], p["log_tau"]
        found = -0.5 * (((Y - theta) / E) ** 2).sum() - 0.5 * (mu / 10) ** 2
        found -= 0.5 * ((theta - mu) ** 2).sum() * jnp.exp(-2 * t) + len(Y) * t
        return found + log_prior(t, jnp)

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        t = np.linspace(-16, 12, NODES)
        v = np.exp(2 * t)[:, None] + E**2
        precision = 1 / 100 + (1 / v).sum(axis=1)
        mean = (Y / v).sum(axis=1) / precision
        log_p = -0.5 * np.log(v).sum(axis=1) - 0.5 * np.log(precision) + log_prior(t, np)
        log_p += -0.5 * (Y**2 / v).sum(axis=1) + 0.5 * mean**2 * precision
        at = _on_grid(rng, log_p, n)
        mu = mean[at] + rng.standard_normal(n) / np.sqrt(precision[at])
        width = 1 / (np.exp(-2 * t[at])[:, None] + 1 / E**2)
        center = width * (np.exp(-2 * t[at])[:, None] * mu[:, None] + Y / E**2)
        theta = center + np.sqrt(width) * rng.standard_normal((n, len(Y)))
        log_tau = t[at] + (t[1] - t[0]) * (rng.random(n) - 0.5)
        return {"mu": mu, "log_tau": log_tau, "theta": theta}

    start = {"mu": np.zeros(()), "log_tau": np.zeros(()), "theta": np.zeros(len(Y))}
    return Slow(log_density, start, draw, {"tau": lambda v, xp: xp.exp(v["log_tau"])})


def change_point(y: np.ndarray, width: float) -> Slow:
    """y_t ~ N(a + b·expit((t − c)/width), 1), a and b ~ N(0, 5²), c uniform: a and b are normal given c."""
    T = len(y)
    t = np.arange(T)

    def log_density(p: dict[str, Any]) -> Any:
        from jax.nn import log_sigmoid, sigmoid

        a, b, u = p["a"], p["b"], p["u"]
        fitted = a + b * sigmoid((t - (T - 1) * sigmoid(u)) / width)
        prior = -0.5 * (a**2 + b**2) / 25 + log_sigmoid(u) + log_sigmoid(-u)
        return prior - 0.5 * ((y - fitted) ** 2).sum()

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        u = np.linspace(-14, 14, NODES)
        c = (T - 1) * np.exp(log_expit(u))
        log_p, means, roots = [], [], []
        for at in c:
            X = np.column_stack([np.ones(T), np.exp(log_expit((t - at) / width))])
            P = X.T @ X + np.eye(2) / 25
            mean = np.linalg.solve(P, X.T @ y)
            log_p.append(0.5 * mean @ P @ mean - 0.5 * np.linalg.slogdet(P)[1])
            means.append(mean)
            roots.append(np.linalg.cholesky(np.linalg.inv(P)))
        at = _on_grid(rng, np.array(log_p) + log_expit(u) + log_expit(-u), n)
        z = rng.standard_normal((n, 2))
        ab = np.array(means)[at] + np.einsum("nij,nj->ni", np.array(roots)[at], z)
        return {"a": ab[:, 0], "b": ab[:, 1], "u": u[at] + (u[1] - u[0]) * (rng.random(n) - 0.5)}

    start = {name: np.zeros(()) for name in "abu"}
    return Slow(log_density, start, draw, {"c": lambda v, xp: 1 / (1 + xp.exp(-v["u"]))})


def plane(log_p: Callable[[Any, Any, Any], Any], half: float, start: tuple[float, float]) -> Slow:
    """Two variables within ±half, by a grid."""

    def log_density(p: dict[str, Any]) -> Any:
        return log_p(p["a"], p["b"], _jnp())

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        grid = np.linspace(-half, half, 2001)
        a, b = np.meshgrid(grid, grid, indexing="ij")
        at = _on_grid(rng, log_p(a, b, np).ravel(), n)
        step = grid[1] - grid[0]
        found = {"a": a.ravel()[at], "b": b.ravel()[at]}
        return {name: x + step * (rng.random(n) - 0.5) for name, x in found.items()}

    return Slow(log_density, {"a": np.array(start[0]), "b": np.array(start[1])}, draw, {})


def horseshoe(y: np.ndarray) -> Slow:
    """y_j ~ N(θ_j, 1), θ_j = τλ_j z_j, z normal, λ half-Cauchy, τ half-normal of sd 1: grids of τ and λ."""
    d = len(y)

    def log_density(p: dict[str, Any]) -> Any:
        jnp = _jnp()
        z, s, t = p["z"], p["log_lambda"], p["log_tau"]
        theta = z * jnp.exp(s + t)
        prior = -0.5 * (z**2).sum() + (s - jnp.logaddexp(0.0, 2 * s)).sum()
        return prior - 0.5 * jnp.exp(2 * t) + t - 0.5 * ((y - theta) ** 2).sum()

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        t, s = np.linspace(-14, 2, 801), np.linspace(-16, 25, 1201)
        v = 1 + np.exp(2 * (t[:, None] + s))
        base = s - np.logaddexp(0.0, 2 * s)
        log_s = np.array([base - 0.5 * np.log(v) - 0.5 * yj**2 / v for yj in y])  # (d, t, s)
        at = _on_grid(rng, logsumexp(log_s, axis=2).sum(axis=0) - 0.5 * np.exp(2 * t) + t, n)
        z, chosen = np.zeros((n, d)), np.zeros((n, d))
        share = np.exp(log_s - logsumexp(log_s, axis=2, keepdims=True)).cumsum(axis=2)
        for k in np.unique(at):
            own = np.flatnonzero(at == k)
            for j in range(d):
                where = np.searchsorted(share[j, k], rng.random(len(own)) * share[j, k, -1])
                chosen[own, j] = s[np.minimum(where, len(s) - 1)]
        width = np.exp(chosen + t[at][:, None])
        precision = 1 + width**2
        z = width * y / precision + rng.standard_normal((n, d)) / np.sqrt(precision)
        chosen += (s[1] - s[0]) * (rng.random((n, d)) - 0.5)
        return {"z": z, "log_lambda": chosen, "log_tau": t[at]}

    start = {"z": np.zeros(d), "log_lambda": np.zeros(d), "log_tau": np.zeros(())}

    def theta(v: dict[str, Any], xp: Any) -> Any:
        return v["z"] * xp.exp(v["log_lambda"] + xp.reshape(v["log_tau"], (*v["log_tau"].shape, 1)))

    return Slow(log_density, start, draw, {"theta": theta})


def _on_grid(rng: np.random.Generator, log_p: np.ndarray, n: int) -> np.ndarray:
    """n nodes in proportion to p."""
    edges = np.cumsum(np.exp(log_p - log_p.max()))
    return np.minimum(np.searchsorted(edges, rng.random(n) * edges[-1]), len(edges) - 1)


def _steps(at: int, jump: float, T: int = 40) -> np.ndarray:
    rng = np.random.default_rng(4)
    return rng.standard_normal(T) + jump * (np.arange(T) > at)


_Y = [28.0, 8, -3, 7, -1, 1, 18, 12]
_E = [15.0, 10, 16, 11, 9, 11, 10, 18]
_X = np.array([-2.0, -1.0, -0.5, 0.7, 1.1, 2.5])
_SPARSE = np.array([0.3, -0.5, 4.0, 0.1, 1.5, -0.2, 0.8, -3.0])

DENSITIES: dict[str, Slow] = {
    "funnel, 9 and sd 3": funnel(9, 3.0),
    "funnel, 49 and sd 3": funnel(49, 3.0),
    "funnel, 9 and sd 1": funnel(9, 1.0),
    "funnel, 3 and sd 2": funnel(3, 2.0),
    "banana": banana(0.5, 2.0),
    "banana, long": banana(0.3, 5.0),
    "banana in five": banana(0.5, 1.5, 5),
    "banana, slight": banana(0.2, 1.0),
    "squiggle": squiggle(),
    "ring, thin": ring(5.0, 0.3),
    "ring, thick": ring(3.0, 1.0),
    "mixture, near": mixture(5, [0.7, 0.3], [0.0, 1.2], [1.0, 1.0]),
    "mixture, apart": mixture(5, [0.6, 0.4], [0.0, 2.5], [1.0, 1.0]),
    "mixture, narrow within wide": mixture(3, [0.5, 0.5], [0.0, 0.0], [1.0, 8.0]),
    "mixture, narrow far": mixture(4, [0.5, 0.5], [0.0, 5.0], [1.0, 0.2]),
    "mixture, a spike": mixture(2, [0.9, 0.1], [0.0, 3.0], [1.0, 0.05]),
    "t of 5, five": student(5, 5.0),
    "t of 5, twenty": student(20, 5.0),
    "t of 3, three": student(3, 3.0),
    "t of 2.5, two": student(2, 2.5),
    "t of 10, fifty": student(50, 10.0),
    "log gamma 0.1": gammas(0.1, 3),
    "log gamma 0.5": gammas(0.5, 5),
    "eight schools": schools(_Y, _E, 5.0),
    "three schools": schools(_Y[:3], _E[:3], 5.0),
    "four schools, half-normal": schools(_Y[:4], _E[:4], 10.0, 100.0),
    "eight schools, exact": schools(_Y, [2.0] * 8, 10.0),
    "eight schools, near zero": schools([1.0, 1.2, 0.7, 0.9, 1.1, 1.0, 0.8, 1.3], [1.0] * 8, 1.0),
    "twenty schools": schools(list(np.sin(np.arange(20)) * 3), [1.5] * 20, 5.0),
    "change point, sharp": change_point(_steps(18, 4.0), 0.5),
    "change point, faint": change_point(_steps(25, 0.8), 1.0),
    "product": plane(
        lambda a, b, xp: -0.5 * ((a * b - 2) / 0.5) ** 2 - (a**2 + b**2) / 8, 9.0, (1.0, 1.0)
    ),
    "product near zero": plane(
        lambda a, b, xp: -0.5 * ((a * b) / 0.3) ** 2 - (a**2 + b**2) / 8, 10.0, (0.3, 0.3)
    ),
    "logistic, separated": plane(
        lambda a, b, xp: (
            -sum(xp.logaddexp(0.0, -np.sign(x) * (a + b * x)) for x in _X) - (a**2 + b**2) / 200
        ),
        70.0,
        (0.0, 0.0),
    ),
    "Poisson, no counts": plane(
        lambda a, b, xp: -xp.exp(a) - xp.exp(a + b) - (a**2 + b**2) / 50, 40.0, (0.0, 0.0)
    ),
    "horseshoe": horseshoe(_SPARSE),
}
