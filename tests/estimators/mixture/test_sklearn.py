"""GaussianMixture among scikit-learn's estimators: its own checks, its tools, its conventions."""

from __future__ import annotations

import pickle
import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.mixture import BayesianGaussianMixture
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import lrvb
from mixtures import apart, fitted, overlapping


@parametrize_with_checks([lrvb.GaussianMixture()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_the_attributes_of_bayesian_gaussian_mixture_have_their_shapes():
    X, _ = overlapping()
    ours = fitted()
    theirs = BayesianGaussianMixture(n_components=2, random_state=0).fit(X)
    for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
        assert getattr(ours, name).shape == getattr(theirs, name).shape
    for name in ("weight_concentration_", "degrees_of_freedom_"):
        assert np.shape(getattr(ours, name)) == (2,)
    for method in ("predict", "predict_proba", "score_samples"):
        assert getattr(ours, method)(X).shape == getattr(theirs, method)(X).shape
    assert isinstance(ours.lower_bound_, float)
    assert ours.converged_
    assert ours.n_iter_ >= 1
    assert ours.means_sd_.shape == (2, 2)
    assert ours.weights_sd_.shape == (2,)
    upper = ours.precisions_cholesky_
    assert_allclose(upper @ upper.swapaxes(1, 2), ours.precisions_, rtol=1e-10)
    assert_allclose(np.tril(upper, -1), 0, atol=1e-14)
    assert_allclose(ours.covariances_ @ ours.precisions_, [np.eye(2)] * 2, atol=1e-12)


def test_attributes_are_the_posteriors():
    ours = fitted()
    posterior = ours.posterior_
    assert_allclose(posterior.mean("mu"), ours.means_.reshape(-1), rtol=1e-12)
    assert_allclose(posterior.sd("mu"), ours.means_sd_.reshape(-1), rtol=1e-12)
    packed = ours.precisions_[:, [0, 0, 1], [0, 1, 1]]
    assert_allclose(posterior.mean("Lambda"), packed.reshape(-1), rtol=1e-10)
    assert posterior.elbo == ours.lower_bound_ == ours.elbo_


def test_scores_are_densities_at_the_posterior_means():
    X, _ = overlapping()
    ours = fitted()
    density = sum(
        w * multivariate_normal(m, S).pdf(X)
        for w, m, S in zip(ours.weights_, ours.means_, ours.covariances_, strict=True)
    )
    assert_allclose(ours.score_samples(X), np.log(density), rtol=1e-9)
    assert_allclose(ours.score(X), np.log(density).mean(), rtol=1e-9)


def test_predictions_are_the_fits_own_responsibilities():
    X, _ = overlapping()
    ours = fitted()
    local = ours.posterior_.local("z")["mean"].values
    assert_allclose(ours.predict_proba(X), local, atol=1e-12)
    assert_array_equal(ours.predict(X), local.argmax(axis=1))
    again = lrvb.GaussianMixture(2, random_state=0)
    assert_array_equal(again.fit_predict(X), ours.predict(X))


def test_samples_have_the_mixtures_mean_and_covariance():
    ours = fitted()
    X, labels = ours.sample(200_000)
    assert X.shape == (200_000, 2)
    assert_allclose(np.bincount(labels) / len(labels), ours.weights_, atol=0.005)
    for k in (0, 1):
        assert_allclose(X[labels == k].mean(axis=0), ours.means_[k], atol=0.02)
        assert_allclose(np.cov(X[labels == k].T), ours.covariances_[k], atol=0.03)
    with pytest.raises(ValueError, match="n_samples"):
        ours.sample(0)


def test_before_fit_every_question_is_refused():
    """By an error that scikit-learn's tools know, and that derives from ours as all do."""
    X, _ = overlapping()
    fresh = lrvb.GaussianMixture(2)
    for ask in (
        lambda: fresh.predict(X),
        lambda: fresh.predict_proba(X),
        lambda: fresh.score(X),
        fresh.sample,
        fresh.component_weights,
        lambda: fresh.separation(0, 1),
        lambda: fresh.membership([0, 0]),
    ):
        with pytest.raises(NotFittedError) as caught:
            ask()
        assert isinstance(caught.value, lrvb.NotFitted)


def test_pipeline_grid_search_and_clone():
    X, _ = overlapping()
    pipeline = make_pipeline(StandardScaler(), lrvb.GaussianMixture(2, random_state=0))
    assert_array_equal(pipeline.fit_predict(X), fitted().predict(X))
    search = GridSearchCV(
        lrvb.GaussianMixture(random_state=0),
        {"n_components": [1, 2]},
        cv=KFold(2, shuffle=True, random_state=0),
    )
    assert search.fit(apart()).best_params_ == {"n_components": 2}
    copy = clone(fitted())
    assert copy.get_params() == fitted().get_params()
    assert not hasattr(copy, "posterior_")


def test_a_fitted_mixture_pickles(tmp_path):
    X, _ = overlapping()
    ours = fitted()
    path = tmp_path / "mixture.joblib"
    joblib.dump(ours, path)
    for other in (pickle.loads(pickle.dumps(ours)), joblib.load(path)):
        assert_array_equal(other.predict_proba(X), ours.predict_proba(X))
        assert_array_equal(other.posterior_.sd(), ours.posterior_.sd())
        assert_allclose(other.separation(0, 1), ours.separation(0, 1), rtol=1e-12)
        assert_array_equal(other.posterior_.draws(3, 0)["mu"], ours.posterior_.draws(3, 0)["mu"])
        assert_allclose(
            other.posterior_.local("z", [0])["sd"], ours.posterior_.local("z", [0])["sd"]
        )
    code = (
        f"import joblib; gm = joblib.load({str(path)!r}); "
        "print(repr(float(gm.posterior_.sd('mu[0,1]').iloc[0])), gm.predict([[0.0, 0.0]])[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    sd, label = done.stdout.split()
    assert float(sd) == ours.means_sd_[0, 1]
    assert int(label) == ours.predict([[0.0, 0.0]])[0]


def test_a_posterior_is_saved_without_its_estimator(tmp_path):
    ours = fitted().posterior_
    loaded = lrvb.load(ours.save(tmp_path / "mixture.npz"))
    assert_array_equal(loaded.cov(), ours.cov())
    assert_allclose(loaded.local("z", [5])["cov"], ours.local("z", [5])["cov"])


def test_data_frames_keep_their_names():
    X, _ = overlapping()
    frame = pd.DataFrame(X, columns=["height", "weight"], index=[f"p{i}" for i in range(300)])
    ours = lrvb.GaussianMixture(2, random_state=0).fit(frame)
    assert ours.posterior_.names[:2] == ["mu[0,height]", "mu[0,weight]"]
    assert "Lambda[1,height,weight]" in ours.posterior_.names
    assert "log(pi[1])" in ours.posterior_.names
    plain = fitted().posterior_
    names = ["mu[1,0]", "Lambda[0,0,1]", "logdet(Lambda[1])", "log(pi[0])"]
    assert_allclose(ours.posterior_.sd(names), plain.sd(names), rtol=1e-9)
    assert list(ours.posterior_.sd("mu[1,0]").index) == ["mu[1,height]"]
    assert_allclose(ours.posterior_.cov("Lambda"), plain.cov("Lambda"), rtol=1e-7)
    assert list(ours.component_sds().index[:2]) == ["sd[0,height]", "sd[0,weight]"]
    assert list(ours.posterior_.local("z", [2])["row"].values) == ["p2"]
    with pytest.raises(ValueError, match="feature names"):
        ours.predict(frame[["weight", "height"]])
    with pytest.raises(lrvb.InvalidData, match="more than one column 'a'"):
        lrvb.GaussianMixture(2).fit(pd.DataFrame(X, columns=["a", "a"]))


def test_weights_count_rows():
    """Integer weights are repeated rows, to 1e-8; rows of weight zero are not there."""
    X, z = overlapping()
    counts = np.random.default_rng(0).integers(0, 3, size=len(X))
    start = np.eye(2)[z]
    weighted = lrvb.GaussianMixture(2, init=start).fit(X, sample_weight=counts)
    repeated = lrvb.GaussianMixture(2, init=np.repeat(start, counts, axis=0))
    repeated.fit(np.repeat(X, counts, axis=0))
    assert_allclose(weighted.means_, repeated.means_, rtol=1e-8)
    assert_allclose(weighted.posterior_.cov(), repeated.posterior_.cov(), rtol=1e-6, atol=1e-10)
    assert_allclose(weighted.posterior_.sd(), repeated.posterior_.sd(), rtol=1e-8)
    assert_allclose(weighted.lower_bound_, repeated.lower_bound_, rtol=1e-10)
    named = lrvb.GaussianMixture(2, random_state=0).fit(X, sample_weight=counts)
    assert_allclose(named.means_, repeated.means_, rtol=1e-7)
    for init in ("k-means++", "random_from_data"):
        only = lrvb.GaussianMixture(2, init=init, random_state=0)
        assert only.fit(X, sample_weight=(z == 0) * 1.0).converged_
    with pytest.raises(lrvb.InvalidData, match="positive sample_weight"):
        lrvb.GaussianMixture(2).fit(X, sample_weight=np.eye(300)[0])
    with pytest.raises(ValueError, match="egative"):
        lrvb.GaussianMixture(2).fit(X, sample_weight=-np.ones(300))


def test_warm_start_continues_from_the_last_fit():
    X, _ = overlapping()
    ours = lrvb.GaussianMixture(2, random_state=0, warm_start=True).fit(X)
    first = ours.means_.copy()
    assert ours.fit(X).n_iter_ <= 2
    assert_allclose(ours.means_, first, rtol=1e-8)
    ours.fit(1000 * X[:, ::-1] + 7)  # far away, and still the same two components
    assert_allclose((ours.means_[:, ::-1] - 7) / 1000, first, atol=1e-6)
    ours.set_params(n_components=1).fit(X)
    assert ours.means_.shape == (1, 2)


@pytest.mark.parametrize("init", ["kmeans", "k-means++", "random", "random_from_data"])
def test_every_start_finds_two_clear_clusters(init):
    ours = lrvb.GaussianMixture(2, init=init, n_init=4, random_state=3).fit(apart())
    assert_allclose(ours.weights_, 0.5, atol=1e-6)
    assert_allclose(ours.means_[:, 0], [0, 8], atol=0.4)
    again = lrvb.GaussianMixture(2, init=init, n_init=4, random_state=3).fit(apart())
    assert_array_equal(again.means_, ours.means_)


def test_more_starts_are_never_worse():
    X, _ = overlapping()
    options = {"n_components": 2, "init": "random_from_data", "random_state": 1}
    one = lrvb.GaussianMixture(**options).fit(X)
    many = lrvb.GaussianMixture(**options, n_init=5).fit(X)
    assert many.lower_bound_ >= one.lower_bound_ - 1e-8
