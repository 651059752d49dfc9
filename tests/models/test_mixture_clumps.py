"""A component on a clump of rows: found where values repeat, and nothing where that holds no evidence."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.engine.modes import orders_of
from lrvb.engine.objective import Objective
from lrvb.models.mixture_clumps import from_clumps
from lrvb.models.mixture_sweeps import MixturePriors
from lrvb.numerics.double import double
from lrvb.numerics.sobol import normal_points
from lrvb.posterior.elsewhere import drawn_from, elsewhere, mean_field_at
from lrvb.posterior.proposal import around
from lrvb.posterior.starts import look_around
from lrvb.posterior.target import Target
from lrvb.statement.parameters import initial
from mixtures import overlapping

UNITS = {"wishart_dof_prior": 4.0, "wishart_scale_prior": 1.0, "mean_precision_prior": 1e-4}


def heights(seed: int, n: int = 120) -> np.ndarray:
    """Rounded values of two kinds, each with an sd of five."""
    rng = np.random.default_rng(seed)
    return np.round(5 * rng.normal(size=(n, 1)) + 16 * (rng.random((n, 1)) < 0.5))


def fitted(X: np.ndarray, **options) -> lrvb.Posterior:
    return lrvb.GaussianMixture(2, certify=False, random_state=0, **options).fit(X).posterior_


def test_places_are_near_optima_with_a_narrow_component():
    """Their ELBO is within 40 nats of the answer's, and a component is narrower, with fewer rows."""
    posterior = fitted(heights(1), **UNITS)
    fit = posterior.response.fit
    own = fit.params()["Lambda"]
    most, fewest = (own["dof"] * own["scale"].ravel()).max(), own["dof"].min()
    etas = elsewhere(posterior.response)
    assert len(etas) >= 3
    with double():
        objective = Objective(fit.problem, fit.bound())
        for eta in etas:
            assert objective.at(eta, order=1).elbo > fit.elbo - 40
    for q in fit.problem.model.elsewhere(fit.params(), fit.problem.rows):
        assert (q["Lambda"]["dof"] * q["Lambda"]["scale"].ravel()).max() > 2 * most
        assert q["Lambda"]["dof"].min() < fewest


def test_one_row_ten_times_is_ten_rows():
    """Weights, repeated rows and a shuffled table lead to the same places."""
    posterior = fitted(heights(1), **UNITS)
    fit = posterior.response.fit
    model, X = fit.problem.model, fit.problem.rows.columns["x"]
    fixed = model.mean, model.precision, model.dof, model.inverse_scale, model.concentration
    rows, counts = np.unique(X, axis=0, return_counts=True)
    plain = from_clumps(fit.params(), X[::-1], None, MixturePriors(*fixed))
    counted = from_clumps(fit.params(), rows, counts.astype(float), MixturePriors(*fixed))
    assert len(plain) == len(counted)
    for a, b in zip(plain, counted, strict=True):
        assert_allclose(a["mu"]["loc"], b["mu"]["loc"], rtol=1e-6)


def test_one_component_and_flat_priors_have_none():
    X, _ = overlapping()
    for posterior in (
        lrvb.GaussianMixture(1, certify=False).fit(X).posterior_,
        fitted(X, wishart_scale_prior=np.inf),
    ):
        assert elsewhere(posterior.response) == []


@pytest.mark.parametrize("unit", [1.0, 5.0])
def test_priors_of_the_data_leave_nothing_to_draw_from(unit):
    """A Wishart of the columns' own spread allows no component on one value."""
    posterior = fitted(np.round(heights(1) / unit))
    response = posterior.response
    target = Target(response)
    place = around(target, response)
    x = place.t().draw(64, 0)
    pilots = place.t(), x, target(x)
    sd = np.sqrt(np.diag(response.Sigma))
    found = drawn_from(
        target, response, elsewhere(response), pilots, target.statistics, response.m, sd
    )
    assert found == ()


@pytest.mark.parametrize("P", [1, 2])
def test_a_place_is_carried_to_the_coordinates_of_the_answer(P):
    """Precisions are measured by each member's own scale: draws around another one have its means."""
    posterior = fitted(heights(1), **UNITS) if P == 1 else fitted(overlapping()[0])
    response = posterior.response
    target, fit = Target(response), response.fit
    params = fit.params()
    params["Lambda"]["scale"] = params["Lambda"]["scale"] * np.array([9.0, 0.2])[:, None, None]
    params["Lambda"]["scale"][..., 0, -1] *= 0.8
    params["Lambda"]["scale"][..., -1, 0] = params["Lambda"]["scale"][..., 0, -1]
    with double():
        there = mean_field_at(response, initial(fit.alpha, params))
    place = around(target, there)
    x = place.center + normal_points(4096, target.size) @ place.root.T
    T = target.statistics(x)
    sd = np.sqrt(np.diag(there.Sigma))
    # linear response's normal of log A has the mean and sd of log A, and so nearly those of Λ
    assert_allclose((T.mean(axis=0) - there.m) / sd, 0, atol=0.15)
    assert_allclose(T.std(axis=0) / sd, 1, atol=0.2)


def test_draws_come_to_places_in_proportion_to_their_evidence():
    """Weights of draws, and the evidence of optima to one loop: two ways to one share."""
    posterior = fitted(heights(1), **UNITS)
    certificate = posterior.certify(4096)
    rivals, width = certificate.rivals, posterior.sd("Lambda[0,0,0]").iloc[0]
    at = [certificate.names.index(f"Lambda[{k},0,0]") for k in (0, 1)]
    at = np.array(list(certificate.estimate.index.values()))[at]
    usual = certificate.estimate.m[at].max() + 10 * width
    optima = rivals.shares[(rivals.T[:, at] > usual).any(axis=1)].sum()
    n = len(certificate.weights)
    drawn = certificate.weights @ (certificate.statistics[:n, at] > usual).any(axis=1)
    assert 1e-5 < optima < 0.01
    assert 0.7 < drawn / optima < 5  # a shelf beside an optimum has evidence too
    assert certificate.summary().loc["Lambda[1,0,0]", "ratio"] < 0.9  # what they add to its sd


def test_far_optima_are_counted_under_one_labelling():
    """None is another with its labels exchanged."""
    posterior = fitted(heights(1), **UNITS)
    response = posterior.response
    target = Target(response)
    found = look_around(target, response, 0, 8, known=elsewhere(response))
    orders = orders_of(response.fit.alpha)
    sd = np.sqrt(np.diag(response.Sigma))
    assert len(found.others) > 1
    for i, one in enumerate(found.others):
        for other in found.others[:i]:
            apart = [np.abs(one.point.m[order] - other.point.m).max() for order in orders]
            assert min(a / sd.max() for a in apart) > 1e-3
