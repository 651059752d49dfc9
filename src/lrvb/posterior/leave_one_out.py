"""Leave-one-out predictive densities: how well each row, or each group, is predicted from all others.

log p(x_n | x_−n) = −log E[1 / p(x_n | α)] over the posterior, with each row's local variables integrated
out, by smoothed importance weights. A. Vehtari, A. Gelman and J. Gabry, Statistics and Computing 27 (2017).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ..engine.fitting import Fit
from ..engine.sensitivity import map_parts, row_densities
from ..errors import InvalidModel
from ..numerics.pareto import smooth_columns
from .noted import noted
from .sensitivity import Sensitivity, row_weights
from .table import require_finite

if TYPE_CHECKING:
    import pandas as pd

GOOD = 0.7  # of k̂: beyond it a row's weight is not reliable


def loo_table(
    sensitivity: Sensitivity, T: np.ndarray, log_weights: np.ndarray, source: str
) -> pd.DataFrame:
    """`elpd` and `k_hat` of every row, from draws T (S, a) in the estimate's units with log weights (S,)."""
    fit = sensitivity.fit
    if not fit.problem.structure.conjugate:
        raise InvalidModel(
            "Row densities with local variables integrated out need rows that are linear in them, "
            'such as NormalPoisson(local="tilted"); this model\'s are not. loo(draws=0) has their bounds.'
        )
    units = sensitivity.units
    points = T if units is None else np.linalg.solve(units.M, (T - units.c).T).T
    visit = functools.partial(_of_rows, np.ascontiguousarray(points), log_weights)
    parts = list(map_parts(fit.at_points(), visit))
    found = LeftOut(*(np.concatenate(part) for part in zip(*(p.found for p in parts), strict=True)))
    volume = sensitivity.volume
    found = found._replace(elpd=found.elpd + volume, full=found.full + volume)
    weights = np.concatenate([part.weights for part in parts])
    return _table(found, sensitivity.labels, source, weights)


class LeftOut(NamedTuple):
    """Of n rows or groups: log p(y_b | y_−b), k̂, and log p(y_b | y) with the draws as they are."""

    elpd: np.ndarray
    k_hat: np.ndarray
    full: np.ndarray


class _Part(NamedTuple):
    found: LeftOut
    weights: np.ndarray


def _of_rows(points: np.ndarray, log_weights: np.ndarray, fit: Fit) -> _Part:
    """Every row in memory, left out."""
    parts = [left_out(values, log_weights) for values in row_densities(fit, points)]
    found = LeftOut(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    return _Part(found, row_weights(fit))


def left_out(values: np.ndarray, log_weights: np.ndarray) -> LeftOut:
    """From log p(y_b | y_−b, draw) (S, n) and log weights (S,) of the draws."""
    log_weights = log_weights - logsumexp(log_weights)
    smoothed, k_hat = smooth_columns(log_weights[:, None] - values)
    return LeftOut(_log_sum(smoothed + values), k_hat, _log_sum(log_weights[:, None] + values))


def left_out_table(
    densities: Iterable[tuple[np.ndarray, np.ndarray]],
    log_weights: np.ndarray,
    labels: Any,
    source: str,
    what: str = "row",
    given_all: bool = True,
) -> pd.DataFrame:
    """`elpd` and `k_hat` of rows or groups from log p(y_b | y_−b, draw), (S, n), with places (n,).

    `attrs` hold the sum `elpd_loo`, its standard error `se`, the effective number of parameters `p_loo`,
    and `n_bad`, the rows whose k̂ is above 0.7. `given_all` says that a draw has all parameters, so that
    densities are independent given it and p_loo can be known.
    """
    found = LeftOut(*(np.full(len(labels), np.nan) for _ in range(3)))
    for places, values in densities:
        for part, here in zip(found, left_out(values, log_weights), strict=True):
            part[places] = here
    return _table(found, labels, source, np.ones(len(labels)), what, given_all)


def _table(
    found: LeftOut,
    labels: Any,
    source: str,
    w: np.ndarray,
    what: str = "row",
    given_all: bool = True,
) -> pd.DataFrame:
    """`elpd` and `k_hat`, and sums over rows that count w (n,) times in `attrs`."""
    import pandas as pd

    elpd, k_hat, full = found
    table = pd.DataFrame({"elpd": elpd, "k_hat": k_hat}, index=pd.Index(labels))
    if not np.all(w == 1):
        table["weight"] = w
    bad = int(np.sum(~(k_hat <= GOOD)))
    require_finite("elpd", elpd, table.index)
    attrs = {**sums(elpd, full, w), "n_bad": bad}
    if not given_all:
        attrs["p_loo"] = np.nan
    effective = f", p_loo {attrs['p_loo']:.1f}" if given_all else ""
    result = noted(
        table,
        f"elpd_loo {attrs['elpd_loo']:.1f}, standard error {attrs['se']:.1f}{effective}, from {source}; "
        + (
            "every k_hat is at most 0.7."
            if not bad
            else f"{bad} {what}{'s have' if bad > 1 else ' has'} k_hat above 0.7: theirs, and the sum, "
            "are not reliable."
        ),
    )
    result.attrs.update(attrs)
    return result


def sums(elpd: np.ndarray, full: np.ndarray, w: np.ndarray) -> dict[str, float]:
    """`elpd_loo`, its standard error `se` and `p_loo` of rows that count w (n,) times."""
    return {
        "elpd_loo": float(w @ elpd),
        "se": float(standard_error(elpd, w)),
        "p_loo": float(w @ (full - elpd)),
    }


def standard_error(values: np.ndarray, w: np.ndarray) -> Any:
    """Of the sums of values (n, ...) over rows that count w (n,) times, as if each stood there so often."""
    n = w.sum()
    away = values - np.tensordot(w, values, axes=1) / n
    return np.sqrt(n / max(n - 1, 1.0) * np.tensordot(w, away**2, axes=1))


def _log_sum(values: np.ndarray) -> np.ndarray:
    """log Σ exp of every column."""
    top = values.max(axis=0)
    return top + np.log(np.exp(values - top).sum(axis=0))
