"""`lrvb mixed`: tables, figures and a page; one sentence and status 2 for what cannot be done."""

from __future__ import annotations

import re

import pandas as pd
import pytest

import lrvb
from lrvb.commands.cli import main
from mixed_fits import frame


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """The rows of the small models as a CSV file, one value missing in a column of its own."""
    data = frame().assign(gap=lambda d: d.x.where(d.obs != 4))
    path = tmp_path_factory.mktemp("data") / "visits.csv"
    data.to_csv(path, index=False)
    return path


def refused(capsys, *arguments):
    """What a command that cannot be carried out says, without a traceback or any output."""
    try:
        status = main(["mixed", *map(str, arguments)])
    except SystemExit as stop:
        status = stop.code
    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert "Traceback" not in said.err
    return said.err[said.err.rindex("lrvb: ") :]


def test_everything_is_written(table, tmp_path, capsys):
    out = tmp_path / "results"
    formula = "count ~ gap + (1 + x | g)"
    options = ["--family", "poisson", "--missing", "drop", "--out", str(out)]
    assert main(["mixed", formula, str(table), *options]) == 0
    said = capsys.readouterr()
    assert said.out == f"The page is at {(out / 'index.html').resolve()}\n"
    assert "Fitting" in said.err
    model = lrvb.MixedModel(formula, "poisson", missing="drop").fit(pd.read_csv(table))
    fixed = pd.read_csv(out / "fixed.csv", index_col="name")
    random = pd.read_csv(out / "random.csv", index_col="name")
    pd.testing.assert_frame_equal(
        pd.concat([fixed, random]), pd.DataFrame(model.summary()), check_names=False, rtol=1e-6
    )
    levels = pd.read_csv(out / "ranef.csv", index_col=["term", "level"])
    pd.testing.assert_frame_equal(levels, model.ranef(), rtol=1e-6)
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "1 dropped for missing values" in page
    assert len(re.findall("<img", page)) == len(list(out.glob("*.png"))) == 7
    assert not re.search(r"(src|href)=\"http", page)
    posterior = lrvb.load(out / "posterior.npz")
    assert posterior.local("1|g")["mean"].size == 12
    new = pd.DataFrame(
        {"gap": [0.1, 0.2], "x": [0.0, 1.0], "g": model.design_.factors[0].levels[:2]}
    )
    stored, ours = (m.predict(new)["mean"] for m in (lrvb.load(out / "model.npz"), model))
    # a file answers from draws whose means are those of the tables
    assert (stored / ours - 1).abs().max() < 0.05


def test_the_page_of_smooths(table, tmp_path):
    """A curve for every smooth, and what the columns do to the expected response."""
    out = tmp_path / "results"
    options = ["--family", "negbinomial", "--missing", "drop", "--out", str(out)]
    assert main(["mixed", "count ~ s(x, k=5) + (1|g)", str(table), *options]) == 0
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "What s(x) adds to the linear predictor" in page
    assert "What each column does to the expected response" in page
    assert {"smooth-0.png", "comparisons.png"} <= {path.name for path in out.glob("*.png")}


def test_it_works_without_options(table, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["mixed", "yes ~ x + (1|g)", str(table), "--family", "bernoulli"]) == 0
    assert (tmp_path / "visits-mixed" / "index.html").exists()


def test_the_page_of_a_check(table, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["mixed", "y ~ x + (1|g)", str(table), "--check"]) == 0
    found = pd.read_csv(tmp_path / "visits-mixed" / "check.csv", index_col="what")
    assert {"convergence", "priors", "levels", "predictive check"} <= set(found.index)
    page = (tmp_path / "visits-mixed" / "index.html").read_text(encoding="utf-8")
    assert "How far to believe it" in page


def test_a_regression_has_no_page_of_levels(table, monkeypatch, tmp_path, capsys):
    """Nor a table of standard deviations, where there are none."""
    monkeypatch.chdir(tmp_path)
    options = ["--family", "poisson", "--weights", "n"]
    assert main(["mixed", "count ~ x", str(table), *options]) == 0
    found = {path.name for path in (tmp_path / "visits-mixed").iterdir()}
    assert "fixed.csv" in found
    assert not {"random.csv", "ranef.csv"} & found


def test_help_fits_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stop:
        main(["mixed", "--help"])
    assert stop.value.code == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 100


def test_what_is_refused(table, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    good = "y ~ x + (1|g)"
    assert "does not exist" in refused(capsys, good, tmp_path / "none.csv")
    assert f"lrvb mixed '{good}' {table}" in refused(capsys, table, good)
    said = refused(capsys, good, table, "--family", "normal")
    assert "--family normal is not known; there are 'gaussian'" in said
    assert "Likelihood" not in said
    assert "--factorization full" in refused(capsys, good, table, "--factorization", "full")
    said = refused(capsys, good, table, "--missing", "skip")
    assert "--missing skip must be error or drop." in said
    assert "no column 'k'" in refused(capsys, "y ~ x + (1|k)", table)
    assert "no effects at all" in refused(capsys, "y ~ 0", table)
    assert "no column 'k'" in refused(capsys, good, table, "--weights", "k")
    said = refused(capsys, "y ~ gap + (1|g)", table)
    assert "missing values: column 'gap', row 4. Fill them in, or set --missing drop to" in said
    assert "is a file" in refused(capsys, good, table, "--out", table)
    assert "required: formula, data.csv" in refused(capsys)
    assert list(tmp_path.iterdir()) == []  # no folder is left behind
