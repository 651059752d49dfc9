"""Data and cached fits that the mixture's tests share: few shapes, since each is compiled once."""

from __future__ import annotations

from functools import cache

import numpy as np

import lrvb


def flat(P: int) -> dict[str, float]:
    """The spelling of flat priors for P columns."""
    return {
        "mean_precision_prior": 0,
        "wishart_dof_prior": P + 1,
        "wishart_scale_prior": np.inf,
        "weight_concentration_prior": 0,
    }


@cache
def overlapping() -> tuple[np.ndarray, np.ndarray]:
    """300 rows of two components that overlap, and their labels."""
    rng = np.random.default_rng(20)
    z = (rng.random(300) < 0.6).astype(int)
    x = rng.normal(size=(300, 2)) @ np.array([[1.0, 0.4], [0.0, 0.8]])
    return x + np.array([[0.0, 0.0], [2.5, 1.5]])[z], z


@cache
def apart() -> np.ndarray:
    """300 rows in two clear clusters of 150."""
    rng = np.random.default_rng(21)
    x = rng.normal(size=(300, 2))
    x[150:] += [8.0, 6.0]
    return x


@cache
def fitted(**options: object) -> lrvb.GaussianMixture:
    """The mixture of two for the overlapping rows."""
    X, _ = overlapping()
    return lrvb.GaussianMixture(2, random_state=0, **options).fit(X)


def flat_fit() -> lrvb.GaussianMixture:
    """The same with flat priors."""
    return fitted(**flat(2))
