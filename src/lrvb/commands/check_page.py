"""The section of a page on how far its answer can be believed, the worst first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from .csv_files import write_csv

KINDS = {"problem": "bad", "look": "mended", "good": "good", "not known": "soft"}


def add_check(parser: Any, of: str) -> None:
    """Declare the option; `of` lists what is looked at."""
    parser.add_argument(
        "--check",
        action="store_true",
        help=f"a section of the page on how far the answer can be believed: {of}",
    )


def checked(model: Any, out: Path) -> str:
    """The section with the findings of `model.check()`, which also go to check.csv."""
    from ..report import html

    page = model.check()
    findings = [(f.what, f.state, f.sentence) for f in page.findings]
    found = pd.DataFrame(findings, columns=["what", "state", "sentence"]).set_index("what")
    write_csv(found, out / "check.csv", "what")
    entries = [
        (what, html.badge(state, KINDS[state]), sentence) for what, state, sentence in findings
    ]
    return html.section("How far to believe it", [html.findings(entries)])
