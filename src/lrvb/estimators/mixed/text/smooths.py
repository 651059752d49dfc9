"""Smooths of a formula: s(x), s(x, k=10), s(x, by=g)."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

from .bars import NAME
from .scanning import Scan, formula_error

CALL = re.compile(r"(?<![\w.])s\s*\(")
COLUMNS = 10  # of a smooth and its line, as in mgcv
FEWEST = 3


class SmoothText(NamedTuple):
    """A smooth's argument, the number k of its functions, the column `by`, and its place."""

    argument: str
    k: int
    by: str | None
    at: int

    @property
    def label(self) -> str:
        """s(x), or s(x, by=g)."""
        return f"s({self.argument})" if self.by is None else f"s({self.argument}, by={self.by})"


def read_smooth(marks: Scan, start: int, stop: int, sign: str) -> SmoothText | None:
    """The smooth that a summand is, None when it is none."""
    text = marks.text
    call = next((found for found in CALL.finditer(text, start, stop)), None)
    if call is None or marks.quoted[call.start()]:
        return None
    opening = call.end() - 1
    if call.start() > start or marks.closing[opening] != stop - 1 or sign == "-":
        raise formula_error(
            text,
            call.start(),
            "A smooth was expected as a term of its own, joined by '+': '+ s(x)'.",
        )
    closing = marks.closing[opening]
    commas = [at for at in marks.find(",", opening, closing) if marks.parent[at] == opening]
    ends = [opening, *commas, closing]
    pieces = [(text[a + 1 : b].strip(), marks.trimmed(a + 1, b)[0]) for a, b in pairwise(ends)]
    argument, at = pieces[0]
    if not argument or re.match(r"\w+\s*=", argument):
        raise formula_error(text, at, "A column was expected first in a smooth, as in s(x).")
    k, by = COLUMNS, None
    for piece, at in pieces[1:]:
        option = re.fullmatch(r"(\w+)\s*=\s*(.+)", piece)
        name, value = option.groups() if option else ("", piece)
        if name == "k" and re.fullmatch(r"\d+", value) and int(value) >= FEWEST:
            k = int(value)
        elif name == "by" and NAME.fullmatch(value):
            by = value.strip("`")
        elif name == "bs" and value.strip("'\"") == "cr":
            pass  # which it is
        else:
            raise formula_error(
                text,
                at,
                f"A smooth takes one column, k of {FEWEST} or more, and by: s(x, k=10, by=g). Its basis is "
                'mgcv\'s bs="cr"; for bs="re" write (1 | g).',
            )
    return SmoothText(argument, k, by, call.start())
