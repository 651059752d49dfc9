"""A mixed model's formula, taken apart: response, fixed part, offsets, random-effects bars.

The fixed part and each bar's left side stay text, which `formulaic` turns into columns.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ....errors import InvalidModel
from .bars import Bar, read_bar
from .scanning import Scan, formula_error, scan
from .smooths import SmoothText, read_smooth
from .translation import translated

EXAMPLE = "'y ~ x + (1|g)'"


class Formula(NamedTuple):
    """The parts of `response ~ fixed + offset(...) + s(...) + (lhs|group)`.

    response is one arithmetic expression, or the successes when `trials` is given. Bars are
    expanded: (1|a/b) appears as (1|a) and (1|a:b).
    """

    text: str
    response: str
    trials: str | None
    fixed: str
    offsets: tuple[str, ...]
    bars: tuple[Bar, ...]
    smooths: tuple[SmoothText, ...] = ()


class Piece(NamedTuple):
    """One summand of the right side: its sign and its stretch of the text."""

    sign: str
    start: int
    stop: int


def parse(text: str) -> Formula:
    """The parts of a formula in lme4's syntax; a typo is an error that shows its place."""
    if not isinstance(text, str) or not text.strip():
        raise InvalidModel(f"The formula is {text!r}; give text such as {EXAMPLE}.")
    marks = scan(translated(text))
    text = marks.text
    tildes = list(marks.find("~", 0, len(text)))
    if not tildes:
        raise formula_error(
            text, len(text.rstrip()), f"A '~' was expected after the response, as in {EXAMPLE}."
        )
    if len(tildes) > 1:
        raise formula_error(text, tildes[1], "Only one '~' was expected; remove this one.")
    tilde = tildes[0]
    if marks.parent[tilde] >= 0:
        raise formula_error(text, tilde, "The '~' was expected outside brackets.")
    response, trials = _response(marks, tilde)
    fixed, offsets, bars, smooths = [], [], [], []
    for piece in _pieces(marks, tilde + 1):
        if list(marks.find("|", piece.start, piece.stop)):
            if piece.sign == "-":
                raise formula_error(
                    text, piece.start, "A random-effects term can be added but not subtracted."
                )
            bars += read_bar(marks, piece.start, piece.stop)
        elif (argument := _offset(marks, piece)) is not None:
            offsets.append(argument)
        elif (smooth := read_smooth(marks, piece.start, piece.stop, piece.sign)) is not None:
            smooths.append(smooth)
        else:
            fixed.append(f"{piece.sign} {text[piece.start : piece.stop]}")
    fixed_text = " ".join(fixed).removeprefix("+ ") or "1"
    parts = tuple(offsets), tuple(bars), tuple(smooths)
    return Formula(text, response, trials, fixed_text, *parts)


def _response(marks: Scan, tilde: int) -> tuple[str, str | None]:
    """The expression left of '~', or successes and trials of prop(s, n) or cbind(s, failures)."""
    text = marks.text
    start, stop = marks.trimmed(0, tilde)
    if start == stop:
        raise formula_error(text, tilde, f"A response was expected before '~', as in {EXAMPLE}.")
    for bar in marks.find("|", start, stop):
        raise formula_error(
            text,
            bar,
            "A '|' was expected only right of '~', as in (1|g); a response with trials is prop(y, n).",
        )
    call = re.match(r"(prop|cbind)\s*\(", text[start:stop])
    if call is None:
        return text[start:stop], None
    opening = start + call.end() - 1
    if marks.closing[opening] != stop - 1:
        raise formula_error(
            text, marks.closing[opening] + 1, f"A '~' was expected after {call.group(1)}(...)."
        )
    commas = [at for at in marks.find(",", opening, stop) if marks.parent[at] == opening]
    if len(commas) != 1 or not (
        text[opening + 1 : commas[0]].strip() and text[commas[0] + 1 : stop - 1].strip()
    ):
        raise formula_error(
            text,
            opening,
            "Two arguments were expected here, as in prop(successes, trials) or "
            "cbind(successes, failures).",
        )
    first, second = text[opening + 1 : commas[0]].strip(), text[commas[0] + 1 : stop - 1].strip()
    return first, second if call.group(1) == "prop" else f"{first} + {second}"


def _pieces(marks: Scan, start: int) -> list[Piece]:
    """The summands of the right side, split at '+' and '-' outside brackets."""
    text = marks.text
    if not text[start:].strip():
        raise formula_error(
            text,
            len(text.rstrip()),
            "Terms were expected after '~'; write '1' for an intercept alone.",
        )
    signs = [at for at in marks.find("+-", start, len(text)) if marks.parent[at] < 0]
    pieces = []
    for at, end in zip([start - 1, *signs], [*signs, len(text)], strict=True):
        first, last = marks.trimmed(at + 1, end)
        if first < last:
            sign = text[at] if at >= start else "+"
            pieces.append(Piece(sign, first, last))
        elif at >= start:
            raise formula_error(text, at, f"A term was expected after this '{text[at]}'.")
    return pieces


def _offset(marks: Scan, piece: Piece) -> str | None:
    """The argument of offset(...), None when the piece is none."""
    text = marks.text
    call = re.search(r"(?<![\w.])offset\s*\(", text[piece.start : piece.stop])
    if call is None:
        return None
    at, opening = piece.start + call.start(), piece.start + call.end() - 1
    if call.start() > 0 or marks.closing[opening] != piece.stop - 1 or piece.sign == "-":
        raise formula_error(
            text, at, "An offset was expected as a term of its own, joined by '+': '+ offset(x)'."
        )
    argument = text[opening + 1 : marks.closing[opening]].strip()
    if not argument:
        raise formula_error(text, opening, "A column was expected inside offset(...).")
    return argument
