"""X at a mixture's door: scikit-learn's checks, and our own sentence for what they let through."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from ...data.tables import invalid_value, refuse_lazy, refuse_masked
from ...errors import InvalidData


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
    matrix = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=False, **checks)
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        names = getattr(estimator, "feature_names_in_", None)
        name = str(column) if names is None else str(names[column])
        value = matrix[row, column]
        kind = "NaN" if np.isnan(value) else "infinity"
        raise invalid_value(
            name,
            (row,),
            value,
            f"must be finite; X contains {kind}",
            "Drop or fill the row",
        )
    return matrix
