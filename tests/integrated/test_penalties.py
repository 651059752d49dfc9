"""Coefficients with a common sd among β: exact in gaussian rows, drawn beside all other sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from integrated.small import HALF_T, NORMAL_ROWS, dispersion, intercepts, regression
from lrvb.integrated.fixed import Fixed
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.levels import Levels
from lrvb.integrated.mode import differenced
from lrvb.integrated.penalties import Penalty
from lrvb.integrated.regression import Regression
from lrvb.integrated.smoothed import Smoothed

RNG = np.random.default_rng(4)
N, K, G = 18, 4, 3
X = np.column_stack([np.ones(N), RNG.normal(size=(N, 1 + K))])
ROOT = np.array([1.0, 2.0, 0.5, 1.5])
A = RNG.normal(size=(K, K))
STRUCTURE = A @ A.T + np.eye(K)
PENALTIES = {
    "bends": Penalty(np.arange(2, 2 + K), ROOT, HALF_T),
    "structure": Penalty(np.arange(2, 2 + K), ROOT, HALF_T, STRUCTURE),
}
INVERSES = {"bends": np.eye(K), "structure": np.linalg.inv(STRUCTURE)}
CODES = np.arange(N) % G


@pytest.mark.parametrize("kind", [*PENALTIES])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_evidence_is_a_normal_density(grouped, kind):
    """y ~ N(X₁b, X₁P⁻¹X₁ᵀ + sd² ZQ⁻¹Zᵀ + groups + σ²I), Z = X₂/root, with the priors of all sds."""
    y, sd, mean = RNG.normal(size=N), np.array([2.0, 1.5]), np.array([0.2, -0.1])
    rows = Regression.independent(
        NORMAL_ROWS, (y,), X, np.zeros(N), np.r_[mean, np.zeros(K)], np.r_[sd, np.full(K, np.inf)]
    )
    volume = np.log(ROOT).sum()  # counted with that of all β
    rows = replace(rows, penalties=(PENALTIES[kind],), constant=rows.constant + volume)
    terms = [intercepts(CODES, G)] if grouped else []
    model = Gaussian(rows, terms, HALF_T)
    theta = np.array([[0.3, -0.4, 0.1], [-1.0, 0.5, -0.2]])[:, 0 if grouped else 1 :]
    for t, value in zip(theta, model.log_density(theta), strict=True):
        Z, groups = X[:, 2:] / ROOT, (CODES[:, None] == CODES).astype(float)
        S = (X[:, :2] * sd**2) @ X[:, :2].T + np.exp(2 * t[-2]) * Z @ INVERSES[kind] @ Z.T
        S += np.exp(2 * t[-1]) * np.eye(N) + (np.exp(2 * t[0]) * groups if grouped else 0.0)
        exact = multivariate_normal(X[:, :2] @ mean, S).logpdf(y)
        exact += (HALF_T.log_density(np.exp(t)) + t).sum()
        np.testing.assert_allclose(value, exact, rtol=1e-10)


@pytest.mark.parametrize("kind", [*PENALTIES])
@pytest.mark.parametrize(("family", "grouped"), [("poisson", True), ("negbinomial", False)])
def test_drawn_coefficients_have_their_prior(family, grouped, kind):
    """The sums without it, and log N(root b; 0, sd² Q⁻¹); derivatives are those of the density."""
    rows = regression(family, 0.2 + 0.1 * X[:, 1], X)
    rows = replace(rows, P=np.diag(np.r_[1 / 9, 1 / 9, np.zeros(K)]))
    inner = Levels(rows, intercepts(CODES, G)) if grouped else Fixed(rows)
    inside = Smoothed(inner, (PENALTIES[kind],), int(grouped))
    theta = inside.start() + 0.1 * RNG.normal(size=len(inside.kinds))
    tail = dispersion(family)
    theta[len(theta) - len(tail) :] = tail
    log_sd = theta[2 + K + grouped]
    left = np.delete(theta, 2 + K + grouped)
    exact = inner.log_density(left[None])[0]
    S = np.exp(2 * log_sd) * INVERSES[kind]
    exact += multivariate_normal(np.zeros(K), S).logpdf(theta[2 : 2 + K] * ROOT)
    exact += HALF_T.log_density(np.exp(log_sd)) + log_sd
    np.testing.assert_allclose(inside.log_density(theta[None])[0], exact, rtol=1e-12)
    value, gradient, H = inside.derivatives(theta)
    again = differenced(inside.log_density)(theta)
    np.testing.assert_allclose(value, again[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, again[1], rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(H, again[2], rtol=5e-3, atol=5e-3)
