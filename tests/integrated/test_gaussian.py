"""Gaussian rows given θ: against the multivariate normal of y and of all coefficients."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal
from small import HALF_T, intercepts, sloped

from integrated.small import NORMAL_ROWS
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.regression import Regression
from lrvb.integrated.terms import Term
from lrvb.prior import LKJ, Gamma, HalfNormal

N = 40


def design(kind, flat=False):
    rng = np.random.default_rng(4)
    x, w = rng.normal(1, 1, N), rng.normal(size=N)
    a, b, c = rng.integers(0, 6, N), rng.integers(0, 4, N), np.arange(N) % 9
    R3 = np.column_stack([np.ones(N), x, w])
    terms = {
        "intercepts": [intercepts(a, 6)],
        "slopes": sloped(a, x, 6),
        "independent": sloped(a, x, 6, correlated=False),
        "crossed": [intercepts(a, 6), intercepts(b, 4)],
        "crossed slopes": [*sloped(c, x, 9), *sloped(b, x, 4), intercepts(a, 6)],
        "three effects": [Term(a, R3, 6, (HALF_T, HALF_T, HalfNormal(1.0)), LKJ(1.5))],
    }[kind]
    X = np.column_stack([np.ones(N), x])
    sd = np.array([np.inf, np.inf]) if flat else np.array([3.0, 2.0])
    y = rng.normal(2, 1, N) + rng.normal(0, 1, 6)[a]
    rows = Regression.independent(NORMAL_ROWS, (y,), X, 0.2 * w, np.array([1.0, -0.5]), sd)
    model = Gaussian(rows, terms, Gamma(2.0, 1.0))
    theta = model.start() + rng.normal(0, 0.3, (3, len(model.kinds)))
    return model, rows, terms, theta


KINDS = ["intercepts", "slopes", "independent", "crossed", "crossed slopes", "three effects"]


def dense(model, rows, terms, theta):
    """C (N, all coefficients), their prior covariance and mean, at one θ; β first."""
    columns, blocks = [rows.X], [np.linalg.inv(rows.P)]
    for term, spread in zip(terms, model.spreads(theta[None]), strict=True):
        Z = np.zeros((N, term.levels, term.q))
        Z[np.arange(N), term.codes] = term.R
        columns.append(Z.reshape(N, -1))
        blocks += [spread.covariance[0]] * term.levels
    size = sum(len(block) for block in blocks)
    S, at = np.zeros((size, size)), 0
    for block in blocks:
        S[at : at + len(block), at : at + len(block)] = block
        at += len(block)
    return np.concatenate(columns, axis=1), S


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_is_the_density_of_y(kind):
    """log p(y | θ) = log N(y; Xμ + offset, CSCᵀ + σ²I)."""
    model, rows, terms, theta = design(kind)
    prior = model.log_prior(theta, model.spreads(theta))
    for i, t in enumerate(theta):
        C, S = dense(model, rows, terms, t)
        V = C @ S @ C.T + np.exp(2 * t[-1]) * np.eye(N)
        expected = multivariate_normal(rows.X @ rows.mean + rows.offset, V).logpdf(rows.columns[0])
        assert_allclose(model.log_density(theta)[i] - prior[i], expected, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_are_the_mixture_of_conditionals(kind):
    """Means and sds of all coefficients over weighted θ, by dense conditioning."""
    model, rows, terms, theta = design(kind)
    weights = np.array([0.5, 0.3, 0.2])
    first = second = 0.0
    for t, w in zip(theta, weights, strict=True):
        m, V = conditioned(model, rows, terms, t)
        first, second = first + w * m, second + w * (m**2 + np.diag(V))
    sd = np.sqrt(second - first**2)
    found = model.moments(theta, weights)
    mean = np.concatenate([found.beta, *(level.ravel() for level in found.levels)])
    spread = np.concatenate([found.beta_sd, *(level.ravel() for level in found.levels_sd)])
    assert_allclose(mean, first, rtol=1e-8, atol=1e-9)
    assert_allclose(spread, sd, rtol=1e-7)


def conditioned(model, rows, terms, t):
    """Mean and covariance of all coefficients given y and one θ."""
    C, S = dense(model, rows, terms, t)
    mean = np.concatenate([rows.mean, np.zeros(C.shape[1] - len(rows.mean))])
    V = C @ S @ C.T + np.exp(2 * t[-1]) * np.eye(N)
    K = S @ C.T @ np.linalg.inv(V)
    return mean + K @ (rows.columns[0] - rows.offset - C @ mean), S - K @ C @ S


@pytest.mark.parametrize("kind", KINDS)
def test_predictors_of_new_rows(kind):
    """η of rows with known levels, and with new ones, whose variance is their term's prior's."""
    model, rows, terms, theta = design(kind)
    X = np.array([[1.0, 0.3], [1.0, -2.0]])
    codes = [np.array([1, -1]) for _ in terms]
    R = [term.R[[3, 5]] for term in terms]
    mean, variance = model.functionals(theta, X, codes, R)
    for i, t in enumerate(theta):
        m, V = conditioned(model, rows, terms, t)
        A, at, extra = np.zeros((2, len(m))), 2, np.zeros(2)
        A[:, :2] = X
        for term, r, spread in zip(terms, R, model.spreads(t[None]), strict=True):
            A[0, at + term.q : at + 2 * term.q] = r[0]
            at += term.levels * term.q
            extra[1] += r[1] @ spread.covariance[0] @ r[1]
        assert_allclose(mean[i], A @ m, rtol=1e-8)
        assert_allclose(variance[i], np.diag(A @ V @ A.T) + extra, rtol=1e-8)


def test_a_flat_prior_is_the_limit_of_wide_ones():
    """log p(y) with sd = s of both coefficients falls by 2 log s + log 2π below the flat one."""
    flat, *_, theta = design("slopes", flat=True)
    wide, rows, *_ = design("slopes")
    s = 1e5
    rows = Regression.independent(
        NORMAL_ROWS, rows.columns, rows.X, rows.offset, rows.mean, np.full(2, s)
    )
    wide = Gaussian(rows, wide.terms, Gamma(2.0, 1.0))
    gap = flat.log_density(theta) - wide.log_density(theta)
    assert_allclose(gap, 2 * np.log(s) + np.log(2 * np.pi), rtol=1e-7)


def test_many_effects_are_eliminated_one_theta_at_a_time(monkeypatch):
    """The two ways to BᵀEB agree."""
    model, *_, theta = design("crossed slopes")
    expected = model.log_density(theta)
    monkeypatch.setattr("lrvb.integrated.gaussian._PRODUCT", 0)
    assert_allclose(model.log_density(theta), expected, rtol=1e-12)
