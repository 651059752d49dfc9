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
from ..text.formula import parse
from .columns import Table, is_text
from .design import Design
from .groups import Coder, Factor
from .model_matrix import ColumnBlock, build_block, build_number
from .terms import Columns, Term

ROWS = 64  # of the table on which specifications are made anew, at least
CHECKED = 200  # rows of the fit that a stored design must give again


class NotHere:
    """Stands for rows that a file does not hold: any question for them is an error."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise InvalidData(
            "A model that was read from a file has none of the rows of its fit; give the rows that you "
            "ask about as new_data."
        )

    __getattr__ = __getitem__ = __len__ = __array__ = __iter__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = __matmul__ = _refuse


@dataclass(frozen=True, eq=False)
class StoredDesign(Design):
    """A design without rows, of which so many there were; `values` are the response's, where they matter."""

    size: int = field(kw_only=True)
    values: np.ndarray = field(kw_only=True, repr=False)

    @property
    def n(self) -> int:
        """Number of rows of the fit."""
        return self.size

    @cached_property
    def dispersions(self) -> tuple[Dispersion, ...]:
        """The parameters of the response beside η."""
        return self.family.dispersions_of(self.values)

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
        "dropped": int(design.dropped),
        "observation": design.observation,
        "functions": sorted(design.functions),
        "columns": {str(n): _column(design.frame[n], str(n), blocks) for n in design.frame.columns},
        "blocks": [{"text": b.text, "state": coded(b.spec.transform_state)} for b in blocks],
        "offsets": [
            {"text": o.text, "state": None if o.spec is None else coded(o.spec.transform_state)}
            for o in design.offsets
        ],
        "terms": [
            {
                "name": term.name,
                "group": term.group,
                "coefficients": list(term.coefficients),
                "factor": int(term.factor),
                "block": next(i for i, b in enumerate(blocks) if b is source.block),
                "chosen": list(map(int, source.chosen)),
            }
            for term, source in zip(design.terms, design.sources, strict=True)
        ],
        "factors": [
            {
                "name": factor.name,
                "levels": coded(np.asarray(factor.levels)),
                "columns": list(coder.columns),
                "labels": [coded(np.asarray(labels)) for labels in coder.labels],
                "combinations": coded(np.asarray(coder.combinations)),
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
        _put(block.spec.transform_state, decoded(part["state"]))
        blocks.append(block)
    offsets = []
    for part in found["offsets"]:
        number = build_number(part["text"], table)[1]
        if part["state"] is not None:
            _put(number.spec.transform_state, decoded(part["state"]))
        offsets.append(number)
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
        labels = tuple(pd.Index(decoded(label)) for label in part["labels"])
        combined = pd.Index(decoded(part["combinations"]))
        coders.append(Coder(part["name"], tuple(part["columns"]), labels, combined))
    return StoredDesign(
        formula=parse(found["formula"]),
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
        fixed=blocks[0],
        offsets=offsets,
        sources=sources,
        coders=coders,
        functions=functions,
        size=int(found["n"]),
        values=decoded(found["values"]),
    )


def _values(design: Design) -> np.ndarray:
    """The response's different values, where the family's parameters depend on them."""
    own = type(design.family).dispersions_of is not Likelihood.dispersions_of
    return np.unique(design.y) if own else np.zeros(0)


def _blocks(design: Design) -> list[ColumnBlock]:
    """Every specification once, that of the fixed effects first."""
    found = [design.fixed]
    for source in design.sources:
        if not any(source.block is block for block in found):
            found.append(source.block)
    return found


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


def _put(state: Any, kept: Mapping[Any, Any]) -> None:
    """A transform's state in place of what the skeleton made of it."""
    for key in list(state):
        if key not in kept:
            raise ValueError(f"the state of '{key}' is not in the file")
        state[key] = kept[key]


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


# ---- plain values ----------------------------------------------------------------------------


def coded(value: Any) -> Any:
    """A value as JSON has it, with its kind where JSON has none."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return {"array": [coded(part) for part in value.tolist()], "kind": value.dtype.kind}
    if isinstance(value, list):
        return [coded(part) for part in value]
    if isinstance(value, tuple):
        return {"tuple": [coded(part) for part in value]}
    if isinstance(value, Mapping):
        return {"mapping": [[coded(k), coded(v)] for k, v in value.items()]}
    raise InvalidModel(f"The model cannot be saved: a file does not hold {type(value).__name__}.")


def decoded(value: Any) -> Any:
    """What `coded` was given."""
    if isinstance(value, list):
        return [decoded(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    if "array" in value:
        parts = [decoded(part) for part in value["array"]]
        if value["kind"] == "O":
            made = np.empty(len(parts), dtype=object)
            made[:] = parts
            return made
        return np.array(parts, dtype={"i": np.int64, "f": np.float64, "b": bool}.get(value["kind"]))
    if "tuple" in value:
        return tuple(decoded(part) for part in value["tuple"])
    return {decoded(k): decoded(v) for k, v in value["mapping"]}
