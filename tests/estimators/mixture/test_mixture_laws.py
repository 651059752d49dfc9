"""The mixture's mathematics: the paper's Hessian, its fast path, priors, closed forms of one component."""

from __future__ import annotations

import jax
import numpy as np
from numpy.testing import assert_allclose

import lrvb
from lrvb.data.tables import Row
from lrvb.models.gaussian_mixture import NormalMixture, log_densities
from lrvb.numerics.double import double
from lrvb.statement.parameters import usual_parameters
from lrvb.statement.problem import state_problem
from mixtures import apart, fitted, flat, flat_fit, overlapping


def random_mixture(K=2, P=2):
    """A mixture with priors that are not special."""
    rng = np.random.default_rng(5)
    A = rng.normal(size=(P, P))
    return NormalMixture(
        K, rng.normal(size=P), A @ A.T + np.eye(P), P + 2.5, A.T @ A + np.eye(P), 3.0
    )


# ---- the paper's closed forms --------------------------------------------------------------


def paper_hessian(X, z, m, alpha):
    """All second derivatives of L of app:mvn_details, in flat coordinates (α, z_1, …, z_N)."""
    N, P = X.shape
    K = z.shape[1]
    pairs = list(zip(*np.triu_indices(P), strict=True))
    size = alpha.size
    H = np.zeros((size + N * K, size + N * K))

    def put(i, j, value):
        H[i, j] += value
        if i != j:
            H[j, i] += value

    def mu(k, a):
        return alpha.slices["mu"].start + k * (P + len(pairs)) + a

    def mumu(k, a, b):
        return mu(k, P) + pairs.index((min(a, b), max(a, b)))

    def Lambda(k, a, b):
        start = alpha.slices["Lambda"].start + k * (len(pairs) + 1)
        return start + pairs.index((min(a, b), max(a, b)))

    def logdet(k):
        return alpha.slices["Lambda"].start + k * (len(pairs) + 1) + len(pairs)

    def log_pi(k):
        return alpha.slices["pi"].start + k

    def at_z(n, k):
        return size + n * K + k

    for k in range(K):
        for a in range(P):
            for b in range(P):
                put(mu(k, a), Lambda(k, a, b), z[:, k] @ X[:, b])
        for a, b in pairs:
            half = 0.5 if a == b else 1.0
            put(mumu(k, a, b), Lambda(k, a, b), -half * z[:, k].sum())
            for n, x in enumerate(X):
                put(mumu(k, a, b), at_z(n, k), -half * m.Lambda.x[k, a, b])
                square = x[a] * x[b] - m.mu.x[k, a] * x[b] - m.mu.x[k, b] * x[a] + m.mu.xx[k, a, b]
                put(Lambda(k, a, b), at_z(n, k), -half * square)
        for n, x in enumerate(X):
            for a in range(P):
                put(mu(k, a), at_z(n, k), m.Lambda.x[k, a] @ x)
            put(logdet(k), at_z(n, k), 0.5)
            put(log_pi(k), at_z(n, k), 1.0)
    return H


def test_hessian_is_the_papers():
    """app:mvn_details: every second derivative, among them H_z = 0, at a point that is not special."""
    rng = np.random.default_rng(0)
    N, K, P = 6, 2, 3
    X, z = rng.normal(size=(N, P)), rng.dirichlet(np.ones(K), size=N)
    problem = state_problem(random_mixture(K, P), lrvb.Rows({"x": X}))
    alpha, structure = problem.alpha, problem.structure
    flat_m = rng.normal(size=alpha.size)
    with double():

        def L(flat):
            m, rows = flat[: alpha.size], flat[alpha.size :].reshape(N, K)
            term = jax.vmap(lambda z, x: structure.local_term(problem.traced, m, z, Row({"x": x})))
            return structure.global_term(problem.traced, m) + term(rows, X).sum()

        H = np.asarray(jax.jit(jax.hessian(L))(np.concatenate([flat_m, z.reshape(-1)])))
        m = alpha.moments(flat_m)
    assert_allclose(H, paper_hessian(X, z, m, alpha), atol=1e-12)
    assert structure.conjugate
    assert not H[alpha.size :, alpha.size :].any()


def test_gram_sums_agree_with_autodiff():
    """Value, gradient and curvature to 1e-9, with weights, away from the optimum, in any chunks."""
    X, _ = overlapping()
    weights = np.random.default_rng(1).uniform(0, 3, size=len(X))
    model = NormalMixture(2, np.zeros(2), np.eye(2), 4.0, np.eye(2), 5.0)
    problem = state_problem(model, lrvb.Rows({"x": X}, weights=weights))
    shake = np.random.default_rng(2).uniform(0.9, 1.1, problem.alpha.size)
    with double():
        q = problem.alpha.evaluate(fitted().posterior_.fit.eta * shake)
        m = np.asarray(q.m)
        assert bool(q.valid)
        slow = lrvb.AutodiffSum().bind(problem, 64).evaluate(m)
        for chunk_size in (None, 64, 7):
            fast = lrvb.GramSum().bind(problem, chunk_size).evaluate(m)
            assert_allclose(fast.value, slow.value, rtol=1e-9)
            for ours, exact in ((fast.gradient, slow.gradient), (fast.curvature, slow.curvature)):
                assert_allclose(ours, exact, rtol=1e-9, atol=1e-9 * np.abs(exact).max())


def test_a_prior_is_its_own_posterior():
    """Without rows q is the prior and the ELBO zero: the normalisers of proper priors are right."""
    problem = state_problem(random_mixture(), lrvb.Rows({"x": np.zeros((1, 2))}))
    model, alpha = problem.model, problem.alpha
    with double():
        gradient = jax.grad(problem.structure.global_term, argnums=1)
        eta = np.asarray(gradient(problem.traced, np.zeros(alpha.size)))
        q = alpha.evaluate(eta)
        elbo = problem.structure.global_term(problem.traced, q.m) + q.S
    assert abs(float(elbo)) < 1e-10
    prior = alpha.natural(eta)
    assert_allclose(-2 * prior["Lambda"].x[0], model.inverse_scale)
    assert_allclose(prior["pi"].log_x + 1, model.concentration)


def test_improper_priors_leave_their_normalisers_out():
    """The paper's Wishart(dof 1) for P = 2 has none: the ELBO is finite and smooth in dof.

    By the envelope theorem its derivative in dof is that of the log prior, Σ_k ½E log|Λ_k|, of the
    standardised columns.
    """
    X, z = apart(), np.arange(300) // 150
    bounds, h = [], 1e-3
    for dof in (1 - 2 * h, 1 - h, 1.0):
        ours = lrvb.GaussianMixture(
            2, init=np.eye(2)[z], wishart_dof_prior=dof, wishart_scale_prior=0.01
        )
        bounds.append(ours.fit(X).elbo_)
        assert ours.converged_
        assert_allclose(ours.degrees_of_freedom_.sum(), len(X) + 2 * dof, rtol=1e-9)
        if dof == 1 - h:
            logdet = ours.posterior_.mean(["logdet(Lambda[0])", "logdet(Lambda[1])"])
            slope = (logdet / 2 + np.log(ours._scaling.scale).sum()).sum()
    # a central difference: O(h²), and 1e-12 of the bound's rounding over h
    assert_allclose((bounds[2] - bounds[0]) / (2 * h), slope, atol=h**2)


def test_flat_priors():
    """q(π) has α_k = N_k and q(Λ) N_k + P + 1 degrees of freedom."""
    X, _ = overlapping()
    ours = flat_fit()
    rows = ours.predict_proba(X).sum(axis=0)
    assert_allclose(ours.weight_concentration_, rows, rtol=1e-8)
    assert_allclose(ours.degrees_of_freedom_, rows + 3, rtol=1e-8)
    assert_allclose(ours.weights_, rows / len(X), rtol=1e-8)


# ---- one component: closed forms -----------------------------------------------------------


def test_one_component_satisfies_its_fixed_point():
    """K = 1: q(μ)q(Λ) by iterating its two updates, in the units of the data."""
    X, _ = overlapping()
    N, P = X.shape
    precision, dof, scale = 0.3, 4.5, 0.2
    ours = lrvb.GaussianMixture(
        mean_precision_prior=precision, wishart_dof_prior=dof, wishart_scale_prior=scale
    ).fit(X)
    Lambda = np.eye(P)
    for _ in range(500):
        cov = np.linalg.inv(precision * np.eye(P) + N * Lambda)
        loc = cov @ (N * Lambda @ X.mean(axis=0))
        inverse = np.eye(P) / scale + (X - loc).T @ (X - loc) + N * cov
        Lambda = (dof + N) * np.linalg.inv(inverse)
    assert_allclose(ours.means_[0], loc, rtol=1e-9)
    assert_allclose(ours.precisions_[0], Lambda, rtol=1e-9)
    estimate = ours.posterior_.estimate
    found = usual_parameters(estimate.alpha, estimate.eta)["mu"]["cov"][0]
    assert_allclose(found, cov, rtol=1e-8)
    assert_allclose(ours.degrees_of_freedom_, [dof + N])
    assert_allclose(ours.weights_, [1.0])
    assert_allclose(ours.weights_sd_, [0.0], atol=1e-12)
    assert_allclose(ours.predict_proba(X), 1.0)


def test_one_component_has_the_dense_response():
    """K = 1: Σ̂ = (I − VH)⁻¹V (eq:spec_lrvb) with the paper's H and V from the moments of q."""
    X, _ = overlapping()
    ours = lrvb.GaussianMixture(**flat(2)).fit(X)
    fit = ours.posterior_.fit
    Z = ours._scaling.inward(X)
    H = paper_hessian(Z, np.ones((len(Z), 1)), fit.moments, fit.alpha)
    H = H[: fit.alpha.size, : fit.alpha.size]
    V = ours.posterior_.response.V
    dense = np.linalg.solve(np.eye(len(V)) - V @ H, V)
    Sigma = ours.posterior_.response.Sigma
    at = np.ix_(np.diag(Sigma) > 1e-20, np.diag(Sigma) > 1e-20)  # log π of one component is zero
    sd = np.sqrt(np.diag(Sigma[at]))
    assert_allclose(Sigma[at] / np.outer(sd, sd), dense[at] / np.outer(sd, sd), atol=1e-9)
    # with flat priors the exact posterior is known: μ is a t with N degrees of freedom
    S = np.cov(X.T, bias=True) * len(X)
    exact = np.sqrt(np.diag(S) / len(X) / (len(X) - 2))
    assert_allclose(ours.means_sd_[0], exact, rtol=1e-2)


def test_densities_without_cancellation_are_those_of_the_model():
    """E_q log π_k N(x | μ_k, Λ_k⁻¹): the model's, linear in φ(x), against distances from the means."""
    X, _ = overlapping()
    ours = fitted()
    optimum, Z = ours.posterior_.fit, ours._scaling.inward(X)
    m, params = optimum.moments, optimum.params()
    model = random_mixture(*ours.means_.shape)
    with double():
        stated = [model.log_densities(m, model.features(Row({"x": z}))) for z in Z[:20]]
    Lambda = np.asarray(m.Lambda.x)
    found = log_densities(
        Z[:20],
        params["mu"]["loc"],
        np.linalg.cholesky(Lambda),
        np.asarray(m.Lambda.logdet_x),
        np.asarray(m.pi.log_x),
        np.sum(Lambda * params["mu"]["cov"], axis=(1, 2)),
    )
    assert_allclose(found, stated, rtol=1e-10, atol=1e-10)
