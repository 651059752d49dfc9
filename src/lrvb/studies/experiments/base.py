"""What an experiment is: tasks that make tables, figures of those tables, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from ...errors import LrvbError

#: Tables by name; rows of all tasks are put below one another under the same name.
Tables = Mapping[str, pd.DataFrame]
Settings = Mapping[str, Any]
Verdict = Literal["reproduced", "corrected", "differs"]


@dataclass(frozen=True)
class Findings:
    """What the tables say beside what was published.

    `numbers` has one row per published number, labelled, with the columns `published`, `ours` and
    whatever else the reader needs; `checks` maps a requirement in words to whether it holds.
    """

    verdict: Verdict
    reason: str
    numbers: pd.DataFrame
    checks: Mapping[str, bool]


def verdict(reason: str, numbers: pd.DataFrame, checks: Mapping[str, bool]) -> Findings:
    """Reproduced, for the reason given, when every check holds; otherwise those that do not."""
    failed = [words for words, holds in checks.items() if not holds]
    if failed:
        return Findings("differs", f"These do not hold: {'; '.join(failed)}.", numbers, checks)
    return Findings("reproduced", reason, numbers, checks)


@dataclass(frozen=True)
class Figure:
    """A drawing of saved tables: `draw(tables, path)` writes a PNG."""

    name: str
    caption: str
    draw: Callable[[Tables, Path], Path]


@dataclass(frozen=True)
class Experiment:
    """One experiment of the paper.

    `settings(quick)` holds every number that it depends on, as JSON can store them; `tasks` lists
    one label per data set, each fit for a file name; `run(task, settings, seed)` makes the tables
    of one task from nothing else, so tasks may run in any order, in any process, on any day. A
    table whose name ends in "times" holds seconds and may differ between two runs with one seed;
    all others are the same. A `timed` experiment runs alone, one task after another.
    """

    name: str
    title: str
    claim: str
    labels: Sequence[str]
    settings: Callable[[bool], Settings]
    tasks: Callable[[Settings], Sequence[str]]
    run: Callable[[str, Settings, int], Tables]
    figures: Sequence[Figure]
    findings: Callable[[Tables, Settings], Findings]
    timed: bool = False


class ExperimentFailed(LrvbError, RuntimeError):
    """A task could not be finished; the message names the experiment and the task."""
