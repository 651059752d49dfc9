"""Leave-one-out predictive densities: how well each row is predicted from all others.

log p(x_n | x_−n) = −log E[1 / p(x_n | α)] over the posterior, with each row's local variables integrated
out, by smoothed importance weights. A. Vehtari, A. Gelman and J. Gabry, Statistics and Computing 27 (2017).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from ..engine.sensitivity import row_densities
from ..errors import InvalidModel
from ..numerics.pareto import smooth
from .noted import noted
from .sensitivity import Sensitivity

if TYPE_CHECKING:
    import pandas as pd

GOOD = 0.7  # of k̂: beyond it a row's weight is not reliable


def loo_table(
    sensitivity: Sensitivity, T: np.ndarray, log_weights: np.ndarray, source: str
) -> pd.DataFrame:
    """`elpd` and `k_hat` of every row, from draws T (S, a) in the estimate's units with log weights (S,).

    `attrs` hold `elpd_loo`, its standard error `se`, the effective number of parameters `p_loo`, and
    `n_bad`, the rows whose k̂ is above 0.7.
    """
    import pandas as pd

    fit = sensitivity.fit
    if not fit.problem.structure.conjugate:
        raise InvalidModel(
            "Row densities with local variables integrated out need rows that are linear in them, "
            'such as NormalPoisson(local="tilted"); this model\'s are not.'
        )
    units = sensitivity.units
    points = T if units is None else np.linalg.solve(units.M, (T - units.c).T).T
    elpd, k_hat, full = [], [], []
    log_weights = log_weights - logsumexp(log_weights)
    for values in row_densities(fit, np.ascontiguousarray(points)):
        for row in values.T:
            smoothed, k = smooth(log_weights - row)
            elpd.append(logsumexp(smoothed + row))
            full.append(logsumexp(log_weights + row))
            k_hat.append(k)
    table = pd.DataFrame({"elpd": elpd, "k_hat": k_hat}, index=pd.Index(sensitivity.labels))
    weights = sensitivity.weights
    total = float(weights @ table["elpd"])
    bad = int(np.sum(~(table["k_hat"].to_numpy() <= GOOD)))
    spread = float(np.std(table["elpd"].to_numpy(), ddof=1)) if len(table) > 1 else 0.0
    attrs = {
        "elpd_loo": total,
        "se": float(np.sqrt(weights.sum()) * spread),
        "p_loo": float(weights @ (np.array(full) - np.array(elpd))),
        "n_bad": bad,
    }
    table.attrs.update(attrs)
    result = noted(
        table,
        f"elpd_loo {total:.1f}, standard error {attrs['se']:.1f}, p_loo {attrs['p_loo']:.1f}, from "
        f"{source}; "
        + (
            "every k_hat is at most 0.7."
            if not bad
            else f"{bad} rows have k_hat above 0.7: theirs, and the sum, are not reliable."
        ),
    )
    result.attrs.update(attrs)
    return result
