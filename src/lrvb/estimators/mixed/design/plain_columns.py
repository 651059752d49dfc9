"""Sums of plain columns of numbers, '1 + x + w': `formulaic` takes longer to import than a small fit."""

from __future__ import annotations

import re
from enum import Enum
from keyword import iskeyword
from typing import Any, NamedTuple

import numpy as np

from .columns import Table

INTERCEPT = "Intercept"  # what formulaic calls the column of ones
SUM = re.compile(r"\s*([01]|[A-Za-z_]\w*)(?:\s*\+\s*[A-Za-z_]\w*)*\s*", re.ASCII)


class Kind(Enum):
    """Of a factor, as formulaic has it."""

    NUMERICAL = "numerical"


class PlainSum(NamedTuple):
    """An intercept or none, and columns as they are; recipe and specification at once, for any rows."""

    intercept: bool
    columns: tuple[str, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """Of the design."""
        return (INTERCEPT, *self.columns) if self.intercept else self.columns

    @property
    def encoder_state(self) -> dict[str, tuple[Kind, dict[str, Any]]]:
        """Every column is a number."""
        return {name: (Kind.NUMERICAL, {}) for name in self.columns}

    @property
    def transform_state(self) -> dict[str, Any]:
        """Nothing that depends on the rows of the fit."""
        return {}

    def values(self, table: Table) -> np.ndarray:
        """The columns of a table, (n, q)."""
        found = np.ones((table.n, len(self.column_names)))
        for j, name in enumerate(self.columns, start=int(self.intercept)):
            found[:, j] = table.frame[name]
        return found


def plain_sum(text: str) -> PlainSum | None:
    """A text that is a sum of different names, after 0 or 1 perhaps; None for any other."""
    if SUM.fullmatch(text) is None:
        return None
    first, *others = re.findall(r"\w+", text)
    names = others if first in ("0", "1") else [first, *others]
    if len({*names, INTERCEPT}) <= len(names) or any(map(iskeyword, names)):
        return None
    return PlainSum(first != "0", tuple(names))


def are_numbers(names: tuple[str, ...], table: Table) -> bool:
    """Whether these are columns of numbers, or of True and False."""
    known = {str(name): kind for name, kind in table.frame.dtypes.items()}
    kinds = [known.get(name) for name in names]
    return all(isinstance(kind, np.dtype) and kind.kind in "iufb" for kind in kinds)
