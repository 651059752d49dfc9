"""Priors of a mixed model, stated by name: `priors={"x": lrvb.prior.Normal(0, 1)}`.

Priors of random effects and of the residual have `log_density`, normalised, of a standard deviation
or of the standard deviations and the correlation matrix of a term, whatever they are stated of.
"""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, multigammaln, xlog1py, xlogy

from .errors import InvalidModel


@dataclass(frozen=True)
class Normal:
    """β ~ N(mean, sd²) of a fixed effect; sd = ∞ is a flat prior."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", _number("Normal", "mean", self.mean, positive=False))
        object.__setattr__(self, "sd", _number("Normal", "sd", self.sd, finite=False))

    def __repr__(self) -> str:
        return f"Normal(mean={self.mean:.4g}, sd={self.sd:.4g})"

    def log_density(self, value: Any) -> Any:
        """log p(value) = −½((value − mean)/sd)² − log sd − ½ log 2π; a flat prior is 0 everywhere."""
        if np.isinf(self.sd):
            return np.zeros(np.shape(value))
        away = (np.asarray(value) - self.mean) / self.sd
        return -(away**2) / 2 - np.log(self.sd) - np.log(2 * np.pi) / 2


@dataclass(frozen=True)
class Gamma:
    """λ ~ Gamma(shape, rate) of a precision λ = 1/sd², with mean shape/rate."""

    shape: float
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", _number("Gamma", "shape", self.shape))
        object.__setattr__(self, "rate", _number("Gamma", "rate", self.rate))

    def __repr__(self) -> str:
        return f"Gamma(shape={self.shape:.4g}, rate={self.rate:.4g})"

    def log_density(self, sd: Any) -> Any:
        """log p(sd) = log Gamma(λ; shape, rate) + log 2 − 3 log sd, with λ = sd⁻²."""
        log_sd = np.log(sd)
        constant = self.shape * np.log(self.rate) - gammaln(self.shape) + np.log(2)
        return constant - (2 * self.shape + 1) * log_sd - self.rate * np.exp(-2 * log_sd)


@dataclass(frozen=True)
class HalfStudentT:
    """sd ~ half-t(df, scale) of a random effect or the residual: finite at zero, with a long tail."""

    df: float
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "df", _number("HalfStudentT", "df", self.df))
        object.__setattr__(self, "scale", _number("HalfStudentT", "scale", self.scale))

    def __repr__(self) -> str:
        return f"HalfStudentT(df={self.df:.4g}, scale={self.scale:.4g})"

    def log_density(self, sd: Any) -> Any:
        """log p(sd) = const − (df + 1)/2 · log(1 + (sd/scale)²/df)."""
        df = self.df
        constant = np.log(2 / self.scale) - betaln(df / 2, 0.5) - np.log(df) / 2
        return constant - (df + 1) / 2 * np.log1p((np.asarray(sd) / self.scale) ** 2 / df)


@dataclass(frozen=True)
class HalfNormal:
    """sd ~ |N(0, scale²)| of a random effect or the residual."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _number("HalfNormal", "scale", self.scale))

    def __repr__(self) -> str:
        return f"HalfNormal(scale={self.scale:.4g})"

    def log_density(self, sd: Any) -> Any:
        """log p(sd) = ½ log(2/π) − log scale − ½ (sd/scale)²."""
        constant = np.log(2 / np.pi) / 2 - np.log(self.scale)
        return constant - (np.asarray(sd) / self.scale) ** 2 / 2


@dataclass(frozen=True)
class Exponential:
    """sd ~ Exponential(rate) of a random effect or the residual, with mean 1/rate."""

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", _number("Exponential", "rate", self.rate))

    def __repr__(self) -> str:
        return f"Exponential(rate={self.rate:.4g})"

    def log_density(self, sd: Any) -> Any:
        """log p(sd) = log rate − rate · sd."""
        return np.log(self.rate) - self.rate * np.asarray(sd)


@dataclass(frozen=True)
class Beta:
    """p ~ Beta(a, b) of a probability, with mean a/(a + b); Beta(1, 1) is uniform."""

    a: float
    b: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", _number("Beta", "a", self.a))
        object.__setattr__(self, "b", _number("Beta", "b", self.b))

    def __repr__(self) -> str:
        return f"Beta(a={self.a:.4g}, b={self.b:.4g})"

    def log_density(self, probability: Any) -> Any:
        """log p(p) = (a − 1) log p + (b − 1) log(1 − p) − log B(a, b)."""
        p = np.asarray(probability)
        return xlogy(self.a - 1, p) + xlog1py(self.b - 1, -p) - betaln(self.a, self.b)


@dataclass(frozen=True)
class LKJ:
    """p(R) ∝ |R|^(eta − 1) of a term's correlation matrix; eta = 1 is uniform."""

    eta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "eta", _number("LKJ", "eta", self.eta))

    def __repr__(self) -> str:
        return f"LKJ(eta={self.eta:.4g})"

    def log_density(self, correlation: Any) -> Any:
        """log p(R) over the q(q − 1)/2 correlations below the diagonal; R (..., q, q)."""
        R = np.asarray(correlation, dtype=np.float64)
        q = R.shape[-1]
        # partial correlations of column k are Beta(b, b) on (−1, 1), b = eta + (q − k − 1)/2
        k = np.arange(1, q)
        b = self.eta + (q - k - 1) / 2
        constant = -np.sum((q - k) * (betaln(b, b) + (2 * b - 1) * np.log(2)))
        if self.eta == 1:  # uniform, up to the very ends
            return np.full(R.shape[:-2], constant)[()]
        return constant + (self.eta - 1) * np.linalg.slogdet(R)[1]


@dataclass(frozen=True, eq=False)
class Wishart:
    """Λ ~ Wishart(dof, scale) of a correlated term's precision matrix, with mean dof · scale.

    scale is a positive number (times the identity) or a symmetric positive definite matrix.
    """

    dof: float
    scale: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "dof", _number("Wishart", "dof", self.dof))
        if np.ndim(self.scale) == 0:
            object.__setattr__(self, "scale", _number("Wishart", "scale", self.scale))
            return
        try:
            matrix = np.array(self.scale, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.zeros((0, 0))
        square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1] > 0
        if not (square and np.isfinite(matrix).all() and np.allclose(matrix, matrix.T)):
            raise InvalidModel(
                "Wishart(scale=...) must be a positive number or a symmetric matrix of finite numbers."
            )
        lowest = float(np.linalg.eigvalsh(matrix)[0])
        if not lowest > 0:
            raise InvalidModel(
                f"Wishart(scale=...) must be positive definite, but has the eigenvalue {lowest:.3g}."
            )
        matrix.setflags(write=False)
        object.__setattr__(self, "scale", matrix)

    def __repr__(self) -> str:
        if np.ndim(self.scale) == 0:
            return f"Wishart(dof={self.dof:.4g}, scale={self.scale:.4g})"
        rows = "], [".join(", ".join(f"{value:.4g}" for value in row) for row in self.scale)
        return f"Wishart(dof={self.dof:.4g}, scale=[[{rows}]])"

    def log_density(self, sd: Any, correlation: Any) -> Any:
        """log p(sds, R) = log Wishart(Λ) + log |∂Λ/∂(sds, R)| with Λ⁻¹ = Σ = diag(sds) R diag(sds).

        |∂Λ/∂Σ| = |Σ|^−(q + 1) and |∂Σ/∂(sds, R)| = 2^q Π sd^q. sd (..., q); correlation (..., q, q).
        """
        sd, R = np.asarray(sd, dtype=np.float64), np.asarray(correlation, dtype=np.float64)
        logdet = 2 * np.log(sd).sum(-1) + np.linalg.slogdet(R)[1]
        precision = np.linalg.inv(R) / (sd[..., :, None] * sd[..., None, :])
        return self.log_density_at(sd, precision, logdet)

    def log_density_at(self, sd: np.ndarray, precision: np.ndarray, logdet: np.ndarray) -> Any:
        """The same from Λ and log |Σ|, which those who have a root of Σ know up to a correlation of 1."""
        q = sd.shape[-1]
        scale = self.scale * np.eye(q) if np.ndim(self.scale) == 0 else self.scale
        log_sd = np.log(sd).sum(-1)
        trace = np.einsum("ij,...ji->...", np.linalg.inv(scale), precision)
        constant = -self.dof / 2 * (q * np.log(2) + np.linalg.slogdet(scale)[1])
        constant = constant - multigammaln(self.dof / 2, q) + q * np.log(2)
        return constant - (self.dof + q + 1) / 2 * logdet - trace / 2 + q * log_sd

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Wishart):
            return NotImplemented
        return self.dof == other.dof and np.array_equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return hash((self.dof, np.asarray(self.scale).tobytes()))


def _number(
    family: str, argument: str, value: Any, positive: bool = True, finite: bool = True
) -> float:
    """An argument that must be a number, positive and finite unless said otherwise."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    number = float(value) if real else np.nan
    if (
        np.isnan(number)
        or (positive and number <= 0)
        or ((finite or not positive) and np.isinf(number))
    ):
        kind = "a positive number" if positive else "a finite number"
        flat = " (numpy.inf for a flat prior)" if not finite else ""
        raise InvalidModel(f"{family}({argument}={value!r}) must be {kind}{flat}.")
    return number


__all__ = [
    "LKJ",
    "Beta",
    "Exponential",
    "Gamma",
    "HalfNormal",
    "HalfStudentT",
    "Normal",
    "Wishart",
]
