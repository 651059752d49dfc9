"""Which columns of a table a formula names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ....errors import InvalidData
from ..text.formula import Formula, parse
from ..text.scanning import words
from ..text.translation import filled, has_dot
from .columns import close_to
from .model_matrix import check_syntax, named_columns
from .weights import check_name


def read_formula(
    formula: Formula | str,
    known: list[str],
    own: Mapping[str, Callable[..., Any]],
    weights: str | None = None,
) -> tuple[Formula, list[str]]:
    """A formula that can be read, and every column of `known` that it names or that has weights."""
    formula = parse(formula) if isinstance(formula, str) else formula
    formula = _without_dots(formula, known, own, weights)
    for text in dict.fromkeys([formula.fixed, *(bar.lhs for bar in formula.bars)]):
        check_syntax(text, formula.text)
    named = columns_of(formula, known, own=own)
    if weights is not None:
        check_name(weights, known)
        named = [*named, weights]
    return formula, named


def columns_of(
    formula: Formula, known: list[str], response: bool = True, own: Iterable[str] = ()
) -> list[str]:
    """Every column the formula names; one that the table lacks is an error that shows its place."""
    texts = [formula.fixed, *formula.offsets, *(bar.lhs for bar in formula.bars)]
    texts += [smooth.argument for smooth in formula.smooths]
    if response:
        texts = [formula.response, *([formula.trials] if formula.trials else []), *texts]
    names = [name for text in texts for name in named_columns(text, known, formula.text, own)]
    names += [name for bar in formula.bars for name in bar.columns]
    names += [smooth.by for smooth in formula.smooths if smooth.by is not None]
    for name in names:
        if name not in known:
            at = _find(formula.text, name)
            raise InvalidData(
                f"The data have no column '{name}'; {close_to(name, known)}\n"
                f"    {formula.text}\n    {' ' * at}^",
                column=name,
                at=at,
            )
    return names


def _without_dots(
    formula: Formula, known: list[str], own: Iterable[str], weights: str | None
) -> Formula:
    """The formula with every other column, none that is named elsewhere, in place of '.'."""
    if not has_dot(formula.fixed):
        return formula
    rest = formula._replace(fixed="1")
    taken = {*columns_of(rest, known, own=own), weights}
    others = [name for name in known if name not in taken]
    if not others:
        raise InvalidData(
            "The formula's '.' stands for all columns that are not named elsewhere, and there are none.",
            value=".",
        )
    return formula._replace(fixed=filled(formula.fixed, others))


def _find(text: str, name: str) -> int:
    """Where a name stands in the formula."""
    return next((word.at for word in words(text) if word.name.split(".")[0] == name), 0)
