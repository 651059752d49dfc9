"""A design without its rows, as plain values: what makes columns of new rows, and every level's label.

Text is read again; of a transform its state is kept, such as the mean of center(x), and of a column its
range or its categories, on which the texts' specifications are made anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from ....errors import InvalidData, InvalidModel
from ....likelihoods import Dispersion, Likelihood
from ....likelihoods.values import AtHand
from ..text.formula import parse
from .columns import Table, is_text
from .design import Design
from .groups import Factor
from .model_matrix import ColumnBlock, build_block
from .plain_values import coded, decoded, put
from .stored_parts import (
    describe_coder,
    describe_number,
    describe_smooth,
    describe_structured,
    restore_coder,
    restore_number,
    restore_smooth,
    restore_structured,
)
from .terms import Columns, Term

ROWS = 64  # of the table on which specifications are made anew, at least
CHECKED = 200  # rows of the fit that a stored design must give again


class NotHere:
    """Stands for rows that a file does not hold: any question for them is an error."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise InvalidData(
            "A model that was read from a file has none of the rows of its fit. Give predict, predictions, "
            "comparisons, slopes and posterior_predictive the rows that you ask about as new_data; "
            "residuals, simulate, loo, compare, r2, icc and check need those of the fit: ask them before "
            "saving, or of model.update(data=table), which fits again."
        )

    __getattr__ = __getitem__ = __len__ = __array__ = __iter__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = _refuse


@dataclass(frozen=True, eq=False)
class StoredDesign(Design):
    """A design without rows, of which so many there were; `values` are a response's of its kind."""

    size: int = field(kw_only=True)
    values: np.ndarray = field(kw_only=True, repr=False)

    @property
    def n(self) -> int:
        """Number of rows of the fit."""
        return self.size

    @cached_property
    def dispersions(self) -> tuple[Dispersion, ...]:
        """The parameters of the response beside η."""
        return self.family.dispersions_of(AtHand(self.values))

    @property
    def observed(self) -> dict[str, np.ndarray]:
        """Nothing: no rows."""
        return {}


def describe(design: Design) -> dict[str, Any]:
    """Plain values from which `restore` makes the design; an error where it would be another one."""
    blocks = _blocks(design)
    found = {
        "formula": design.formula.text,
        "names": list(design.names),
        "n": int(design.n),
        "values": coded(_values(design)),
        "categories": list(design.categories),
        "dropped": int(design.dropped),
        "observation": design.observation,
        "functions": sorted(design.functions),
        "columns": {str(n): _column(design.frame[n], str(n), blocks) for n in design.frame.columns},
        "blocks": [{"text": b.text, "state": coded(b.spec.transform_state)} for b in blocks],
        "fixed": design.formula.fixed,
        "offsets": [describe_number(number) for number in design.offsets],
        "smooths": [describe_smooth(smooth) for smooth in design.smooths],
        "structured": [
            describe_structured(part, _place(part.source.block, blocks))
            for part in design.structured
        ],
        "terms": [
            {
                "name": term.name,
                "group": term.group,
                "coefficients": list(term.coefficients),
                "factor": int(term.factor),
                "block": _place(source.block, blocks),
                "chosen": list(map(int, source.chosen)),
            }
            for term, source in zip(design.terms, design.sources, strict=True)
        ],
        "factors": [
            {
                "name": factor.name,
                "levels": coded(np.asarray(factor.levels)),
                **describe_coder(coder),
            }
            for factor, coder in zip(design.factors, design.coders, strict=True)
        ],
    }
    _require_the_same(design, found)
    return found


def restore(
    found: Mapping[str, Any],
    family: Likelihood,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> StoredDesign:
    """The design of plain values, without rows: it makes columns of new ones."""
    functions = dict(functions or {})
    for name in found["functions"]:
        if name not in functions:
            raise InvalidData(
                f"The formula '{found['formula']}' calls your own function '{name}', which no file holds; "
                f"pass it, as in lrvb.load(path, functions={{'{name}': {name}}})."
            )
    table = _skeleton(found["columns"])._replace(functions=functions)
    blocks = []
    for part in found["blocks"]:
        block = build_block(part["text"], table)[1]
        put(block.spec.transform_state, decoded(part["state"]))
        blocks.append(block)
    offsets = [restore_number(part, table) for part in found["offsets"]]
    here: Any = NotHere()
    terms, sources = [], []
    for part in found["terms"]:
        names = tuple(map(str, part["coefficients"]))
        terms.append(Term(part["name"], part["group"], names, here, int(part["factor"])))
        sources.append(Columns(blocks[int(part["block"])], tuple(map(int, part["chosen"]))))
    factors, coders = [], []
    for part in found["factors"]:
        levels = decoded(part["levels"])
        factors.append(Factor(part["name"], here, levels))
        coders.append(restore_coder(part["name"], part))
    return StoredDesign(
        formula=parse(found["formula"])._replace(fixed=found["fixed"]),
        family=family,
        y=here,
        trials=None,
        X=here,
        names=list(map(str, found["names"])),
        offset=None,
        terms=terms,
        factors=factors,
        rows=pd.RangeIndex(0),
        dropped=int(found["dropped"]),
        observation=found["observation"],
        fixed=blocks[0] if family.intercept else blocks[0].without_intercept(),
        offsets=offsets,
        sources=sources,
        coders=coders,
        functions=functions,
        size=int(found["n"]),
        values=decoded(found["values"]),
        categories=tuple(map(str, found["categories"])),
        smooths=[restore_smooth(part, table) for part in found["smooths"]],
        structured=[restore_structured(part, blocks) for part in found["structured"]],
    )


def _values(design: Design) -> np.ndarray:
    """Numbers with which the family has the parameters that it has: of categories, one of each.

    Of other responses their values matter to the search for a mode alone, and are not kept.
    """
    if design.family.categorical:
        return np.unique(design.y)
    return np.array([0.25, 0.5, 0.75])


def _blocks(design: Design) -> list[ColumnBlock]:
    """Every specification once, that of the fixed effects first."""
    found = [design.fixed]
    for source in [*design.sources, *(part.source for part in design.structured)]:
        if not any(source.block is block for block in found):
            found.append(source.block)
    return found


def _place(block: ColumnBlock, blocks: list[ColumnBlock]) -> int:
    return next(i for i, other in enumerate(blocks) if other is block)


def _column(column: pd.Series, name: str, blocks: list[ColumnBlock]) -> dict[str, Any]:
    """A column's range, or its categories in their order."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        used = column.cat.remove_unused_categories()
        labels = np.asarray(used.cat.categories, dtype=object)
        return {"categories": coded(labels), "ordered": True}
    as_category = any(name in block.seen for block in blocks)
    if is_text(column) or as_category:
        if not as_category:
            return {"categories": coded(np.array([str(column.iloc[0])], dtype=object))}
        return {"categories": coded(np.asarray(sorted(column.unique())))}
    values = column.to_numpy()
    whole = values.dtype.kind in "iub"
    low, high = float(values.min()), float(values.max())
    return {"low": low, "high": high, "whole": whole, "kind": values.dtype.kind}


def _skeleton(columns: Mapping[str, Any]) -> Table:
    """A table with every category and the ends of every range."""
    categories = {n: decoded(c["categories"]) for n, c in columns.items() if "categories" in c}
    size = max([ROWS, *(2 * len(labels) for labels in categories.values())])
    frame: dict[str, Any] = {}
    for name, part in columns.items():
        if name in categories:
            labels = categories[name]
            made = np.resize(labels, size)
            frame[name] = pd.Categorical(made, categories=labels) if part.get("ordered") else made
            continue
        line = np.linspace(part["low"], part["high"], size)
        line = np.round(line).astype(np.int64) if part["whole"] else line
        frame[name] = line.astype(bool) if part["kind"] == "b" else line
    rows = pd.RangeIndex(size)
    return Table(pd.DataFrame(frame, index=rows), rows, np.arange(size), 0)


def _require_the_same(design: Design, found: Mapping[str, Any]) -> None:
    """Rows of the fit, made by what would be stored, are the rows of the fit."""
    some = np.unique(np.linspace(0, design.n - 1, min(design.n, CHECKED)).astype(int))
    try:
        made = restore(found, design.family, design.functions).apply(design.frame.iloc[some])
    except (InvalidData, ValueError, TypeError, KeyError) as error:
        raise _cannot(design, str(error).partition("\n")[0]) from error
    expected = [design.X, *(term.R for term in design.terms)]
    for one, other in zip(expected, [made.X, *made.R], strict=True):
        if not np.allclose(one[some], other, rtol=1e-10, atol=1e-12):
            raise _cannot(design, "its columns would not be the same on new rows")
    for factor, codes in zip(design.factors, made.codes, strict=True):
        if not np.array_equal(factor.codes[some], codes):
            raise _cannot(design, f"the levels of '{factor.name}' would not be the same")


def _cannot(design: Design, why: str) -> InvalidModel:
    return InvalidModel(f"The model '{design.formula.text}' cannot be saved: {why}.")
