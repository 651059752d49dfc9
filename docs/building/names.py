"""The first page of the reference: every public name, with the first sentence about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"^::: lrvb\.(\w+)$", re.MULTILINE)
CONTENTS = "<!-- contents -->"


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill in the tables, one for each page of the reference, in the order of the navigation."""
    if CONTENTS not in markdown:
        return markdown
    pages = [
        path for path in re.findall(r"reference/\w+\.md", str(config.nav)) if "index" not in path
    ]
    lrvb = griffe.load("lrvb", search_paths=[str(ROOT / "src")])
    return markdown.replace(
        CONTENTS, "\n\n".join(table(ROOT / "docs" / path, lrvb) for path in pages)
    )


def table(path: Path, lrvb: Any) -> str:
    """The names of one page of the reference."""
    text = path.read_text(encoding="utf-8")
    title = text.split("\n")[0].removeprefix("# ")
    rows = [f"| [`{name}`][lrvb.{name}] | {summary(lrvb[name])} |" for name in NAME.findall(text)]
    head = [f"## {title} {{: #{path.stem} }}", "", "| Name | What it is |", "| --- | --- |"]
    return "\n".join([*head, *rows])


def summary(thing: Any) -> str:
    """The first line of a docstring, fit for a cell of a table."""
    line = thing.docstring.value.strip().split("\n")[0] if thing.docstring else ""
    return re.sub(r"([|*])", r"\\\1", line)
