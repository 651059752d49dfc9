"""What `mixed_coverage.py` draws: parameters from their priors, responses by NumPy and SciPy alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from lrvb.prior import Beta, Exponential, HalfNormal, Normal

Rng = np.random.Generator
Own = dict[str, Any]

SCALE = (HalfNormal(1), lambda rng: abs(rng.normal()))
SHAPE = (HalfNormal(3), lambda rng: 3 * abs(rng.normal()))
SHARE = (Beta(2, 3), lambda rng: rng.beta(2, 3))
PHI = (HalfNormal(20), lambda rng: 20 * abs(rng.normal()))
DF = (Exponential(0.1), lambda rng: 1 + rng.exponential(10))  # given that it is above 1
THRESHOLDS = (Normal(0, 2), lambda rng: np.sort(2 * rng.normal(size=3)))  # of four categories

#: what a family has beside coefficients and the groups' sd: a prior each, and a draw from it
OWN: dict[str, dict[str, tuple[Any, Callable[[Rng], Any]]]] = {
    "gaussian": {"sd[residual]": SCALE},
    "poisson": {},
    "bernoulli": {},
    "binomial": {},
    "negbinomial": {"shape": SHAPE},
    "zero_inflated_poisson": {"zi": SHARE},
    "zero_inflated_negbinomial": {"shape": SHAPE, "zi": SHARE},
    "hurdle_poisson": {"hurdle": SHARE},
    "hurdle_negbinomial": {"shape": SHAPE, "hurdle": SHARE},
    "student": {"sigma": SCALE, "df": DF},
    "gamma": {"shape": SHAPE},
    "lognormal": {"sd[residual]": SCALE},
    "beta": {"phi": PHI},
    "cumulative": {"threshold": THRESHOLDS},
}


def response(family: str, rng: Rng, eta: np.ndarray, own: Own) -> dict[str, np.ndarray]:
    """Columns of the response, `y` and the trials `n` where there are some."""
    n = len(eta)
    if family == "binomial":
        trials = rng.integers(1, 9, n)
        return {"y": rng.binomial(trials, _expit(eta)), "n": trials}
    return {"y": _DRAWS[family](rng, eta, own)}


def _expit(eta: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-eta)))


def _count(rng: Rng, eta: np.ndarray, own: Own) -> np.ndarray:
    """Poisson counts, of a gamma rate where there is a shape."""
    rate = np.exp(eta)
    return rng.poisson(
        rate * rng.gamma(own["shape"], 1 / own["shape"], len(eta)) if "shape" in own else rate
    )


def _inflated(rng: Rng, eta: np.ndarray, own: Own) -> np.ndarray:
    return np.where(rng.random(len(eta)) < own["zi"], 0, _count(rng, eta, own))


def _hurdle(rng: Rng, eta: np.ndarray, own: Own) -> np.ndarray:
    """Zeros first, then counts given that they are above zero, by their quantiles."""
    mean = np.exp(eta)
    if "shape" in own:
        counts = stats.nbinom(own["shape"], own["shape"] / (own["shape"] + mean))
    else:
        counts = stats.poisson(mean)
    beyond = counts.sf(0) * rng.random(len(eta))
    return np.where(rng.random(len(eta)) < own["hurdle"], 0, np.maximum(counts.isf(beyond), 1))


def _category(rng: Rng, eta: np.ndarray, own: Own) -> np.ndarray:
    """1 and the number of thresholds that a logistic variable around η has passed."""
    return 1 + (eta[:, None] + rng.logistic(size=(len(eta), 1)) > own["threshold"]).sum(1)


_DRAWS: dict[str, Callable[[Rng, np.ndarray, Own], np.ndarray]] = {
    "gaussian": lambda rng, eta, own: eta + own["sd[residual]"] * rng.normal(size=len(eta)),
    "poisson": _count,
    "bernoulli": lambda rng, eta, own: rng.binomial(1, _expit(eta)),
    "negbinomial": _count,
    "zero_inflated_poisson": _inflated,
    "zero_inflated_negbinomial": _inflated,
    "hurdle_poisson": _hurdle,
    "hurdle_negbinomial": _hurdle,
    "student": lambda rng, eta, own: eta + own["sigma"] * rng.standard_t(own["df"], len(eta)),
    "gamma": lambda rng, eta, own: rng.gamma(own["shape"], np.exp(eta) / own["shape"]),
    "lognormal": lambda rng, eta, own: np.exp(
        eta + own["sd[residual]"] * rng.normal(size=len(eta))
    ),
    "beta": lambda rng, eta, own: rng.beta(own["phi"] * _expit(eta), own["phi"] * _expit(-eta)),
    "cumulative": _category,
}
