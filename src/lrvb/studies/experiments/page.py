"""The page of a reproduction: for each experiment claim, figures, numbers, checks and a verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ... import __version__
from ...report import html
from .base import Experiment, Figure, Findings

KINDS = {"reproduced": "good", "corrected": "mended", "differs": "bad"}
LEAD = (
    "Every experiment of “Linear Response Methods for Accurate Covariance Estimates from Mean Field "
    "Variational Bayes”, run again from simulated or original data, beside what was published. "
    "Reproduced: the published result comes out. Corrected: another one does, and we know why. "
    "Differs: another one does, for the reason given."
)


@dataclass(frozen=True)
class Result:
    """An experiment with its findings, the figures drawn, and where its tables come from."""

    experiment: Experiment
    findings: Findings
    figures: Mapping[Figure, Path]
    provenance: Mapping[str, Any]


def write_reproduction(path: Path, results: Sequence[Result], *, quick: bool, seed: int) -> Path:
    """Write the page of all results."""
    size = "Quick run: all experiments, but fewer and smaller data sets. " if quick else ""
    seconds = sum(result.provenance["seconds"] for result in results)
    return html.write_page(
        path,
        "The paper's experiments, reproduced",
        size + LEAD,
        [html.summary([_line(r) for r in results]), *(_section(r) for r in results)],
        f"lrvb {__version__}, seed {seed}, {duration(seconds)} of computing in all.",
    )


def _line(result: Result) -> tuple[str, str, str, str]:
    experiment, findings = result.experiment, result.findings
    held = f"{sum(findings.checks.values())} of {len(findings.checks)} checks hold."
    first = findings.reason.partition(". ")[0].rstrip(".") + "."
    return experiment.name, experiment.title, _badge(findings), f"{first} {held}"


def _badge(findings: Findings) -> str:
    return html.badge(findings.verdict, KINDS[findings.verdict])


def _section(result: Result) -> str:
    experiment, findings, origin = result.experiment, result.findings, result.provenance
    pieces = [
        html.quotation(f"The paper: {experiment.claim}"),
        f"<p>{_badge(findings)}</p>",
        html.paragraph(findings.reason),
        *(html.figure(path, figure.caption) for figure, path in result.figures.items()),
    ]
    if len(findings.numbers):
        pieces += [html.heading("Published and ours"), html.table(findings.numbers)]
    if findings.checks:
        pieces += [html.heading("Checks"), html.checks(findings.checks)]
    computing = (
        f"{duration(origin['seconds'])} of computing in {_count(origin['tasks'], 'task')}, "
        f"at most {_count(origin['jobs'], 'process')} at a time"
    )
    settings = {k: json.dumps(v, ensure_ascii=False) for k, v in origin["settings"].items()}
    versions = ", ".join(f"{name} {number}" for name, number in origin["versions"].items())
    made = {
        "command": origin["command"],
        "seed": origin["seed"],
        "started": origin["started"],
        "time": computing,
        "versions": versions,
        "platform": origin["platform"],
        "commit": origin["commit"] or "not from a checkout",
        "labels": ", ".join(experiment.labels),
        **({"note": origin["note"]} if "note" in origin else {}),
    }
    pieces += [
        html.details("Settings", html.facts(settings)),
        html.details(f"How it was made: {computing}", html.facts(made)),
    ]
    return html.section(experiment.title, pieces, anchor=experiment.name)


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"


def duration(seconds: float) -> str:
    """Seconds in words of the right size: 42 s, 3.5 min, 1.2 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
