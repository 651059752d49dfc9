"""No answer is NaN or infinite: where there is none, an error says why."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import lrvb
from lrvb.estimators.mixed.answers.contrast import weights
from lrvb.estimators.mixed.answers.standard_deviations import _correlations
from lrvb.posterior.table import table


@pytest.mark.parametrize("column", ["mean", "sd", "mfvb_sd", "z"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_one_table_refuses_what_is_not_finite(column, value):
    columns = {"mean": [0.0, 1.0], "sd": [1.0, 1.0], column: [1.0, value]}
    with pytest.raises(lrvb.InvalidModel, match=rf"The {column} of 'b' is .*rescale") as caught:
        table(["a", "b"], **columns)
    assert (caught.value.quantity, caught.value.column) == ("b", column)
    with pytest.raises(lrvb.InvalidModel, match="The upper of 'a' is inf"):
        table(["a"], mean=[0.0], sd=[1.0], ends=([0.0], [np.inf]))


def two_clusters() -> np.ndarray:
    x = np.random.default_rng(21).normal(size=(300, 2))
    x[150:] += [8.0, 6.0]
    return x


ALL_IN_ONE = np.tile([1.0, 0.0], (300, 1))


def test_an_empty_component_without_a_covariance():
    x = np.random.default_rng(22).normal(size=(300, 2))
    options = {"wishart_dof_prior": 2.5, "wishart_scale_prior": 0.01}
    ours = lrvb.GaussianMixture(2, init=ALL_IN_ONE, **options).fit(x)
    for method in ("component_sds", "component_covariances", "component_correlations"):
        with pytest.raises(lrvb.InvalidModel, match=r"1,.*degrees of freedom.*wishart_dof_prior"):
            getattr(ours, method)()
    assert np.isfinite(ours.component_weights().to_numpy()).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rows_beyond_all_distances():
    ours = lrvb.GaussianMixture(2, random_state=0).fit(two_clusters())
    for method in ("predict_proba", "predict", "score_samples", "score"):
        with pytest.raises(lrvb.InvalidData, match=r"row 1: the value 1e\+160 is too large"):
            getattr(ours, method)(np.array([[0.0, 0.0], [1e160, 0.0]]))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("unit", [1e-150, 1e-100, 1e100, 1e150])
def test_units_beyond_the_range_of_squares(unit):
    """Variances of precisions overflow: an error says that the columns want other units."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrvb.NotConverged)
        with pytest.raises(lrvb.LrvbError, match=r"scale|unit"):
            lrvb.GaussianMixture(2, random_state=0).fit(unit * two_clusters())


@pytest.mark.parametrize("text", ["1e400*x", "2*x + 1e999*x"])
def test_a_contrast_beyond_the_range(text):
    with pytest.raises(lrvb.InvalidModel, match="beyond the range of numbers"):
        weights(text, ["x"])


def test_correlations_of_draws_that_are_nearly_singular():
    """corr(Λ⁻¹) of a 2×2 Λ is −λ₁₂/√(λ₁₁λ₂₂), at every scale and up to a singular Λ."""
    r = np.array([0.3, 1 - 1e-9, 1.0, -1.0])
    Lambda = np.empty((4, 2, 2))
    Lambda[:, 0, 0], Lambda[:, 1, 1] = 1e80, 1e-80
    Lambda[:, 0, 1] = Lambda[:, 1, 0] = r
    [(_, _, found)] = list(_correlations(Lambda))
    np.testing.assert_allclose(found, -r, atol=1e-7)


def test_what_is_known_exactly_correlates_with_nothing():
    """The log weight of a single component is zero for sure."""
    posterior = lrvb.GaussianMixture(1, certify=False).fit(two_clusters()).posterior_
    corr = posterior.corr()
    others = [name for name in corr if name != "log(pi[0])"]
    assert np.isfinite(corr.to_numpy()).all()
    assert (corr.loc["log(pi[0])", others] == 0).all()
