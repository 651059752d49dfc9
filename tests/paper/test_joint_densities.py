"""Each model's L(m) is the expectation of its log joint density, as SciPy writes that density.

A density is an expectation under a point mass, whose moments are the statistics at the point. So
L there must be log p to rounding: constants, signs and priors are all in it.
"""

from __future__ import annotations

from types import SimpleNamespace as Moments

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from numpy.testing import assert_allclose
from scipy import stats

from lrvb.models import NormalPoisson, RandomSlope
from lrvb.models.gaussian_mixture import NormalMixture
from lrvb.numerics.double import double

X, Y = np.array([0.8, -0.5, 1.7]), np.array([3.0, 0.0, 6.0])


def normal_at(x, variance=0.0):
    """E x and E xxᵀ (or E x²) of a normal; of a point, unless a variance is given."""
    x = np.asarray(x, float)
    return Moments(x=x, xx=np.multiply.outer(x, x) + variance)


def gamma_at(x):
    """E τ and E log τ of a point."""
    return Moments(x=x, log_x=np.log(x))


def log_gamma(x, shape, rate):
    return stats.gamma.logpdf(x, shape, scale=1 / rate)


def expected_log_joint(model, m, rows):
    """Σ_n of the local terms, and the global one; a row is (z_n, what the term reads)."""
    with double():
        return float(model.global_term(m)) + sum(float(model.local_term(m, *r)) for r in rows)


@pytest.mark.parametrize("local", ["tilted", "gaussian"])
def test_normal_poisson_is_its_log_joint(local):
    """app:np_details, eq:pn_model: with +½ log τ, which the paper prints with a minus."""
    beta, tau, z = 0.7, 2.3, np.array([1.1, -0.4, 1.6])
    model = NormalPoisson(2.0, 1.5, 0.8, local=local)
    rows = [(normal_at(a), Moments(x=x, y=y)) for a, x, y in zip(z, X, Y, strict=True)]
    found = expected_log_joint(model, Moments(beta=normal_at(beta), tau=gamma_at(tau)), rows)
    if local == "tilted":
        found += stats.poisson.logpmf(Y, np.exp(z)).sum()  # the base measure of q(z_n)
    known = stats.norm.logpdf(beta, 0, 2.0**0.5) + log_gamma(tau, 1.5, 0.8)
    known += stats.norm.logpdf(z, beta * X, tau**-0.5).sum()
    known += stats.poisson.logpmf(Y, np.exp(z)).sum()
    assert_allclose(found, known, rtol=1e-12)


def test_normal_poisson_expects_over_normal_factors():
    """app:np_details: E over q(β) q(z_n) by Gauss–Hermite; 40 nodes leave nothing of e^z."""
    (beta, sd_beta), (z, sd_z), tau = (0.7, 0.4), (1.1, 0.6), 2.3
    t, w = hermegauss(40)
    b, a = np.meshgrid(beta + sd_beta * t, z + sd_z * t, indexing="ij")
    log_joint = stats.norm.logpdf(b, 0, 2.0**0.5) + log_gamma(tau, 1.5, 0.8)
    log_joint += stats.norm.logpdf(a, b * X[0], tau**-0.5) + stats.poisson.logpmf(Y[0], np.exp(a))
    known = (w @ log_joint @ w) / (2 * np.pi)
    m = Moments(beta=normal_at(beta, sd_beta**2), tau=gamma_at(tau))
    row = (normal_at(z, sd_z**2), Moments(x=X[0], y=Y[0]))
    found = expected_log_joint(NormalPoisson(2.0, 1.5, 0.8, local="gaussian"), m, [row])
    assert_allclose(found, known, rtol=1e-12)


def test_random_slope_is_its_log_joint():
    """app:re_details: two groups, held as sums over their rows."""
    rng = np.random.default_rng(0)
    x, r, y = rng.normal(size=(5, 2)), rng.normal(size=5), rng.normal(size=5)
    group = np.array([0, 1, 0, 1, 1])
    beta, tau, nu, z = np.array([0.3, -1.2]), 1.7, 0.6, np.array([0.9, -0.2])
    model = RandomSlope(3.0, 2.5, 1.5, 1.2, 0.7)
    sums = model.prepare({"x": x, "r": r, "y": y, "group": group}).columns
    rows = [(normal_at(z[k]), Moments(**{c: v[k] for c, v in sums.items()})) for k in range(2)]
    m = Moments(beta=normal_at(beta), tau=gamma_at(tau), nu=gamma_at(nu))
    known = stats.norm.logpdf(beta, 0, 3.0**0.5).sum() + stats.norm.logpdf(z, 0, nu**-0.5).sum()
    known += log_gamma(tau, 2.5, 1.5) + log_gamma(nu, 1.2, 0.7)
    known += stats.norm.logpdf(y, x @ beta + r * z[group], tau**-0.5).sum()
    assert_allclose(expected_log_joint(model, m, rows), known, rtol=1e-12)


def test_mixture_is_its_log_joint():
    """eq:normal_mixture_model: rows, labels, and the priors of μ, Λ and π."""
    rng = np.random.default_rng(1)
    x, labels, K, P = rng.normal(size=(4, 2)), np.array([0, 1, 1, 0]), 2, 2
    root = rng.normal(size=(K + 2, P, P))
    *Lambda, precision, inverse_scale = root @ root.transpose(0, 2, 1) + np.eye(P)
    mu, pi, mean = rng.normal(size=(K, P)), np.array([0.3, 0.7]), rng.normal(size=P)
    model = NormalMixture(K, mean, precision, 4.5, inverse_scale, 1.8)
    m = Moments(
        mu=Moments(x=mu, xx=mu[:, :, None] * mu[:, None, :]),
        Lambda=Moments(x=np.array(Lambda), logdet_x=np.linalg.slogdet(Lambda)[1]),
        pi=Moments(log_x=np.log(pi)),
    )
    with double():
        rows = [
            (Moments(x=np.eye(K)[k]), model.features(Moments(x=row)))
            for k, row in zip(labels, x, strict=True)
        ]
    known = stats.dirichlet.logpdf(pi, np.full(K, 1.8)) + np.log(pi[labels]).sum()
    for k in range(K):
        known += stats.multivariate_normal.logpdf(mu[k], mean, np.linalg.inv(precision))
        known += stats.wishart.logpdf(Lambda[k], 4.5, np.linalg.inv(inverse_scale))
        cov = np.linalg.inv(Lambda[k])
        known += stats.multivariate_normal.logpdf(x[labels == k], mu[k], cov).sum()
    assert_allclose(expected_log_joint(model, m, rows), known, rtol=1e-12)
