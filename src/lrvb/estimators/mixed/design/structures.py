"""Known precision matrices of a group's levels: pedigrees, neighbours, time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....errors import InvalidData, InvalidModel
from .columns import SHOWN, Table
from .groups import Factor, matched
from .terms import Columns, Term

MOST = 400  # levels: a dense matrix of them is factorised at every draw
EVEN = 1e-8  # how far from symmetric a matrix may be, relative to its largest entry


class Structured(NamedTuple):
    """z ~ N(0, sd² Q⁻¹) over the levels of a group, of which each row adds r z_k.

    places (K,) are its columns among those of X, one for each level that Q has; rows need not have all.
    """

    label: str
    group: str
    places: np.ndarray
    levels: pd.Index
    Q: np.ndarray
    source: Columns
    column: str

    @property
    def names(self) -> list[str]:
        """Of its columns, which are its levels."""
        return [f"{self.label}[{level}]" for level in self.levels]

    @property
    def size(self) -> float:
        """√ of the mean of Q⁻¹'s diagonal: what an sd of 1 makes of a typical level."""
        return float(np.sqrt(np.mean(np.diag(np.linalg.inv(self.Q)))))

    def columns(self, table: Table, r: np.ndarray) -> np.ndarray:
        """The columns of rows whose effect is multiplied by r (n,), (n, K)."""
        values = pd.Index(np.asarray(table.frame[self.column]))
        codes = matched(self.levels, values)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            known = ", ".join(f"'{level}'" for level in self.levels[:SHOWN])
            raise table.error(
                self.column,
                row,
                values[row],
                f"is not among the levels of structures['{self.group}']",
                f"Label the matrix by all levels, which are now {known}, …",
            )
        found = np.zeros((len(values), len(self.levels)))
        found[np.arange(len(values)), codes] = r
        return found


def check_structures(structures: Any) -> dict[str, Any]:
    """A mapping of groups to matrices."""
    if structures is None:
        return {}
    if not isinstance(structures, Mapping):
        raise InvalidModel(
            f"structures={type(structures).__name__} must map groups to precision matrices, such as "
            "{'g': Q}."
        )
    return dict(structures)


def split_structured(
    structures: Mapping[str, Any],
    terms: Sequence[Term],
    sources: Sequence[Columns],
    factors: Sequence[Factor],
    first: int,
) -> tuple[list[Structured], list[Term], list[Columns]]:
    """Terms with a structure, whose first column will be `first`; all other terms with their sources."""
    groups = {term.group for term in terms}
    for group in structures:
        if group not in groups:
            raise InvalidModel(
                f"structures has '{group}', which is no group of the formula; there are: "
                f"{', '.join(sorted(groups)) or 'none'}."
            )
    found: list[Structured] = []
    others: list[tuple[Term, Columns]] = []
    for term, source in zip(terms, sources, strict=True):
        if term.group not in structures:
            others.append((term, source))
            continue
        if len(term.coefficients) > 1 or ":" in term.group:
            raise InvalidModel(
                f"The term '{term.name}' has several coefficients or columns of '{term.group}', but a "
                f"structure is for one: write (1|{term.group}) or (0 + x|{term.group})."
            )
        levels, Q = _matrix(structures[term.group], term.group, factors[term.factor].levels)
        places = np.arange(first, first + len(levels))
        label = f"{term.coefficients[0]}|{term.group}"
        found.append(Structured(label, term.group, places, levels, Q, source, term.group))
        first += len(levels)
    return found, [term for term, _ in others], [source for _, source in others]


def _matrix(given: Any, group: str, levels: np.ndarray) -> tuple[pd.Index, np.ndarray]:
    """The labels and the matrix, symmetric and positive definite."""
    name = f"structures['{group}']"
    labels = pd.Index(levels)
    if isinstance(given, pd.DataFrame):
        labels = pd.Index(given.index)
        if not labels.is_unique or set(labels) != set(given.columns):
            raise InvalidModel(
                f"{name} must have the same labels, each once, for its rows and its columns."
            )
        given = given.loc[labels, labels].to_numpy()
    if np.shape(given)[:1] > (MOST,):
        raise InvalidModel(
            f"{name} has {np.shape(given)[0]:,} levels; up to {MOST} can be summed out exactly. Group them "
            "coarser, or leave the structure out."
        )
    dense = given.toarray() if hasattr(given, "toarray") else np.asarray(given)
    try:
        Q = np.asarray(dense, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidModel(f"{name} must be a matrix of numbers.") from None
    if Q.ndim != 2 or Q.shape[0] != Q.shape[1] or Q.shape[0] != len(labels):
        raise InvalidData(
            f"{name} has shape {Q.shape}, but the group has {len(labels)} levels; give a square matrix, "
            "as a DataFrame labelled by the levels where it has more of them than the rows.",
            column=group,
        )
    if not np.isfinite(Q).all():
        raise InvalidData(f"{name} has an entry that is not finite.", column=group)
    if np.abs(Q - Q.T).max() > EVEN * np.abs(Q).max():
        i, j = np.unravel_index(np.argmax(np.abs(Q - Q.T)), Q.shape)
        raise InvalidData(
            f"{name} is not symmetric: '{labels[i]}', '{labels[j]}' has {Q[i, j]:g} and "
            f"'{labels[j]}', '{labels[i]}' has {Q[j, i]:g}.",
            column=group,
        )
    Q = (Q + Q.T) / 2
    low, high = np.linalg.eigvalsh(Q)[[0, -1]]
    if not low > 1e-12 * high:
        raise InvalidData(
            f"{name} is not positive definite: its smallest eigenvalue is {low:.2g}, its largest "
            f"{high:.2g}. Give a precision matrix; to one of neighbours that has none smaller than zero, "
            "add a small diagonal.",
            column=group,
        )
    return labels, Q
