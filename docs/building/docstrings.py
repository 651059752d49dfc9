"""Docstrings are plain text with formulas; Markdown must not read m*, η* as emphasis.

What stands between backticks is code and stays. A line `Paper: eq:…` or `See: eq:…` becomes a
paragraph of its own that leads to the paper map.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

CODE = re.compile(r"(`[^`\n]+`)")
LABEL = re.compile(r"\b(?:app|eq|fig|lem|prop|sec):[A-Za-z]\w*")
CITATION = re.compile(r"\s*\b(Paper|See):[ \t]*(?=(?:app|eq|fig|lem|prop|sec):)")


def plain(text: str) -> str:
    """Text with the characters escaped that Markdown would take for markup."""
    parts = CODE.split(text)
    parts[::2] = [re.sub(r"([*<])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def cited(text: str) -> str:
    """Text with its citations of the paper set apart and linked."""
    text = CITATION.sub(r"\n\n\1: ", text)
    return LABEL.sub(lambda m: f"[`{m[0]}`][where-is-the-equation]", text)


class PlainDocstrings(griffe.Extension):
    """Prepare every docstring for Markdown."""

    def on_instance(self, *, obj: Any, **kwargs: Any) -> None:
        """Called once for each object, before its docstring is parsed."""
        if obj.docstring:
            obj.docstring.value = cited(plain(obj.docstring.value))
