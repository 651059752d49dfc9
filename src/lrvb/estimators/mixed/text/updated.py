"""R's way to change a formula: '. ~ . + x - (1|g)', where a dot stands for what was there."""

from __future__ import annotations

from typing import Any

from ....errors import InvalidModel
from .scanning import formula_error, scan


def update_formula(new: Any, old: str) -> str:
    """The new formula, its dots replaced by the sides of the old one; what is subtracted is left out.

    A side that is missing, as in '~ . + x', is that of the old formula.
    """
    if not isinstance(new, str) or not new.strip():
        raise InvalidModel(f"formula={new!r} must be text, such as '. ~ . + x'.")
    response, terms = _sides(new)
    old_response, old_terms = _sides(old)
    kept: list[tuple[str, str]] = []
    for sign, term, at in terms:
        if term == ".":
            if sign == "-":
                raise formula_error(new, at, "The whole of the old formula cannot be subtracted.")
            kept += [(s, t) for s, t, _ in old_terms]
            continue
        same = [i for i, (s, t) in enumerate(kept) if s == "+" and _alike(t, term)]
        if sign == "-" and same:
            kept.pop(same[0])
        elif sign == "-" and "|" in term:
            raise formula_error(new, at, f"The formula has no term {term} that could be left out.")
        elif sign == "-" or not same:
            kept.append((sign, term))
    left = old_response if response in (".", "") else response
    if not any(sign == "+" for sign, _ in kept):
        kept.insert(0, ("+", "1"))
    right = " ".join(f"{sign} {term}" for sign, term in kept).removeprefix("+ ")
    return f"{left} ~ {right}"


def _sides(text: str) -> tuple[str, list[tuple[str, str, int]]]:
    """The response, and the summands of the right side with sign and place."""
    marks = scan(text)
    text = marks.text
    tildes = [at for at in marks.find("~", 0, len(text)) if marks.parent[at] < 0]
    if len(tildes) != 1:
        raise formula_error(text, 0, "One '~' was expected, as in '. ~ . + x'.")
    start = tildes[0] + 1
    signs = [at for at in marks.find("+-", start, len(text)) if marks.parent[at] < 0]
    terms = []
    for at, end in zip([start - 1, *signs], [*signs, len(text)], strict=True):
        first, last = marks.trimmed(at + 1, end)
        if first < last:
            terms.append((text[at] if at >= start else "+", text[first:last], first))
    return text[: tildes[0]].strip(), terms


def _alike(a: str, b: str) -> bool:
    """Whether two terms are the same but for spaces."""
    return "".join(a.split()) == "".join(b.split())
