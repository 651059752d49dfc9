"""Positive numbers whose spread is in proportion to their mean: waiting times, costs, reaction times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import gammainc, gammaincinv, gammaln

from ..numerics.functions import NUMPY
from ..prior import HalfStudentT
from .base import Likelihood, Refuse, require_positive
from .dispersion import Dispersion
from .given import NOTHING, Given
from .links import LOG


def precision_prior(scale: float) -> HalfStudentT:
    """HalfStudentT(3, 50): from noise as large as the mean to a seventh of it, and far beyond."""
    return HalfStudentT(3.0, 50.0)


class Gamma(Likelihood):
    """y > 0 with mean μ = exp η and variance μ²/shape; `shape` 1 is an exponential waiting time."""

    name, link, varies = "gamma", LOG, True
    cost = 2.0
    dispersions = (Dispersion("shape", precision_prior),)

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """s(u − exp u + log s) − log Γ(s) − log y with u = log y − η."""
        shape, log_y = given["shape"], xp.log(y)
        u = log_y - eta
        return shape * (u - xp.exp(u) + xp.log(shape)) - xp.gammaln(shape + 0.0 * y) - log_y

    def constant(self, y: Any, given: Given = NOTHING) -> Any:
        """−log y."""
        return -np.log(y)

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """s(u − exp u + log s) − log Γ(s)."""
        shape = np.asarray(given["shape"], dtype=np.float64)
        u = np.log(y) - eta
        u -= np.exp(u)
        return shape * u + (shape * np.log(shape) - gammaln(shape))

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """s(y/μ − 1) and s·y/μ."""
        ratio = given["shape"] * np.exp(np.log(y) - eta)
        return ratio - given["shape"], ratio

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """μ²/shape."""
        return np.exp(2 * eta) / given["shape"]

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The regularised incomplete gamma function of s·y/μ."""
        return gammainc(given["shape"], given["shape"] * np.maximum(y, 0.0) * np.exp(-eta))

    def quantile(self, prob: Any, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Its inverse, times μ/s."""
        return np.exp(eta) * gammaincinv(given["shape"], prob) / given["shape"]

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """A number for each mean."""
        shape = np.broadcast_to(given["shape"], np.shape(eta))
        return np.exp(eta) * rng.gamma(shape) / shape

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Positive numbers."""
        require_positive(names["response"], y, refuse, "a gamma response")


GAMMA = Gamma()
