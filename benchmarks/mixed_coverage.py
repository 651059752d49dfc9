"""Coverage of mixed models' intervals: parameters drawn from the priors, data from them, 94 % intervals.

    python benchmarks/mixed_coverage.py [FAMILY ...] [--sets 200] [--figure]

Each data set has 24 groups of three to six rows, an intercept and a covariate, with the priors N(0, 1)
of both and half-normal(1) of the sds. Under the same priors an exact interval covers exactly 94 % on
average. Rows are added to `results/coverage.csv`, one for each quantity of each data set; what is there
is kept, so that the study may be stopped and taken up again. `--figure` draws them.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import lrvb
from lrvb.prior import HalfNormal, Normal

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "results" / "coverage.csv"
FIGURE = ROOT / "docs" / "images" / "coverage.png"
FAMILIES = ("gaussian", "poisson", "bernoulli")
COLUMNS = ("family", "set", "quantity", "truth", "mean", "sd", "lower", "upper", "verdict")
GROUPS, PROB = 24, 0.94


def main() -> None:
    """Add what is missing, or draw what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="family", help=", ".join(FAMILIES))
    parser.add_argument("--sets", type=int, default=200, help="data sets of a family")
    parser.add_argument("--figure", action="store_true", help="draw the figure instead")
    options = parser.parse_args()
    if options.figure:
        return draw(pd.read_csv(TABLE))
    add_missing(TABLE, options.families or FAMILIES, options.sets, run)


def add_missing(
    path: Path, families: Iterable[str], sets: int, run: Callable[[str, int], Iterable[Any]]
) -> None:
    """Append to a table of `COLUMNS` the rows of each data set that it does not have yet."""
    warnings.simplefilter("ignore")
    done: set[tuple[str, int]] = set()
    if path.exists():
        table = pd.read_csv(path)
        done = set(zip(table["family"], table["set"], strict=True))
    else:
        path.write_text(",".join(COLUMNS) + "\n")
    for number in range(sets):
        for family in families:
            if (family, number) not in done:
                with path.open("a", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerows(run(family, number))


def run(family: str, number: int) -> list[tuple[object, ...]]:
    """One data set: every quantity with its truth, posterior and interval."""
    rng = np.random.default_rng([number, FAMILIES.index(family)])
    truth = {"Intercept": rng.normal(), "x": rng.normal(), "sd[1|g]": abs(rng.normal())}
    priors = {"Intercept": Normal(0, 1), "x": Normal(0, 1), "sd[1|g]": HalfNormal(1)}
    g = np.repeat(np.arange(GROUPS), rng.integers(3, 7, GROUPS))
    x = rng.normal(size=len(g))
    eta = truth["Intercept"] + truth["x"] * x + truth["sd[1|g]"] * rng.normal(size=GROUPS)[g]
    if family == "gaussian":
        truth["sd[residual]"], priors["sd[residual]"] = abs(rng.normal()), HalfNormal(1)
        y = eta + truth["sd[residual]"] * rng.normal(size=len(g))
    elif family == "poisson":
        y = rng.poisson(np.exp(eta))
    else:
        y = rng.binomial(1, 1 / (1 + np.exp(-eta)))
    data = pd.DataFrame({"y": y, "x": x, "g": g})
    table = lrvb.MixedModel("y ~ x + (1|g)", family=family, priors=priors).fit(data).summary(PROB)
    found = []
    for name, value in truth.items():
        row = table.loc[name]
        numbers = (value, row["mean"], row["sd"], row["lower"], row["upper"])
        found.append((family, number, name, *(f"{v:.6g}" for v in numbers), row["verdict"]))
    return found


def covered(table: pd.DataFrame) -> pd.DataFrame:
    """Share of intervals that hold the truth, and the number of data sets, by family and quantity."""
    inside = (table["lower"] <= table["truth"]) & (table["truth"] <= table["upper"])
    return inside.groupby([table["family"], table["quantity"]]).agg(["mean", "size"])


def draw(table: pd.DataFrame) -> None:
    """Coverage of every quantity, with what chance alone leaves around 94 %."""
    import matplotlib.pyplot as plt

    shares = covered(table)
    print(shares.to_string())
    labels = [f"{family}: {quantity}" for family, quantity in shares.index]
    low, high = (PROB + side * 2 * np.sqrt(PROB * (1 - PROB) / shares["size"]) for side in (-1, 1))
    figure, axes = plt.subplots(figsize=(6.4, 0.32 * len(labels) + 1.0), layout="constrained")
    place = np.arange(len(labels))[::-1]
    axes.barh(
        place, high - low, left=low, height=0.6, color="0.9", label="94 %, two standard errors"
    )
    axes.axvline(PROB, color="0.6", linewidth=1)
    axes.plot(shares["mean"], place, "o", color="C0", label="covered")
    axes.set_yticks(place, labels)
    axes.set_xlim(0.86, 1.0)
    axes.set_xlabel("share of 94 % intervals that hold the truth")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
