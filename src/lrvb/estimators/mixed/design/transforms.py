"""Functions of a formula beyond formulaic's own that remember the rows of the fit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ....errors import InvalidModel


@functools.cache
def remembering() -> dict[str, Callable[..., Any]]:
    """By name: `factor` and `ns`."""
    from formulaic.transforms import TRANSFORMS
    from formulaic.utils.stateful_transforms import stateful_transform

    return {"factor": TRANSFORMS["C"], "ns": stateful_transform(ns)}


def ns(
    data: Any, df: Any = None, knots: Any = None, _state: dict[str, Any] | None = None
) -> dict[int, np.ndarray]:
    """Natural cubic splines of one column, as R's: `df` columns, linear beyond the rows of the fit.

    df − 1 knots at evenly spaced quantiles unless `knots` are given.
    """
    state: dict[str, Any] = {} if _state is None else _state
    x = np.asarray(data, dtype=np.float64)
    if not state:
        state["ends"] = ends = float(x.min()), float(x.max())
        if knots is None:
            if not isinstance(df, int | np.integer) or isinstance(df, bool) or df < 1:
                raise InvalidModel(
                    f"ns(...) has df={df!r}; give a whole number of columns, as in ns(x, df=4)."
                )
            inner = np.quantile(x, np.arange(1, df) / df)
        else:
            inner = np.sort(np.atleast_1d(np.asarray(knots, dtype=np.float64)))
        full = np.array([ends[0], *inner, ends[1]])
        if not (np.diff(full) > 0).all():
            raise InvalidModel(
                f"ns(...) needs different knots inside the column's range, but they are "
                f"{', '.join(f'{knot:g}' for knot in full)}; take a smaller df, or give knots=[...]."
            )
        state["knots"] = tuple(inner)
    low, high = state["ends"]
    basis = NaturalSpline(low, high, np.array(state["knots"]))
    values = basis(x)
    return {j + 1: values[:, j] for j in range(values.shape[1])}


class NaturalSpline:
    """Cubic splines whose second derivative is zero at both ends, without the constant.

    Of m inner knots these are m + 1 functions, zero at the lower end; beyond the ends they are lines.
    """

    def __init__(self, low: float, high: float, knots: np.ndarray):
        from scipy.interpolate import BSpline

        t = np.r_[[low] * 4, knots, [high] * 4]
        self.ends = low, high
        count = len(t) - 4
        splines = BSpline(t, np.eye(count), 3)
        bends = splines.derivative(2)(np.array([low, high]))[:, 1:]
        # columns that leave no bend at either end
        Q, _ = np.linalg.qr(bends.T, mode="complete")
        self.free = np.vstack([np.zeros((1, count - 3)), Q[:, 2:]])
        self.splines, self.slopes = splines, splines.derivative(1)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """At n points, (n, m + 1)."""
        near = np.clip(x, *self.ends)
        values = self.splines(near) + self.slopes(near) * (x - near)[:, None]
        return np.asarray(values @ self.free)
