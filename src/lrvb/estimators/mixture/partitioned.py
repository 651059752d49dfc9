"""A mixture of rows in parts: a pass for their scale, a fit to a sample of them, then all of them."""

from __future__ import annotations

from typing import Any

from ...collapsed.partitions import Partitions, partitioned_problem
from ...data.sample import sample_rows
from ...engine.fitting import Fit, default_sum, fit
from ...errors import InvalidData, InvalidModel
from ...models.gaussian_mixture import NormalMixture
from ...models.mixture_sweeps import MixturePriors
from .components import failure, in_order
from .parts import StandardisedMixture, measure_parts
from .scaling import Scaling, check_directions, scaling_of


def fit_parts(
    mixture: Any, parts: Partitions, K: int, weighted: bool
) -> tuple[Fit, MixturePriors, Scaling, float]:
    """The best fit of an estimator to all parts, its priors and scale, and the rows' total weight."""
    columns = measure_parts(parts)
    if columns.n < max(K, 2):
        raise InvalidData(
            f"X has n_samples={columns.n} rows, fewer than n_components={K}; use fewer components."
        )
    mixture.n_features_in_ = len(columns.center)
    names = [str(j) for j in range(len(columns.center))]
    scaling = scaling_of(columns, names)
    priors = mixture._priors(scaling)
    model = StandardisedMixture(K, priors, scaling, weighted)
    problem, over_parts = partitioned_problem(model, parts, default_sum)
    assert problem.rows is not None
    if not weighted and problem.n != columns.n:
        raise InvalidData(
            f"X had {columns.n} rows in the first pass, but {problem.n} in the second; every pass "
            "must read the same rows in the same order."
        )
    sample = sample_rows(problem.rows)
    if not isinstance(mixture.init, str):
        raise InvalidModel("init must name a method when X comes in parts, such as 'kmeans'.")
    check_directions(sample.columns["x"], sample.weights, names, priors.flat_scale, stacklevel=5)
    rough = mixture._best_fit(NormalMixture(K, *priors), sample, scaling, priors)
    best = fit(
        problem,
        init=in_order(rough),
        local_sum=over_parts,
        tol=mixture.tol,
        max_iter=mixture.max_iter,
        progress=bool(mixture.verbose),
        chunk_size=mixture.chunk_size,
    )
    failed = failure(best, priors)
    if failed is not None:
        raise failed
    return in_order(best), priors, scaling, columns.total
