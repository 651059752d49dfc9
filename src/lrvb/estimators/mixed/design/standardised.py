"""Fixed effects in coordinates where nothing cancels: β = Tb + t with centred, unit-free columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ....data.standardise import Measures
from ....likelihoods import Likelihood
from ..priors.stated import MixedPriors
from .design import Design
from .rank import centred

LOG_2PI = float(np.log(2 * np.pi))


class Standardisation(NamedTuple):
    """β = Tb + t: centre and scale of each column of X, and the shift of the response."""

    center: np.ndarray
    scale: np.ndarray
    intercept: int | None
    shift: float

    @property
    def T(self) -> np.ndarray:
        """(p, p): a slope divided by its scale; the intercept gives back the centring."""
        T = np.diag(1 / self.scale)
        if self.intercept is not None:
            T[self.intercept] -= self.center / self.scale
        return T

    @property
    def t(self) -> np.ndarray:
        """(p,)."""
        t = np.zeros(len(self.center))
        if self.intercept is not None:
            t[self.intercept] = self.shift
        return t

    def inward(self, X: np.ndarray) -> np.ndarray:
        """The columns that belong to b."""
        return (X - self.center) / self.scale


def standardisation(design: Design) -> Standardisation:
    """Centres where an intercept can absorb them, standard deviations, the mean of a y that translates."""
    mean = design.response.mean if design.family.translates else 0.0
    return standardised(design.names, design.family, design.measures, mean)


def standardised(
    names: list[str], family: Likelihood, measures: Measures, mean: float
) -> Standardisation:
    """The same from the columns' measures and the mean of y − offset."""
    intercept = names.index("Intercept") if "Intercept" in names else None
    columns = centred(measures, intercept, not family.intercept)
    shift = mean if intercept is not None and family.translates else 0.0
    return Standardisation(columns.center, columns.unit(), intercept, shift)


class FixedPrior(NamedTuple):
    """b ~ N(mean, P0⁻¹), and what the ELBO of β has beyond that of b."""

    mean: np.ndarray
    P0: np.ndarray
    constant: float


def fixed_prior(priors: MixedPriors, standard: Standardisation) -> FixedPrior:
    """The prior of b from independent normal priors of β; a flat one has no normalising constant."""
    proper = np.isfinite(priors.sd)
    precision = np.zeros(len(priors.sd))
    precision[proper] = priors.sd[proper] ** -2.0
    T, t = standard.T, standard.t
    mean = np.linalg.solve(T, priors.mean - t) if len(t) else t
    constant = 0.5 * float(np.sum(np.log(precision[proper]) - LOG_2PI))
    constant += float(np.linalg.slogdet(T)[1]) if len(t) else 0.0
    return FixedPrior(mean, T.T @ (precision[:, None] * T), constant)
