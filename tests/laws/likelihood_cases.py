"""Every likelihood, at typical and extreme predictors, and one that is stated by its density alone."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from lrvb.likelihoods import (
    BERNOULLI,
    BETA,
    BINOMIAL,
    CUMULATIVE,
    GAMMA,
    GAUSSIAN,
    HURDLE_NEGATIVE_BINOMIAL,
    HURDLE_POISSON,
    LOG,
    LOGNORMAL,
    NEGATIVE_BINOMIAL,
    POISSON,
    ZERO_INFLATED_NEGATIVE_BINOMIAL,
    ZERO_INFLATED_POISSON,
    Bernoulli,
    Binomial,
    Likelihood,
    Student,
)

SKELETON = Path(__file__).resolve().parents[2] / "docs" / "skeletons" / "likelihood.py"


class Waiting(Likelihood):
    """y ~ Gamma(3, rate) with mean exp η: continuous, positive, nothing but its statement."""

    name, link = "waiting", LOG
    shape = 3.0

    def log_p(self, y: Any, eta: Any, given: Any, xp: Any) -> Any:
        """The Gamma density of shape 3."""
        a = self.shape
        return (a - 1) * xp.log(y) - a * eta + a * np.log(a) - a * y * xp.exp(-eta) - gammaln(a)

    def variance(self, eta: np.ndarray, given: Any) -> np.ndarray:
        """mean²/3."""
        return np.exp(2 * eta) / self.shape

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Any) -> np.ndarray:
        """The incomplete gamma function."""
        from scipy.special import gammainc

        return gammainc(self.shape, np.maximum(self.shape * y * np.exp(-eta), 0.0))


class LikelihoodCase(NamedTuple):
    """A likelihood with η and y of some rows, and data that it must refuse with their row."""

    likelihood: Likelihood
    y: np.ndarray
    eta: np.ndarray
    given: dict[str, Any]
    refused: dict[str, tuple[list[float], int]] = {}
    sds: tuple[float, ...] = ()  # of η where 40 digits are slow; otherwise all

    @property
    def name(self) -> str:
        """By which `pytest --case` finds it."""
        return self.likelihood.name

    def __str__(self) -> str:
        return self.name


ETA = np.array([-4.0, -1.3, 0.0, 0.4, 1.9, 3.1, 0.7])
COUNTS = np.array([0.0, 1.0, 0.0, 3.0, 5.0, 30.0, 2.0])
TRIALS = np.array([1.0, 4.0, 2.0, 3.0, 9.0, 31.0, 250.0])
WHOLE = {
    "is negative": ([2.0, -1.0], 1),
    "is not a whole number": ([0.5, 1.0], 0),
    "is too large to be an exact count": ([1.0, 1.0, 1e300], 2),
}

SUCCESSES = {
    **{problem: WHOLE[problem] for problem in list(WHOLE)[:2]},
    "is more than the 4 trials in 'n'": ([1.0, 5.0], 1),
}
ONES = {"is neither 0 nor 1": ([1.0, 0.0, 2.0], 2)}

ABOVE = {"is not above 0": ([0.5, 0.0], 1)}
INSIDE = {"is not between 0 and 1": ([0.5, 0.2, 1.0], 2)}

SHIPPED = [
    LikelihoodCase(GAUSSIAN, ETA + COUNTS / 40, ETA, {"residual": 0.7}),
    LikelihoodCase(POISSON, COUNTS, ETA, {}, WHOLE),
    LikelihoodCase(NEGATIVE_BINOMIAL, COUNTS, ETA, {"shape": 1.7}, WHOLE, (0.0, 0.31, 1.0)),
    LikelihoodCase(ZERO_INFLATED_POISSON, COUNTS, ETA, {"zi": 0.3}, WHOLE, (0.15,)),
    LikelihoodCase(
        ZERO_INFLATED_NEGATIVE_BINOMIAL, COUNTS, ETA, {"shape": 1.7, "zi": 0.3}, WHOLE, (0.0,)
    ),
    LikelihoodCase(HURDLE_POISSON, COUNTS, ETA, {"hurdle": 0.3}, WHOLE, (0.31,)),
    LikelihoodCase(
        HURDLE_NEGATIVE_BINOMIAL, COUNTS, ETA, {"shape": 1.7, "hurdle": 0.3}, WHOLE, (0.0,)
    ),
    LikelihoodCase(BINOMIAL, COUNTS, ETA, {"trials": TRIALS}, SUCCESSES),
    LikelihoodCase(BERNOULLI, (COUNTS > 1).astype(float), ETA, {}, ONES),
    LikelihoodCase(Binomial("probit"), COUNTS, ETA / 2, {"trials": TRIALS}, SUCCESSES, (0.0, 0.31)),
    LikelihoodCase(
        Binomial("cloglog"), COUNTS, ETA / 2, {"trials": TRIALS}, SUCCESSES, (0.15, 1.0)
    ),
    LikelihoodCase(Bernoulli("probit"), (COUNTS > 1).astype(float), ETA / 2, {}, ONES, (0.0, 1e-5)),
    LikelihoodCase(
        Bernoulli("cloglog"), (COUNTS > 1).astype(float), ETA / 2, {}, ONES, (0.0, 1e-5)
    ),
    LikelihoodCase(GAMMA, COUNTS / 10 + 0.1, ETA, {"shape": 3.7}, ABOVE, (0.0, 0.15, 1.0)),
    LikelihoodCase(LOGNORMAL, COUNTS / 10 + 0.1, ETA, {"residual": 0.4}, ABOVE),
    LikelihoodCase(
        Student(), ETA + COUNTS / 40, ETA, {"sigma": 0.7, "df": 30.0}, sds=(0.0, 0.15, 1.0)
    ),
    LikelihoodCase(Student(df=25), ETA + COUNTS / 40, ETA, {"sigma": 0.7}, sds=(0.0,)),
    LikelihoodCase(
        CUMULATIVE,
        np.array([1.0, 2.0, 1.0, 3.0, 2.0, 4.0, 3.0]),
        ETA / 2,
        {"threshold[1]": -1.0, "threshold[2]": 0.4, "threshold[3]": 2.0},
        {"is no category": ([1.0, 2.0, 2.5], 2)},
        (0.15, 1.0),
    ),
    LikelihoodCase(BETA, (COUNTS + 1) / 40, ETA / 4, {"phi": 12.0}, INSIDE, (0.0,)),
]
CASES = [
    *SHIPPED,
    LikelihoodCase(runpy.run_path(str(SKELETON))["Geometric"](), COUNTS, ETA, {}, WHOLE),
    LikelihoodCase(Waiting(), COUNTS / 10 + 0.1, ETA, {}),
]
