"""Smooths: a line as a fixed effect, and what bends as coefficients with a common standard deviation."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ....errors import BeyondTheData, InvalidData
from ..text.scanning import formula_error
from ..text.smooths import SmoothText
from .columns import Table
from .groups import Coder, Factor, read_factor
from .model_matrix import Number, build_number

LINEAR = "linear"


class Basis:
    """Cubic splines with knots at k quantiles, straight beyond: their bends, orthogonal to 1 and x.

    f = Σ b_j z_j with b_j ~ N(0, sd²) has E∫f″² the same in every direction (the cubic regression spline of
    mgcv), scaled so that the mean of f² over the rows is sd².
    """

    def __init__(self, x: np.ndarray, k: int):
        self.low, self.high = float(x.min()), float(x.max())
        self.center, self.unit = float(x.mean()), float(x.std())
        knots = np.quantile(np.unique(self._standard(x)), np.linspace(0, 1, k))
        h = np.diff(knots)
        D = np.zeros((k - 2, k))
        B = np.zeros((k - 2, k - 2))
        for i in range(k - 2):
            D[i, i : i + 3] = 1 / h[i], -1 / h[i] - 1 / h[i + 1], 1 / h[i + 1]
            B[i, i] = (h[i] + h[i + 1]) / 3
            if i + 1 < k - 2:
                B[i, i + 1] = B[i + 1, i] = h[i + 1] / 6
        bend = np.linalg.solve(B, D)  # f'' at the inner knots from values at all: ∫f''² = fᵀDᵀB⁻¹Df
        values, U = np.linalg.eigh(D.T @ bend)
        keep = U[:, 2:] / np.sqrt(values[2:])
        self.knots, self.heights = knots, keep[:, ::-1]
        self.bends = np.vstack([np.zeros(k - 2), bend @ self.heights, np.zeros(k - 2)])
        Z, L = self._raw(x), self._lines(x)
        self.straight = np.linalg.lstsq(L, Z, rcond=None)[0]
        Z = Z - L @ self.straight
        self.scale = float(np.sqrt((Z**2).sum(1).mean()))

    @property
    def state(self) -> dict[str, Any]:
        """All that makes it again."""
        return dict(vars(self))

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Basis:
        """The basis of a state."""
        made = cls.__new__(cls)
        vars(made).update(state)
        return made

    def line(self, x: np.ndarray) -> np.ndarray:
        """x itself, centred, (n,)."""
        return x - self.center

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """z at n points, (n, k − 2)."""
        return np.asarray((self._raw(x) - self._lines(x) @ self.straight) / self.scale)

    def _standard(self, x: np.ndarray) -> np.ndarray:
        return np.asarray((x - self.center) / self.unit)

    def _lines(self, x: np.ndarray) -> np.ndarray:
        return np.column_stack([np.ones(len(x)), self._standard(x)])

    def _raw(self, x: np.ndarray) -> np.ndarray:
        """Natural cubic splines with these heights and bends at the knots."""
        t, knots, F, M = self._standard(x), self.knots, self.heights, self.bends
        near = np.clip(t, knots[0], knots[-1])
        i = np.clip(np.searchsorted(knots, near, side="right") - 1, 0, len(knots) - 2)
        h = (knots[i + 1] - knots[i])[:, None]
        b = (near - knots[i])[:, None] / h
        a = 1 - b
        bent = ((a**3 - a) * M[i] + (b**3 - b) * M[i + 1]) * h**2 / 6
        slope = (F[i + 1] - F[i]) / h + ((3 * b**2 - 1) * M[i + 1] - (3 * a**2 - 1) * M[i]) * h / 6
        return a * F[i] + b * F[i + 1] + bent + slope * (t - near)[:, None]


class Smooth(NamedTuple):
    """One curve: its label, where its line and its bends are among the columns of X, and its makers.

    Of a smooth by a group, the level it is of and what codes it.
    """

    label: str
    text: SmoothText
    linear: int
    places: np.ndarray
    number: Number
    basis: Basis
    coder: Coder | None = None
    level: Any = None
    code: int = 0

    def columns(self, table: Table) -> np.ndarray:
        """The line and the bends of rows, (n, k − 1)."""
        x = self.number.apply(table)
        there = self.coder is None or self.coder.codes(table) == self.code
        return self.at(x) * np.reshape(there, (-1, 1))

    def at(self, x: np.ndarray) -> np.ndarray:
        """The line and the bends at points x of its own level, (n, k − 1)."""
        return np.column_stack([self.basis.line(x), self.basis(x)])

    @property
    def size(self) -> float:
        """√mean f² over the rows at an sd of 1."""
        return 1.0

    @property
    def Q(self) -> np.ndarray | None:
        """Bends are independent."""
        return None

    @property
    def names(self) -> list[str]:
        """Of its columns."""
        return [f"{self.label}[{part}]" for part in (LINEAR, *range(1, len(self.places) + 1))]


def read_smooths(
    text: str, smooths: Sequence[SmoothText], table: Table, first: int
) -> tuple[list[Smooth], list[np.ndarray]]:
    """Every curve, and its columns (N, k − 1); the first of them will be column `first` of X."""
    found: list[Smooth] = []
    columns: list[np.ndarray] = []
    for smooth in smooths:
        if any(other.text.label == smooth.label for other in found):
            raise formula_error(text, smooth.at, f"{smooth.label} is in the formula twice.")
        x, number = build_number(smooth.argument, table)
        different = len(np.unique(x))
        if different < smooth.k:
            raise InvalidData(
                f"'{smooth.argument}' has {different} different values, fewer than the k={smooth.k} "
                f"functions of {smooth.label}; give a smaller k, or factor({smooth.argument}).",
                column=smooth.argument,
                value=different,
            )
        basis = Basis(x, smooth.k)
        levels: list[tuple[Any, int, Coder | None]] = [(None, 0, None)]
        if smooth.by is not None:
            factor, coder = _by(smooth, table)
            levels = [(level, code, coder) for code, level in enumerate(factor.levels)]
        for level, code, own in levels:
            label = smooth.label if own is None else f"{smooth.label}[{level}]"
            places = first + 1 + np.arange(smooth.k - 2)
            made = Smooth(label, smooth, first, places, number, basis, own, level, code)
            found.append(made)
            columns.append(made.columns(table))
            first += smooth.k - 1
    return found, columns


def _by(smooth: SmoothText, table: Table) -> tuple[Factor, Coder]:
    """The levels that a smooth has a curve for each of."""
    assert smooth.by is not None
    try:
        return read_factor(smooth.by, (smooth.by,), table)
    except InvalidData as error:
        raise InvalidData(
            f"The column '{smooth.by}' of {smooth.label} holds numbers that are no levels: there is a curve "
            "for each level of a column, and none that is multiplied by one. Give a column of labels.",
            column=smooth.by,
        ) from error


def new_columns(smooths: Sequence[Smooth], table: Table) -> list[np.ndarray]:
    """The columns of other rows; a warning tells of points beyond those of the fit."""
    for smooth in {smooth.text.label: smooth for smooth in smooths}.values():
        x = smooth.number.apply(table)
        beyond = np.flatnonzero((x < smooth.basis.low) | (x > smooth.basis.high))
        if len(beyond):
            warnings.warn(
                BeyondTheData(
                    f"{len(beyond)} of {len(x)} rows have '{smooth.text.argument}' beyond the "
                    f"{smooth.basis.low:g} to {smooth.basis.high:g} of the fit, such as "
                    f"{x[beyond[0]]:g} in {table.place(int(beyond[0]))}, where {smooth.text.label} goes "
                    "on as a straight line.",
                    column=smooth.text.argument,
                    rows=len(beyond),
                ),
                stacklevel=5,
            )
        if smooth.coder is not None and (smooth.coder.codes(table) < 0).any():
            row = int(np.argmax(smooth.coder.codes(table) < 0))
            name = smooth.coder.columns[0]
            raise table.error(
                name,
                row,
                pd.Series(table.frame[name]).iloc[row],
                f"is a level that {smooth.text.label} has no curve for",
                "Use a level of the fit",
            )
    return [smooth.columns(table) for smooth in smooths]
