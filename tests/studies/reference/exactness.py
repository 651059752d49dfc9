"""Comparisons that the tests of both exact posteriors share."""

import numpy as np
from numpy.testing import assert_allclose


def assert_same_posterior(one, two, rtol):
    """Every moment and every quantile agree, relative to the posterior sds."""
    sd, z_sd = two.sd, two.z_sd
    scale = np.outer(sd, sd)
    assert_allclose((one.mean - two.mean) / sd, 0, atol=rtol)
    assert_allclose((one.cov - two.cov) / scale, 0, atol=rtol)
    assert_allclose(one.skewness, two.skewness, atol=10 * rtol)
    assert_allclose(one.log_evidence, two.log_evidence, atol=rtol)
    assert_allclose((one.z_mean - two.z_mean) / z_sd, 0, atol=rtol)
    assert_allclose(one.z_sd, z_sd, rtol=rtol)
    assert_allclose((one.z_cov - two.z_cov) / np.outer(z_sd, sd), 0, atol=rtol)
    for name in two.names:
        for p in (0.005, 0.3, 0.995):
            gap = (one.quantile(name, p) - two.quantile(name, p)) / sd[name]
            assert_allclose(gap, 0, atol=1e-6)


def scaled_legendre(lower, upper, nodes):
    """Nodes and weights of the Gauss–Legendre rule on an interval."""
    t, w = np.polynomial.legendre.leggauss(nodes)
    half = (upper - lower) / 2
    return lower + half * (t + 1), half * w


def derivatives(f, h):
    """First and second derivative of f at zero by five-point differences."""
    values = np.array([f(k * h) for k in (-2, -1, 0, 1, 2)])
    first = np.array([1, -8, 0, 8, -1]) / 12
    second = np.array([-1, 16, -30, 16, -1]) / 12
    return first @ values / h, second @ values / h**2


def batch_errors(draws, batches=40):
    """Mean over draws (S, q), and its Monte Carlo standard error from batch means."""
    means = np.stack([part.mean(0) for part in np.array_split(draws, batches)])
    return draws.mean(0), means.std(0, ddof=1) / np.sqrt(batches)


def assert_chain_agrees(posterior, names, draws, z, limit=5.0):
    """Means, covariances, quantiles and local moments within Monte Carlo error of a chain.

    `draws` (S, q) are of the named quantities and `z` (S, n) of the local ones.
    """
    center, z_center = posterior.mean[names].to_numpy(), posterior.z_mean.to_numpy()
    shift, z_shift = draws - center, z - z_center
    pairs = (shift[:, :, None] * shift[:, None, :]).reshape(len(draws), -1)
    cross = (z_shift[:, :, None] * shift[:, None, :]).reshape(len(draws), -1)
    probabilities = (0.03, 0.5, 0.97)
    below = [
        draws[:, j] < posterior.quantile(name, p)
        for j, name in enumerate(names)
        for p in probabilities
    ]
    statistics = np.column_stack([shift, pairs, z_shift, z_shift**2, cross, np.array(below).T])
    known = np.concatenate(
        [
            0 * center,
            posterior.cov.loc[names, names].to_numpy().ravel(),
            0 * z_center,
            posterior.z_sd.to_numpy() ** 2,
            posterior.z_cov[names].to_numpy().ravel(),
            np.tile(probabilities, len(names)),
        ]
    )
    found, error = batch_errors(statistics.astype(float))
    score = (found - known) / error
    assert np.abs(score).max() < limit
    assert np.sqrt(np.mean(score**2)) < 1.6  # and typically within one standard error
