"""What a mixture's answer does not depend on: units, labels, starts, chunks."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.models.gaussian_mixture import NormalMixture
from mixtures import apart, fitted, overlapping


@pytest.mark.parametrize(
    ("scale", "offset"),
    [(1e6, -5.0), (np.array([1e-3, 250.0]), np.array([4.0, -1e3])), (1.0, 1e6), (1e8, 0.0)],
)
def test_units_change_nothing(scale, offset):
    """Default priors are scaled to the data: the same responsibilities, quantities transformed."""
    X, _ = overlapping()
    ours = fitted()
    other = lrvb.GaussianMixture(2, random_state=0).fit(X * scale + offset)
    s = np.broadcast_to(scale, 2)
    assert_allclose(other.predict_proba(X * scale + offset), ours.predict_proba(X), atol=1e-8)
    assert_allclose((other.means_ - offset) / s, ours.means_, atol=1e-8)
    assert_allclose(other.means_sd_ / s, ours.means_sd_, rtol=1e-7)
    assert_allclose(other.covariances_ / np.outer(s, s), ours.covariances_, rtol=1e-7)
    assert_allclose(other.weights_sd_, ours.weights_sd_, rtol=1e-7)
    shift = len(X) * np.log(s).sum()
    assert_allclose(other.lower_bound_ + shift, ours.lower_bound_, atol=1e-6)
    packed = np.tile([s[0] ** 2, s[0] * s[1], s[1] ** 2], 2)
    sd = other.posterior_.sd("Lambda") * packed
    assert_allclose(sd, ours.posterior_.sd("Lambda"), rtol=1e-7)
    logdet = other.posterior_.mean("logdet(Lambda)") + 2 * np.log(s).sum()
    assert_allclose(logdet, ours.posterior_.mean("logdet(Lambda)"), atol=1e-7)
    table = other.component_covariances().to_numpy() / packed[:, None]
    assert_allclose(table, ours.component_covariances().to_numpy(), rtol=1e-6)
    assert_allclose(other.separation(0, 1), ours.separation(0, 1), rtol=1e-7)
    mu = other.posterior_.draws(500, 3)["mu"]
    assert_allclose((mu - offset) / s, ours.posterior_.draws(500, 3)["mu"], atol=1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_fit_is_the_engines_own(offset):
    """`posterior_.fit` is in standardised columns: its Σ̂ comes out again, and is that of X itself."""
    X, _ = overlapping()
    posterior = lrvb.GaussianMixture(2, random_state=0).fit(100 * X + offset).posterior_
    again = lrvb.respond(lrvb.linearize(posterior.fit))
    sd = np.sqrt(np.diag(again.Sigma))
    scale = np.outer(sd, sd)
    assert_allclose(again.Sigma / scale, posterior.response.Sigma / scale, atol=1e-9)
    plain = lrvb.GaussianMixture(2, random_state=0).fit(X).posterior_.response
    assert_allclose(again.Sigma / scale, plain.Sigma / scale, atol=1e-7)


def test_the_posterior_is_a_start_in_the_datas_units():
    """The estimate's natural parameters are those of q in the units of X."""
    X, _ = overlapping()
    X = 100 * X + 50.0
    options = {"wishart_scale_prior": 1e-4, "mean_precision_prior": 1e-4}
    ours = lrvb.GaussianMixture(2, random_state=0, **options).fit(X)
    model = NormalMixture(2, np.zeros(2), 1e-4 * np.eye(2), 4.0, 1e4 * np.eye(2), 5.0)
    again = lrvb.infer(model, {"x": X}, init=ours.posterior_)
    assert again.n_iter <= 2
    assert_allclose(again.sd(), ours.posterior_.sd(), rtol=1e-6)
    assert_allclose(again.elbo, ours.lower_bound_, rtol=1e-9)


def test_explicit_priors_are_in_the_units_of_the_data():
    """The same model stated in other units: Λ has scale W/s², μ precision c/s²."""
    X, _ = overlapping()
    one = lrvb.GaussianMixture(
        2, random_state=0, mean_precision_prior=0.5, wishart_dof_prior=5, wishart_scale_prior=0.1
    ).fit(X)
    ten = lrvb.GaussianMixture(
        2, random_state=0, mean_precision_prior=0.005, wishart_dof_prior=5, wishart_scale_prior=1e-3
    ).fit(10 * X)
    matrix = lrvb.GaussianMixture(
        2,
        random_state=0,
        mean_precision_prior=0.5,
        wishart_dof_prior=5,
        wishart_scale_prior=0.1 * np.eye(2),
    ).fit(X)
    assert_allclose(ten.means_, 10 * one.means_, rtol=1e-8)
    assert_allclose(ten.means_sd_, 10 * one.means_sd_, rtol=1e-7)
    assert_allclose(ten.lower_bound_ + 600 * np.log(10), one.lower_bound_, atol=1e-7)
    assert_allclose(matrix.means_sd_, one.means_sd_, rtol=1e-9)


def test_relabelling_permutes_the_answer():
    """Components keep the order of an init array; a named init orders them by their means."""
    X, z = overlapping()
    R = np.eye(2)[z]
    there = lrvb.GaussianMixture(2, init=R).fit(X)
    back = lrvb.GaussianMixture(2, init=R[:, ::-1]).fit(X)
    assert_allclose(back.means_, there.means_[::-1], rtol=1e-8)
    assert_allclose(back.means_sd_, there.means_sd_[::-1], rtol=1e-8)
    assert_allclose(back.weights_sd_, there.weights_sd_[::-1], rtol=1e-8)
    assert_allclose(back.lower_bound_, there.lower_bound_, rtol=1e-12)
    assert_allclose(back.predict_proba(X), there.predict_proba(X)[:, ::-1], atol=1e-8)
    names, mirrored = ["mu[0,0]", "Lambda[1,0,1]"], ["mu[1,0]", "Lambda[0,0,1]"]
    cov, other = there.posterior_.cov(names), back.posterior_.cov(mirrored)
    assert_allclose(cov.to_numpy(), other.to_numpy(), rtol=1e-7)
    for seed in range(4):
        ordered = lrvb.GaussianMixture(2, init="k-means++", random_state=seed).fit(apart())
        assert (np.diff(ordered.means_[:, 0]) > 0).all()
        local = ordered.posterior_.local("z")["mean"].values
        assert_allclose(ordered.predict_proba(apart()), local, atol=1e-12)


def test_chunk_size_changes_nothing():
    X, _ = overlapping()
    parts = lrvb.GaussianMixture(2, random_state=0, chunk_size=64).fit(X)
    assert_allclose(parts.posterior_.sd(), fitted().posterior_.sd(), rtol=1e-8)


def test_a_start_of_rows_is_taken_by_large_arrays(monkeypatch):
    """An array that would be visited in slices stays whole: the start has a row for each of its own."""
    X, z = overlapping()
    R = np.eye(2)[z]
    there = lrvb.GaussianMixture(2, init=R).fit(X)
    monkeypatch.setattr("lrvb.estimators.mixture.parts.LARGE", 100)
    assert_allclose(lrvb.GaussianMixture(2, init=R).fit(X).means_, there.means_, rtol=1e-12)
