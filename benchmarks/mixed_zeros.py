"""Counts with many zeros: whether intervals cover the truth, and `compare` finds the data's own model.

    python benchmarks/mixed_zeros.py [--sets 17] [--table]

Each data set is like the calls of owl nestlings: about 600 rows in 27 nests of uneven size, two conditions
of food, an hour and a brood's size as offset. Its true numbers are drawn around those of the owls; the counts
are zero-inflated Poisson, zero-inflated negative binomial or negative binomial by turns. All three models are
fitted with default priors: the 94 % intervals of the true one are looked at, and `lrvb.compare` ranks the
three. Rows are added to `results/mixed_zeros.csv`; what is there is kept. `--table` prints the tables of
`docs/likelihoods.md`.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
from mixed_coverage import add_missing

import lrvb

TABLE = Path(__file__).resolve().parents[1] / "results" / "mixed_zeros.csv"
FAMILIES = ("zero_inflated_poisson", "zero_inflated_negbinomial", "negbinomial")
FORMULA = "calls ~ food + hour + offset(log_brood) + (1|nest)"
NESTS, PROB = 27, 0.94


def main() -> None:
    """Add what is missing, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=17, help="data sets of a family")
    parser.add_argument("--table", action="store_true", help="print the tables instead")
    options = parser.parse_args()
    if options.table:
        return show(pd.read_csv(TABLE))
    add_missing(TABLE, FAMILIES, options.sets, run)


def simulate(family: str, number: int) -> tuple[pd.DataFrame, dict[str, float]]:
    """One data set, and the numbers it was made with."""
    rng = np.random.default_rng([number, FAMILIES.index(family)])
    nest = np.repeat(np.arange(NESTS), rng.integers(6, 39, NESTS))
    n = len(nest)
    table = pd.DataFrame(
        {
            "nest": nest,
            "food": rng.integers(0, 2, n),
            "hour": rng.normal(size=n),
            "log_brood": np.log(rng.integers(1, 8, NESTS))[nest],
        }
    )
    truth = {
        "Intercept": rng.normal(0.5, 0.2),
        "food": rng.normal(-0.3, 0.2),
        "hour": rng.normal(-0.1, 0.1),
        "sd[1|nest]": rng.uniform(0.2, 0.6),
    }
    effects = truth["sd[1|nest]"] * rng.normal(size=NESTS)
    eta = truth["Intercept"] + truth["food"] * table["food"] + truth["hour"] * table["hour"]
    rate = np.exp(eta + table["log_brood"] + effects[nest]).to_numpy()
    if "negbinomial" in family:
        low, high = (1.5, 4.0) if "zero" in family else (0.6, 1.5)
        truth["shape"] = rng.uniform(low, high)
        rate = rate * rng.gamma(truth["shape"], 1 / truth["shape"], n)
    calls = rng.poisson(rate)
    if "zero" in family:
        truth["zi"] = rng.uniform(0.15, 0.35)
        calls = np.where(rng.uniform(size=n) < truth["zi"], 0, calls)
    return table.assign(calls=calls), truth


def run(family: str, number: int) -> list[tuple[object, ...]]:
    """Every quantity of the true model, the rank of that model, and what it took."""
    start = time.process_time()
    data, truth = simulate(family, number)
    models = {name: lrvb.MixedModel(FORMULA, name).fit(data) for name in FAMILIES}
    table = models[family].summary(PROB)
    found: list[tuple[object, ...]] = []
    for name, value in truth.items():
        row = table.loc[name]
        numbers = (value, row["mean"], row["sd"], row["lower"], row["upper"])
        found.append((family, number, name, *(f"{v:.6g}" for v in numbers), row["verdict"]))
    ranked = lrvb.compare(models)
    for place, (name, row) in enumerate(ranked.iterrows(), start=1):
        numbers = (row["difference"], row["se"], row["log_evidence"])
        found.append(
            (family, number, f"rank of {name}", place, *(f"{v:.6g}" for v in numbers), "", "")
        )
    found.append((family, number, "seconds", f"{time.process_time() - start:.3g}", *[""] * 5))
    return found


def show(table: pd.DataFrame) -> None:
    """Coverage by family and quantity, then how the three models were ranked."""
    ranks = table["quantity"].str.startswith("rank of ")
    numbers = table[~ranks & (table["quantity"] != "seconds")]
    inside = (numbers["lower"] <= numbers["truth"]) & (numbers["truth"] <= numbers["upper"])
    away = (numbers["mean"] - numbers["truth"]) / numbers["sd"]
    for by in (numbers["family"], numbers["quantity"]):
        shown = pd.DataFrame(
            {
                "intervals": inside.groupby(by, sort=False).size(),
                "covered": inside.groupby(by, sort=False).mean(),
                "bias in sds": away.groupby(by, sort=False).mean(),
                "spread in sds": away.groupby(by, sort=False).std(),
            }
        )
        print(shown.round(2).to_string())
    print(
        f"all: {inside.mean():.3f} of {len(inside)}; {(numbers['verdict'] == 'trust').mean():.1%} trusted"
    )
    ranked = table[ranks].assign(model=lambda t: t["quantity"].str.removeprefix("rank of "))
    first = ranked[ranked["truth"] == 1]
    print(pd.crosstab(first["family"], first["model"]).to_string())
    own = ranked[(ranked["family"] == ranked["model"]) & (ranked["truth"] > 1)]
    print("not first:", own[["family", "set", "truth", "mean", "sd"]].to_string())
    print("processor seconds:", table.loc[table["quantity"] == "seconds", "truth"].sum())


if __name__ == "__main__":
    main()
