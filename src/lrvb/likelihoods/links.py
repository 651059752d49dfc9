"""Links: the linear predictor η and the mean response it stands for, and averages over a normal η."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import erfcx, expit, logit, ndtr, ndtri

from ..errors import InvalidModel
from ..numerics.functions import NUMPY
from ..numerics.hermite import hermite

_SQRT_2 = float(np.sqrt(2.0))
_MILLS = float(np.sqrt(2 / np.pi))


class Link:
    """η = g(mean): state `apply` g, `inverse` g⁻¹ and its `slope`; averages follow by quadrature."""

    name = ""
    #: whether η is in the units of the response; otherwise it has a scale of its own, one
    has_units = False
    #: whether the mean of a new level exists whatever the tail of its sd
    bounded = False
    #: the distance in η on which g⁻¹ changes its shape, beside that of a logistic curve
    unit = 1.0

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
        for x, weight in zip(*hermite(root.max() / self.unit), strict=True):
            total += weight * self.inverse(eta + root * x)
        return total

    def moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd over η ~ N(eta, v) of the curve in which e ~ N(0, own) is averaged out."""
        if not v.any():
            return self.averaged(eta, own), np.zeros_like(eta)
        root, first, second = np.sqrt(v), np.zeros_like(eta), np.zeros_like(eta)
        for x, weight in zip(*hermite(root.max(initial=0.0) / self.unit), strict=True):
            value = self.averaged(eta + root * x, own)
            first += weight * value
            second += weight * value**2
        return first, np.sqrt(np.maximum(second - first**2, 0.0))


class Identity(Link):
    """The mean itself."""

    name, has_units, bounded = "identity", True, True

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


class ProbabilityLink(Link):
    """η = g(p) of a probability p, with log p and log(1 − p) that are exact in both tails."""

    bounded = True
    #: whether 1 − g⁻¹(η) = g⁻¹(−η)
    symmetric = True

    def log_probability(self, eta: Any, xp: Any = NUMPY) -> Any:
        """log p, written with the functions of `xp`."""
        raise NotImplementedError

    def log_complement(self, eta: Any, xp: Any = NUMPY) -> Any:
        """log(1 − p)."""
        return self.log_probability(-eta, xp)

    def log_derivatives(self, eta: Any) -> tuple[Any, Any]:
        """The derivative of log p, and the second one times −1."""
        raise NotImplementedError

    def complement_derivatives(self, eta: Any) -> tuple[Any, Any]:
        """The same of log(1 − p)."""
        score, information = self.log_derivatives(-eta)
        return -score, information

    def complement(self, eta: np.ndarray) -> np.ndarray:
        """1 − p, exact where it is small."""
        return np.exp(self.log_complement(eta))


class Logit(ProbabilityLink):
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

    def complement(self, eta: np.ndarray) -> np.ndarray:
        """σ(−η)."""
        return expit(-eta)

    def log_probability(self, eta: Any, xp: Any = NUMPY) -> Any:
        """−log(1 + exp(−η))."""
        return -xp.logaddexp(0.0, -eta)

    def log_derivatives(self, eta: Any) -> tuple[Any, Any]:
        """σ(−η) and σ(η)σ(−η)."""
        down = expit(-eta)
        return down, down * expit(eta)


class Probit(ProbabilityLink):
    """The normal score of a probability."""

    name = "probit"

    def apply(self, mean: np.ndarray) -> np.ndarray:
        """Φ⁻¹(mean)."""
        return ndtri(mean)

    def inverse(self, eta: np.ndarray) -> np.ndarray:
        """Φ(η)."""
        return ndtr(eta)

    def slope(self, eta: np.ndarray) -> np.ndarray:
        """φ(η)."""
        return np.exp(-(eta**2) / 2) * (_MILLS / 2)

    def complement(self, eta: np.ndarray) -> np.ndarray:
        """Φ(−η)."""
        return ndtr(-eta)

    def averaged(self, eta: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Φ(η/√(1 + v))."""
        return ndtr(eta / np.sqrt(1 + v))

    def log_probability(self, eta: Any, xp: Any = NUMPY) -> Any:
        """log Φ(η)."""
        return xp.log_ndtr(eta)

    def log_derivatives(self, eta: Any) -> tuple[Any, Any]:
        """r and r(η + r), with r = φ(η)/Φ(η)."""
        r = _MILLS / erfcx(-eta / _SQRT_2)
        return r, r * (eta + r)


class Cloglog(ProbabilityLink):
    """log(−log(1 − p)): the log rate of a count of which it is seen whether there is any."""

    name, unit, symmetric = "cloglog", 0.5, False

    def apply(self, mean: np.ndarray) -> np.ndarray:
        """log(−log(1 − mean))."""
        return np.log(-np.log1p(-mean))

    def inverse(self, eta: np.ndarray) -> np.ndarray:
        """1 − exp(−exp η)."""
        return -np.expm1(-np.exp(eta))

    def slope(self, eta: np.ndarray) -> np.ndarray:
        """exp(η − exp η)."""
        return np.exp(eta - np.exp(eta))

    def log_probability(self, eta: Any, xp: Any = NUMPY) -> Any:
        """log(1 − exp(−t)) with t = exp η, which is η − t/2 + t²/24 − t⁴/2880 where t is small."""
        t = _rate(eta, xp)
        small, large = xp.minimum(t, 1.0), xp.maximum(t, 1e-3)
        series = eta - small * (0.5 - small * (1 / 24 - small**2 / 2880))
        return xp.where(eta < _SMALL, series, xp.log1p(-xp.exp(-large)))

    def log_complement(self, eta: Any, xp: Any = NUMPY) -> Any:
        """−exp η."""
        return -_rate(eta, xp)

    def log_derivatives(self, eta: Any) -> tuple[Any, Any]:
        """a = t/(exp t − 1) and a(t/(1 − exp(−t)) − 1), with t = exp η."""
        t = _rate(eta)
        near = np.maximum(t, 1e-4)
        a = np.where(t < 1e-8, 1.0, np.maximum(t, 1e-8) / np.expm1(np.clip(t, 1e-8, 700.0)))
        return a, a * np.where(t < 1e-4, t / 2 + t**2 / 12, near / -np.expm1(-near) - 1)

    def complement_derivatives(self, eta: Any) -> tuple[Any, Any]:
        """−exp η and exp η."""
        t = _rate(eta)
        return -t, t


def _rate(eta: Any, xp: Any = NUMPY) -> Any:
    """exp η, a number even where nothing is left of 1 − p."""
    return xp.exp(xp.minimum(eta, _LARGEST))


_SMALL = -4.0  # log t below which the series is good to 1e-15
_LARGEST = 700.0

IDENTITY, LOG, LOGIT = Identity(), Log(), Logit()
PROBIT, CLOGLOG = Probit(), Cloglog()


def link_of(name: Any, links: Sequence[Link], family: str) -> Link:
    """The one of a family's links that a name stands for, or that was given."""
    for link in links:
        if name is link or name == link.name:
            return link
    listed = ", ".join(f"'{link.name}'" for link in links)
    raise InvalidModel(f"link={name!r} is none of family '{family}'; there are {listed}.")
