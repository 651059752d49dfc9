"""A number with noise that now and then is far larger than usual."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaincc, gammaln, stdtr, stdtrit

from ..errors import InvalidModel
from ..numerics.functions import NUMPY
from ..prior import Gamma, HalfStudentT
from .base import Likelihood
from .dispersion import Dispersion, Positive, SdPriors
from .given import NOTHING, Given
from .links import IDENTITY
from .values import Values

LOWEST = 1.0  # df above which a mean exists


def sigma_prior(scale: float) -> HalfStudentT:
    """HalfStudentT(3, 2.5 s)."""
    return HalfStudentT(3.0, 2.5 * scale)


def df_prior(scale: float) -> Gamma:
    """Gamma(2, 0.1) of the degrees of freedom themselves: from Cauchy's to all but normal."""
    return Gamma(2.0, 0.1)


class DegreesOfFreedom(Positive):
    """df > 1, with the coordinate log(df − 1); a Gamma is of df itself."""

    takes: ClassVar[tuple[type, ...]] = (Gamma, *SdPriors)
    words = (
        "degrees of freedom, which take lrvb.prior.Gamma(shape, rate), HalfStudentT(df, scale), "
        "HalfNormal(scale) or Exponential(rate)"
    )

    def log_density(self, prior: Any, u: np.ndarray) -> np.ndarray:
        """log p(u), given that df > 1, (n,)."""
        if not isinstance(prior, Gamma):
            return super().log_density(prior, u)
        df, a, b = self.natural(u)[:, 0], prior.shape, prior.rate
        value = a * np.log(b) - gammaln(a) + (a - 1) * np.log(df) - b * df
        return value + self.log_jacobian(u) - np.log(gammaincc(a, b * self.low))


class Student(Likelihood):
    """y = η + sigma · t with `df` degrees of freedom, given or estimated; sd = sigma √(df/(df − 2))."""

    name, link, concave, translates = "student", IDENTITY, False, True
    cost, varies = 2.0, True

    def __init__(self, df: float | None = None):
        if df is not None and not (isinstance(df, int | float) and df > 0 and np.isfinite(df)):
            raise InvalidModel(f"df={df!r} must be a positive number, or None to estimate it.")
        self.df = None if df is None else float(df)
        if df is not None:
            self.name = f"student(df={df:g})"
        self.dispersions = self._own(1.0)

    def _own(self, sigma: float) -> tuple[Dispersion, ...]:
        first = Dispersion("sigma", sigma_prior, Positive(first=sigma))
        df = Dispersion("df", df_prior, DegreesOfFreedom(LOWEST, 8.0))
        return (first, df) if self.df is None else (first,)

    def dispersions_of(self, y: Values) -> tuple[Dispersion, ...]:
        """Sigma is looked for near the middle spread of the response."""
        spread = float(np.subtract(*y.quantiles(0.75, 0.25))) / 1.35
        return self._own(spread or y.sd or 1.0)

    def _df(self, given: Given) -> Any:
        return given["df"] if self.df is None else self.df

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log Γ((ν + 1)/2)/Γ(ν/2) − ½ log νπ − log σ − ½(ν + 1) log(1 + r²/ν), r = (y − η)/σ."""
        df, sigma = self._df(given) + 0.0 * y, given["sigma"]
        level = xp.gammaln((df + 1.0) / 2) - xp.gammaln(df / 2) - xp.log(df * np.pi) / 2
        away = ((y - eta) / sigma) ** 2 / df
        return level - xp.log(sigma) - (df + 1.0) / 2 * xp.log1p(away)

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """The whole of log p: all of it depends on a dispersion."""
        df, sigma = np.asarray(self._df(given), dtype=np.float64), np.asarray(given["sigma"])
        level = gammaln((df + 1) / 2) - gammaln(df / 2) - np.log(df * np.pi) / 2 - np.log(sigma)
        away = np.square((y - eta) * (1 / (sigma * np.sqrt(df))))
        return level - (df + 1) / 2 * np.log1p(away)

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """w(y − η) and w(νσ² − (y − η)²)/(νσ² + (y − η)²), w = (ν + 1)/(νσ² + (y − η)²)."""
        df, away = self._df(given), y - eta
        inner, square = df * np.square(given["sigma"]), away**2
        weight = (df + 1) / (inner + square)
        return weight * away, weight * (inner - square) / (inner + square)

    def scale(self, given: Given) -> Any:
        """Sigma."""
        return given["sigma"]

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """σ²ν/(ν − 2), infinite up to ν = 2."""
        df = np.asarray(self._df(given), dtype=np.float64)
        with np.errstate(divide="ignore"):
            found = np.square(given["sigma"]) * np.where(df > 2, df / np.maximum(df - 2, 0), np.inf)
        return np.broadcast_to(found, np.broadcast_shapes(np.shape(found), np.shape(eta)))

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Student's, of (y − η)/σ."""
        return stdtr(self._df(given), (y - eta) / given["sigma"])

    def quantile(self, prob: Any, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """η + σ t."""
        return eta + given["sigma"] * stdtrit(self._df(given), prob)

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """η and noise."""
        df = np.broadcast_to(self._df(given), np.shape(eta))
        return eta + given["sigma"] * rng.standard_t(df)

    def averaged(
        self, mean: np.ndarray, v: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Variances add."""
        return mean, v + self.variance(mean, given)

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """The response, with the weight of a residual of zero."""
        df = self._df(given)
        return y, np.broadcast_to((df + 1) / (df * np.square(given["sigma"])), y.shape)

    def __repr__(self) -> str:
        return "Student()" if self.df is None else f"Student(df={self.df:g})"


STUDENT = Student()
