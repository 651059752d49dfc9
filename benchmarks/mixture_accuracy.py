"""Accuracy of the mixture: linear-response sds against long Gibbs runs with the same flat priors.

    python benchmarks/mixture_accuracy.py [--sets 10] [--rows 10000] [--ess 5000] [--out FILE]

Each data set is the paper's (sec:normal_mixture_model); the chain runs until its slowest quantity
has the effective sample size asked for. Rows are added to results/mixture_accuracy.csv as they are
found, so a run that is stopped keeps what it has. The defaults take about a quarter of an hour on one core;
`--ess 1000` takes a fifth of that.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

import lrvb
from lrvb.reference import MixtureDraws, mixture_gibbs, simulate

FLAT = {
    "mean_precision_prior": 0,
    "wishart_dof_prior": 3,
    "wishart_scale_prior": np.inf,
    "weight_concentration_prior": 0,
}


def main() -> None:
    """Compare, write and print a summary by quantity."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=10, help="data sets")
    parser.add_argument("--rows", type=int, default=10_000, help="rows of each")
    parser.add_argument("--ess", type=int, default=5_000, help="least effective sample size")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first data set")
    parser.add_argument("--out", type=Path, default=Path("results/mixture_accuracy.csv"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    tables = []
    for seed in range(options.seed, options.seed + options.sets):
        tables.append(compare(seed, options.rows, options.ess))
        pd.concat(tables).to_csv(options.out, index=False, float_format="%.6g")
        done = tables[-1]
        worst = np.abs(np.log(done["lrvb_ratio"])).max()
        print(
            f"data set {seed}: {done['sweeps'].iloc[0]} sweeps in {done['gibbs_seconds'].iloc[0]:.0f} s, "
            f"worst |log ratio| {worst:.3f} ({np.abs(np.log(done['mfvb_ratio'])).max():.2f} mean field)",
            flush=True,
        )
    table = pd.concat(tables)
    by_quantity = table.groupby("quantity", sort=False)
    summary = pd.DataFrame(
        {
            "lrvb mean": by_quantity["lrvb_ratio"].mean(),
            "lrvb min": by_quantity["lrvb_ratio"].min(),
            "lrvb max": by_quantity["lrvb_ratio"].max(),
            "mfvb mean": by_quantity["mfvb_ratio"].mean(),
            "worst corr gap": by_quantity["corr_gap"].max(),
            "worst bias": by_quantity["bias"].agg(lambda b: b.abs().max()),
            "ess": by_quantity["ess"].min(),
        }
    )
    print(f"\nposterior sd ÷ Gibbs sd, and bias of the mean in sds\n{summary.round(3).to_string()}")
    print(f"\nWritten to {options.out}")


def compare(seed: int, n: int, least: int) -> pd.DataFrame:
    """One data set: a row for each quantity."""
    data = simulate.gaussian_mixture(np.random.default_rng(seed), n=n)
    began = time.perf_counter()
    fitted = lrvb.GaussianMixture(2, init=np.eye(2)[data["z"]], **FLAT).fit(data["X"])
    seconds = time.perf_counter() - began
    draws = long_enough(seed, data["X"], data["z"], least)
    exact = draws.summary()
    posterior, names = fitted.posterior_, list(exact.index)
    corr_gap = np.abs(
        posterior.corr(names).to_numpy() - draws.scalars[names].corr().to_numpy()
    ).max(axis=1)
    lrvb_sd, mfvb_sd = posterior.sd(names), posterior.sd(names, method="mfvb")
    return pd.DataFrame(
        {
            "seed": seed,
            "rows": n,
            "quantity": names,
            "gibbs_mean": exact["mean"].to_numpy(),
            "gibbs_sd": exact["sd"].to_numpy(),
            "ess": exact["ess"].to_numpy(),
            "sd_error": (exact["sd_error"] / exact["sd"]).to_numpy(),
            "lrvb_ratio": (lrvb_sd / exact["sd"]).to_numpy(),
            "mfvb_ratio": (mfvb_sd / exact["sd"]).to_numpy(),
            "corr_gap": corr_gap,
            "bias": ((posterior.mean(names) - exact["mean"]) / exact["sd"]).to_numpy(),
            "sweeps": draws.sweeps,
            "gibbs_seconds": draws.seconds,
            "lrvb_seconds": seconds,
        }
    )


def long_enough(seed: int, X: np.ndarray, z: np.ndarray, least: int) -> MixtureDraws:
    """A chain whose slowest quantity has the effective sample size asked for."""
    count = 2000
    while True:
        draws = mixture_gibbs.sample(
            np.random.default_rng([seed, 1]), X, z, draws=count, burn_in=500
        )
        found = float(draws.ess.min())
        if found >= least:
            return draws
        count = int(count * max(1.15 * least / found, 1.2))


if __name__ == "__main__":
    main()
