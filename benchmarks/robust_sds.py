"""How often 94 % intervals hold the truth where the model is wrong, by the posterior's and by robust sds.

    python benchmarks/robust_sds.py [--sets 1000] [--mixed]

A regression with one variance for all rows is fitted to 200 rows whose errors have an sd of |x|^¾, and to
rows in groups of five that share x and half a unit of error (`by=` the group, with quantiles of t too).
With `--mixed` a Poisson model with an effect of each group is fitted to counts that vary more, negative
binomial ones with shape 1.5, in groups of six rows; beside it Poisson regression given the groups' sums.
Prints the tables of `docs/what_if.md`; the last two columns are the mean of each sd over the sd that the
means have from set to set.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pandas as pd
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


class Answer(NamedTuple):
    """Of the slope of one set of data: the posterior's mean and sd, and the robust sd."""

    mean: float
    sd: float
    robust: float


def regression(x: np.ndarray, y: np.ndarray, g: np.ndarray | None) -> Answer:
    """One variance for all rows."""
    X = np.column_stack([np.ones_like(x), x])
    posterior = lrvb.infer(Regression(), {"X": X, "y": y}, certify=False)
    robust = posterior.sd("beta", method="robust", by=g)["beta[1]"]
    return Answer(posterior.mean("beta")["beta[1]"], posterior.sd("beta")["beta[1]"], robust)


def counts(rng: np.random.Generator, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Six counts a group (G, 6) with their x, which vary more than a Poisson model says."""
    g, x = np.repeat(np.arange(groups), 6), rng.standard_normal(6 * groups)
    rate = np.exp(1 + SLOPE * x / 2 + 0.5 * rng.standard_normal(groups)[g])
    y = rng.poisson(rate * rng.gamma(1.5, 1 / 1.5, len(g)))
    return x.reshape(groups, 6), y.reshape(groups, 6)


def mixed(x: np.ndarray, y: np.ndarray) -> Answer:
    """A Poisson model with an effect of each group; its slope is doubled, to be one."""
    g = np.repeat(np.arange(len(x)), x.shape[1])
    rows = pd.DataFrame({"y": y.ravel(), "x": x.ravel(), "g": g})
    posterior = lrvb.MixedModel("y ~ x + (1|g)", "poisson").fit(rows).posterior_
    robust = posterior.sd("x", method="robust")["x"]
    return Answer(2 * posterior.mean("x")["x"], 2 * posterior.sd("x")["x"], 2 * robust)


def conditional(x: np.ndarray, y: np.ndarray) -> Answer:
    """For comparison: Poisson regression given each group's sum, with its own jackknife of groups."""
    groups, n, seen = len(x), y.sum(1), (y * x).sum(1)

    def fitted(kept: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Slopes (m,) of the groups kept (m, G), and their information."""
        information = np.ones_like(slope)
        for _ in range(30):
            w = np.exp(slope[:, None, None] * x)
            w /= w.sum(2, keepdims=True)
            first = (w * x).sum(2)
            information = (kept * n * ((w * x**2).sum(2) - first**2)).sum(1)
            step = (kept * (seen - n * first)).sum(1) / information
            slope = slope + step
            if np.abs(step).max() < 1e-10:
                break
        return slope, information

    slope, information = fitted(np.ones((1, groups)), np.zeros(1))
    without, _ = fitted(1 - np.eye(groups), np.full(groups, slope[0]))
    robust = np.sqrt((groups - 1) / groups * ((without - without.mean()) ** 2).sum())
    return Answer(2 * slope[0], 2 / np.sqrt(information[0]), 2 * robust)


def shares(answers: list[Answer], groups: int | None) -> list[float]:
    """How many intervals hold the slope: by the posterior's sd, the robust one, and that with t."""
    mean, sd, robust = np.array(answers).T
    away = np.abs(mean - SLOPE)
    z = stats.norm.ppf(0.5 + PROB / 2)
    t = z if groups is None else stats.t.ppf(0.5 + PROB / 2, groups - 1)
    return [float((away < reach).mean()) for reach in (z * sd, z * robust, t * robust)]


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=1000, help="data sets of each kind")
    parser.add_argument("--mixed", action="store_true", help="a mixed model of counts instead")
    asked = parser.parse_args()
    kinds: dict[str, tuple[int | None, Callable[[np.random.Generator], Answer]]]
    if asked.mixed:
        kinds = {
            f"{n} groups, {ask.__name__}": (n, lambda rng, n=n, ask=ask: ask(*counts(rng, n)))
            for n in (10, 20, 40)
            for ask in (mixed, conditional)
        }
    else:
        kinds = {"errors grow": (None, lambda rng: regression(*uneven(rng)))} | {
            f"{n} groups": (n, lambda rng, n=n: regression(*shared(rng, n)))
            for n in (10, 20, 40, 80)
        }
    print("| rows | posterior | robust | robust and t | posterior / spread | robust / spread |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, (groups, ask) in kinds.items():
        answers = [ask(np.random.default_rng([s, 15])) for s in range(asked.sets)]
        mean, sd, robust = np.array(answers).T
        cells = [f"{100 * share:.1f} %" for share in shares(answers, groups)]
        cells += [f"{part.mean() / mean.std(ddof=1):.2f}" for part in (sd, robust)]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
