"""The collapsed density is the log joint with every row's variables integrated out."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from numpy.testing import assert_allclose
from scipy.special import gammaln, logsumexp

import lrvb
from cases import CASES
from differences import slope
from lrvb.collapsed.partitions import partitioned_problem
from lrvb.engine.density import CollapsedDensity
from lrvb.engine.fitting import default_sum
from lrvb.posterior.target import Target

BY_NAME = {case.name: case for case in CASES}


def points(case, n=3):
    """Values of the global variables near the optimum, and their statistics."""
    posterior = lrvb.summarize(case.response())
    values = posterior.draws(n, seed=1)
    blocks = case.small_fit().alpha.blocks
    parts = []
    for name, family in blocks.items():
        x = values[name]
        T = np.asarray(
            family.flatten(family.statistics(x.reshape(-1, *x.shape[1 + len(family.batch) :])))
        )
        parts.append(T.reshape(n, -1))
    return values, np.concatenate(parts, axis=1)


def density(name):
    case = BY_NAME[name]
    values, T = points(case)
    return case, values, CollapsedDensity(case.small_fit()).at(T).value


def test_mixture_sums_over_components():
    """log Σ_k π_k N(x | μ_k, Λ_k⁻¹) and the three priors."""
    case, values, ours = density("NormalMixture")
    model, x = case.model, case.data["x"]
    for s, value in enumerate(ours):
        mu, Lambda, pi = values["mu"][s], values["Lambda"][s], values["pi"][s]
        rows = [
            np.log(pi[k])
            + scipy.stats.multivariate_normal.logpdf(x, mu[k], np.linalg.inv(Lambda[k]))
            for k in range(2)
        ]
        prior = sum(
            scipy.stats.multivariate_normal.logpdf(
                mu[k], model.mean, np.linalg.inv(model.precision)
            )
            + scipy.stats.wishart.logpdf(Lambda[k], model.dof, np.linalg.inv(model.inverse_scale))
            for k in range(2)
        )
        prior += scipy.stats.dirichlet.logpdf(pi, [model.concentration] * 2)
        assert_allclose(value, logsumexp(rows, axis=0).sum() + prior, rtol=1e-10)


def test_normal_poisson_integrates_z():
    """log ∫ Poisson(y | e^z) N(z | βx, 1/τ) dz by adaptive quadrature."""
    case, values, ours = density("NormalPoisson-tilted")
    x, y = case.data["x"], case.data["y"]
    for s, value in enumerate(ours):
        beta, tau = values["beta"][s], values["tau"][s]
        total = scipy.stats.norm.logpdf(beta, 0, np.sqrt(10.0)) + scipy.stats.gamma.logpdf(tau, 1.0)
        for xn, yn in zip(x, y, strict=True):
            center = beta * xn

            def p(z, yn=yn, center=center, tau=tau):
                return np.exp(yn * z - np.exp(z) - gammaln(yn + 1) - tau * (z - center) ** 2 / 2)

            wide = 12 / np.sqrt(tau)
            mass = scipy.integrate.quad(p, center - wide, center + wide, limit=200, epsabs=0)[0]
            total += np.log(mass) + 0.5 * np.log(tau / (2 * np.pi))
        assert_allclose(value, total, rtol=1e-7)


def test_negative_binomial_from_a_local_gamma():
    """A local Gamma integrates to a negative binomial, up to the constants the model leaves out."""
    case, values, ours = density("GammaPoisson")
    y, rate = np.asarray(case.data["y"], float), values["rate"]
    total = (
        np.log(rate)
        - rate
        + np.sum(
            2 * np.log(rate)[:, None] + gammaln(2 + y) - (2 + y) * np.log1p(rate)[:, None], axis=1
        )
    )
    assert_allclose(ours, total, rtol=1e-10)


def test_no_rows():
    """Without rows it is the global term."""

    class Two(lrvb.Model):
        global_blocks = {"tau": lrvb.Gamma(batch=(2,)), "p": lrvb.Beta()}

        def global_term(self, m):
            return 2 * m.tau.log_x.sum() - m.tau.x.sum() + 3 * m.p.log_x + m.p.log1m_x

    fit = lrvb.fit(Two(), None)
    target = Target(lrvb.respond(lrvb.linearize(fit)))
    u = target.center + 0.3 * np.random.default_rng(0).normal(size=(5, target.size))
    T = target.statistics(u)
    assert_allclose(target.density.at(T).value, T @ [-1, 2, -1, 2, 3, 1], rtol=1e-12)


def test_a_row_that_is_not_linear_in_z_gives_a_bound():
    """With a Gaussian restriction on q(z) the value lies below the exact one, and says so."""
    _, T = points(BY_NAME["NormalPoisson-tilted"])
    exact = CollapsedDensity(BY_NAME["NormalPoisson-tilted"].small_fit())
    bound = CollapsedDensity(BY_NAME["NormalPoisson-gaussian"].small_fit())
    assert exact.exact
    assert not bound.exact
    assert (bound.at(T).value < exact.at(T).value).all()


@pytest.mark.parametrize("way", ["autodiff", "gram", "partitions"])
def test_every_way_to_sum_agrees(way):
    """Gram matrices and parts against row by row, values and gradients."""
    case = BY_NAME["NormalMixture"]
    _, T = points(case, n=70)
    problem = case.small_fit().problem
    expected = lrvb.AutodiffSum().bind(problem).density(T, gradient=True)
    if way == "partitions":
        x = case.data["x"]
        parts = lrvb.Chunks([{"x": x[:50]}, {"x": x[50:50]}, {"x": x[50:]}])
        problem, strategy = partitioned_problem(case.model, parts, default_sum)
        found = strategy.bind(problem, 16).density(T, gradient=True)
    else:
        strategy = lrvb.AutodiffSum() if way == "autodiff" else lrvb.GramSum()
        found = strategy.bind(problem, 16).density(T, gradient=True)
    assert_allclose(found.value, expected.value, rtol=1e-11)
    assert_allclose(found.gradient, expected.gradient, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ["NormalMixture", "NormalPoisson-tilted", "RandomSlope"])
def test_gradient_of_the_target(name):
    """∂/∂u of the log density with its Jacobian, against differences."""
    target = Target(BY_NAME[name].response())
    rng = np.random.default_rng(2)
    u = target.center + rng.normal(size=(4, target.size)) @ target.root.T
    _, gradient = target.with_gradient(u)
    direction = rng.normal(size=target.size)
    along = slope(lambda t: target(u + t * direction), 1e-4)
    assert_allclose(gradient @ direction, along, rtol=1e-5)
