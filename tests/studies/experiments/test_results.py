"""The committed results of the full run: complete, and saying what the documentation says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lrvb.studies.experiments.catalog import NAMES, named
from lrvb.studies.experiments.regression_findings import error
from lrvb.studies.experiments.store import read_table

ROOT = Path(__file__).resolve().parents[3]
TABLES, FIGURES = ROOT / "results" / "tables", ROOT / "results" / "figures"


def stored(name):
    """An experiment with its committed tables and their provenance."""
    provenance = json.loads((TABLES / f"{name}.json").read_text(encoding="utf-8"))
    tables = {table: read_table(TABLES / f"{name}_{table}.csv") for table in provenance["tables"]}
    return named(name), tables, provenance


@pytest.mark.parametrize("name", NAMES)
def test_the_full_run_is_there(name):
    """Every table and figure of today's full settings, with the command and commit that made them."""
    experiment, _, provenance = stored(name)
    assert not provenance["quick"]
    assert provenance["settings"] == json.loads(json.dumps(dict(experiment.settings(False))))
    assert provenance["command"].startswith("lrvb reproduce")
    assert re.fullmatch(r"[0-9a-f]{7,40}", provenance["commit"])
    for figure in experiment.figures:
        assert (FIGURES / f"{name}-{figure.name}.png").stat().st_size > 10_000


@pytest.mark.parametrize("name", NAMES)
def test_every_check_of_the_full_run_holds(name):
    """The requirements on medians, ratios, errors and slopes, from the tables alone."""
    experiment, tables, provenance = stored(name)
    findings = experiment.findings(tables, provenance["settings"])
    assert all(findings.checks.values()), findings.checks
    corrected = {"normal-poisson", "random-slope", "mnist"}
    assert findings.verdict == ("corrected" if name in corrected else "reproduced")


def test_the_stored_mixture_has_its_certified_series():
    """Certificates of every parameter of every data set, none with weights that have no average."""
    experiment, tables, provenance = stored("mixture")
    keys = ["data set", "quantity"]
    assert tables["certified"][keys].equals(tables["globals"][keys])
    assert tables["certified"]["k_hat"].max() < 0.6
    assert "k-hat" in experiment.findings(tables, provenance["settings"]).reason


def test_the_accuracy_table_is_made_of_the_results():
    """docs/accuracy.md, row by row."""
    assert accuracy_table() in (ROOT / "docs" / "accuracy.md").read_text(encoding="utf-8")


def accuracy_table():
    """Errors of all sds with matched priors, median (worst), as Markdown."""
    lines = ["| Model | Quantity | Linear response | Second order | Certified | Mean field |"]
    lines += ["| --- | --- | --- | --- | --- | --- |"]
    for name in ("normal-poisson", "random-slope"):
        _, tables, _ = stored(name)
        for model in tables["globals"]["model"].unique()[::-1]:
            quantities = [*tables["globals"]["quantity"].unique(), "z"]
            for quantity in quantities:
                cells = []
                for method in ("LRVB", "second order", "certified", "MFVB"):
                    found = error(tables, method, quantity, model, "matched")
                    known = found.median == found.median
                    cells.append(f"{found.median:.4f} ({found.worst:.3f})" if known else "–")
                title = "random slope" if name == "random-slope" else f"normal–Poisson, {model}"
                lines.append(f"| {title} | {quantity} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(accuracy_table())
