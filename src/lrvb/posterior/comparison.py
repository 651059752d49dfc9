"""Models of the same rows compared by how well each predicts a row from all others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.tables import kind_of
from ..errors import InvalidModel
from .leave_one_out import standard_error
from .noted import noted

if TYPE_CHECKING:
    import pandas as pd

_STEPS, _STILL = 20_000, 1e-9  # of the ascent to stacking's weights, and where it ends
APART = 2.0  # standard errors from which on two models are told apart
_FEW = 4.0  # of elpd: a difference below it is small whatever its standard error


def compare(models: Mapping[str, Any], *, by: Any = None) -> pd.DataFrame:
    """Fitted models ranked by their leave-one-out predictions, the best first.

    `models` has names of your own for models with `loo()` (a `MixedModel`, a posterior of `lrvb.infer`, a
    `GaussianMixture`), or tables of `loo()`. Columns: `elpd`, the sum of log p(y_i | y_−i); `difference`
    from the best and its standard error `se`; `weight`, stacking's; `p_loo`, where draws of every model
    have all its parameters; `n_bad`, the rows that `loo()` calls not reliable; and `log_evidence` beside,
    where it is known of any model. With `by` whole groups of rows are predicted.
    """
    import pandas as pd

    if not isinstance(models, Mapping) or len(models) < 2:
        raise InvalidModel(
            "compare needs two models or more by names of your own, such as "
            "compare({'with x': m1, 'without': m2})."
        )
    tables = {str(name): _left_out(name, model, by) for name, model in models.items()}
    _require_same_rows(tables)
    points = np.column_stack([table["elpd"].to_numpy(dtype=float) for table in tables.values()])
    w = _counts(next(iter(tables.values())))
    elpd = w @ points
    away = points - points[:, [int(elpd.argmax())]]
    result = pd.DataFrame(
        {
            "elpd": elpd,
            "difference": w @ away,
            "se": standard_error(away, w),
            "weight": stacking(points, w),
            "p_loo": [table.attrs["p_loo"] for table in tables.values()],
            "n_bad": [table.attrs["n_bad"] for table in tables.values()],
            "log_evidence": [log_evidence(model) for model in models.values()],
        },
        index=pd.Index(list(tables), name="model"),
    )
    result = result.sort_values("elpd", ascending=False, kind="stable")
    unknown = {
        "p_loo": result["p_loo"].isna().any(),
        "log_evidence": result["log_evidence"].isna().all(),
    }
    result = result.drop(columns=[name for name, missing in unknown.items() if missing])
    return noted(result, _sentence(result))


def stacking(points: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Weights w (K,) on the simplex that maximise Σ_i n_i log Σ_k w_k exp(points_ik), by EM: it always rises.

    Y. Yao, A. Vehtari, D. Simpson and A. Gelman, Bayesian Analysis 13 (2018).
    """
    p = np.exp(points - points.max(1, keepdims=True))
    w, share = np.full(points.shape[1], 1 / points.shape[1]), counts / counts.sum()
    for _ in range(_STEPS):
        again = w * (share @ (p / (p @ w)[:, None]))
        still = np.abs(again - w).max() < _STILL
        w = again
        if still:
            break
    return w / w.sum()


def log_evidence(model: Any) -> float:
    """log p(y), where the model knows it; a flat prior leaves it without a meaning."""
    found = getattr(model, "log_evidence_", None)
    if found is None:
        certificate = getattr(getattr(model, "posterior_", model), "certificate", None)
        found = getattr(certificate, "log_evidence", None)
    priors = getattr(model, "priors_", None)
    if found is None or (priors is not None and not np.all(np.isfinite(priors.sd))):
        return float("nan")
    return float(found)


def _left_out(name: Any, model: Any, by: Any) -> pd.DataFrame:
    """The table of a model."""
    import pandas as pd

    if isinstance(model, pd.DataFrame) and "elpd" in model and "elpd_loo" in model.attrs:
        return model
    answering = model if hasattr(model, "loo") else getattr(model, "posterior_", None)
    if answering is None or not hasattr(answering, "loo"):
        raise InvalidModel(
            f"{name!r} is {kind_of(model)}, which has no loo(); give fitted models, posteriors, or "
            "tables of loo()."
        )
    if by is None:
        table: pd.DataFrame = answering.loo()
        return table
    try:
        table = answering.loo(by=by)
    except TypeError:
        raise InvalidModel(
            f"{name!r} leaves out rows, not groups; compare it without by=, or give MixedModels."
        ) from None
    return table


def _counts(table: pd.DataFrame) -> np.ndarray:
    """How often each row counts, (n,)."""
    return np.asarray(table.get("weight", np.ones(len(table))), dtype=float)


def _require_same_rows(tables: dict[str, pd.DataFrame]) -> None:
    """Densities of other rows, or of another response, cannot be compared."""
    (first, table), *others = tables.items()
    for name, other in others:
        if len(other) != len(table):
            raise InvalidModel(
                f"'{first}' has {len(table)} rows and '{name}' {len(other)}; predictions of different rows "
                "cannot be compared. Fit both to the rows that neither has missing."
            )
        if list(other.index) != list(table.index):
            raise InvalidModel(
                f"'{first}' and '{name}' have rows with different labels; predictions of different rows "
                "cannot be compared. Fit both to one table."
            )
        if not np.array_equal(_counts(other), _counts(table)):
            raise InvalidModel(
                f"Rows count otherwise in '{first}' than in '{name}'; predictions of different rows cannot "
                "be compared. Fit both with the same weights."
            )
        seen, here = table.attrs.get("response"), other.attrs.get("response")
        if seen is not None and here is not None and seen != here:
            raise InvalidModel(
                f"'{first}' and '{name}' have different responses (or one of them on another scale), whose "
                "densities cannot be compared."
            )


def _sentence(result: pd.DataFrame) -> str:
    first, second = result.index[:2]
    difference, se = -float(result["difference"].iloc[1]), float(result["se"].iloc[1])
    if difference > max(APART * se, _FEW):
        said = f"'{first}' predicts better than '{second}' by {difference:.1f} (standard error {se:.1f})."
    else:
        said = f"'{first}' and '{second}' are not told apart: {difference:.1f} with standard error {se:.1f}."
    said += " Weights are those of stacking."
    bad = [f"{int(n)} of '{name}'" for name, n in result["n_bad"].items() if n]
    if bad:
        said += f" By k_hat (or `moved`) those elpd are not reliable: {', '.join(bad)}."
    if "log_evidence" in result and (blank := result.index[result["log_evidence"].isna()]).size:
        named = ", ".join(f"'{name}'" for name in blank)
        said += f" The evidence of {named} is not known."
    return said
