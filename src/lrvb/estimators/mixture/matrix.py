"""X at a mixture's door: scikit-learn's checks, and our own sentence for what they let through."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from sklearn.utils.validation import _check_sample_weight, check_random_state, validate_data

from ...data.tables import LARGEST, invalid_value, refuse_lazy, refuse_masked
from ...errors import InvalidData, InvalidModel


def checked_matrix(estimator: Any, X: Any, **checks: Any) -> np.ndarray:
    """X as finite floats (N, P), with scikit-learn's conventions for names and shapes.

    A value that is masked or not finite is named by its column and row.
    """
    refuse_lazy(X)
    kinds = {type(name) for name in getattr(X, "columns", ())}
    if str in kinds and len(kinds) > 1:
        raise InvalidData(
            "Some columns of X are named by text and some by numbers; name all by text, such as "
            "X.columns = X.columns.astype(str)."
        )
    refuse_masked("X", X)
    try:
        matrix = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=False, **checks)
    except ValueError as error:
        raise InvalidData(_sentence(error, X)) from error
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        value = matrix[row, column]
        kind = "NaN" if np.isnan(value) else "infinity"
        raise invalid_value(
            _name(estimator, column),
            (row,),
            value,
            f"must be finite; X contains {kind}",
            "Drop or fill the row",
        )
    large = np.abs(matrix) > LARGEST
    if large.any():
        row, column = (int(i) for i in np.argwhere(large)[0])
        value = matrix[row, column]
        raise invalid_value(
            _name(estimator, column),
            (row,),
            value,
            "is too large to be squared",
            "Rescale the column",
        )
    return matrix


def checked_weights(sample_weight: Any, X: np.ndarray) -> np.ndarray:
    """How often each row counts, (N,), with scikit-learn's conventions: a number is that of every row."""
    try:
        return _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    except (TypeError, ValueError) as error:
        first = str(error).partition("\n")[0].rstrip(".!")
        raise InvalidData(
            f"{first}; of sample_weight give one finite weight, 0 or more, for each of the "
            f"{len(X)} rows."
        ) from error


def _name(estimator: Any, column: int) -> str:
    names = getattr(estimator, "feature_names_in_", None)
    return str(column) if names is None else str(names[column])


def _sentence(error: ValueError, X: Any) -> str:
    """scikit-learn's complaint, without the whole of X in it."""
    text = str(error)
    first, _, rest = text.partition("\n")
    if "array=" in text:
        return f"{first} {rest[rest.rindex(chr(10)) + 1 :]}" if "\n" in rest else first
    if first.startswith("Complex data"):
        return f"{first}; give real numbers."
    if first.startswith("could not convert"):
        for name in getattr(X, "columns", ()):
            kind = X[name].dtype.kind
            if kind in "OSU":
                first += f" in column '{name}'"
                break
        return f"X holds text ({first}); convert it to numbers or leave its column out."
    return text


def generator(random_state: Any) -> np.random.RandomState:
    """scikit-learn's generator of a seed."""
    try:
        return check_random_state(random_state)
    except ValueError as error:
        raise InvalidModel(
            f"random_state={random_state!r} must be None, a whole number from 0 below 2**32, or a "
            "numpy RandomState."
        ) from error


def whole_number(name: str, value: Any) -> int:
    """An argument that counts something: 1 or more."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise InvalidModel(f"{name}={value!r} must be a whole number, 1 or more.")
    return int(value)
