"""Coverage of mixed models' intervals: parameters drawn from the priors, data from them, 94 % intervals.

    python benchmarks/mixed_coverage.py [STUDY ...] [--sets 200] [--figure]

Each data set has 24 groups of three to six rows, an intercept (ordered categories have none) and a
covariate, with the priors N(0, 1) of both, half-normal(1) of the sds and those of
`coverage_families.OWN`; a study such as "poisson (x|g)" has other effects beside. Under the same priors
an exact interval covers exactly 94 % on average. Data that a fit refuses (all counts zero, a share that
is 1 to double precision) give way to others, which is said: the data alone decide that, so that 94 %
stays right. Rows are added to `results/coverage.csv`, one for each quantity of each data set; what is
there is kept, so that the study may be stopped and taken up again. `--figure` draws them.
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
from coverage_families import OWN, response
from coverage_terms import effects_of

import lrvb
from lrvb.prior import Normal

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "results" / "coverage.csv"
FIGURE = ROOT / "docs" / "images" / "coverage.png"
TERMS = ("(x|g)", "(1|g) + (1|h)", "(1|g/h)")
#: a family with an effect of each group, or with other effects; a place in this list seeds the draws
STUDIES = (
    *OWN,
    *(f"{family} {terms}" for family in ("gaussian", "poisson", "bernoulli") for terms in TERMS),
)
LIKELIHOODS = {"cumulative": lrvb.likelihoods.Cumulative(order=[1, 2, 3, 4])}  # who misses none
Numbers = dict[str, float]
COLUMNS = ("family", "set", "quantity", "truth", "mean", "sd", "lower", "upper", "verdict")
PROB = 0.94


def main() -> None:
    """Add what is missing, or draw what is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("studies", nargs="*", metavar="study", help=", ".join(STUDIES))
    parser.add_argument("--sets", type=int, default=200, help="data sets of a family")
    parser.add_argument("--figure", action="store_true", help="draw the figure instead")
    options = parser.parse_args()
    if options.figure:
        return draw(pd.read_csv(TABLE))
    add_missing(TABLE, options.studies or STUDIES, options.sets, run)


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


def run(study: str, number: int) -> list[tuple[object, ...]]:
    """One data set: every quantity with its truth, posterior and interval."""
    rng = np.random.default_rng([number, STUDIES.index(study)])
    family, _, terms = study.partition(" ")
    terms = terms or "(1|g)"
    while True:
        data, truth, priors = simulate(family, terms, rng)
        y = "prop(y, n)" if family == "binomial" else "y"
        model = lrvb.MixedModel(f"{y} ~ x + {terms}", LIKELIHOODS.get(family, family), priors)
        try:
            table = model.fit(data).summary(PROB)
            break
        except lrvb.InvalidData as refused:
            print(f"{study} {number}: {refused}", flush=True)
    found = []
    for name, value in truth.items():
        row = table.loc[name]
        numbers = (value, row["mean"], row["sd"], row["lower"], row["upper"])
        found.append((study, number, name, *(f"{v:.6g}" for v in numbers), row["verdict"]))
    return found


def simulate(
    family: str, terms: str, rng: np.random.Generator
) -> tuple[pd.DataFrame, Numbers, dict[str, Any]]:
    """Data, the numbers they were made with, and their priors."""
    truth: Numbers = {"Intercept": rng.normal(), "x": rng.normal()}
    columns, eta, of_groups, priors = effects_of(terms, rng)
    priors = {"Intercept": Normal(0, 1), "x": Normal(0, 1), **priors}
    if family == "cumulative":  # whose prior is of thresholds where x is at its mean
        columns["x"] -= columns["x"].mean()
        del truth["Intercept"], priors["Intercept"]
    eta = eta + truth.get("Intercept", 0.0) + truth["x"] * columns["x"]
    own = {name: draw(rng) for name, (_, draw) in OWN[family].items()}
    priors |= {name: prior for name, (prior, _) in OWN[family].items()}
    truth |= of_groups
    for name, value in own.items():
        several = {f"{name}[{k}]": v for k, v in enumerate(np.atleast_1d(value), 1)}
        truth |= {name: float(value)} if np.ndim(value) == 0 else several
    return pd.DataFrame({**response(family, rng, eta, own), **columns}), truth, priors


def covered(table: pd.DataFrame) -> pd.DataFrame:
    """Share of intervals that hold the truth, and the number of data sets, by family and quantity."""
    inside = (table["lower"] <= table["truth"]) & (table["truth"] <= table["upper"])
    return inside.groupby([table["family"], table["quantity"]]).agg(["mean", "size"])


def kind_of(quantity: str) -> str:
    """What a point of the figure is."""
    if quantity in ("Intercept", "x"):
        return "fixed effects"
    return "sds, correlations" if quantity.startswith(("sd[", "corr[")) else "the family's own"


def draw(table: pd.DataFrame) -> None:
    """Coverage of every quantity, a line a study, with what chance alone leaves around 94 %."""
    import matplotlib.pyplot as plt

    shares = covered(table)
    print(shares.round(3).to_string())
    studies = [study for study in STUDIES if study in set(table["family"])]
    inside = (table["lower"] <= table["truth"]) & (table["truth"] <= table["upper"])
    print(f"{inside.mean():.4f} of {len(table)}, verdicts {dict(table['verdict'].value_counts())}")
    figure, axes = plt.subplots(figsize=(6.4, 0.27 * len(studies) + 1.2), layout="constrained")
    place = np.arange(len(studies))[::-1]
    sets = table.groupby("family")["set"].nunique()[studies].to_numpy()
    chance = 2 * np.sqrt(PROB * (1 - PROB) / sets)
    axes.barh(
        place,
        2 * chance,
        left=PROB - chance,
        height=0.6,
        color="0.9",
        label="94 %, two standard errors",
    )
    axes.axvline(PROB, color="0.6", linewidth=1)
    for colour, kind in enumerate(("fixed effects", "sds, correlations", "the family's own")):
        here = [(s, q) for s, q in shares.index if s in studies and kind_of(q) == kind]
        at = [place[studies.index(study)] for study, _ in here]
        values = shares["mean"].loc[here]
        axes.plot(values, at, "o", color=f"C{colour}", alpha=0.7, markersize=5, label=kind)
    axes.set_yticks(place, studies)
    axes.set_xlim(0.86, 1.0)
    axes.set_xlabel("share of 94 % intervals that hold the truth")
    axes.legend(
        loc="lower left", bbox_to_anchor=(-0.45, 1), ncols=2, frameon=False, fontsize="small"
    )
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    main()
