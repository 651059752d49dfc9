"""What the documentation claims of mixed models, against the stored NUTS runs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "benchmarks"))

from mixed_accuracy import TITLES, compare, kind_of, markdown  # noqa: E402
from mixed_cases import CASES  # noqa: E402


@pytest.mark.parametrize("name", TITLES)
def test_blocked_agrees_with_nuts(name):
    """Sds of coefficients, effects and log precisions within 5 %, means within 0.2 sd.

    The exception: the log precision of zeros and ones in groups of two to five rows, 1.07.
    """
    truth = pd.read_csv(ROOT / "results" / "mixed_truth.csv")
    exact = truth[truth["case"] == name].set_index("quantity")
    table = compare(name, CASES[name](), "blocked", exact)
    assert len(table) == len(exact)
    main = table[table["kind"].isin(["fixed effects", "random effects", "log precisions", "sds"])]
    hard = (name == "bernoulli_small") & (main["kind"] == "log precisions")
    assert (np.abs(main["sd_ratio"] - 1) < np.where(hard, 0.08, 0.05)).all()
    assert (main["bias"].abs() < 0.2).all()
    rest = table[table["kind"].isin(["precisions", "correlations"])]
    assert rest["sd_ratio"].between(0.9, 1.05).all()
    assert (rest["bias"].abs() < 0.22).all()


def test_the_page_has_the_stored_numbers():
    """The table of docs/trust.md is made from results/mixed_accuracy.csv."""
    stored = pd.read_csv(ROOT / "results" / "mixed_accuracy.csv")
    assert markdown(stored) in (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")


def test_kinds_of_quantities():
    kinds = {
        "Intercept": "fixed effects",
        "c[b]": "fixed effects",
        "log(precision[1|g])": "log precisions",
        "logdet(Lambda[g])": "log precisions",
        "Lambda[g][1,x]": "precisions",
        "sd[1|g]": "sds",
        "corr[g][1,x]": "correlations",
        "1|g[g00]": "random effects",
    }
    assert {name: kind_of(name) for name in kinds} == kinds
