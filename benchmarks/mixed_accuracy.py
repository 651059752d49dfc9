"""Accuracy of mixed models: every factorisation against the stored NUTS runs of six cases.

    python benchmarks/mixed_accuracy.py [--out FILE]

Compares what `results/mixed_truth.csv` has (`mixed_truth.py` makes it) with fits under the same priors,
writes a row for each quantity to results/mixed_accuracy.csv, and prints the table of docs/trust.md.
A few seconds.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import numpy as np
import pandas as pd
from mixed_cases import CASES, MixedCase

import lrvb

ROOT = Path(__file__).resolve().parents[1]
FACTORIZATIONS = ("blocked", "variational", "mean_field")
TITLES = {
    "gaussian_slopes": "gaussian, correlated slopes, 40 groups × 8",
    "gaussian_crossed": "gaussian, 30 and 20 crossed groups, 400 rows",
    "poisson_slopes": "Poisson, correlated slopes, 50 groups × 10",
    "poisson_nested": "Poisson, 48 groups in 12, row effects, 288 rows",
    "binomial": "binomial, 25 groups × 4",
    "bernoulli_small": "Bernoulli, 60 groups of 2 to 5 rows",
}
KINDS = ("fixed effects", "log precisions", "precisions", "sds", "correlations", "random effects")


def main() -> None:
    """Compare, write and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mixed_accuracy.csv")
    options = parser.parse_args()
    truth = pd.read_csv(ROOT / "results" / "mixed_truth.csv")
    tables = []
    for name in TITLES:
        case, exact = CASES[name](), truth[truth["case"] == name].set_index("quantity")
        tables += [compare(name, case, factorization, exact) for factorization in FACTORIZATIONS]
    table = pd.concat(tables, ignore_index=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out, index=False, float_format="%.6g")
    print(markdown(table))
    print(f"\nWritten to {options.out}")


def compare(name: str, case: MixedCase, factorization: str, exact: pd.DataFrame) -> pd.DataFrame:
    """A row for each quantity: ratios of sds to those of NUTS, bias of the mean in sds."""
    model = lrvb.MixedModel(case.formula, case.family, stated(case), factorization).fit(case.data)
    found = pd.concat([model.posterior_.summary(), pd.DataFrame(model.summary()), _levels(model)])
    found = found[~found.index.duplicated()]
    shared = [quantity for quantity in exact.index if quantity in found.index]
    ours, theirs = found.loc[shared], exact.loc[shared]
    return pd.DataFrame(
        {
            "case": name,
            "factorization": factorization,
            "quantity": shared,
            "kind": [kind_of(quantity) for quantity in shared],
            "sd_ratio": (ours["sd"] / theirs["sd"]).to_numpy(),
            "mfvb_ratio": (ours["mfvb_sd"] / theirs["sd"]).to_numpy(),
            "bias": ((ours["mean"] - theirs["mean"]) / theirs["sd"]).to_numpy(),
            "sd_error": theirs["sd_error"].to_numpy(),
        }
    )


def stated(case: MixedCase) -> dict[str, object]:
    """A case's priors as the estimator takes them."""
    return {
        key: getattr(lrvb.prior, kind)(*(np.array(a) if isinstance(a, list) else a for a in rest))
        for key, (kind, *rest) in case.priors.items()
    }


def kind_of(quantity: str) -> str:
    """What a quantity is, by its name."""
    patterns = {
        r"log(det)?\(": "log precisions",
        r"(precision|Lambda)\[": "precisions",
        r"sd\[": "sds",
        r"corr\[": "correlations",
        r".*\|.*\[": "random effects",
    }
    return next((k for p, k in patterns.items() if re.match(p, quantity)), "fixed effects")


def markdown(table: pd.DataFrame) -> str:
    """By case and kind: the range of the sd ratios and the worst bias, for every factorisation."""
    head = "| Model | Quantity | Blocked: sd | Bias | Variational: sd | Bias "
    head += "| Mean field: sd | Bias | Mean field, uncorrected sd |"
    lines = [head, "|" + " --- |" * 9]
    for name, title in TITLES.items():
        for kind in KINDS:
            cells = []
            for factorization in FACTORIZATIONS:
                chosen = (table["case"] == name) & (table["kind"] == kind)
                part = table[chosen & (table["factorization"] == factorization)]
                if len(part):
                    cells += [_range(part["sd_ratio"]), f"{part['bias'].abs().max():.2f}"]
            if cells:
                plain = table[chosen & (table["factorization"] == "mean_field")]["mfvb_ratio"]
                lines.append(f"| {title} | {kind} | {' | '.join(cells)} | {_range(plain)} |")
                title = ""
    return "\n".join(lines)


def _range(values: pd.Series) -> str:
    low, high = f"{values.min():.2f}", f"{values.max():.2f}"
    return low if low == high else f"{low}–{high}"


def _levels(model: lrvb.MixedModel) -> pd.DataFrame:
    """Random effects under the names of the stored runs, `1|g[g00]`."""
    table = model.ranef()
    return table.set_axis([f"{term}[{level}]" for term, level in table.index])


if __name__ == "__main__":
    main()
