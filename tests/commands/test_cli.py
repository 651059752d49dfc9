"""The command line: good input gives files, bad input one sentence and status 2."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.commands.cli import main
from lrvb.commands.csv_files import chosen_columns, read_csv


def refused(capsys, *arguments):
    """What a command that cannot be carried out says: one line, no traceback."""
    try:
        status = main([str(a) for a in arguments])
    except SystemExit as stop:
        status = stop.code
    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("lrvb: ")
    return said.err.removeprefix("lrvb: ").rstrip("\n")


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """A CSV file with two clusters in three numeric columns, and a column of names."""
    rng = np.random.default_rng(3)
    X = np.concatenate([rng.normal(size=(60, 3)), 4 + rng.normal(size=(50, 3))])
    table = pd.DataFrame(X, columns=["height", "weight", "age"])
    path = tmp_path_factory.mktemp("data") / "people.csv"
    table.assign(name="somebody").to_csv(path, index=False)
    return path


# ---- help and version ----------------------------------------------------------------------


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"lrvb {lrvb.__version__}\n"


@pytest.mark.parametrize("command", [[], ["reproduce"], ["mixture"]])
def test_help_fits_a_terminal(capsys, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    assert len(lines) > 8


def test_help_names_every_experiment(capsys):
    from lrvb.studies.experiments.catalog import NAMES

    with pytest.raises(SystemExit):
        main(["reproduce", "--help"])
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in NAMES)


# ---- what is refused -----------------------------------------------------------------------


def test_unknown_words(capsys):
    assert refused(capsys) == "the following arguments are required: command; see lrvb --help."
    assert refused(capsys, "reproduce", "--jobs", "two") == (
        "argument --jobs: 'two' is not a whole number; see lrvb reproduce --help."
    )


def test_unknown_experiment(capsys):
    assert refused(capsys, "reproduce", "mixtures") == (
        "There is no experiment 'mixtures'; did you mean 'mixture'?"
    )
    assert refused(capsys, "reproduce", "sparsity", "Normal_Poisson") == (
        "There is no experiment 'Normal_Poisson'; did you mean 'normal-poisson'?"
    )
    assert refused(capsys, "reproduce", "xyz") == (
        "There is no experiment 'xyz'; choose from normal-poisson, random-slope, mixture, mnist, "
        "scaling, exactness, sparsity."
    )


def test_jobs_and_seed(capsys):
    assert refused(capsys, "reproduce", "--jobs", "0") == "--jobs must be 1 or more, not 0."
    assert refused(capsys, "reproduce", "--seed=-1") == "--seed must be 0 or more, not -1."


def test_out_is_a_file(capsys, tmp_path):
    path = tmp_path / "taken"
    path.write_text("mine")
    assert refused(capsys, "reproduce", "--out", path) == (
        f"--out {path} is a file; give the name of a folder."
    )
    assert path.read_text() == "mine"


def test_unwritable_folder(capsys):
    """/proc is a folder in which nobody can make another."""
    assert refused(capsys, "reproduce", "--out", "/proc/nothing") == (
        "The folder /proc/nothing cannot be written to (No such file or directory); choose another "
        "with --out."
    )


def test_missing_matplotlib(tmp_path):
    """Without it, one sentence before any work; --version and --help need none."""
    code = (
        "import sys\n"
        "from importlib.machinery import PathFinder\n"
        "find = PathFinder.find_spec\n"
        "PathFinder.find_spec = classmethod(lambda cls, name, *rest: "
        "None if name.startswith('matplotlib') else find(name, *rest))\n"
        "from lrvb.commands.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "reproduce", "sparsity", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "lrvb: The figures need Matplotlib, which is not installed: pip install 'lrvb[plot]'.\n"
    )
    assert not (tmp_path / "out").exists()


def test_full_disk(tmp_path):
    """A file that may not grow, as on a full disk: one sentence, nothing half-written."""

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-m", "lrvb", "reproduce", "sparsity", "--quick", "--out", str(out)],
        capture_output=True,
        text=True,
        preexec_fn=small_files,
        env=os.environ | {"LRVB_CACHE_DIR": "off"},
    )
    assert done.returncode == 2
    last = done.stderr.splitlines()[-1]
    assert last.startswith("lrvb: The disk is full")
    assert last.endswith("make room, and the same command goes on from there.")
    assert "Traceback" not in done.stderr
    assert not [p for p in out.rglob("*") if p.is_file()]


# ---- lrvb mixture --------------------------------------------------------------------------


def test_mixture(people, tmp_path, capsys):
    """Tables that agree with the estimator, figures, the posterior and a page."""
    out = tmp_path / "out"
    arguments = ["mixture", people, "--components", 2, "--out", out, "--columns", "height,age"]
    assert main([str(a) for a in arguments]) == 0
    said = capsys.readouterr()
    assert said.out == f"The page is at {out / 'index.html'}\n"
    X = pd.read_csv(people)[["height", "age"]]
    again = lrvb.GaussianMixture(2, n_init=4, random_state=1).fit(X)
    parameters = pd.read_csv(out / "parameters.csv", index_col=0)
    expected = pd.DataFrame(again.posterior_.summary())
    pd.testing.assert_frame_equal(parameters, expected, rtol=1e-9)
    rows = pd.read_csv(out / "rows.csv", index_col="row")
    assert (rows["component"] == again.predict(X)).all()
    np.testing.assert_allclose(rows.filter(like="probability").sum(axis=1), 1, rtol=1e-9)
    loaded = lrvb.load(out / "posterior.npz")
    pd.testing.assert_series_equal(loaded.sd(), again.posterior_.sd(), rtol=1e-12)
    page = (out / "index.html").read_text()
    ((word, n),) = again.posterior_.verdicts["verdict"].value_counts().items()
    assert f"Verdicts of {n} quantities: {n} {word}." in said.err
    assert page.index("Verdicts of ") < page.index("data:image/png")  # above the figures
    assert "people.csv: a mixture of 2 normals" in page
    assert "Left out: weight, name." in page
    assert page.count("data:image/png;base64,") == 1
    assert sorted(p.name for p in out.iterdir()) == [
        "components-0-1.png",
        "correlations.csv",
        "index.html",
        "parameters.csv",
        "posterior.npz",
        "rows.csv",
        "sds.csv",
        "weights.csv",
    ]


def test_mixture_of_one_column(people, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["mixture", people, "--components", 2, "--out", out, "--columns", "age", "--check"]
    assert main([str(a) for a in arguments]) == 0
    found = pd.read_csv(out / "check.csv", index_col="what")
    assert {"convergence", "priors", "rows", "robust sds"} <= set(found.index)
    page = (out / "index.html").read_text()
    assert "How far to believe it" in page
    assert all(f"<span>{what}</span>" in page for what in found.index)
    assert (out / "components.png").stat().st_size > 5000
    assert not (out / "correlations.csv").exists()


def test_mixture_refuses(people, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def say(*arguments, components=2):
        return refused(capsys, "mixture", *arguments, "--components", components)

    assert say("none.csv") == "The file none.csv does not exist; give the name of a CSV file."
    assert say(people, components=0) == "--components must be 1 or more, not 0."
    assert say(people, "--seed", -1) == "--seed must be 0 or more, not -1."
    assert say(people, "--columns", "height,size") == (
        "There is no column 'size'; the columns are 'height', 'weight', 'age', 'name'."
    )
    assert say(people, "--columns", "height,name") == (
        "Column 'name' is not numeric: line 2 has 'somebody'."
    )
    assert say(people, "--columns", "age,age") == "--columns names a column twice: age, age."
    few = tmp_path / "few.csv"
    few.write_text("a,b\n1,2\n3,4\n")
    assert say(few, components=3) == (
        f"{few} has 2 rows, too few for 3 components; use fewer components or more rows."
    )
    few.write_text("a,b\n1,x\n3,4\n5,\n")
    assert say(few, "--columns", "a,b") == "Column 'b' is not numeric: line 2 has 'x'."
    assert chosen_columns(read_csv(few), None)[1] == {"b": "line 2 has 'x'"}
    few.write_text("a,b\n1,2\n3,4\n5,\n")
    assert say(few) == (
        "Column 'b' has missing values: 1 of 3, the first in line 4; fill or remove those rows, or leave "
        "the column out with --columns."
    )
    few.write_text("name\nx\ny\n")
    assert say(few) == "No column is numeric; the columns are 'name'."
    few.write_text("a;b\n1;2\n")
    assert say(few) == (
        f"The file {few} has one column, 'a;b'; if its columns are separated by ';', add "
        "--separator ';'."
    )
    few.write_text("a;b\n1,5;2\n")  # decimal commas, which look like separators
    assert say(few).startswith(
        f"The file {few} has one column, 'a;b'; if its columns are separated"
    )
    few.write_text("a,b\n" + "".join(f"{k},{k}\n" for k in range(9)) + "9,twelve\n")
    assert say(few) == (
        "Column 'b' has 'twelve' in line 11, which is not a number, as 9 other values of the column are. "
        "Correct it, or name the columns to use with --columns."
    )
    few.write_text("")
    assert say(few) == f"The file {few} is empty; its first line must name columns."
    few.write_text("a,b\n1,2\n3,4,5,6\n")
    assert say(few).startswith(
        f"The file {few} has 2 columns by its first line, but 4 fields in line 3"
    )
    assert [p.name for p in tmp_path.iterdir()] == ["few.csv"]
