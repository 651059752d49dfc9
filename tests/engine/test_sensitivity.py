"""Derivatives of the optimum in the model's numbers and in the weights of rows, by refits."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES, Case
from lrvb.engine.numbers import _standing_for_all, number_changes, number_steps
from lrvb.engine.second_order import thinned
from lrvb.engine.sensitivity import (
    means_at,
    refit_weighted,
    row_curvature,
    row_densities,
    row_scores,
    without,
)
from lrvb.posterior.hyperparameters import plain_steps, stored_numbers
from lrvb.posterior.sensitivity import Sensitivity


def refitted(case: Case, name: str, number: Any) -> lrvb.Response:
    """The case's response with one of the model's numbers replaced."""
    model = copy.copy(case.model)
    setattr(model, name, number)
    fit = case.fit(model, init=case.small_fit())
    return lrvb.respond(lrvb.linearize(fit))


NUMBERS = [(case, h) for case in CASES for h in stored_numbers(case.small_fit().problem.traced)]


@pytest.mark.parametrize(("case", "h"), NUMBERS, ids=[f"{c}-{h.name}" for c, h in NUMBERS])
def test_means_and_sds_follow_a_number_of_the_model(case, h):
    """dm*/dε = Σ̂ ∂²L̄/∂m∂ε and dΣ̂/dε against central differences of refits.

    A difference with step δ errs by δ²/6 of a third derivative, here of the order of one: 1e-6 of
    the largest entry, and the refits' own tolerance (1e-9 sds) over δ.
    """
    response = case.response()
    name = h.name.partition("[")[0]
    step = 1e-3 * (abs(h.value) or 1.0)
    up, down = (refitted(case, name, h.at(h.value + s)[name]) for s in (step, -step))
    sensitivity = Sensitivity(response, lrvb.summarize(response).estimate)
    at = np.arange(len(response.m))
    (found,) = (c for c in sensitivity.prior_changes(at) if c.hyperparameter.name == h.name)
    slope = (up.m - down.m) / (2 * step)
    assert_allclose(found.d_mean, slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())
    ends = [np.sqrt(np.diag(r.Sigma)) for r in (up, down)]
    slope = (ends[0] - ends[1]) / (2 * step)
    assert_allclose(found.d_sd, slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


def test_a_sample_of_rows_says_how_sds_follow():
    """All rows taken, it is the same number; a quarter of them has what a quarter can tell.

    Of 150 rows a mean over rows is known to 1/√150 = 8 % of their spread; three of those are let pass.
    They are weighted anew to have count, score and curvature along given directions of all rows, to rounding.
    """
    case = next(case for case in CASES if case.name == "NormalPoisson-tilted")
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    data = {"x": x, "y": rng.poisson(np.exp(x + 0.5 * rng.normal(size=600)))}
    response = lrvb.respond(lrvb.linearize(lrvb.fit(case.model, data)))
    (h,) = [h for h in stored_numbers(response.fit.problem.traced) if h.name == "tau_rate"]
    of = np.eye(len(response.m))
    exact, same, some = (
        number_changes(response, [h.direction()], of, most).d_variance for most in (None, 600, 150)
    )
    assert_allclose(same, exact, rtol=1e-12)
    assert np.abs(some - exact).max() < 0.25 * np.abs(exact).max()
    assert not np.array_equal(some, exact)
    S = of[:1]
    stood = _standing_for_all(response, thinned(response.fit, 150), S)
    weights = stood.problem.rows.weights
    assert_allclose(weights.sum(), 600, rtol=1e-9)
    each, whole = (
        np.concatenate(list(fit.bound().curvatures(fit.m, S))) for fit in (stood, response.fit)
    )
    assert_allclose(weights @ each, whole.sum(0), atol=1e-6 * np.abs(whole).sum(0).max())
    score = weights @ np.concatenate(list(row_scores(stood)))
    assert_allclose(score, (weights @ each)[: len(score)], rtol=1e-9, atol=1e-9)


def test_a_number_that_only_rows_read_is_followed():
    """The derivative is taken through rows too: a known noise sd of theirs."""

    class Known(lrvb.Model):
        global_blocks = {"mu": lrvb.Normal()}

        def __init__(self, noise):
            self.noise = noise

        def global_term(self, m):
            return -m.mu.xx / 2

        def local_term(self, m, z, row):
            return -(row.y**2 - 2 * row.y * m.mu.x + m.mu.xx) / (2 * self.noise**2)

    y = np.array([1.0, 2.0, 4.0])
    fit = lrvb.fit(Known(2.0), {"y": y})
    response = lrvb.respond(lrvb.linearize(fit))
    found = number_changes(response, [{"noise": np.array(1.0)}], np.eye(2)[:1])
    # m = Σy/(3 + s²) and v = s²/(3 + s²), so that dm/ds = −2sΣy/(3 + s²)² and dv/ds = 6s/(3 + s²)²
    assert_allclose(found.d_mean[0, 0], -4 * y.sum() / 49, rtol=1e-9)
    assert_allclose(found.d_variance[0, 0], 12 / 49, rtol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_small_newton_step_is_the_derivative(case):
    """The means at ε ± δ by `number_steps`: their central difference errs by δ² of a third derivative."""
    response = case.response()
    known = stored_numbers(response.fit.problem.traced)
    found = number_changes(response, [h.direction() for h in known], np.eye(len(response.m)))
    for h, d_mean, rows in zip(known, found.d_mean, found.rows, strict=True):
        step = 1e-3 * (abs(h.value) or 1.0)
        both = np.array([step, -step])
        others = [h.at(h.value + s) for s in both]
        up, down = number_steps(response, others, rows * both[:, None])
        slope = (up - down) / (2 * step)
        assert_allclose(d_mean, slope, rtol=1e-5, atol=1e-5 * np.abs(slope).max())


def test_a_newton_step_follows_a_conjugate_prior_however_far():
    """y ~ N(μ, 1), μ ~ N(b, v): the posterior's η is linear in (b/v, 1/v), so that one step is exact."""

    class Mean(lrvb.Model):
        global_blocks = {"mu": lrvb.Normal()}

        def __init__(self, mu_mean=1.0, mu_var=1.0):
            self.mu_mean, self.mu_var = mu_mean, mu_var

        def global_term(self, m):
            return -(m.mu.xx - 2 * self.mu_mean * m.mu.x) / (2 * self.mu_var)

        def local_term(self, m, z, row):
            return -(row.y**2 - 2 * row.y * m.mu.x + m.mu.xx) / 2

    y = np.array([1.0, 2.0, 5.0])
    posterior = lrvb.infer(Mean(), {"y": y})
    what_if = posterior._what_if()
    changes = {c.hyperparameter.name: c for c in what_if.prior_changes(posterior._at(["mu"]))}
    before = posterior.mean("mu")["mu"]
    for name, ends in (("mu_var", (4.0, 0.25)), ("mu_mean", (2.0, 0.0))):
        found = changes[name]
        for end, step, change in zip(ends, found.hyperparameter.steps, found.at_steps, strict=True):
            assert found.hyperparameter.value + step == end
            b, v = {"mu_mean": 1.0, "mu_var": 1.0, name: end}.values()
            assert_allclose(before + change[0], (y.sum() + b / v) / (3 + 1 / v), rtol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_means_follow_the_weight_of_a_row(case):
    """dm*/dw_n = Σ̂g_n, against central differences of refits with that row counted 1 ± δ times."""
    fit, Sigma = case.small_fit(), case.response().Sigma
    scores = np.concatenate(list(row_scores(fit)))
    n = fit.problem.rows.n
    for row in (0, n // 2):
        ends = []
        for step in (1e-3, -1e-3):
            weights = np.ones(n)
            weights[row] += step
            ends.append(refit_weighted(fit, weights).m)
        slope = (ends[0] - ends[1]) / 2e-3
        assert_allclose(Sigma @ scores[row], slope, atol=1e-5 * np.abs(slope).max())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_row_left_out(case):
    """Scores and curvatures of rows add up to the rows' gradient and curvature; the Newton step is near."""
    fit, Sigma = case.small_fit(), case.response().Sigma
    n = fit.problem.rows.n
    rows = fit.local_sum.bind(fit.problem).evaluate(fit.m, 2)
    total = sum(scores.sum(axis=0) for scores in row_scores(fit))
    assert_allclose(total, rows.gradient, rtol=1e-9, atol=1e-9 * np.abs(rows.gradient).max())
    H = row_curvature(fit, np.arange(n))
    assert_allclose(H, rows.curvature, rtol=1e-9, atol=1e-9 * np.abs(H).max())
    weights = np.ones(n)
    weights[1] = 0.0
    score = next(row_scores(fit, np.array([1])))[0]
    eta = without(case.response(), score, row_curvature(fit, np.array([1])))
    step = means_at(fit, eta[None])[0] - fit.m
    exact = refit_weighted(fit, weights).m - fit.m
    sd = np.sqrt(np.diag(Sigma))
    first = np.abs(-Sigma @ score - exact) / sd
    # what a Newton step leaves is of the second order in the change
    assert (np.abs(step - exact) / sd).max() <= max(first.max(), (np.abs(exact) / sd).max() ** 2)


def test_a_conjugate_step_is_the_refit_however_much_a_row_weighs():
    """y ~ N(xᵀβ, 1): natural parameters lose exactly what the row added, and no iteration is left."""

    class Known(lrvb.Model):
        columns = ("X", "y")

        def global_blocks(self, rows):
            return {"beta": lrvb.MultivariateNormal(2)}

        def global_term(self, m):
            return -(m.beta.xx[0, 0] + m.beta.xx[1, 1]) / 20

        def local_term(self, m, z, row):
            square = row.X @ m.beta.xx @ row.X
            return -(row.y**2 - 2 * row.y * (row.X @ m.beta.x) + square) / 2

    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    X[3] *= 8  # most of what is known of β
    fit = lrvb.fit(Known(), {"X": X, "y": X @ [1.0, -1.0] + rng.normal(size=12)})
    response = lrvb.respond(lrvb.linearize(fit))
    row = np.array([3])
    eta = without(response, next(row_scores(fit, row))[0], row_curvature(fit, row))
    weights = np.ones(12)
    weights[3] = 0.0
    assert_allclose(means_at(fit, eta[None])[0], refit_weighted(fit, weights).m, rtol=1e-9)
    assert np.isnan(means_at(fit, -eta[None])).all()  # a negative precision


def test_densities_of_rows_add_up():
    """Σ_n log ∫ p(x_n, z | α) dz is the collapsed sum's own density."""
    fit = CASES[0].small_fit()
    points = fit.m + np.linspace(-0.1, 0.1, 3)[:, None] * np.abs(fit.m)
    each = np.concatenate(list(row_densities(fit, points)), axis=1)
    whole = fit.local_sum.bind(fit.problem).density(points).value
    assert_allclose(each.sum(axis=1), whole, rtol=1e-12)


def test_rows_elsewhere_have_no_influence_here():
    fit = CASES[0].small_fit()
    with pytest.raises(lrvb.InvalidModel, match="in parts elsewhere"):
        list(row_scores(replace(fit, problem=replace(fit.problem, total=10**6))))


@pytest.mark.parametrize(
    ("name", "value", "step", "back"),
    [
        ("beta_var", 10.0, 30.0, -7.5),
        ("precision[0,0]", 4.0, -3.0, 12.0),
        ("precision", 0.0, 1.0, 0.0),
        ("tau_shape", 3.0, 1.0, -1.0),
        ("tau_shape", 1.0, 1.0, -0.5),
        ("tau_rate", 2.0, 2.0, -1.0),
        ("mean[1]", 0.0, 1.0, -1.0),
        ("mean[1]", -3.0, 1.0, -1.0),
    ],
)
def test_plain_steps(name, value, step, back):
    """Either way; a flat precision has no way back, and a shape stays positive."""
    assert plain_steps(name, value) == (step, back)


def test_no_step_leaves_what_is_allowed():
    """Half the way to the least degrees of freedom, where one would be too far."""
    assert plain_steps("dof", 3.0, least=2.0) == (1.0, -0.5)


def test_a_mean_moves_by_the_priors_sd_that_is_stored_beside_it():
    numbers = {"b_mean": np.array([5.0, 0.0]), "b_var": np.array(4.0), "other_mean": np.array(3.0)}
    found = {h.name: h.steps for h in stored_numbers(numbers)}
    assert found["b_mean[0]"] == found["b_mean[1]"] == (2.0, -2.0)
    assert found["other_mean"] == (3.0, -1.5)
