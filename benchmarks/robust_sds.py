"""How often 94 % intervals hold the truth where the model is wrong, by the posterior's and by robust sds.

    python benchmarks/robust_sds.py [--sets 1000]

A regression with one variance for all rows is fitted to 200 rows whose errors have an sd of |x|^¾, and to
rows in groups of five that share x and half a unit of error (`by=` the group, with quantiles of t too).
Prints the table of `docs/what_if.md`.
"""

from __future__ import annotations

import argparse

import jax.numpy as jnp
import numpy as np
from scipy import stats

import lrvb

PROB, SLOPE, ROWS = 0.94, 1.0, 200


class Regression(lrvb.Model):
    """y ~ N(xᵀβ, 1/τ), β ~ N(0, 100 I), τ ~ Gamma(1, 1)."""

    columns = ("X", "y")
    global_blocks = {"beta": lrvb.MultivariateNormal(2), "tau": lrvb.Gamma()}

    def global_term(self, m):
        """The priors."""
        return -jnp.trace(m.beta.xx) / 200 - m.tau.x

    def local_term(self, m, z, row):
        """A row."""
        misfit = row.y**2 - 2 * row.y * (row.X @ m.beta.x) + row.X @ m.beta.xx @ row.X
        return (m.tau.log_x - m.tau.x * misfit) / 2


def uneven(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, None]:
    """Errors that grow with x."""
    x = rng.standard_normal(ROWS)
    return x, SLOPE * x + np.abs(x) ** 0.75 * rng.standard_normal(ROWS), None


def shared(rng: np.random.Generator, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Five rows a group, with one x and an error in common."""
    g = np.repeat(np.arange(groups), 5)
    x, common = rng.standard_normal((2, groups))
    return x[g], SLOPE * x[g] + 0.5 * common[g] + rng.standard_normal(len(g)), g


def held(x: np.ndarray, y: np.ndarray, g: np.ndarray | None) -> list[bool]:
    """Whether intervals of the slope hold it: by the posterior's sd, the robust one, and that with t."""
    X = np.column_stack([np.ones_like(x), x])
    posterior = lrvb.infer(Regression(), {"X": X, "y": y}, certify=False)
    away = abs(posterior.mean("beta")["beta[1]"] - SLOPE)
    robust = posterior.sd("beta", method="robust", by=g)["beta[1]"]
    z = stats.norm.ppf(0.5 + PROB / 2)
    t = z if g is None else stats.t.ppf(0.5 + PROB / 2, g.max())
    return [away < z * posterior.sd("beta")["beta[1]"], away < z * robust, away < t * robust]


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1000, help="data sets of each kind")
    sets = range(parser.parse_args().sets)
    print("| rows | posterior | robust | robust and t |\n| --- | --- | --- | --- |")
    kinds = {"errors grow": uneven} | {
        f"{n} groups": lambda rng, n=n: shared(rng, n) for n in (10, 20, 40, 80)
    }
    for name, make in kinds.items():
        share = np.mean([held(*make(np.random.default_rng([s, 15]))) for s in sets], axis=0)
        print(f"| {name} | " + " | ".join(f"{100 * s:.1f} %" for s in share) + " |", flush=True)


if __name__ == "__main__":
    main()
