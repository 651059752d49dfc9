"""How often certificates are right: verdicts against the exact posterior, over models easy and hard.

    python benchmarks/certificates.py [seeds] [first] [some of the name]

Truth is a grid in one or two dimensions, otherwise a long adaptive importance sample whose own k̂ and
effective draws are good; all of it on the collapsed density, which the tests check against SciPy.
`confusion.py` says what counts as wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from confusion import judged, main

import lrvb
from lrvb.integrated.importance import Budget, integrate
from lrvb.integrated.proposals import SplitT
from lrvb.models import NormalMixture, NormalPoisson, RandomSlope
from lrvb.posterior.proposal import refitted
from lrvb.posterior.target import Target
from lrvb.studies.reference import simulate

POISSON = ((0.3, 1, 100), (0.6, 1, 100), (1.0, 1, 100), (0.3, 0, 20), (0.6, 2, 20), (0.2, -1, 40))


class Regression(lrvb.Model):
    """y ~ N(a x₁ + b x₂, 1), in two blocks."""

    global_blocks = {"a": lrvb.Normal(), "b": lrvb.Normal()}

    def global_term(self, m):
        """log prior."""
        return -(m.a.xx + m.b.xx) / 200

    def local_term(self, m, z, row):
        """log density of one row."""
        square = row.x**2 * m.a.xx + row.w**2 * m.b.xx + 2 * row.x * row.w * m.a.x * m.b.x
        return row.y * (row.x * m.a.x + row.w * m.b.x) - square / 2


class Location(lrvb.Model):
    """y ~ N(μ, 1/τ) with q(μ)q(τ)."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}

    def global_term(self, m):
        """log prior."""
        return -m.mu.xx / 200 - m.tau.x

    def local_term(self, m, z, row):
        """log density of one row."""
        return (m.tau.log_x - m.tau.x * (row.y**2 - 2 * row.y * m.mu.x + m.mu.xx)) / 2


class Schools(lrvb.Model):
    """z_n ~ N(μ, 1/τ), y_n ~ N(z_n, s_n²): a funnel where τ is hardly known."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}
    local_blocks = {"z": lrvb.Normal()}

    def __init__(self, shape: float = 1.0, rate: float = 1.0):
        self.shape, self.rate = float(shape), float(rate)

    def global_term(self, m):
        """log prior."""
        return -m.mu.xx / 50 + (self.shape - 1) * m.tau.log_x - self.rate * m.tau.x

    def local_term(self, m, z, row):
        """log density of one row."""
        own = m.tau.log_x - m.tau.x * (z.xx - 2 * z.x * m.mu.x + m.mu.xx)
        return own / 2 - (row.y**2 - 2 * row.y * z.x + z.xx) / (2 * row.s**2)


class Squared(lrvb.Model):
    """y ~ N(θ², 0.1) with a slope: two modes, of equal or unequal mass."""

    global_blocks = {"theta": lrvb.Normal()}

    def __init__(self, y: float = 4.0, slope: float = 0.0):
        self.y, self.slope = float(y), float(slope)

    def global_term(self, m):
        """log prior."""
        fourth = 3 * m.theta.xx**2 - 2 * m.theta.x**4
        fit = -(fourth - 2 * self.y * m.theta.xx) / 0.2
        return fit - m.theta.xx / 50 + self.slope * m.theta.x


class StudentT(lrvb.Model):
    """A t posterior."""

    global_blocks = {"theta": lrvb.Normal()}

    def __init__(self, df: float):
        self.df = float(df)

    def global_term(self, m):
        """log prior."""
        return -(self.df + 1) / 2 * jnp.log1p(m.theta.xx / self.df)


class Share(lrvb.Model):
    """k of n, at or near the boundary."""

    global_blocks = {"p": lrvb.Beta()}

    def __init__(self, k: float, n: float):
        self.k, self.n = float(k), float(n)

    def global_term(self, m):
        """log prior."""
        return (self.k - 0.5) * m.p.log_x + (self.n - self.k - 0.5) * m.p.log1m_x


class Pair(lrvb.Model):
    """θ₁θ₂ observed: a banana."""

    global_blocks = {"a": lrvb.Normal(), "b": lrvb.Normal()}

    def __init__(self, noise: float):
        self.noise = float(noise)

    def global_term(self, m):
        """log prior."""
        product = m.a.xx * m.b.xx - 2 * 3.0 * m.a.x * m.b.x
        return -product / (2 * self.noise) - (m.a.xx - 4 * m.a.x + m.b.xx - 4 * m.b.x) / 2


class GammaPoisson(lrvb.Model):
    """Counts with their own gamma rates."""

    global_blocks = {"rate": lrvb.Gamma()}
    local_blocks = {"lam": lrvb.Gamma()}

    def global_term(self, m):
        """log prior."""
        return m.rate.log_x - m.rate.x

    def local_term(self, m, z, row):
        """log density of one row."""
        return 2 * m.rate.log_x + z.log_x - m.rate.x * z.x + row.y * z.log_x - z.x


def cases(seed: int) -> Iterator[tuple[str, lrvb.Model, Any, Any]]:
    """Name, model, data and start."""
    rng = np.random.default_rng(seed)
    for rho in (0.0, 0.9, 0.99):
        x = rng.normal(size=40)
        w = rho * x + np.sqrt(1 - rho**2) * rng.normal(size=40)
        yield (
            f"regression {rho}",
            Regression(),
            {"x": x, "w": w, "y": x - w + rng.normal(size=40)},
            None,
        )
    for n in (3, 6, 50):
        yield f"location {n}", Location(), {"y": 1 + rng.normal(size=n)}, None
    for sd, beta, n in (
        (0.3, 1, 100),
        (0.6, 1, 100),
        (1.0, 1, 100),
        (0.3, 0, 20),
        (0.6, 2, 20),
        (0.2, -1, 40),
    ):
        data = simulate.normal_poisson(rng, n=n, beta=beta, sd=sd)
        yield f"poisson {sd} {beta} {n}", NormalPoisson(), {k: data[k] for k in ("x", "y")}, None
    for groups in (4, 12, 40):
        data = simulate.random_slope(rng, groups=groups, per_group=5)
        keep = {k: data[k] for k in ("x", "r", "y", "group")}
        yield f"slopes {groups}", RandomSlope(), keep, None
    for n in (1, 5, 40):
        y = rng.poisson(rng.gamma(2.0, 2.0, size=n)).astype(float)
        yield f"gamma poisson {n}", GammaPoisson(), {"y": y}, None
    for n, shape, rate in ((3, 1, 1), (8, 1, 0.1), (8, 0.5, 0.01), (20, 1, 1)):
        s = rng.uniform(0.5, 2.0, n)
        y = rng.normal(size=n) * 0.3 + s * rng.normal(size=n)
        yield f"schools {n} {shape}", Schools(shape, rate), {"y": y, "s": s}, None
    for y, slope in ((4.0, 0.0), (4.0, 0.5), (1.0, 0.0), (4.0, 3.0), (0.3, 0.0)):
        start = {"theta": {"loc": np.sqrt(y), "scale": 0.1}}
        yield f"squared {y} {slope}", Squared(y, slope), None, start
    for df in (2, 4, 8, 30):
        yield f"t {df}", StudentT(df), None, None
    for k, n in ((0, 5), (1, 10), (20, 40)):
        yield f"share {k}/{n}", Share(k, n), None, None
    for noise in (3.0, 0.3):
        start = {"a": {"loc": 1.8, "scale": 0.3}, "b": {"loc": 1.7, "scale": 0.3}}
        yield f"banana {noise}", Pair(noise), None, start
    for n, apart in ((60, 2.5), (60, 4.0), (150, 2.0), (150, 3.0), (400, 2.0)):
        z = rng.integers(2, size=n)
        x = rng.normal(size=(n, 1)) + apart * z[:, None]
        start = {"mu": {"loc": np.array([[0.0], [apart]]), "cov": np.eye(1)}}
        model = NormalMixture(2, np.zeros(1), 0.05 * np.eye(1), 3.0, np.eye(1), 3.0)
        yield f"mixture {n} {apart}", model, {"x": x}, start


def truth(target: Target) -> tuple[np.ndarray, np.ndarray] | None:
    """Exact means and sds of all statistics, or None where even the long run is not sound."""
    d = target.size
    if d <= 2:
        side = np.linspace(-60, 60, 20001) if d == 1 else np.linspace(-14, 14, 161)
        mesh = np.stack(np.meshgrid(*[side] * d, indexing="ij"), axis=-1).reshape(-1, d)
        u = target.center + mesh @ target.root.T
        log_p = np.concatenate([target(part) for part in np.array_split(u, 1 + len(u) // 65536)])
        w = np.exp(log_p - log_p.max())
        w /= w.sum()
        keep = w > 1e-14
        T, w = target.statistics(u[keep]), w[keep]
    else:
        ones = np.ones(d)
        start = SplitT(target.center, 1.3 * target.root, ones, ones, 5.0)
        found = integrate(target, start, refitted(d), Budget(40_000, 2000, 3, 8), seed=987)
        if found.k_hat > 0.6 or found.ess < 4000:
            return None
        T, w = target.statistics(found.x), found.weights
    mean = w @ T
    return mean, np.sqrt(w @ (T - mean) ** 2)


def run(seed: int, part: str = "") -> pd.DataFrame:
    """One row a quantity and a way of checking it."""
    found = []
    for name, model, data, init in cases(seed):
        if part not in name:
            continue
        try:
            posterior = lrvb.infer(model, data, init=init, certify=False)
        except lrvb.LrvbError as error:
            print(f"{seed} {name}: no answer ({type(error).__name__})", flush=True)
            continue
        exact = truth(Target(posterior.response))
        if exact is None:
            print(f"{seed} {name}: no truth; {posterior.certify(seed=seed)}", flush=True)
            continue
        known = {name: (exact[0][i], exact[1][i]) for name, i in posterior.estimate.index.items()}
        found.append(judged(posterior, known, seed).assign(case=name, seed=seed))
        print(f"{seed} {name}: {posterior.certificate}", flush=True)
    return pd.concat(found, ignore_index=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(run)
