"""Bent coordinates: real numbers x in which a hyperparameter's posterior has Gaussian tails.

θ holds logarithms of standard deviations and dispersions, Fisher's z = atanh ρ of (partial)
correlations, logits of probabilities, and coefficients as they are. An sd that may vanish has a tail
e^θ towards −∞ in θ = log sd; with θ = c + logit Φ(x) it is e^(−x²/2). Likewise ρ = 2Φ(x) − 1 is
uniform where x is standard normal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.special import log_expit, log_ndtr, ndtri_exp

Kind = Literal["free", "log", "correlation", "logit"]
FREE: list[Kind] = ["free"]
LOG: list[Kind] = ["log"]
CORRELATION: list[Kind] = ["correlation"]


class Bend:
    """x ↔ θ, axis by axis: θ = center + a · logit Φ(x), a = ½ for a correlation; "free" is θ = x.

    Centers of correlations and logits are 0: their bend is the uniform prior's.
    """

    def __init__(self, kinds: Sequence[Kind], center: np.ndarray):
        kind = np.array(kinds)
        self.bent = kind != "free"
        self.factor = np.where(kind == "correlation", 0.5, 1.0)[self.bent]
        self.center = np.where(kind == "log", center, 0.0)[self.bent]

    def natural(self, x: np.ndarray) -> np.ndarray:
        """θ(x), of the same shape (..., d)."""
        theta = np.array(x, dtype=np.float64)
        b = theta[..., self.bent]
        theta[..., self.bent] = self.center + self.factor * (log_ndtr(b) - log_ndtr(-b))
        return theta

    def bend(self, theta: np.ndarray) -> np.ndarray:
        """x(θ), the inverse of `natural`."""
        x = np.array(theta, dtype=np.float64)
        logit = (x[..., self.bent] - self.center) / self.factor
        distance = ndtri_exp(log_expit(-np.abs(logit)))  # of the nearer tail, so never cancelling
        x[..., self.bent] = np.where(logit < 0, distance, -distance)
        return x

    def log_jacobian(self, x: np.ndarray) -> np.ndarray:
        """log |∂θ/∂x| = Σ log(a φ(x)/(Φ(x)Φ(−x))), (...,)."""
        b = np.asarray(x)[..., self.bent]
        log_phi = -(b**2) / 2 - np.log(2 * np.pi) / 2
        return (log_phi - log_ndtr(b) - log_ndtr(-b) + np.log(self.factor)).sum(-1)

    def slope(self, x: np.ndarray) -> np.ndarray:
        """∂θ/∂x of every axis, of the shape of x."""
        slope = np.ones_like(np.asarray(x, dtype=np.float64))
        b = np.asarray(x)[..., self.bent]
        log_phi = -(b**2) / 2 - np.log(2 * np.pi) / 2
        slope[..., self.bent] = self.factor * np.exp(log_phi - log_ndtr(b) - log_ndtr(-b))
        return slope

    def derivatives(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivatives of log |∂θ/∂x| by each axis, of the shape of x."""
        first, second = np.zeros((2, *np.shape(x)))
        b = np.asarray(x)[..., self.bent]
        log_phi = -(b**2) / 2 - np.log(2 * np.pi) / 2
        below, above = np.exp(log_phi - log_ndtr(b)), np.exp(log_phi - log_ndtr(-b))
        first[..., self.bent] = above - below - b
        second[..., self.bent] = below * (below + b) + above * (above - b) - 1
        return first, second
