"""Shares and proportions strictly between zero and one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv, expit, gammaln, logit

from ..numerics.functions import NUMPY
from ..numerics.gamma import digamma_above_one, log_gamma_above_one
from ..numerics.table import OFF, tabulated
from .base import Likelihood, Refuse
from .dispersion import Dispersion, Positive
from .gamma import precision_prior
from .given import NOTHING, Given
from .links import LOGIT
from .values import Values

_OFF = 1e-13  # what a row's log density may be off by, where it comes from a table


class Beta(Likelihood):
    """0 < y < 1 with mean μ = σ(η) and variance μ(1 − μ)/(1 + phi)."""

    name, link, concave, varies = "beta", LOGIT, False, True
    cost = 2.0
    dispersions = (Dispersion("phi", precision_prior),)

    def dispersions_of(self, y: Values) -> tuple[Dispersion, ...]:
        """Phi is looked for near μ(1 − μ)/Var y − 1 of all rows together."""
        mean, variance = y.mean, y.sd**2
        first = max(mean * (1 - mean) / variance - 1, 0.1) if variance > 0 else 1.0
        return (Dispersion("phi", precision_prior, Positive(first=first)),)

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log Γ(φ)/(Γ(a)Γ(b)) + (a − 1) log y + (b − 1) log(1 − y), a = μφ and b = (1 − μ)φ."""
        phi = given["phi"]
        log_up, log_down = -xp.logaddexp(0.0, -eta), -xp.logaddexp(0.0, eta)
        a, b = phi * xp.exp(log_up), phi * xp.exp(log_down)
        # log Γ(a) = log Γ(a + 1) − log a, which is a number wherever η is
        value = xp.gammaln(phi + 0.0 * y) - xp.gammaln(a + 1.0) - xp.gammaln(b + 1.0)
        value = value + log_up + log_down + 2 * xp.log(phi)
        return value + (a - 1.0) * xp.log(y) + (b - 1.0) * xp.log1p(-y)

    def constant(self, y: Any, given: Given = NOTHING) -> Any:
        """−log y(1 − y)."""
        return -np.log(y) - np.log1p(-y)

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """log φ²Γ(φ)/(Γ(a + 1)Γ(b + 1)) + log μ(1 − μ) + a logit y + φ log(1 − y)."""
        eta, phi = np.asarray(eta), np.asarray(given["phi"], dtype=np.float64)
        left = np.log1p(-y)
        odds = np.log(y) - left
        rest = gammaln(phi) + 2 * np.log(phi) + phi * left
        found = _tabulated(eta, phi, _normaliser)
        if found is None:
            up, log_both = _shares(eta)
            return phi * up * odds - _log_gammas(phi * up, phi) + log_both + rest
        value = _share(eta)
        value *= phi
        value *= odds
        value -= found[0]
        value += rest
        return value

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """φd·r and (φd)²(ψ′(a) + ψ′(b)) − φd(1 − 2μ)r; d = μ(1 − μ), r = logit y − ψ(a) + ψ(b).

        With ψ(a) = ψ(a + 1) − 1/a, so that φd/a = 1 − μ needs no division.
        """
        eta, phi = np.asarray(eta), np.asarray(given["phi"], dtype=np.float64)
        odds = np.log(y) - np.log1p(-y)
        found = _tabulated(eta, phi, _curves)
        if found is None:
            first, bend = _curves(eta, phi)
            up, log_both = _shares(eta)
            both = np.exp(log_both)
        else:
            first, bend = found
            up = _share(eta)
            both = up - up * up
        more = 2.0 * up - 1.0
        score = phi * both * (odds - first) - more
        return score, bend + more * score

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """μ(1 − μ)/(1 + phi)."""
        return self.link.slope(eta) / (1 + given["phi"])

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The regularised incomplete beta function."""
        phi = given["phi"]
        return betainc(phi * expit(eta), phi * expit(-eta), np.clip(y, 0.0, 1.0))

    def quantile(self, prob: Any, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Its inverse."""
        phi = given["phi"]
        return betaincinv(phi * expit(eta), phi * expit(-eta), prob)

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """A share for each mean."""
        phi = given["phi"]
        return rng.beta(phi * expit(eta), phi * expit(-eta))

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Numbers above 0 and below 1."""
        bad = (y <= 0) | (y >= 1)
        if bad.any():
            row = int(np.argmax(bad))
            raise refuse(
                names["response"],
                row,
                y[row],
                "is not between 0 and 1, where a beta response must be, both excluded",
                "Divide percentages by 100; of exact zeros and ones, model apart whether they occur",
            )

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """The logit of the share, with its weight."""
        return logit(y), given["phi"] * y * (1 - y)


def _normaliser(eta: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray]:
    """log Γ(a + 1)Γ(b + 1) − log μ(1 − μ), whose sixth derivative in η is below 1 + 3φ/2."""
    up, log_both = _shares(eta)
    return (_log_gammas(phi * up, phi) - log_both,)


def _log_gammas(a: np.ndarray, phi: np.ndarray) -> np.ndarray:
    """log Γ(a + 1)Γ(φ − a + 1)."""
    one, other = log_gamma_above_one(np.stack([a, phi - a]) + 1.0)
    return np.asarray(one + other)


def _curves(eta: np.ndarray, phi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """ψ(a + 1) − ψ(b + 1) and (φd)²(ψ′(a + 1) + ψ′(b + 1)) + μ² + (1 − μ)², d = μ(1 − μ)."""
    up, log_both = _shares(eta)
    down = 1.0 - up
    first, second = digamma_above_one(phi * np.stack([up, down]) + 1.0)
    bend = (phi * np.exp(log_both)) ** 2 * (second[0] + second[1]) + (down**2 + up**2)
    return first[0] - first[1], bend


def _tabulated(
    eta: np.ndarray,
    phi: np.ndarray,
    curves: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]],
) -> list[np.ndarray] | None:
    """Functions of η for each φ from a table, where there are many η for each. See: tabulated."""
    if eta.ndim < 1 or not (phi.size == 1 or phi.size == len(eta) == phi.shape[0]):
        return None
    steps = (_OFF / (OFF * (1 + 1.5 * phi.reshape(-1)))) ** (1 / 6)
    each = eta.reshape(phi.size, -1)
    found = tabulated(each, lambda knots: curves(knots, phi.reshape(-1, 1)), steps)
    return None if found is None else [part.reshape(eta.shape) for part in found]


def _share(eta: np.ndarray) -> np.ndarray:
    """μ = σ(η), in a new array."""
    share = np.exp(-eta)
    share += 1.0
    return np.divide(1.0, share, out=share)


def _shares(eta: Any) -> tuple[np.ndarray, np.ndarray]:
    """μ = σ(η) and log μ(1 − μ)."""
    away = np.abs(eta)
    small = np.exp(-away)
    larger = 1 / (1 + small)
    return np.where(np.asarray(eta) >= 0, larger, small * larger), 2 * np.log(larger) - away


BETA = Beta()
