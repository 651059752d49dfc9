"""Fixed effects that cannot be told apart: columns that are combinations of others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.linalg import qr, solve_triangular

from ....data.standardise import Measures
from ....errors import InvalidData

CHUNK = 2**18
CONSTANT = 1e-12  # a spread, of a column's size, that nothing can be learnt from
FAR = 1e6  # spreads from zero: an intercept's variance is its square, of which eps is still 2e-4
SLOPES_FAR = 1e5  # the same of an effect by level, whose sds and correlations have to be found too
SMALL = 1e-10  # a unit column's distance from the span of the others, beyond rounding


def centred(columns: Measures, intercept: int | None, thresholds: bool = False) -> Measures:
    """The columns around their means where an intercept, or thresholds, can absorb them; or around zero."""
    kept = not thresholds if intercept is None else np.arange(len(columns.center)) == intercept
    return columns.about_zero(kept)


def triangle(X: np.ndarray, center: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """R of (X − center)/spread = QR, at most (p, p), from blocks of rows: no second X is needed."""
    R = np.zeros((0, X.shape[1]))
    for start in range(0, len(X), CHUNK):
        rows = (X[start : start + CHUNK] - center) / spread
        R = np.asarray(np.linalg.qr(np.vstack([R, rows]), mode="r"))
    return R


def check_rank(X: np.ndarray, names: list[str], measures: Measures, intercept: bool = True) -> None:
    """Refuse columns that are combinations of others, by name; of thresholds too without an intercept."""
    if X.shape[1] == 0:
        return
    first = names.index("Intercept") if "Intercept" in names else None
    columns = centred(measures, first, not intercept)
    check_triangle(triangle(X, columns.center, columns.unit()), names, columns)


def refuse_far(
    names: Sequence[str], columns: Measures, most: float = FAR, where: str = "intercept"
) -> None:
    """Refuse columns so far from zero that nothing but rounding tells their effect from the intercept's."""
    distance = np.abs(columns.center) / columns.unit()
    for name, far in zip(names, distance, strict=True):
        if far > most:
            raise InvalidData(
                f"The column '{name}' lies {far:.0e} times its spread away from zero, so that its effect and "
                f"the {where} are lost to rounding; write center({name}), or subtract a constant first.",
                column=name,
            )


def check_triangle(R: np.ndarray, names: list[str], columns: Measures) -> None:
    """The same from R of (X − center)/spread = QR, or any matrix with the same RᵀR.

    Columns are centred when there is an intercept and scaled to unit length; a pivoted QR
    decomposition then finds the columns at distance zero from the span of those before.
    """
    center, spread, size = columns.center, columns.spread, columns.size
    for name, same, full in zip(names, columns.constant(CONSTANT), size, strict=True):
        if full == 0:
            raise InvalidData(
                f"The fixed effect '{name}' is zero in every row, so that it has no effect to "
                "estimate (an empty combination of categories?); leave it out.",
                column=name,
            )
        if same:
            raise InvalidData(
                f"The fixed effect '{name}' is the same in every row and cannot be told from the "
                "intercept; leave one of the two out.",
                column=name,
            )
    refuse_far(names, columns)
    R, order = qr(R, mode="r", pivoting=True)[:2]
    R = R[: min(R.shape)]
    distance = np.abs(np.diagonal(R)) / np.sqrt(columns.n)
    rank = int((distance > SMALL * np.sqrt(len(names))).sum())
    if rank == len(names):
        return
    first, before = order[rank], order[:rank]
    weights = solve_triangular(R[:rank, :rank], R[:rank, rank]) * spread[first] / spread[before]
    kept = np.abs(weights) * size[before] > 1e-6 * size[first]
    others = [names[j] for j in before[kept]]
    constant = center[first] - weights @ center[before]
    if abs(constant) > 1e-6 * size[first] and "Intercept" not in others:
        others.append("Intercept")
    others.sort(key=names.index)
    raise InvalidData(
        f"The fixed effect '{names[first]}' is an exact combination of "
        + ", ".join(f"'{name}'" for name in others)
        + ", so that their effects cannot be told apart; leave one of them out.",
        column=names[first],
        columns=[names[first], *others],
    )
