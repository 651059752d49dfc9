"""Priors of a mixed model, stated by name: `priors={"x": lrvb.prior.Normal(0, 1)}`."""

from __future__ import annotations

import numbers
from dataclasses import dataclass
from typing import Any

import numpy as np

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


__all__ = ["Gamma", "Normal", "Wishart"]
