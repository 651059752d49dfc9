"""Central intervals of named quantities, made where the quantity's posterior is nearly normal."""

from __future__ import annotations

import numbers
from statistics import NormalDist
from typing import Any

import numpy as np

from ..errors import InvalidModel
from .estimate import Estimate


def check_probability(argument: str, value: Any) -> None:
    """An interval's probability lies between 0 and 1."""
    if not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
        raise InvalidModel(f"{argument}={value!r} must lie between 0 and 1, such as 0.94.")


def normal_ends(mean: Any, sd: Any, prob: float) -> tuple[Any, Any]:
    """Ends of the central interval of a normal."""
    z = NormalDist().inv_cdf(0.5 + prob / 2)
    return mean - z * sd, mean + z * sd


def intervals(estimate: Estimate, prob: float) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of the central intervals of every flat coordinate.

    Real quantities: normal. Positive ones with their own log among the coordinates (Gamma):
    exp of the log's interval. Other one-sided ones: the log-normal with the same mean and sd.
    """
    with np.errstate(over="ignore"):  # an upper end beyond all numbers is infinite
        return _intervals(estimate, prob)


def _intervals(estimate: Estimate, prob: float) -> tuple[np.ndarray, np.ndarray]:
    m, sd = estimate.m, np.sqrt(np.diag(estimate.Sigma))
    lower, upper = normal_ends(m, sd, prob)
    ends = np.stack([lower, upper])
    for i, support in enumerate(estimate.supports):
        if support.kind == "real":
            continue
        if support.log is not None:
            lower[i], upper[i] = np.exp(ends[:, support.log])
            continue
        sign = 1.0 if support.kind == "positive" else -1.0
        lower[i], upper[i] = sorted(sign * _lognormal(abs(m[i]), sd[i], prob))
    return lower, upper


def support_ends(
    estimate: Estimate, at: np.ndarray, mean: np.ndarray, sd: np.ndarray, prob: float
) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the intervals of some coordinates with other means and sds: normal, or log-normal."""
    lower, upper = normal_ends(mean, sd, prob)
    for k, i in enumerate(at):
        kind = estimate.supports[i].kind
        sign = -1.0 if kind == "negative" else 1.0
        if kind != "real" and sign * mean[k] > 0:
            lower[k], upper[k] = sorted(sign * _lognormal(abs(mean[k]), sd[k], prob))
    return lower, upper


def _lognormal(mean: float, sd: float, prob: float) -> np.ndarray:
    """Ends of the central interval of the log-normal with this mean and sd."""
    if sd == 0:  # known exactly, such as the log weight of a single component
        return np.array([mean, mean])
    scale = np.sqrt(np.log1p((sd / mean) ** 2))
    return np.exp(normal_ends(np.log(mean) - scale**2 / 2, scale, prob))
