"""MNIST 0 against 1: sds of every Λ, μ and log π against our Gibbs sampler, both readings.

    OPENBLAS_NUM_THREADS=1 python benchmarks/mnist.py [--draws 20000]

Writes results/mnist.csv and prints a summary.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from lrvb.experiments import mnist
from lrvb.reference import mixture_gibbs

RESULTS = Path(__file__).resolve().parents[1] / "results"


def main() -> None:
    """Fit, sample, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=20_000)
    options = parser.parse_args()
    tables = []
    for reading in ("int8", "uint8"):
        digits = mnist.load(reading)
        begin = time.perf_counter()
        mixture = mnist.fit(digits)
        seconds = time.perf_counter() - begin
        chain = mixture_gibbs.sample(
            np.random.default_rng(1), digits.X, digits.labels, draws=options.draws, burn_in=500
        )
        posterior, summary = mixture.posterior_, chain.summary()
        names = [n for n in posterior.names if n in summary.index]
        table = pd.DataFrame(
            {
                "reading": reading,
                "kind": [n.partition("[")[0] for n in names],
                "lrvb": posterior.sd(names) / summary.loc[names, "sd"],
                "mfvb": posterior.sd(names, method="mfvb") / summary.loc[names, "sd"],
                "bias": (posterior.mean(names) - summary.loc[names, "mean"])
                / summary.loc[names, "sd"],
                "ess": summary.loc[names, "ess"],
            }
        )
        tables.append(table)
        print(
            f"{reading}: test accuracy {mnist.accuracy(mixture, digits):.4f}; fit and linear response "
            f"{seconds:.1f} s with compilation; {options.draws} Gibbs draws {chain.seconds:.0f} s"
        )
    result = pd.concat(tables)
    RESULTS.mkdir(exist_ok=True)
    result.round(5).to_csv(RESULTS / "mnist.csv", index_label="quantity")
    shown = result.groupby(["reading", "kind"], sort=False)[["lrvb", "mfvb", "ess"]]
    print(shown.agg(["mean", "min", "max"]).round(3).to_string())


if __name__ == "__main__":
    main()
