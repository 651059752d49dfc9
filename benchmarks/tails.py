"""t distributions through the bridge: how many quantities are trusted, and how many of these wrongly.

    python benchmarks/tails.py [--seeds 5] [--kinds turned,mixed] [--df 2,4] [--store FILE]

Their sds are known, and infinite up to two degrees of freedom: then no sd may be trusted. Otherwise wrong is
a mean off by more than 0.2 sd or an sd by more than 15 %.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.special import digamma, polygamma

import lrvb

DF = [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0]
DIMENSIONS = [1, 3, 10]
SHIFT, RATIO = 0.2, np.log(1.15)
Truth = tuple[list[float], list[float]]  # means and sds, one after another
Case = tuple[Callable[[Any], Any], dict[str, np.ndarray], Truth]


def log_t(x: Any, df: float) -> Any:
    """A t's log density."""
    return -0.5 * (df + 1) * jnp.log1p(x**2 / df)


def sd_of(df: float) -> float:
    """A t's sd."""
    return float(np.sqrt(df / (df - 2))) if df > 2 else np.inf


def beside(D: int, df: float, rng: np.random.Generator) -> Case:
    """One t, the others normal."""

    def f(v: Any) -> Any:
        return log_t(v["x"][0], df) - 0.5 * (v["x"][1:] ** 2).sum()

    return f, {"x": np.zeros(D)}, ([0.0] * D, [sd_of(df)] + [1.0] * (D - 1))


def several(D: int, df: float, rng: np.random.Generator) -> Case:
    """Independent ones."""
    return lambda v: log_t(v["x"], df).sum(), {"x": np.zeros(D)}, ([0.0] * D, [sd_of(df)] * D)


def turned(D: int, df: float, rng: np.random.Generator) -> Case:
    """One t among normals, turned so that it is no coordinate's."""
    Q = np.linalg.qr(rng.standard_normal((D, D)))[0]

    def f(v: Any) -> Any:
        z = Q.T @ v["x"]
        return log_t(z[0], df) - 0.5 * (z[1:] ** 2).sum()

    sd = [float(np.hypot(q * sd_of(df), np.sqrt(1 - q**2))) for q in Q[:, 0]]
    return f, {"x": np.zeros(D)}, ([0.0] * D, sd)


def joint(D: int, df: float, rng: np.random.Generator) -> Case:
    """A t of D dimensions."""

    def f(v: Any) -> Any:
        return -0.5 * (df + D) * jnp.log1p((v["x"] ** 2).sum() / df)

    return f, {"x": np.zeros(D)}, ([0.0] * D, [sd_of(df)] * D)


def _scales(D: int, df: float, several: int) -> Case:
    """Normals whose log variance is a coordinate, one for all or one each: −log of a gamma."""

    def f(v: Any) -> Any:
        x, s = v["x"].reshape(several, -1), v["s"]
        square, each = (x**2).sum(axis=1), x.shape[1]
        inverse = jnp.exp(-s)
        return (-0.5 * inverse * (square + df) - 0.5 * (each + df) * s).sum()

    mean, sd = np.log(df / 2) - digamma(df / 2), np.sqrt(polygamma(1, df / 2))
    start = {"x": np.zeros(D), "s": np.zeros(several)}
    means, sds = [0.0] * D + [float(mean)] * several, [sd_of(df)] * D + [float(sd)] * several
    return f, start, (means, sds)


def mixed(D: int, df: float, rng: np.random.Generator) -> Case:
    """A t of D dimensions with its log variance."""
    return _scales(D, df, 1)


def mixed_each(D: int, df: float, rng: np.random.Generator) -> Case:
    """Independent ones with theirs."""
    return _scales(D, df, D)


KINDS = {f.__name__: f for f in (beside, several, turned, joint, mixed, mixed_each)}


def measure(kind: str, D: int, df: float, seed: int) -> Iterator[dict[str, Any]]:
    """A row for every quantity."""
    rng = np.random.default_rng(1000 * seed + int(10 * df) + D)
    f, start, truth = KINDS[kind](D, df, rng)
    begun = time.process_time()
    certificate = lrvb.from_log_density(f, start).infer(seed=seed).certificate
    table, seconds = certificate.summary(), time.process_time() - begun
    for (name, row), mean, sd in zip(table.iterrows(), *truth, strict=True):
        trusted = row["verdict"] == "trust"
        off = not np.isfinite(sd) or (
            abs(row["mean"] - mean) > SHIFT * sd or abs(np.log(row["sd"] / sd)) > RATIO
        )
        yield {
            "kind": kind,
            "D": D,
            "df": df,
            "seed": seed,
            "name": name,
            "truth": sd,
            "sd": row["sd"],
            "tail_index": certificate.tail_index[name],
            "trusted": trusted,
            "wrongly": trusted and off,
            "untold": bool(np.isinf(sd) and np.isfinite(row["sd"])),
            "needless": df >= 4 and not trusted,
            "gradients": certificate.gradients,
            "seconds": round(seconds, 2),
        }


def main() -> None:
    """Counts by kind and degrees of freedom."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="5")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--df", default=",".join(map(str, DF)))
    parser.add_argument("--store", type=Path, help="a CSV file of all quantities")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    seeds, dfs = map(int, options.seeds.split(",")), map(float, options.df.split(","))
    for kind, D, df, seed in itertools.product(
        options.kinds.split(","), DIMENSIONS, list(dfs), list(seeds)
    ):
        if D > 1 or kind in ("beside", "mixed"):
            rows += measure(kind, D, df, seed)
    found = pd.DataFrame(rows)
    if options.store is not None:
        found.to_csv(options.store, index=False)
    counts = ["trusted", "wrongly", "untold", "needless"]
    table = found.groupby(["kind", "df"])[counts].sum()
    table.insert(0, "quantities", found.groupby(["kind", "df"]).size())
    print(table.to_string())
    print({"quantities": len(found), **found[counts].sum().to_dict()})


if __name__ == "__main__":
    main()
