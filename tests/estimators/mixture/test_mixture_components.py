"""Components that die, collapse or coincide, and data that cannot be used: right or clear."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import lrvb
from mixtures import apart, flat, overlapping

ALL_IN_ONE = np.repeat([[1.0, 0.0]], 300, axis=0)
EVEN = np.full((300, 2), 0.5)


def one_cluster():
    return np.random.default_rng(22).normal(size=(300, 2))


def mixture(K=2, **options):
    return lrvb.GaussianMixture(K, random_state=0, **options)


def assert_sound(ours):
    """A result that is returned is finite and converged, and its covariance is one."""
    assert ours.converged_
    assert np.isfinite(ours.lower_bound_)
    assert np.isfinite(ours.posterior_.summary().drop(columns="verdict").to_numpy()).all()
    assert (ours.posterior_.sd("mu") > 0).all()
    assert_allclose(ours.weights_.sum(), 1)


# ---- components that die -------------------------------------------------------------------


def test_a_component_without_rows_has_its_prior():
    """K = 6 on two clear clusters, few components wanted: four of them are their priors."""
    X = apart()
    with pytest.warns(lrvb.EmptyComponent, match=r"Components .* of 6 hold no rows") as told:
        ours = mixture(6, weight_concentration_prior=0.01).fit(X)
    assert_sound(ours)
    assert_allclose(np.sort(ours.weights_)[-2:], 0.5, atol=1e-3)
    empty = ours.weights_ < 1e-3
    assert empty.sum() == 4
    assert told[0].message.components == np.flatnonzero(empty).tolist()
    assert_allclose(ours.weight_concentration_[empty], 0.01, rtol=1e-3)
    assert_allclose(ours.degrees_of_freedom_[empty], 4, rtol=1e-3)
    assert_allclose(ours.means_[empty], np.repeat([X.mean(axis=0)], 4, axis=0), atol=0.05)
    prior_sd = X.std(axis=0) / np.sqrt(0.01)
    assert_allclose(ours.means_sd_[empty], np.repeat([prior_sd], 4, axis=0), rtol=1e-2)
    two = mixture(2, weight_concentration_prior=0.01).fit(X)
    assert_allclose(ours.means_[~empty], two.means_, atol=1e-3)
    assert_allclose(ours.means_sd_[~empty], two.means_sd_, rtol=1e-3)
    assert ours.lower_bound_ < two.lower_bound_


def test_more_components_than_clusters_are_sound_or_named():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = mixture(6).fit(apart())
    assert_sound(ours)
    assert all(issubclass(w.category, lrvb.CoincidentComponents) for w in caught)
    mean = ours.means_.reshape(6, 2)
    equal = [(i, j) for i in range(6) for j in range(i) if np.allclose(mean[i], mean[j], atol=1e-4)]
    assert bool(equal) == bool(caught)
    if caught:
        named = [f"Components {j} and {i} coincide" for i, j in equal]
        assert str(caught[0].message).startswith(tuple(named))


def test_an_empty_start_keeps_the_prior_and_the_others_answer():
    X = one_cluster()
    with pytest.warns(lrvb.EmptyComponent, match="Component 1 of 2 holds no rows"):
        ours = mixture(init=ALL_IN_ONE).fit(X)
    assert_sound(ours)
    alone = mixture(1).fit(X)
    assert_allclose(ours.weight_concentration_, [305, 5], rtol=1e-6)
    assert_allclose(ours.means_[0], alone.means_[0], atol=1e-6)
    assert_allclose(ours.means_sd_[0], alone.means_sd_[0], rtol=1e-6)
    # E log p(z) = Σ_n E log π_0 is all that the second component costs
    assert ours.lower_bound_ < alone.lower_bound_


def test_flat_priors_name_the_component_that_is_empty():
    with pytest.raises(lrvb.InvalidModel, match="Component 1 has lost all of its rows") as caught:
        mixture(init=ALL_IN_ONE, **flat(2)).fit(one_cluster())
    assert caught.value.component == 1


def test_flat_priors_name_the_component_that_collapses():
    duplicates = np.repeat(apart()[:6], 50, axis=0)
    with pytest.raises(lrvb.InvalidModel, match=r"Component \d has collapsed onto .* rows"):
        mixture(**flat(2)).fit(duplicates)
    sharp = np.eye(2)[(np.arange(300) < 2).astype(int)]  # a component that owns two rows
    with pytest.raises(lrvb.InvalidModel, match=r"Component 1 has (collapsed|lost)"):
        mixture(init=sharp, **flat(2)).fit(one_cluster())


def test_the_papers_prior_names_the_component_that_dies():
    """Wishart(dof 1) is improper for P = 2: without rows there is no q(Λ)."""
    options = {"mean_precision_prior": 0.01, "wishart_dof_prior": 1, "wishart_scale_prior": 0.01}
    with pytest.raises(lrvb.InvalidModel, match="Component 1 has lost all of its rows"):
        mixture(init=ALL_IN_ONE, **options).fit(one_cluster())


def test_starts_that_fail_are_passed_over():
    """Of several starts one suffices, and failures of the others are not reported."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = mixture(init="random_from_data", n_init=6, **flat(2)).fit(apart())
    assert_allclose(ours.weights_, 0.5, atol=1e-6)


# ---- components that coincide --------------------------------------------------------------


@pytest.mark.parametrize("priors", [{}, flat(2)], ids=["default", "flat"])
def test_identical_starts_part(priors):
    """Equal responsibilities are a saddle; the fit leaves it for the two clusters."""
    ours = mixture(init=EVEN, **priors).fit(apart())
    assert_sound(ours)
    assert_allclose(np.sort(ours.means_[:, 0]), [0, 8], atol=0.4)


def test_one_cluster_shared_by_two_is_a_maximum():
    ours = mixture().fit(one_cluster())
    assert_sound(ours)
    assert_allclose(ours.weights_ @ ours.means_, one_cluster().mean(axis=0), atol=0.05)


def test_coincident_components_are_named():
    """Two components that stay together are reported, with the pair."""
    from lrvb.estimators.mixture.components import coincidence, coinciding
    from lrvb.estimators.mixture.priors import standardised_priors
    from lrvb.estimators.mixture.scaling import Scaling

    priors = standardised_priors(Scaling(np.zeros(2), np.ones(2)), 0.01, None, None, 5.0)
    params = {
        "mu": {
            "loc": np.array([[0.0, 0], [1, 1], [0, 0]]),
            "cov": np.tile(np.eye(2) / 50, (3, 1, 1)),
        },
        "Lambda": {"dof": np.array([54.0, 54, 54]), "scale": np.tile(np.eye(2) / 54, (3, 1, 1))},
    }
    assert coinciding(params, priors) == [(0, 2)]
    assert "Components 0 and 2 coincide" in str(coincidence([(0, 2)]))
    params["Lambda"]["dof"] = np.array([4.0, 54, 4])  # without rows both are the prior: no surprise
    assert coinciding(params, priors) == []


# ---- data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_must_be_finite(bad):
    X = apart().copy()
    X[3, 1] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        mixture().fit(X)


def test_shapes_that_cannot_be_used():
    for X, message in (
        (np.zeros(300), "Expected 2D array, got 1D"),
        (np.zeros((0, 2)), "0 sample"),
        (np.zeros((5, 0)), "0 feature"),
        (np.zeros((1, 2)), "minimum of 2 is required"),
        ([["a", "b"], ["c", "d"]], "could not convert string"),
        (np.zeros((4, 2)) + 1j, "Complex data not supported"),
    ):
        with pytest.raises(ValueError, match=message):
            mixture(1).fit(X)
    with pytest.raises(lrvb.InvalidData, match="n_samples=3 rows, fewer than n_components=4"):
        mixture(4).fit(apart()[:3])
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        mixture().fit(sparse.csr_matrix(apart()))


def test_settings_that_cannot_be_used():
    X = apart()
    for options, message in (
        ({"K": 0}, "n_components=0 must be a whole number"),
        ({"K": 1.5}, "n_components=1.5"),
        ({"n_init": 0}, "n_init=0"),
        ({"tol": -1}, "tol=-1"),
        ({"max_iter": 0}, "max_iter=0"),
        ({"chunk_size": 0}, "chunk_size=0"),
        ({"init": "best"}, "init='best' must be one of"),
        ({"init": np.ones((3, 2))}, "shape"),
        ({"init": np.ones((300, 2))}, "sum one"),
        ({"init": 3.0}, "shape"),
        ({"mean_precision_prior": -1}, "mean_precision_prior=-1"),
        ({"mean_precision_prior": "flat"}, "mean_precision_prior='flat'"),
        ({"wishart_dof_prior": 0}, "wishart_dof_prior=0"),
        ({"wishart_scale_prior": 0}, "wishart_scale_prior=0"),
        ({"wishart_scale_prior": "wide"}, "wishart_scale_prior='wide'"),
        ({"wishart_scale_prior": np.eye(3)}, "shape"),
        ({"wishart_scale_prior": -np.eye(2)}, "positive definite"),
        ({"weight_concentration_prior": np.nan}, "weight_concentration_prior=nan"),
    ):
        with pytest.raises(ValueError, match=message):
            mixture(**options).fit(X)


def test_constant_and_collinear_columns():
    """The default prior gives a right answer, a flat one has none and says which columns."""
    x = apart()[:, 0]
    constant = pd.DataFrame({"height": x, "planet": 3.0})
    ours = mixture().fit(constant)
    assert_sound(ours)
    assert_allclose(ours.means_[:, 1], 3.0, atol=1e-3)
    with pytest.raises(lrvb.InvalidData, match="Column 'planet' is constant"):
        mixture(**flat(2)).fit(constant)
    collinear = pd.DataFrame({"inches": x, "cm": 2.54 * x})
    assert_sound(mixture().fit(collinear))
    with pytest.raises(lrvb.InvalidData, match="'inches', 'cm' are collinear"):
        mixture(**flat(2)).fit(collinear)
    assert_sound(mixture(1).fit(np.full((300, 2), 7.0)))


def test_more_columns_than_rows():
    X = np.random.default_rng(3).normal(size=(4, 6))
    assert_sound(mixture(1).fit(X))
    with pytest.raises(lrvb.InvalidData, match="4 rows cannot span 6 columns"):
        mixture(1, **flat(6)).fit(X)


def test_duplicate_rows_are_fine_with_a_proper_prior():
    duplicates = np.repeat(apart()[:6], 50, axis=0)
    assert_sound(mixture().fit(duplicates))


def test_types_of_numbers():
    X = np.round(100 * apart())
    ours = mixture().fit(X)
    for other in (X.astype(int), X.astype(np.float32), X.tolist(), X.astype(object)):
        assert_allclose(mixture().fit(other).means_, ours.means_, rtol=1e-8)


def test_one_column():
    x = apart()[:, :1]
    ours = mixture().fit(x)
    assert_sound(ours)
    assert ours.posterior_.names[:2] == ["mu[0,0]", "mu[1,0]"]
    assert ours.component_correlations().empty
    assert len(ours.component_covariances()) == 2
    assert_allclose(ours.means_[:, 0], [x[:150].mean(), x[150:].mean()], atol=0.2)


def test_extreme_units_are_right_or_refused():
    X, _ = overlapping()
    for scale in (1e50, 1e-50):
        ours = mixture().fit(X * scale)
        assert_sound(ours)
        assert_allclose(ours.means_sd_, mixture().fit(X).means_sd_ * scale, rtol=1e-6)
    for scale in (1e200, 1e-200):
        with pytest.raises(lrvb.InvalidData, match=r"Column '0'.*Rescale"):
            mixture().fit(X * scale)


# After two iterations the components may not have parted yet.
@pytest.mark.filterwarnings("ignore:Components 0 and 1 coincide")
def test_stopping_early_is_a_warning_or_an_error():
    X, _ = overlapping()
    with pytest.warns(lrvb.NotConverged, match="max_iter=2"):
        ours = mixture(max_iter=2).fit(X)
    assert not ours.converged_
    with (
        pytest.warns(lrvb.NotConverged, match="max_iter=1"),
        pytest.raises(lrvb.NotAMaximum, match="more iterations"),
    ):
        mixture(max_iter=1, init=EVEN).fit(X)


def test_a_single_component_has_a_second_order():
    """log π = 0 cannot vary, and V is singular: the others are corrected, by the grid's posterior."""
    y = np.random.default_rng(2).normal(1, 2, size=12)
    posterior = (
        mixture(
            1,
            mean_precision_prior=0.1,
            wishart_dof_prior=2.0,
            wishart_scale_prior=0.5,
            certify=False,
        )
        .fit(y[:, None])
        .posterior_
    )
    mu = np.linspace(-8, 10, 801)[:, None]
    precision = np.linspace(1e-4, 3, 1601)
    squares = ((y - mu) ** 2).sum(1, keepdims=True)
    log_p = -0.05 * mu**2 + 6 * np.log(precision) - precision * (1 + squares / 2)
    weight = np.exp(log_p - log_p.max())
    mean = np.average(np.broadcast_to(mu, weight.shape), weights=weight)
    sd = np.sqrt(np.average(np.broadcast_to((mu - mean) ** 2, weight.shape), weights=weight))
    refined = posterior.refined().loc["mu[0,0]"]
    # one order more leaves a fifth of what linear response misses, or less
    assert abs(refined["mean"] - mean) < 0.2 * abs(posterior.mean()["mu[0,0]"] - mean)
    assert abs(refined["sd"] - sd) < 0.2 * abs(posterior.sd()["mu[0,0]"] - sd)
    assert posterior.refined().loc["log(pi[0])", "sd"] == 0
