"""What the documentation claims of mixed models, against the stored NUTS runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from numpy.testing import assert_allclose

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "benchmarks"))

from mixed_accuracy import FACTORIZATIONS, TITLES, compare, kind_of, markdown  # noqa: E402
from mixed_cases import CASES  # noqa: E402


def stored_numbers() -> pd.DataFrame:
    """The table that benchmarks/mixed_accuracy.py has written."""
    return pd.read_csv(ROOT / "results" / "mixed_accuracy.csv")


@pytest.mark.parametrize("name", TITLES)
def test_the_stored_numbers_are_those_of_the_code(name):
    """Every factorisation, fitted again: every ratio and bias to the digits that are stored."""
    truth = pd.read_csv(ROOT / "results" / "mixed_truth.csv")
    exact = truth[truth["case"] == name].set_index("quantity")
    stored = stored_numbers()
    for factorization in FACTORIZATIONS:
        table = compare(name, CASES[name](), factorization, exact)
        assert set(table["quantity"]) == set(exact.index)
        kept = stored[(stored["case"] == name) & (stored["factorization"] == factorization)]
        numbers = ["sd_ratio", "mfvb_ratio", "bias"]
        assert list(table["quantity"]) == list(kept["quantity"])
        assert_allclose(table[numbers], kept[numbers], rtol=1e-5, atol=1e-6)


def test_the_page_says_what_the_numbers_say():
    """The sentences of docs/trust.md about the default, and about the variational block.

    "Within 2 %" is meant of the exact sd: two standard errors of NUTS' own sd are added. A number
    with two digits is met to its rounding, ±0.005.
    """
    table = stored_numbers()
    default = table[table["factorization"] == "blocked"]
    fallback = default["case"] == "poisson_nested"
    integrated = default[~fallback]
    assert ((integrated["sd_ratio"] - 1).abs() < 0.02 + 2 * integrated["sd_error"]).all()
    assert (integrated["bias"].abs() < 0.025).all()
    mended = default[fallback]
    assert ((mended["sd_ratio"] - 1).abs() < 0.03 + 2 * mended["sd_error"]).all()
    assert (mended["bias"].abs() < 0.045).all()
    block = table[table["factorization"] == "variational"]
    hard = block[block["case"] == "bernoulli_small"].set_index("kind")
    for kind, ratio in {"precisions": 0.91, "log precisions": 1.07}.items():
        assert abs(hard.loc[kind, "sd_ratio"] - ratio) < 0.005
    for kind, bias in {"precisions": 0.21, "sds": 0.12}.items():
        assert abs(abs(hard.loc[kind, "bias"]) - bias) < 0.005


def test_the_page_has_the_stored_numbers():
    """The table of docs/trust.md is made from results/mixed_accuracy.csv."""
    assert markdown(stored_numbers()) in (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")


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
