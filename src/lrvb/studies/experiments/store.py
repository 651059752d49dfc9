"""Results on disk: the tables of every task as it ends, then those of the whole experiment.

    <out>/parts/<experiment>-<key>/<task>/<table>.csv    tables of one task, beside task.json
    <out>/tables/<experiment>_<table>.csv                all tasks below one another
    <out>/tables/<experiment>.json                       where they come from

The key is a hash of the settings, the seed and the version, so that a stopped run goes on where it
was and runs with other settings never meet.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ...data.files import remove_leftovers, whole
from .base import Experiment, Settings, Tables

FORMAT = 2  # of what a task leaves on disk
# Every digit is read as it was written; from 3.1 on pandas does so unasked.
EXACT: dict[str, Any] = {"float_precision": "round_trip"}
if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1):
    EXACT = {}
DIGITS = "%.10g"  # of the finished tables; the parts keep every digit


@dataclass(frozen=True)
class Store:
    """The results of one experiment with one set of settings and one seed."""

    out: Path
    experiment: str
    settings: Settings
    seed: int
    version: str

    @property
    def parts(self) -> Path:
        """The folder of this run's tasks."""
        words = json.dumps([FORMAT, self.version, self.seed, self.settings], sort_keys=True)
        key = hashlib.sha256(words.encode()).hexdigest()[:12]
        return self.out / "parts" / f"{self.experiment}-{key}"

    def clean(self, *, fresh: bool) -> None:
        """Remove what a killed run has left half-written; `fresh` removes every task."""
        if fresh and self.parts.exists():
            shutil.rmtree(self.parts)
        remove_leftovers(self.parts)

    def done(self, tasks: Sequence[str]) -> list[str]:
        """Those of the tasks whose tables are saved."""
        return [task for task in tasks if (self.parts / task / "task.json").exists()]

    def save(self, task: str, tables: Tables, account: Mapping[str, Any]) -> None:
        """Save the tables of a task, and the account of its start and its seconds."""
        with whole(self.parts / task) as folder:
            folder.mkdir()
            for name, table in tables.items():
                table.to_csv(folder / f"{name}.csv", index=False)
            _write_json(folder / "task.json", {"tables": list(tables), **account})

    def accounts(self, tasks: Sequence[str]) -> list[dict[str, Any]]:
        """What was noted of every task."""
        texts = (self.parts / task / "task.json" for task in tasks)
        return [json.loads(text.read_text(encoding="utf-8")) for text in texts]

    def joined(self, tasks: Sequence[str]) -> dict[str, pd.DataFrame]:
        """The tables of all tasks, put below one another in the order of the tasks."""
        pieces: dict[str, list[pd.DataFrame]] = {}
        for task, account in zip(tasks, self.accounts(tasks), strict=True):
            for name in account["tables"]:
                piece = read_table(self.parts / task / f"{name}.csv")
                pieces.setdefault(name, []).append(piece)
        return {name: pd.concat(tables, ignore_index=True) for name, tables in pieces.items()}

    def finish(self, tables: Tables, provenance: Mapping[str, Any]) -> None:
        """Save the finished tables, their provenance last."""
        folder = self.out / "tables"
        for name, table in tables.items():
            with whole(folder / f"{self.experiment}_{name}.csv") as temporary:
                table.to_csv(temporary, index=False, float_format=DIGITS)
        with whole(folder / f"{self.experiment}.json") as temporary:
            _write_json(temporary, {**provenance, "tables": list(tables)})

    def provenance(self) -> dict[str, Any] | None:
        """The provenance of finished tables of these settings and this seed, None without any."""
        path = self.out / "tables" / f"{self.experiment}.json"
        if not path.exists():
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        same = found["settings"] == self.settings and found["seed"] == self.seed
        return found if same and found["versions"]["lrvb"] == self.version else None

    def finished(self) -> dict[str, pd.DataFrame]:
        """The finished tables as they were saved."""
        provenance = self.provenance()
        assert provenance is not None
        folder = self.out / "tables"
        return {
            name: read_table(folder / f"{self.experiment}_{name}.csv")
            for name in provenance["tables"]
        }


def read_table(path: Path) -> pd.DataFrame:
    """A saved table: every digit as it was written, and only empty cells are missing."""
    return pd.read_csv(path, keep_default_na=False, na_values=[""], **EXACT)


def store_of(experiment: Experiment, *, quick: bool, seed: int, out: Path, version: str) -> Store:
    """The store of an experiment; its settings are as JSON gives them back."""
    settings = json.loads(json.dumps(dict(experiment.settings(quick))))
    return Store(out, experiment.name, settings, seed, version)


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps(content, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")
