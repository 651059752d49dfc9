"""Standard deviations of the mixture against our own Gibbs sampler, with the same flat priors."""

from __future__ import annotations

import numpy as np

import lrvb
from lrvb.studies.reference import mixture_gibbs, simulate
from mixtures import flat


def test_standard_deviations_agree_with_gibbs():
    """sec:normal_mixture_model: the paper's data at N = 2000.

    Every sd within four Monte Carlo errors, every mean near.
    """
    data = simulate.gaussian_mixture(np.random.default_rng(31), n=2000)
    X, z = data["X"], data["z"]
    start = np.eye(2)[z]
    ours = lrvb.GaussianMixture(2, init=start, **flat(2)).fit(X).posterior_
    draws = mixture_gibbs.sample(np.random.default_rng(32), X, z, draws=6000, burn_in=200)
    exact = draws.summary()
    assert exact["ess"].min() > 300
    ratio = ours.sd(list(exact.index)) / exact["sd"]
    allowed = np.maximum(4 / np.sqrt(2 * exact["ess"]), 4 * exact["sd_error"] / exact["sd"])
    assert (np.abs(ratio - 1) < allowed).all(), ratio
    bias = (ours.mean(list(exact.index)) - exact["mean"]) / exact["sd"]
    assert (np.abs(bias) < 4 / np.sqrt(exact["ess"]) + 0.1).all(), bias
    mean_field = ours.sd("mu", method="mfvb") / exact["sd"][ours.sd("mu").index]
    assert (mean_field < 0.95).all()  # what linear response corrects
    corr = draws.scalars.corr().to_numpy()
    error = np.abs(ours.corr(list(exact.index)).to_numpy() - corr)
    assert error.max() < 5 / np.sqrt(exact["ess"].min()) + 0.02
