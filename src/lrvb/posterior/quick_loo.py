"""Leave-one-out predictive densities without draws: what a row adds to the evidence, by its influence.

L*(w), the best ELBO with row n counted w times, stands for the log evidence, and dL*/dw = ℓ̄_n(m(w)) because
the optimum m(w) has no slope. So log p(x_n | x_−n) ≈ L*(1) − L*(0) = ∫₀¹ ℓ̄_n(m(w)) dw, with m(w) from the
row's influence: to the first order ℓ̄_n(m*) − ½g_nᵀΣ̂g_n.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..engine.fitting import Fit
from ..engine.response import Response
from ..engine.sensitivity import (
    gathered,
    map_parts,
    means_at,
    refit_weighted,
    row_curvature,
    row_densities,
    row_scores,
    without,
)
from ..errors import NotConverged
from .deletion import MOST, refits_worth
from .leave_one_out import sums
from .noted import noted
from .sensitivity import LARGE, Sensitivity, row_weights
from .table import require_finite

if TYPE_CHECKING:
    import pandas as pd

FAR = 1.0  # sds: where a row moves something by more, one step is not trusted and a refit is made


def quick_loo_table(sensitivity: Sensitivity) -> pd.DataFrame:
    """`elpd` of every row, and `moved`, the sds by which leaving it out moves what it moves most.

    Rows whose `moved` is below a tenth have the first order, where it is √(g_nᵀΣ̂g_n). The others (the 1000
    largest) have Simpson's rule over w = 1, ½, 0, with m(w) by the Newton step of the natural
    parameters that `influence` takes, for that part of the row; those that then move something the
    furthest, if by more than an sd, a refit (as many as `influence` makes, of rows in memory). Any further
    such rows are not reliable: `n_bad`.
    """
    import pandas as pd

    fit, Sigma = sensitivity.fit, sensitivity.response.Sigma
    parts = list(map_parts(fit, functools.partial(_first_order, Sigma)))
    value, moved, w = (np.concatenate(part) for part in zip(*parts, strict=True))
    elpd, full = value - moved**2 / 2, value + moved**2 / 2
    large = np.flatnonzero(moved >= LARGE)
    large = large[np.argsort(-moved[large], kind="stable")]
    stepped = large[: MOST if fit.curved is not None else 0]
    refitted = np.zeros(len(moved), dtype=bool)
    if len(stepped):
        once = _counted_once(sensitivity.response, stepped)
        for place, n in enumerate(stepped):
            found = _along(once, place)
            elpd[n], moved[n] = found if np.isfinite(found).all() else (elpd[n], np.inf)
        far = stepped[np.argsort(-moved[stepped], kind="stable")]
        worth = refits_worth(len(moved)) if fit.problem.total is None else 0
        for n in far[moved[far] > FAR][:worth]:
            again = _refitted(sensitivity.response, w, n)
            if again is not None:
                refitted[n], (elpd[n], moved[n]) = True, again
    elpd, full = elpd + sensitivity.volume, full + sensitivity.volume
    table = pd.DataFrame({"elpd": elpd, "moved": moved}, index=pd.Index(sensitivity.labels))
    if not np.all(w == 1):
        table["weight"] = w
    require_finite("elpd", elpd, table.index)
    attrs = {**sums(elpd, full, w), "n_bad": int(((moved > FAR) & ~refitted).sum())}
    result = noted(table, _sentence(attrs, len(large) - len(stepped), int(refitted.sum())))
    result.attrs.update(attrs)
    return result


class _First(NamedTuple):
    """Of n rows: ℓ̄_n(m*), √(g_nᵀΣ̂g_n), and how often they count."""

    value: np.ndarray
    moved: np.ndarray
    weights: np.ndarray


def _first_order(Sigma: np.ndarray, fit: Fit) -> _First:
    """Of the rows in memory."""
    value = np.concatenate([part[0] for part in row_densities(fit, fit.m[None])])
    squares = [np.einsum("na,na->n", g @ Sigma, g) for g in row_scores(fit)]
    return _First(value, np.sqrt(np.maximum(np.concatenate(squares), 0.0)), row_weights(fit))


def _counted_once(response: Response, rows: np.ndarray) -> Response:
    """The same response with these rows alone, which count once where they are asked one by one."""
    near = gathered(response.fit, rows)
    problem = near.problem
    assert problem.rows is not None
    once = replace(problem.rows, weights=None)
    return replace(response, fit=replace(near, problem=replace(problem, rows=once)))


def _along(response: Response, n: int) -> tuple[float, float]:
    """∫₀¹ ℓ̄_n(m(w)) dw of one row by Simpson's rule, and `moved`; NaN where a step leaves the domain."""
    fit, row = response.fit, np.array([n])
    score, curvature = next(row_scores(fit, row))[0], row_curvature(fit, row)
    etas = [without(response, part * score, part * curvature) for part in (0.5, 1.0)]
    means = means_at(fit, np.array(etas))
    if not np.isfinite(means).all():
        return np.nan, np.nan
    (values,) = row_densities(fit, np.vstack([fit.m, means]), row)
    return float(np.array([1.0, 4.0, 1.0]) @ values[:, 0] / 6), _length(response, means[1] - fit.m)


def _refitted(response: Response, w: np.ndarray, n: int) -> tuple[float, float] | None:
    """L*(1) − L*(0) of one row by a fit without it, and `moved`; None where that does not converge."""
    weights = w.copy()
    weights[n] = max(w[n] - 1, 0.0)
    try:
        again = refit_weighted(response.fit, weights)
    except NotConverged:
        return None
    change = float((response.fit.elbo - again.elbo) / (w[n] - weights[n]))
    return change, _length(response, again.m - response.fit.m)


def _length(response: Response, dm: np.ndarray) -> float:
    """√(dmᵀΣ̂⁻¹dm), the most sds by which dm moves any sum of coordinates; Σ̂⁻¹ = V⁻¹ − H̃."""
    assert response.fit.curved is not None
    x = np.linalg.solve(response.C, dm)
    return float(np.sqrt(max(x @ x - dm @ response.fit.curved.H @ dm, 0.0)))


def _sentence(attrs: dict[str, float], left: int, refitted: int) -> str:
    said = (
        f"elpd_loo {attrs['elpd_loo']:.1f}, standard error {attrs['se']:.1f}, p_loo {attrs['p_loo']:.1f}, "
        "from influence, without draws"
    )
    if refitted:
        said += f"; {refitted} row{'s' if refitted > 1 else ''} left out in a fit"
    if left:
        said += (
            f"; of {left:,} rows that move something by a tenth of an sd to the first order only"
        )
    if bad := int(attrs["n_bad"]):
        rows = f"{bad:,} more row{'s move' if bad > 1 else ' moves'}" if refitted else ""
        rows = rows or f"{bad:,} row{'s move' if bad > 1 else ' moves'}"
        said += f"; {rows} something by more than an sd: not reliable"
    return said + "."
