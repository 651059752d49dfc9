"""A formula as R users write it, in the words of this one: as.factor(g), x^2 within a call, and '.'."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .scanning import scan

DOT = re.compile(r"(?<![\w.)`])\.(?![\w.])")
#: what stands here for functions of R's formulas
INSTEAD = {
    "relevel": 'Another reference level is C(g, contr.treatment("b")).',
    "ordered": "Contrasts of ordered levels are C(g, contr.poly()).",
    "interaction": "Combinations of columns are a:b.",
    "c": "Several numbers stand in square brackets, as in knots=[2, 4].",
    "ifelse": "It is np.where(x > 0, 1, 0) here.",
    "cut": "Make the column of classes before, with pandas.cut.",
    "Error": "A random effect is (1 | g).",
    "f": "INLA's f(g) is (1 | g); a known precision matrix of it is structures={'g': Q}.",
    "rcs": "Natural splines are ns(x, df=4), penalised ones s(x).",
    "mo": "There are no monotonic effects; factor(x) has one for each level.",
} | dict.fromkeys(("te", "ti", "t2"), "Smooths are of one column: s(x) + s(z), or s(x, by=g).")
INSTEAD |= dict.fromkeys(("gp", "lo"), "A smooth curve is s(x).")

AS_FACTOR = re.compile(r"(?<![\w.])as\.factor(?=\s*\()")


def translated(text: str) -> str:
    """as.factor( is factor(, and ^ within a call, where it is a power and no crossing, is **."""
    text = AS_FACTOR.sub("factor", text)
    marks = scan(text)
    powers = [
        at for at in marks.find("^", 0, len(marks.text)) if _is_called(marks.text, marks.parent, at)
    ]
    for at in reversed(powers):
        text = text[:at] + "**" + text[at + 1 :]
    return text


def _is_called(text: str, parent: list[int], at: int) -> bool:
    """Whether any bracket around a place belongs to a function."""
    around = parent[at]
    while around >= 0:
        if text[around] == "(" and re.search(r"[\w.]$", text[:around]):
            return True
        around = parent[around]
    return False


def has_dot(fixed: str) -> bool:
    """Whether a fixed part has a '.' that stands for columns."""
    return any(not quoted for _, quoted in _dots(fixed))


def filled(fixed: str, columns: Iterable[str]) -> str:
    """The fixed part with (a + b + …) in place of every '.'."""
    named = " + ".join(name if name.isidentifier() else f"`{name}`" for name in columns)
    for at, quoted in reversed(list(_dots(fixed))):
        if not quoted:
            fixed = f"{fixed[:at]}({named}){fixed[at + 1 :]}"
    return fixed


def _dots(fixed: str) -> Iterable[tuple[int, bool]]:
    quoted = scan(fixed).quoted
    return [(found.start(), quoted[found.start()]) for found in DOT.finditer(fixed)]
