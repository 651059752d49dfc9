"""One self-contained HTML page: text, tables and figures, no network."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --line: #dde2e9; --back: #fff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #333c49; --back: #14181f; }
  img { background: #fff; border-radius: 6px; }
}
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back);
       max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
p, figcaption { max-width: 46rem; } figcaption, footer { color: var(--soft); font-size: .9rem; }
figure { margin: 1.2rem 0; } img { width: 100%; height: auto; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
"""


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, then a figure with its caption, then a table."""

    title: str
    paragraphs: Sequence[str] = ()
    figure: Path | None = None
    caption: str = ""
    table: pd.DataFrame | None = None
    float_format: str = "{:.3f}"


def write_page(path: Path, title: str, lead: str, sections: Sequence[Section], footer: str) -> Path:
    """Write the page under a temporary name, then rename it."""
    body = "\n".join(_section(s) for s in sections)
    text = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>"
        f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(lead)}</p>\n{body}\n"
        f"<footer><p>{html.escape(footer)}</p></footer></body></html>\n"
    )
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8")
    return temporary.replace(path)


def _section(section: Section) -> str:
    parts = [f"<section><h2>{html.escape(section.title)}</h2>"]
    parts += [f"<p>{html.escape(p)}</p>" for p in section.paragraphs]
    if section.figure is not None:
        encoded = base64.b64encode(section.figure.read_bytes()).decode()
        parts.append(
            f'<figure><img alt="{html.escape(section.caption)}" src="data:image/png;base64,{encoded}">'
            f"<figcaption>{html.escape(section.caption)}</figcaption></figure>"
        )
    if section.table is not None:
        table = section.table.to_html(float_format=section.float_format.format, border=0)
        parts.append(f'<div class="wide">{table}</div>')
    return "\n".join([*parts, "</section>"])
