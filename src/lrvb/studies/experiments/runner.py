"""Run experiments: what is saved is kept, the rest is computed, then figures and the page."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tqdm.auto import tqdm

from ... import __version__
from .base import Experiment
from .catalog import NAMES, named
from .page import Result, write_reproduction
from .provenance import commit, machine, versions
from .store import Store, store_of
from .workers import Workers


@dataclass(frozen=True)
class Plan:
    """What to run and where: experiments by name, quick or full, one seed, one folder."""

    names: Sequence[str]
    quick: bool
    seed: int
    out: Path
    jobs: int
    fresh: bool = False
    command: str = "lrvb reproduce"

    def store(self, experiment: Experiment) -> Store:
        """Where the experiment's results are kept."""
        return store_of(
            experiment, quick=self.quick, seed=self.seed, out=self.out, version=__version__
        )


def reproduce(plan: Plan) -> list[Result]:
    """Run the experiments and write tables, figures and the page; returns what was found.

    The page also has the experiments that an earlier run with the same settings has finished.
    """
    experiments = {name: named(name) for name in NAMES if name in plan.names}
    for experiment in experiments.values():
        plan.store(experiment).clean(fresh=plan.fresh)
    with Workers(plan.jobs) as workers:
        for experiment in experiments.values():
            run(experiment, plan, workers)
    shown = [experiments.get(name) or _finished_earlier(name, plan) for name in NAMES]
    drawn = tqdm([e for e in shown if e is not None], desc=f"{'figures':15}", file=sys.stderr)
    results = [draw(experiment, plan) for experiment in drawn]
    write_reproduction(plan.out / "index.html", results, quick=plan.quick, seed=plan.seed)
    return results


def run(experiment: Experiment, plan: Plan, workers: Workers) -> None:
    """Run the tasks that are not saved yet, one bar for all of them, and join their tables."""
    store, begin = plan.store(experiment), time.perf_counter()
    tasks = list(experiment.tasks(store.settings))
    done = store.done(tasks)
    missing = [task for task in tasks if task not in set(done)]
    bar = tqdm(total=len(tasks), initial=len(done), desc=f"{experiment.name:15}", file=sys.stderr)
    with bar:
        most = 1 if experiment.timed else plan.jobs
        for part in workers.run(experiment, missing, store.settings, plan.seed, most):
            store.save(part.task, part.tables, {"started": part.started, "seconds": part.seconds})
            bar.update()
    if not missing and store.provenance() is not None:
        return  # the finished tables are these already
    accounts = store.accounts(tasks)
    provenance = {
        "experiment": experiment.name,
        "command": plan.command,
        "quick": plan.quick,
        "seed": plan.seed,
        "settings": store.settings,
        "tasks": len(tasks),
        "started": min(account["started"] for account in accounts),
        "seconds": round(sum(account["seconds"] for account in accounts), 3),
        "wall_seconds": round(time.perf_counter() - begin, 3),
        "jobs": most,
        "versions": versions(),
        "platform": machine(),
        "commit": commit(),
    }
    store.finish(store.joined(tasks), provenance)


def draw(experiment: Experiment, plan: Plan) -> Result:
    """The figures and findings of an experiment, from its finished tables."""
    store = plan.store(experiment)
    tables, provenance = store.finished(), store.provenance()
    assert provenance is not None
    paths = {
        figure: figure.draw(tables, figure_path(plan.out, experiment.name, figure.name))
        for figure in experiment.figures
    }
    findings = experiment.findings(tables, store.settings)
    return Result(experiment, findings, paths, provenance)


def figure_path(out: Path, experiment: str, figure: str) -> Path:
    """Where a figure is saved; its folder exists."""
    folder = out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{experiment}-{figure}.png"


def _finished_earlier(name: str, plan: Plan) -> Experiment | None:
    if not (plan.out / "tables" / f"{name}.json").exists():
        return None
    experiment = named(name)
    return experiment if plan.store(experiment).provenance() is not None else None
