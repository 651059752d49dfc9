"""Links: the linear predictor η and the mean response it stands for, and averages over a normal η."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from ..numerics.hermite import hermite


class Link:
    """η = g(mean): state `apply` g, `inverse` g⁻¹ and its `slope`; averages follow by quadrature."""

    name = ""
    #: whether η is in the units of the response; otherwise it has a scale of its own, one
    has_units = False

    def apply(self, mean: np.ndarray) -> np.ndarray:
        """g(mean)."""
        raise NotImplementedError

    def inverse(self, eta: np.ndarray) -> np.ndarray:
        """g⁻¹(η), the mean."""
        raise NotImplementedError

    def slope(self, eta: np.ndarray) -> np.ndarray:
        """The derivative of g⁻¹."""
        raise NotImplementedError

    def averaged(self, eta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """E g⁻¹(η + e) for e ~ N(0, v)."""
        if not v.any():
            return self.inverse(eta)
        root, total = np.sqrt(v), np.zeros_like(eta)
        for x, weight in zip(*hermite(root.max()), strict=True):
            total += weight * self.inverse(eta + root * x)
        return total

    def moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd over η ~ N(eta, v) of the curve in which e ~ N(0, own) is averaged out."""
        root, first, second = np.sqrt(v), np.zeros_like(eta), np.zeros_like(eta)
        for x, weight in zip(*hermite(root.max(initial=0.0)), strict=True):
            value = self.averaged(eta + root * x, own)
            first += weight * value
            second += weight * value**2
        return first, np.sqrt(np.maximum(second - first**2, 0.0))


class Identity(Link):
    """The mean itself."""

    name, has_units = "identity", True

    def apply(self, mean: np.ndarray) -> np.ndarray:
        """The mean."""
        return mean

    def inverse(self, eta: np.ndarray) -> np.ndarray:
        """η."""
        return eta

    def slope(self, eta: np.ndarray) -> np.ndarray:
        """One."""
        return np.ones_like(eta)

    def averaged(self, eta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """η."""
        return eta

    def moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Those of η."""
        return eta, np.sqrt(v)


class Log(Link):
    """The logarithm of a positive mean."""

    name = "log"

    def apply(self, mean: np.ndarray) -> np.ndarray:
        """log mean."""
        return np.log(mean)

    def inverse(self, eta: np.ndarray) -> np.ndarray:
        """exp η."""
        return np.exp(eta)

    def slope(self, eta: np.ndarray) -> np.ndarray:
        """exp η."""
        return np.exp(eta)

    def averaged(self, eta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """exp(η + v/2)."""
        return np.exp(eta + v / 2)

    def moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Those of a log-normal variable."""
        mean = np.exp(eta + (v + own) / 2)
        return mean, mean * np.sqrt(np.expm1(v))


class Logit(Link):
    """The log odds of a probability."""

    name = "logit"

    def apply(self, mean: np.ndarray) -> np.ndarray:
        """log(mean / (1 − mean))."""
        return logit(mean)

    def inverse(self, eta: np.ndarray) -> np.ndarray:
        """σ(η) = 1/(1 + exp(−η))."""
        return expit(eta)

    def slope(self, eta: np.ndarray) -> np.ndarray:
        """σ(η)σ(−η)."""
        return expit(eta) * expit(-eta)


IDENTITY, LOG, LOGIT = Identity(), Log(), Logit()
