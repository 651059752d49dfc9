"""Coordinates in which a funnel is straight: effects in units of the scale that drives them.

In a centred hierarchy the width of effects follows a log sd s, so that no Gaussian fits and no one step size
serves. Given s, an effect with prior N(μ, e^2s) and data worth a precision J is normal with the variance
e^2Δ/J, Δ = −½ log(1 + e^−2s/J), and the mean μ + e^2Δ(ŷ − μ). Which coordinates drive which, and from where
on, is read off draws; the effect less its mean and over its width is then as wide everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit

LEAST = 8  # draws a coordinate from which a funnel is looked for
SEEN = 0.15  # correlation of a log squared residual with its driver that is not chance
GAIN = 0.01  # log likelihood a draw that a width must bring
DRIVERS = 4
SLOPES = (
    1.0,
    0.5,
    2.0,
)  # of a log width in a log sd, a log variance (or precision), and a log root
TURNS = np.linspace(-6, 6, 25)  # where the prior's width becomes the data's, in sds of the driver


class Warp(NamedTuple):
    """x = c + B(v − c) + e^2Δ∘k + e^Δ∘(v − c) of effects; what is not an effect is as it was.

    Δ = −½ log(1 + exp(−2 slope∘(v[driver] − turn))), (D,). slope (D,) is zero of what is no effect; B (D, D)
    has rows of effects and columns of others.
    """

    slope: np.ndarray
    turn: np.ndarray
    driver: np.ndarray
    center: np.ndarray
    B: np.ndarray
    k: np.ndarray

    def forward(self, v: np.ndarray) -> np.ndarray:
        """x (n, D) of v (n, D)."""
        width = np.exp(self._log_width(v))
        d = v - self.center
        return self.center + d @ self.B.T + width**2 * self.k + width * d

    def inverse(self, x: np.ndarray) -> np.ndarray:
        """v (n, D) of x (n, D)."""
        width = np.exp(self._log_width(x))
        d = x - self.center
        return self.center + (d - d @ self.B.T - width**2 * self.k) / width

    def pulled_back(
        self, v: np.ndarray, value: np.ndarray, gradient: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """log p of v (n,) and its gradient (n, D) from those of x: with the Jacobian's log ΣΔ."""
        log_width = self._log_width(v)
        width = np.exp(log_width)
        found = width * gradient + gradient @ self.B
        moved = (2 * width**2 * self.k + width * (v - self.center)) * gradient
        change = self.slope * expit(-2 * self.slope * (v[:, self.driver] - self.turn))
        along = change * (moved + 1.0)
        for d in np.unique(self.driver[self.slope != 0]):
            found[:, d] += along[:, self.driver == d].sum(axis=1)
        return value + log_width.sum(axis=1), found

    def _log_width(self, v: np.ndarray) -> np.ndarray:
        return np.where(self.slope == 0, 0.0, _log_width(self.slope, v[:, self.driver] - self.turn))


def _log_width(slope: np.ndarray | float, s: np.ndarray) -> np.ndarray:
    """−½ log(1 + e^(−2 slope s)): slope·s where the prior rules, 0 where the data do."""
    return -0.5 * np.logaddexp(0.0, -2 * slope * s)


def find_warp(x: np.ndarray) -> Warp | None:
    """The funnels that draws x (n, D) show, or None.

    What seems an effect only because effects are known beside it, as their common mean does, is not
    wide or narrow by itself: it gains little by a width of its own, and counts among the others.
    """
    n, D = x.shape
    if n < LEAST * D or D < 2:
        return None
    center, sd = x.mean(axis=0), x.std(axis=0)
    y = (x - center) / sd
    driver, sign = _drivers(y)
    while (driver >= 0).any():
        G = np.flatnonzero(driver < 0)
        others = y[:, G] if n >= LEAST * len(G) else np.zeros((n, len(G)))
        X = np.column_stack([np.ones(n), others])
        slope, turn, k, middle, gain, B = *np.zeros((5, D)), np.zeros((D, D))
        weak = np.zeros(D, bool)
        for d in np.unique(driver[driver >= 0]):
            own = np.flatnonzero(driver == d)
            tries = [_widths(x[:, d], sign[d] * rate, y[:, own], X) for rate in SLOPES]
            best = tries[int(np.argmax([found.gain.sum() for found in tries]))]
            slope[own], turn[own], k[own] = best.slope, best.turn, best.k
            middle[own], B[np.ix_(own, G)], gain[own] = best.b[:, 0], best.b[:, 1:], best.gain
            weak[own] = best.gain < max(GAIN, 0.3 * np.median(best.gain))
        if not weak.any():
            return Warp(
                slope,
                turn,
                np.maximum(driver, 0),
                center + middle * sd,
                B * sd[:, None] / sd,
                k * sd,
            )
        driver = np.where(weak, -1, driver)
    return None


def _drivers(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of every coordinate of y (n, D) the one that its width follows, or −1; of drivers, up or down."""
    n, D = y.shape
    P = np.linalg.inv(np.cov(y.T) + 1e-6 * np.eye(D))
    residual = (y @ P) / np.sqrt(np.diag(P))
    spread = np.log(residual**2 + 1e-3)
    spread = (spread - spread.mean(axis=0)) / spread.std(axis=0)
    C = spread.T @ y / n
    np.fill_diagonal(C, 0.0)
    C = np.where(np.abs(C) > SEEN, C, 0.0)
    driver, signs = np.full(D, -1), np.zeros(D)
    for _ in range(DRIVERS):
        free = driver < 0
        score = np.where(free, (C**2)[free].sum(axis=0), 0.0)
        d = int(np.argmax(score))
        if score[d] <= 0:
            break
        signs[d] = np.sign((C[:, d] * np.abs(C[:, d]))[free].sum())
        taken = free & (signs[d] * C[:, d] > 0)
        driver[taken] = d
        C[d] = 0.0  # a driver is no effect, and effects drive nothing
        C[:, taken] = 0.0
        C[:, d] = 0.0
    return driver, signs


class _Widths(NamedTuple):
    """Of effects (m,): where their width turns, k, coefficients b (m, p), and what that gains a draw."""

    slope: float
    turn: np.ndarray
    k: np.ndarray
    b: np.ndarray
    gain: np.ndarray


def _widths(s: np.ndarray, slope: float, y: np.ndarray, X: np.ndarray) -> _Widths:
    """y (n, m) = Xb + e^2Δ k + e^Δ·noise, Δ of the driver s (n,): for each column the likeliest turn."""
    m = y.shape[1]
    turn, k, b = np.zeros(m), np.zeros(m), np.zeros((m, X.shape[1]))
    best, plain = np.full(m, -np.inf), _regressed(X, y, np.zeros(len(s)))[1]
    for at in s.mean() + s.std() * TURNS:
        log_width = _log_width(slope, s - at)
        found, log_likelihood = _regressed(
            np.column_stack([X, np.exp(2 * log_width)]), y, log_width
        )
        better = log_likelihood > best
        best = np.where(better, log_likelihood, best)
        turn[better], k[better], b[better] = at, found[-1, better], found[:-1, better].T
    return _Widths(slope, turn, k, b, best - plain)


def _regressed(
    X: np.ndarray, y: np.ndarray, log_width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (p, m) of y (n, m) on X (n, p) with noise of a log width (n,), and log p a draw (m,)."""
    inverse = np.exp(-np.maximum(log_width, -30.0))[:, None]
    features, target = X * inverse, y * inverse
    A = features.T @ features
    scale = np.sqrt(np.diag(A)) + 1e-300
    A = A / np.outer(scale, scale) + 1e-8 * np.eye(len(A))
    b = np.linalg.solve(A, features.T @ target / scale[:, None]) / scale[:, None]
    residual = ((target - features @ b) ** 2).mean(axis=0)
    return b, -log_width.mean() - 0.5 * np.log(residual + 1e-300)
