"""The runner: same tables whatever the number of processes, nothing lost, nothing half-written."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

from lrvb.data.files import remove_leftovers, whole
from lrvb.report.html import readable
from lrvb.studies.experiments.base import ExperimentFailed
from lrvb.studies.experiments.catalog import NAMES, named
from lrvb.studies.experiments.page import duration, write_reproduction
from lrvb.studies.experiments.runner import draw, run
from lrvb.studies.experiments.store import Store, read_table
from lrvb.studies.experiments.workers import Workers
from studies.experiments.tiny import plan, tiny


def files(folder):
    return {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}


def execute(experiment, options):
    with Workers(options.jobs) as workers:
        run(experiment, options, workers)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory):
    """The same seed with one process, and with two."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    execute(tiny(), plan(one))
    execute(tiny(), plan(two, jobs=2))
    return one, two


def test_tables_do_not_depend_on_processes(two_runs):
    """Byte for byte, except the tables of times."""
    one, two = (files(folder / "tables") for folder in two_runs)
    assert set(one) == set(two) == {"tiny.json", "tiny_draws.csv", "tiny_fit.csv", "tiny_times.csv"}
    for name in ("tiny_draws.csv", "tiny_fit.csv"):
        assert one[name].read_bytes() == two[name].read_bytes()


def test_workers_have_one_thread_and_are_kept(two_runs):
    one, two = (read_table(folder / "tables" / "tiny_times.csv") for folder in two_runs)
    assert (one["threads"] == 1).all()
    assert one["process"].nunique() == 1
    assert two["process"].nunique() == 2


def test_provenance(two_runs):
    found = json.loads((two_runs[0] / "tables" / "tiny.json").read_text())
    assert found["settings"] == {"tasks": 3, "quick": True, "pair": [1, 2]}
    assert found["seed"] == 1
    assert found["tasks"] == 3
    assert found["tables"] == ["draws", "fit", "times"]
    assert {"lrvb", "python", "jax", "numpy", "scipy"} <= set(found["versions"])
    assert found["seconds"] > 0
    assert re.match(r"\d{4}-\d\d-\d\dT", found["started"])


def test_a_failed_task_stops_the_run_and_keeps_the_others(tmp_path):
    """One sentence; then a run goes on where it was, without repeating what is saved."""
    options, experiment = plan(tmp_path), tiny(fails="2")
    with pytest.raises(
        ExperimentFailed,
        match=r"^Experiment 'tiny' failed at task '2': ValueError: the task was told to fail$",
    ) as caught:
        execute(experiment, options)
    assert "Traceback" in caught.value.evidence["traceback"]
    store = options.store(experiment)
    assert store.done(["0", "1", "2"]) == ["0", "1"]
    assert not (tmp_path / "tables").exists()
    before = {name: p.stat().st_mtime_ns for name, p in files(tmp_path).items()}
    with pytest.raises(ExperimentFailed):
        execute(experiment, options)
    assert before == {name: p.stat().st_mtime_ns for name, p in files(tmp_path).items()}


def test_a_process_ended_from_outside_is_named(tmp_path):
    with pytest.raises(
        ExperimentFailed, match=r"stopped at task '1': .* \(exit code 3\).*try fewer --jobs\.$"
    ):
        execute(tiny(dies="1"), plan(tmp_path))


def test_other_settings_never_meet(tmp_path):
    """Seed, quick and every setting have a folder of their own; --fresh empties only one."""
    stores = [
        plan(tmp_path).store(tiny()),
        plan(tmp_path, seed=2).store(tiny()),
        plan(tmp_path, quick=False).store(tiny()),
        plan(tmp_path).store(tiny(4)),
    ]
    assert len({store.parts for store in stores}) == 4
    for store in stores:
        store.save("0", {"t": pd.DataFrame({"a": [1]})}, {"started": "now", "seconds": 1})
    stores[0].clean(fresh=False)
    assert all(store.done(["0"]) == ["0"] for store in stores)
    stores[0].clean(fresh=True)
    assert [store.done(["0"]) for store in stores] == [[], ["0"], ["0"], ["0"]]


def test_tables_come_back_as_they_were(tmp_path):
    """Every digit, missing values, and text that only looks like a missing value."""
    table = pd.DataFrame(
        {"x": [0.1 + 0.2, 1e-300, float("nan")], "word": ["nan", "None", "a,b"], "n": [1, 2, 3]}
    )
    store = Store(tmp_path, "tiny", {}, 1, "1")
    store.save("0", {"t": table}, {"started": "now", "seconds": 1})
    pd.testing.assert_frame_equal(store.joined(["0"])["t"], table, check_exact=True)


def test_finished_tables_of_another_seed_are_not_taken_for_these(tmp_path):
    store = plan(tmp_path).store(tiny())
    provenance = {"settings": store.settings, "seed": 1, "versions": {"lrvb": store.version}}
    store.finish({"t": pd.DataFrame({"a": [1.5]})}, provenance)
    assert store.finished()["t"]["a"].tolist() == [1.5]
    assert plan(tmp_path, seed=2).store(tiny()).provenance() is None
    assert plan(tmp_path).store(tiny(4)).provenance() is None


def test_whole_files_or_none(tmp_path):
    """After an error in the middle the old content stands and nothing else is left."""
    path = tmp_path / "a" / "page.txt"
    with whole(path) as temporary:
        temporary.write_text("old")
    with pytest.raises(KeyboardInterrupt), whole(path) as temporary:  # noqa: PT012 - an error midway
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(files(tmp_path)) == ["a/page.txt"]


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / ".7.123.tmp").mkdir()
    (tmp_path / ".7.123.tmp" / "x.csv").write_text("half")
    (tmp_path / "kept.csv").write_text("whole")
    remove_leftovers(tmp_path)
    assert list(files(tmp_path)) == ["kept.csv"]


def test_the_page_of_a_result(two_runs):
    options = plan(two_runs[0])
    result = draw(tiny(), options)
    page = write_reproduction(options.out / "index.html", [result], quick=True, seed=1).read_text()
    assert '<section id="tiny"><h2>A tiny experiment</h2>' in page
    assert '<a href="#tiny">A tiny experiment</a>' in page
    assert page.count('<span class="badge good">reproduced</span>') == 2
    assert "It runs. 1 of 1 checks hold." in page
    assert "✓" in page
    assert "data:image/png;base64,iVBORw==" in page
    assert "http" not in page


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("quick", [True, False])
def test_every_experiment_is_well_stated(name, quick):
    """Settings that JSON keeps, tasks fit for file names, figures with captions."""
    experiment = named(name)
    assert experiment.name == name
    settings = experiment.settings(quick)
    kept = json.loads(json.dumps(settings))
    tasks = list(experiment.tasks(kept))
    assert tasks == list(experiment.tasks(settings))
    assert len(set(tasks)) == len(tasks) > 0
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.=-]*", task) for task in tasks)
    assert len({figure.name for figure in experiment.figures}) == len(experiment.figures) > 0
    assert all(figure.caption.endswith(".") for figure in experiment.figures)
    assert experiment.claim.endswith(".")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (0.12345, "0.1235"),
        (-1.5, "−1.5"),
        (12665.0, "12665"),
        (4.2e-13, "4.2e−13"),
        (3.0e10, "3.0e10"),
        (float("nan"), "–"),
    ],
)
def test_readable_numbers(number, text):
    assert readable(number) == text


def test_durations():
    assert [duration(s) for s in (3, 210, 5400)] == ["3 s", "3.5 min", "1.5 h"]
