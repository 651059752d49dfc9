"""The mixture's mathematics: the paper's Hessian, its fast path, closed forms, tilts, invariances."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from differences import central
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


# ---- tilts ---------------------------------------------------------------------------------


class TiltedMixture(NormalMixture):
    """The mixture with its log joint tilted by direction · T."""

    def global_term(self, m):
        parts = [m.mu.x, m.mu.xx, m.Lambda.x, m.Lambda.logdet_x, m.pi.log_x]
        tilts = [self.t_mu, self.t_mumu, self.t_Lambda, self.t_logdet, self.t_pi]
        tilt = sum((t * part).sum() for t, part in zip(tilts, parts, strict=True))
        return super().global_term(m) + tilt


def refit(ours, direction):
    """The fit's own optimum with L tilted by direction · m."""
    inner = ours.posterior_.fit
    model = object.__new__(TiltedMixture)
    named = inner.alpha.natural(np.asarray(direction))
    model.__dict__.update(
        vars(inner.model),
        t_mu=np.asarray(named["mu"].x),
        t_mumu=np.asarray(named["mu"].xx),
        t_Lambda=np.asarray(named["Lambda"].x),
        t_logdet=np.asarray(named["Lambda"].logdet_x),
        t_pi=np.asarray(named["pi"].log_x),
    )
    return lrvb.fit(model, inner.problem.rows, init=inner, tol=1e-9)


def slopes(ours, value, coordinates, h=0.005):
    """d value(refit)/dt for tilts along flat coordinates, each in units of 1/sd: error O(h²)."""
    sd = np.sqrt(np.diag(ours.posterior_.response.Sigma))
    tilts = [np.eye(len(sd))[i] / sd[i] for i in coordinates]
    return np.array([central(lambda t, d=d: value(refit(ours, t * d)), h) for d in tilts])


def test_covariance_is_the_derivative_of_the_mean():
    """eq:lrvb_derivative_defn for one μ, one Λ and one log π, among all quantities."""
    ours = fitted()
    posterior = ours.posterior_
    names = ["mu[0,1]", "Lambda[1,0,1]", "log(pi[0])"]
    at = [posterior.estimate.labels.index(name) for name in names]
    inner = posterior.response
    sd = np.sqrt(np.diag(inner.Sigma))
    slope = slopes(ours, lambda fit: fit.m, at)
    assert_allclose(slope / sd, inner.Sigma[at] / np.outer(sd[at], sd), atol=1e-4)


def brute_force_functions(ours, x):
    """Every ready-made function's value from a refit's usual parameters, in NumPy."""
    s = ours._scaling.scale
    z = ours._scaling.inward(np.asarray(x))

    def value(fit):
        params, m = fit.params(), fit.moments
        mu, Lambda = np.asarray(m.mu.x), np.asarray(m.Lambda.x)
        alpha = params["pi"]["concentration"]
        dof = params["Lambda"]["dof"]
        S = np.linalg.inv(params["Lambda"]["scale"]) / (dof - 3)[:, None, None] * np.outer(s, s)
        sd = np.sqrt(np.diagonal(S, axis1=1, axis2=2))
        d = mu[0] - mu[1]
        logits = [
            float(m.pi.log_x[k] + 0.5 * m.Lambda.logdet_x[k])
            - 0.5 * (z - mu[k]) @ Lambda[k] @ (z - mu[k])
            - 0.5 * np.sum(Lambda[k] * params["mu"]["cov"][k])
            for k in (0, 1)
        ]
        p = np.exp(logits - np.logaddexp(*logits))
        return np.concatenate(
            [
                alpha / alpha.sum(),
                S[:, [0, 0, 1], [0, 1, 1]].reshape(-1),
                sd.reshape(-1),
                S[:, 0, 1] / sd.prod(axis=1),
                [np.sqrt(d @ (Lambda[0] + Lambda[1]) @ d / 2)],
                p,
            ]
        )

    return value


def test_ready_made_functions_by_tilt_refit_and_difference():
    """app:function_covariance: the slopes under all tilts are JΣ̂, so slopes Σ̂⁻¹ slopesᵀ = JΣ̂Jᵀ."""
    ours, x = fitted(), [1.2, 0.9]
    tables = [
        ours.component_weights(),
        ours.component_covariances(),
        ours.component_sds(),
        ours.component_correlations(),
        ours.separation(0, 1).to_frame().T,
        ours.membership(x),
    ]
    mean = np.concatenate([table["mean"] for table in tables])
    sd = np.concatenate([table["sd"] for table in tables])
    value = brute_force_functions(ours, x)
    assert_allclose(mean, value(ours.posterior_.fit), rtol=1e-9)
    Sigma = ours.posterior_.response.Sigma
    scale = np.sqrt(np.diag(Sigma))
    slope = slopes(ours, value, range(len(Sigma))).T
    corr = Sigma / np.outer(scale, scale)
    variance = np.einsum("fi,if->f", slope, np.linalg.solve(corr, slope.T))
    assert_allclose(np.sqrt(variance), sd, rtol=1e-4)


def test_functions_against_draws():
    """E Σ by draws from q(Λ); sds by draws from the linear-response posterior."""
    ours = fitted()
    alpha, inner = ours.posterior_.fit.alpha, ours.posterior_.fit
    family = alpha.blocks["Lambda"]
    s = ours._scaling.scale
    rng = np.random.default_rng(0)
    means = ours.component_covariances()["mean"].to_numpy().reshape(2, 3)
    for k in (0, 1):
        eta = type(inner.moments.Lambda)(
            *(np.asarray(part)[k] for part in alpha.natural(inner.eta)["Lambda"])
        )
        S = np.linalg.inv(family.sample(eta, rng, 40_000)) * np.outer(s, s)
        error = S.std(axis=0) / np.sqrt(40_000)
        assert (np.abs(S.mean(axis=0) - means[k][[[0, 1], [1, 2]]]) < 5 * error).all()
    draws = ours.posterior_.draws(20_000, 1)
    S = np.linalg.inv(draws["Lambda"])
    spread = np.sqrt(np.diagonal(S, axis1=2, axis2=3))
    d = draws["mu"][:, 0] - draws["mu"][:, 1]
    average = draws["Lambda"].mean(axis=1)
    distance = np.sqrt(np.einsum("na,nab,nb->n", d, average, d))
    # the delta method against skewed draws of 120 to 180 rows' worth of information
    assert_allclose(ours.component_weights()["sd"], draws["pi"].std(axis=0), rtol=0.05)
    assert_allclose(ours.component_sds()["sd"], spread.std(axis=0).reshape(-1), rtol=0.1)
    assert_allclose(
        ours.component_correlations()["sd"],
        (S[:, :, 0, 1] / spread.prod(axis=2)).std(axis=0),
        rtol=0.1,
    )
    assert_allclose(ours.separation(0, 1)["sd"], distance.std(), rtol=0.1)


def test_membership_is_the_response_of_a_row():
    """At a row of X the probability's sd is √(RΣ̂Rᵀ): what its parameters leave uncertain."""
    X, _ = overlapping()
    ours = fitted()
    inner = ours.posterior_.response
    row = int(np.abs(ours.predict_proba(X)[:, 0] - 0.5).argmin())
    table = ours.membership(X[row])
    with double():
        chunk = next(
            lrvb.AutodiffSum().bind(inner.fit.problem).respond(inner.fit.m, np.array([row]))
        )
    assert_allclose(table["mean"], chunk.z[0], rtol=1e-9)
    variance = np.diag(chunk.R[0] @ inner.Sigma @ chunk.R[0].T)
    assert_allclose(table["sd"], np.sqrt(variance), rtol=1e-7)


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


# ---- invariances ---------------------------------------------------------------------------


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
