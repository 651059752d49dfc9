"""One self-contained HTML page: text, tables and figures, no network.

Each function gives the HTML of one piece; `write_page` puts them together.
"""

from __future__ import annotations

import base64
import html
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.files import whole

STYLE = """
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --line: #dde2e9; --back: #fff;
        --panel: #f5f7fa; --link: #1f6fb2; --good: #1c7a43; --mended: #1f6fb2; --bad: #b4472a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #333c49; --back: #14181f; --panel: #1b212a;
          --link: #7db5e8; --good: #5cc389; --mended: #7db5e8; --bad: #e88b6d; }
  img { background: #fff; border-radius: 6px; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--back);
       max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .6rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
section { border-top: 1px solid var(--line); margin-top: 2.5rem; padding-top: 1.6rem; }
p, figcaption, ul { max-width: 46rem; }
a { color: var(--link); }
figcaption, footer, .soft { color: var(--soft); font-size: .9rem; }
figure { margin: 1.2rem 0; } img { width: 100%; height: auto; display: block; }
figcaption { margin-top: .4rem; }
blockquote { margin: 0 0 1rem; padding: .1rem 1rem; border-left: 3px solid var(--line);
             color: var(--soft); max-width: 46rem; }
.wide { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th { font-weight: 600; }
th:first-child, td:first-child { text-align: left; padding-left: 0; min-width: 7.5rem; }
tbody th { font-weight: 400; }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 1rem;
         padding: 0 .6rem; font-size: .8rem; font-weight: 600; white-space: nowrap; }
.good { color: var(--good); } .mended { color: var(--mended); } .bad { color: var(--bad); }
.summary { list-style: none; padding: 0; max-width: none; }
.summary li { display: grid; grid-template-columns: 11rem 7.5rem 1fr; gap: .2rem 1rem;
              padding: .6rem 0; border-bottom: 1px solid var(--line); align-items: start; }
.checks { list-style: none; padding: 0; }
.checks li { padding-left: 1.6rem; text-indent: -1.6rem; margin: .2rem 0; }
.checks span { display: inline-block; width: 1.6rem; text-indent: 0; font-weight: 700; }
details { background: var(--panel); border-radius: 6px; padding: .5rem .8rem; margin: .8rem 0; }
summary { cursor: pointer; }
code { font-size: .9em; }
@media (max-width: 40rem) {
  .summary li { grid-template-columns: 1fr auto; }
  .summary li > :last-child { grid-column: 1 / -1; }
  figure img { width: 36rem; max-width: none; }
}
"""


def paragraph(text: str, kind: str = "") -> str:
    """A paragraph of plain text."""
    return f'<p class="{kind}">{html.escape(text)}</p>' if kind else f"<p>{html.escape(text)}</p>"


def heading(text: str) -> str:
    """A small heading inside a section."""
    return f"<h3>{html.escape(text)}</h3>"


def quotation(text: str) -> str:
    """What somebody else says."""
    return f"<blockquote><p>{html.escape(text)}</p></blockquote>"


def badge(word: str, kind: str) -> str:
    """A word in a coloured frame; kinds are good, mended and bad."""
    return f'<span class="badge {kind}">{html.escape(word)}</span>'


def figure(path: Path, caption: str) -> str:
    """A PNG inside the page, with its caption."""
    encoded = base64.b64encode(path.read_bytes()).decode()
    text = html.escape(caption)
    return (
        f'<figure><div class="wide"><img alt="{text}" src="data:image/png;base64,{encoded}"></div>'
        f"<figcaption>{text}</figcaption></figure>"
    )


def table(content: pd.DataFrame, float_format: str | None = None) -> str:
    """A table in a box that scrolls by itself when it is wider than the page."""
    number = float_format.format if float_format else readable
    counted = isinstance(content.index, pd.RangeIndex) and content.index.name is None
    shown = content.rename_axis(index=None, columns=content.index.name)
    text = shown.to_html(
        float_format=number, border=0, na_rep="–", index=not counted, justify="unset"
    )
    return f'<div class="wide">{text}</div>'


def readable(value: float) -> str:
    """A number with four significant digits, as short as it can be."""
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value and not 1e-3 <= abs(value) < 1e6:
        text = re.sub(r"e([+-])0*(\d+)$", r"e\1\2", f"{value:.1e}").replace("e+", "e")
    else:
        text = f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"
    return text.replace("-", "−")


def checks(requirements: Mapping[str, bool]) -> str:
    """Requirements in words, with a tick where they hold."""
    items = "".join(
        f'<li><span class="{"good" if holds else "bad"}">{"✓" if holds else "✗"}</span>'
        f"{html.escape(words)}</li>"
        for words, holds in requirements.items()
    )
    return f'<ul class="checks">{items}</ul>'


def details(summary: str, content: str) -> str:
    """Pieces that open when asked for."""
    return f"<details><summary>{html.escape(summary)}</summary>{content}</details>"


def facts(content: Mapping[str, Any]) -> str:
    """Names and values, one below another."""
    items = pd.Series({name: str(value) for name, value in content.items()}).to_frame()
    return f'<div class="wide">{items.to_html(border=0, header=False)}</div>'


def section(title: str, pieces: Sequence[str], anchor: str = "") -> str:
    """A heading with its pieces; `anchor` is what links point to."""
    where = f' id="{html.escape(anchor)}"' if anchor else ""
    return "\n".join([f"<section{where}><h2>{html.escape(title)}</h2>", *pieces, "</section>"])


def summary(entries: Sequence[tuple[str, str, str, str]]) -> str:
    """A list of sections: anchor, title, the HTML of a badge, and one line of text."""
    items = "".join(
        f'<li><a href="#{html.escape(anchor)}">{html.escape(title)}</a><span>{mark}</span>'
        f'<span class="soft">{html.escape(line)}</span></li>'
        for anchor, title, mark, line in entries
    )
    return f'<ul class="summary">{items}</ul>'


def findings(entries: Sequence[tuple[str, str, str]]) -> str:
    """A list of what was looked at, the HTML of a badge, and a sentence."""
    items = "".join(
        f"<li><span>{html.escape(what)}</span><span>{mark}</span><span>{html.escape(sentence)}</span></li>"
        for what, mark, sentence in entries
    )
    return f'<ul class="summary">{items}</ul>'


def write_page(path: Path, title: str, lead: str, body: Sequence[str], footer: str) -> Path:
    """Write the page: a title, a lead, the pieces of the body, and a footer."""
    pieces = "\n".join(body)
    text = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>\n<body>"
        f"<h1>{html.escape(title)}</h1>\n<p>{html.escape(lead)}</p>\n{pieces}\n"
        f"<footer><p>{html.escape(footer)}</p></footer></body></html>\n"
    )
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path
