"""The priors of a mixture as hyperparameters: the estimator's own arguments, one number each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...models.mixture_sweeps import MixturePriors
from ...posterior.hyperparameters import Hyperparameter, plain_steps
from .priors import standardised_priors
from .scaling import Scaling


def prior_numbers(estimator: Any, scaling: Scaling) -> list[Hyperparameter]:
    """Each prior argument that is finite; a `wishart_scale_prior` of None, or a matrix, counts as 1.

    It is then a factor of what it stands for. Without a scale the priors speak of standardised columns, and
    so does its change.
    """
    P = len(scaling.center)
    dof, scale = estimator.wishart_dof_prior, estimator.wishart_scale_prior
    given = {
        "mean_precision_prior": float(estimator.mean_precision_prior),
        "wishart_dof_prior": P + 2.0 if dof is None else float(dof),
        "wishart_scale_prior": float(scale) if scale is not None and np.ndim(scale) == 0 else 1.0,
        "weight_concentration_prior": float(estimator.weight_concentration_prior),
    }
    found = []
    for name, value in given.items():
        if np.isfinite(value):
            at = _numbers_at(estimator, scaling, name)
            least = P - 1.0 if name == "wishart_dof_prior" and value > P - 1 else 0.0
            steps = plain_steps(name, float(value), least)
            found.append(Hyperparameter(name, float(value), steps, at))
    return found


def _numbers_at(estimator: Any, scaling: Scaling, name: str) -> Any:
    arguments = {
        key: getattr(estimator, key)
        for key in (
            "mean_precision_prior",
            "wishart_dof_prior",
            "wishart_scale_prior",
            "weight_concentration_prior",
        )
    }

    scale = arguments["wishart_scale_prior"]

    def at(value: float) -> Mapping[str, np.ndarray]:
        if name == "wishart_scale_prior" and (scale is None or np.ndim(scale)):
            priors = standardised_priors(scaling, **arguments)
            return _numbers(priors._replace(inverse_scale=priors.inverse_scale / value))
        return _numbers(standardised_priors(scaling, **{**arguments, name: value}))

    return at


def _numbers(priors: MixturePriors) -> Mapping[str, np.ndarray]:
    """As `NormalMixture` holds them."""
    return {k: np.asarray(v, dtype=np.float64) for k, v in priors._asdict().items()}
