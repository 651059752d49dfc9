"""What a run of the mixture's sampler returns: seeds, names, summaries and complaints."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lrvb import errors
from lrvb.studies.reference import mixture_gibbs, simulate


@pytest.fixture(scope="module")
def data():
    """A small data set of the study's setting."""
    return simulate.gaussian_mixture(np.random.default_rng(6), n=300)


def test_a_seed_and_a_thinning_say_everything(data):
    """The same seed gives the same draws, and thinning keeps every second of them."""

    def run(**options):
        rng = np.random.default_rng(7)
        return mixture_gibbs.sample(rng, data["X"], data["z"], burn_in=10, **options)

    one, two, thinned = run(draws=40), run(draws=40), run(draws=20, thin=2)
    for name in ("mu", "Lambda", "logdet_Lambda", "log_pi"):
        assert_array_equal(getattr(one, name), getattr(two, name))
        assert_array_equal(getattr(one, name)[1::2], getattr(thinned, name))
    assert (one.sweeps, thinned.sweeps) == (50, 50)
    soft = np.eye(2)[data["z"]]
    from_soft = mixture_gibbs.sample(np.random.default_rng(7), data["X"], soft, draws=40)
    from_hard = mixture_gibbs.sample(np.random.default_rng(7), data["X"], data["z"], draws=40)
    assert_array_equal(from_soft.mu, from_hard.mu)


def test_the_origin_is_irrelevant(data):
    """Far from zero the same chain runs, with its mean prior moved along."""
    runs = [
        mixture_gibbs.sample(
            np.random.default_rng(8),
            data["X"] + shift,
            data["z"],
            draws=30,
            mean_prior=shift,
            mean_precision_prior=0.1,
        )
        for shift in (0.0, 1e4)
    ]
    assert_allclose(runs[1].mu - 1e4, runs[0].mu, atol=1e-7)
    assert_allclose(runs[1].Lambda, runs[0].Lambda, rtol=1e-6)


def test_the_summary_names_what_it_summarises(data):
    """Names, their order, and moments of the arrays they stand for."""
    chain = mixture_gibbs.sample(np.random.default_rng(9), data["X"], data["z"], draws=200)
    assert chain.names[4:9] == [
        *(f"Lambda[0,{ij}]" for ij in ("0,0", "0,1", "1,1")),
        "logdet(Lambda[0])",
        "Lambda[1,0,0]",
    ]
    assert chain.names[:2] == ["mu[0,0]", "mu[0,1]"]
    assert chain.names[-2:] == ["log(pi[0])", "log(pi[1])"]
    summary = chain.summary()
    assert list(summary.columns) == ["mean", "sd", "ess", "mean_error", "sd_error"]
    for name, column in {
        "mu[1,0]": chain.mu[:, 1, 0],
        "Lambda[1,0,1]": chain.Lambda[:, 1, 0, 1],
        "logdet(Lambda[1])": chain.logdet_Lambda[:, 1],
        "log(pi[0])": chain.log_pi[:, 0],
    }.items():
        assert_allclose(summary["mean"][name], column.mean(), rtol=1e-12)
        assert_allclose(summary["sd"][name], column.std(ddof=1), rtol=1e-12)
    assert_allclose(np.sqrt(np.diag(chain.cov)), chain.sd, rtol=1e-12)
    assert_allclose(chain.mean, summary["mean"], rtol=1e-12)
    assert list(chain.cov.index) == list(chain.cov.columns) == list(chain.ess.index) == chain.names


def test_what_cannot_be_sampled_is_explained(data):
    """Rows, labels and components that make no sense."""
    rng, X, z = np.random.default_rng(10), data["X"], data["z"]
    broken = X.copy()
    broken[7, 1] = np.nan
    for arguments, message in (
        ((broken, z), "X, row 7"),
        ((X[:, 0], z), "must be"),
        ((X, z[:-1]), "must be"),
        ((X, z + 1), "Labels"),
        ((X, np.full((300, 2), 0.7)), "start, row 0"),
        ((X, np.column_stack([np.ones(300), np.zeros(300)])), "Component 1 has 0 rows"),
    ):
        with pytest.raises(errors.InvalidData, match=message):
            mixture_gibbs.sample(rng, *arguments, draws=2)
