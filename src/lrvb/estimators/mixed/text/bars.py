"""Random-effects terms of a formula: (lhs|group), (lhs||group), nested and combined groups."""

from __future__ import annotations

import re
from typing import NamedTuple

from .scanning import Scan, formula_error

NAME = re.compile(r"`[^`]+`|[^\W\d][\w.]*")
FACTOR = re.compile(rf"factor\s*\(\s*({NAME.pattern})\s*\)")  # every grouping column is one

#: covariances of levels as glmmTMB and brms write them
COVARIANCES = ("ar1", "ou", "cs", "toep", "exp", "gau", "mat", "gr", "mm", "arma", "car")


class Bar(NamedTuple):
    """One term (lhs|group) of one grouping: a column, or the combinations of several ("a:b").

    correlated is False for (lhs||group); `at` is the term's place in the formula.
    """

    lhs: str
    group: str
    correlated: bool
    at: int
    columns: tuple[str, ...]


def read_bar(marks: Scan, start: int, stop: int) -> list[Bar]:
    """The bars of one summand of the formula, nested groups expanded: (1|a/b) is (1|a) + (1|a:b)."""
    text = marks.text
    opening = _bracket(marks, start, stop)
    closing = marks.closing[opening]
    bars = list(marks.find("|", opening, closing))
    double = len(bars) > 1 and bars[1] == bars[0] + 1
    for extra in bars[1 + double :]:
        raise formula_error(text, extra, "One bar was expected in a term, as in (1|g) or (x||g).")
    lhs = slice(*marks.trimmed(opening + 1, bars[0]))
    group = slice(*marks.trimmed(bars[0] + 1 + double, closing))
    if lhs.start == lhs.stop:
        raise formula_error(
            text, bars[0], "What varies between groups was expected before the bar, as in (1|g)."
        )
    if group.start == group.stop:
        raise formula_error(text, closing, "A group was expected after the bar, as in (1|g).")
    if call := re.search(r"(?<![\w.])offset\s*\(", text[lhs]):
        raise formula_error(
            text, lhs.start + call.start(), "An offset was expected outside a random-effects term."
        )
    groups = _groups(text, group.start, group.stop)
    return [Bar(text[lhs], ":".join(columns), not double, opening, columns) for columns in groups]


def _bracket(marks: Scan, start: int, stop: int) -> int:
    """The bracket that holds the summand's bar, which must be the whole summand."""
    text = marks.text
    bar = next(marks.find("|", start, stop))
    opening = marks.parent[bar]
    if opening < 0:
        raise formula_error(
            text, bar, "A bar was expected only inside brackets: write (1|g), not 1|g."
        )
    while text[start] == "(" and marks.closing[start] == stop - 1 and start != opening:
        start, stop = marks.trimmed(start + 1, stop - 1)
    if start == opening and marks.closing[opening] == stop - 1 and text[opening] == "(":
        return opening
    before = text[:opening].rstrip()
    if text[opening] != "(" or (re.search(r"\w$", before) and len(before) == opening):
        name = re.search(r"[\w.]*$", before)
        inside = f"{name.group()}(...)" if name and text[opening] == "(" else f"'{text[opening]}'"
        if name and name.group() in COVARIANCES:
            raise formula_error(
                text,
                name.start(),
                f"There is no {inside}: effects that are correlated along time or space are "
                "(1|t) with a known precision matrix of the levels, structures={'t': Q}.",
            )
        raise formula_error(
            text,
            bar,
            f"A bar was found inside {inside}; it was expected only in a random-effects term (1|g).",
        )
    if re.search(r"[\w)\]}`]$", before):
        raise formula_error(text, opening, "A '+' was expected before this random-effects term.")
    raise formula_error(
        text, opening, "A random-effects term was expected to stand alone, joined to others by '+'."
    )


def _groups(text: str, start: int, stop: int) -> list[tuple[str, ...]]:
    """The groupings that 'a', 'a:b', 'a/b', 'a/b/c' stand for, as tuples of columns."""
    groups: list[tuple[str, ...]] = []
    columns: tuple[str, ...] = ()
    at = start
    while True:
        match = FACTOR.match(text, at, stop) or NAME.match(text, at, stop)
        if match is None:
            raise formula_error(
                text, min(at, stop), "The name of a grouping column was expected here, as in (1|g)."
            )
        name = (match.group(1) if match.re is FACTOR else match.group()).strip("`")
        if name in columns:
            raise formula_error(text, at, f"The column '{name}' is already part of this group.")
        columns = (*columns, name)
        at = match.end() + len(text[match.end() : stop]) - len(text[match.end() : stop].lstrip())
        if at >= stop:
            return [*groups, columns]
        if text[at] not in "/:":
            raise formula_error(
                text,
                at,
                "After a grouping column ':' (combinations), '/' (nested) or ')' was expected.",
            )
        if text[at] == "/":
            groups.append(columns)
        at += 1
        at += len(text[at:stop]) - len(text[at:stop].lstrip())
