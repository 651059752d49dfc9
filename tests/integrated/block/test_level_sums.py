"""What levels' own sums add to a Gaussian block's evidence, where they are all that is missing."""

from __future__ import annotations

import numpy as np
import pytest
from small_blocks import HALF_T, crossed, dense, regression

from lrvb.integrated.block.fitting import cold_start, fit
from lrvb.integrated.block.layout import Layout
from lrvb.integrated.block.level_sums import Gap, Pattern, _moments, counts, gap, total
from lrvb.integrated.block.points import made
from lrvb.integrated.levels import Levels
from lrvb.integrated.slopes import Slopes
from lrvb.integrated.terms import Term
from lrvb.prior import LKJ


def one_factor(family, q, N=60, G=20):
    """Few rows a level, no fixed effects, and a large sd."""
    rng = np.random.default_rng(4)
    g, x = np.arange(N) % G, rng.normal(size=N)
    eta = 1.5 * rng.normal(size=G)[g]
    y = rng.poisson(np.exp(eta)) if family == "poisson" else rng.random(N) < 1 / (1 + np.exp(-eta))
    R = np.column_stack([np.ones(N), x])[:, :q]
    term = Term(g, R, G, (HALF_T,) * q, LKJ(1.0) if q == 2 else None)
    return regression(family, y.astype(float), np.zeros((N, 0))), term


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
@pytest.mark.parametrize("q", [1, 2])
def test_with_one_factor_alone_the_evidence_is_exact(family, q):
    """Then R is a sum over levels: bound + own is log p(y, u), which the bound alone misses."""
    rows, term = one_factor(family, q)
    u = np.array([0.5, -0.2, 0.4])[: term.size]
    layout = Layout(rows, [term])
    fitted = fit(layout, u, cold_start(layout))
    found = gap(layout, fitted)
    sums = Levels(rows, term) if q == 1 else Slopes(rows, [term])
    sums.choose_nodes(u[None])
    exact, first, second = sums.evaluate(u[None])
    assert abs(fitted.bound + found.own - exact[0]) < 3e-3
    assert exact[0] - fitted.bound > 0.05
    assert abs(found.rest) < 1e-3 or q == 2
    point = made(fitted, found)
    effects = sums.unfold(u[None], np.ones(1), first[0], second[0])[0]
    np.testing.assert_allclose(point.mean.reshape(effects.mean.shape), effects.mean, atol=5e-3)
    sd = np.sqrt(point.variance).reshape(effects.sd.shape)
    np.testing.assert_allclose(sd, effects.sd, rtol=5e-3)


def test_the_rest_is_half_the_variance_of_what_no_level_has_alone():
    """Against draws of q: Var(R − Σ_k R̄_k) by its definition, to Monte Carlo's error."""
    rows, terms = crossed("bernoulli", N=300, G=60, K=30, slopes=False, sds=(1.5, 1.0))
    layout = Layout(rows, terms)
    u = np.log([1.5, 1.0])
    fitted = fit(layout, u, cold_start(layout))
    found = gap(layout, fitted)
    C, D = dense(layout, fitted.rows.w, u)
    rng, n = np.random.default_rng(0), 4000
    c = np.linalg.cholesky(np.linalg.inv(D)) @ rng.normal(size=(len(D), n))
    e = C @ c
    y, at, eta = rows.columns[0][:, None], fitted.rows.at, fitted.rows.eta[:, None]
    r = y * (eta + e) - np.logaddexp(0, eta + e) - at.value[:, None] - at.score[:, None] * e
    R = (r + at.information[:, None] * (e**2 - fitted.rows.v[:, None]) / 2).sum(0)
    # all but what the levels' sums have: log E exp R ≈ Σ_k log E exp R̄_k + ½ Var of the rest
    whole = np.log(np.mean(np.exp(R)))
    assert abs(whole - found.total) < 0.06 + 3 * np.std(np.exp(R - whole)) / np.sqrt(n)
    assert 0 < found.rest < found.own


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
@pytest.mark.parametrize("rows_each", [3, 60])
def test_a_total_needs_fewer_nodes(family, rows_each, monkeypatch):
    """Value and second differences along u are those of many nodes: there are no steps between."""
    rows, term = one_factor(family, 1, N=20 * rows_each)
    layout = Layout(rows, [term])
    at = [fit(layout, np.array([u]), cold_start(layout)) for u in (0.38, 0.4, 0.42)]
    known = counts(layout, at[1])
    few = np.array([total(layout, q, known) for q in at])
    T = np.linspace(-7, 7, 141)
    monkeypatch.setattr(
        "lrvb.integrated.block.level_sums.level_nodes",
        lambda q: (T[:, None], -(T**2) / 2 - np.log(np.exp(-(T**2) / 2).sum())),
    )
    many = np.array([gap(layout, q).total for q in at])
    np.testing.assert_allclose(few, many, rtol=2e-3, atol=1e-6)
    bend = (
        np.diff(few - many, 2)[0] / 0.02**2
    )  # of a log density whose own is of the order of levels
    assert abs(bend) < 0.01


def test_moments_of_levels_are_those_of_their_weighted_nodes():
    """Mean, covariance and third central moments of root·t under the nodes' weights, by NumPy's own."""
    rng = np.random.default_rng(6)
    T, table = rng.normal(size=(7, 2)), rng.normal(size=(3, 7))
    root = np.tril(rng.normal(size=(3, 2, 2)))
    mean, spread, third = _moments(table, np.log(np.exp(table).sum(1)), T, root)
    for k in range(3):
        w, z = np.exp(table[k]) / np.exp(table[k]).sum(), T @ root[k].T
        np.testing.assert_allclose(mean[k], w @ z, rtol=1e-12)
        cov = np.cov(z.T, aweights=w, ddof=0)
        np.testing.assert_allclose(spread[k], cov, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(third[k], w @ (z - w @ z) ** 3, rtol=1e-10)


def test_a_pattern_scales_with_the_levels():
    """z → sz multiplies means by s, covariances by s² and third moments by s³, those of q likewise."""
    rng = np.random.default_rng(7)
    A = rng.normal(size=(2, 4, 2, 2))
    C, spread = (A @ A.swapaxes(2, 3)) + np.eye(2)
    moved, third, s = rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), 1.7
    each, noise = np.zeros(4), np.zeros(16)
    pattern = Pattern(Gap(0.0, 0.0, [moved], [spread], [third], [each], noise), [C])
    found = pattern.at(0, s**2 * C)
    for part, expected in zip(found, (s * moved, s**2 * spread, s**3 * third), strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12)
