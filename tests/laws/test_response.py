"""Laws of the linear response, on every model: derivative, Schur, SEM, invariances."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES, tilted
from lrvb.data.tables import Row
from lrvb.engine.objective import Objective
from lrvb.numerics.double import double

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def slope_under_tilt(case, f, h):
    """d m*/dt at t = 0 by a fourth-order difference: the error is O(h⁴) and rounding/h."""
    fit, model = case.small_fit(), tilted(case, f)

    def refit(t):
        return case.fit(model(t), init=fit).m

    return (8 * (refit(h) - refit(-h)) - (refit(2 * h) - refit(-2 * h))) / (12 * h)


@every_case
def test_covariance_is_derivative_of_mean(case):
    """eq:lrvb_derivative_defn: tilt L by t·m, refit, difference."""
    response = case.response()
    alpha = response.alpha
    sd = np.sqrt(np.diag(response.Sigma))
    for i in {0, alpha.size // 2, alpha.size - 1}:
        slope = slope_under_tilt(case, lambda m, i=i: _flat(alpha, m)[i], 0.01 / sd[i])
        # In units of the sds: the fit is exact to 1e-9 sd, divided by a tilt of 0.01.
        assert_allclose(slope / (sd * sd[i]), response.Sigma[:, i] / (sd * sd[i]), atol=3e-6)


def _flat(alpha, m):
    return alpha.flat_moments({name: m[name] for name in alpha.blocks})


@every_case
def test_function_covariance_is_derivative_of_mean(case):
    """app:function_covariance, lem:theta_function_covariance: tilt by f, refit, difference.

    And Cov(f, g) = ∇fᵀΣ̂∇g.
    """
    response = case.response()
    alpha = response.alpha
    weights = np.linspace(0.5, 1.5, alpha.size) / np.sqrt(np.diag(response.Sigma))
    weights /= np.sqrt(weights @ response.Sigma @ weights)  # sin is then nearly linear over one sd
    center = response.fit.m

    def f(m):
        return jnp.sin(weights @ (_flat(alpha, m) - center))

    def g(m):
        return weights[::-1] * _flat(alpha, m)

    sd = np.sqrt(response.of(f))
    slope = slope_under_tilt(case, f, 0.01 / sd)
    expected = response.of(g, f)
    scale = sd * np.sqrt(np.diag(response.of(g)))
    assert_allclose(weights[::-1] * slope / scale, expected / scale, atol=3e-6)
    assert_allclose(response.of(f, g), expected, rtol=1e-12)
    assert isinstance(response.of(f), float)


@every_case
def test_schur_equals_dense(case):
    """eq:nuisance_lrvb_est against eq:spec_lrvb on all of θ = (α, z_1, …, z_N), every block."""
    fit = case.small_fit()
    problem, alpha = fit.problem, fit.alpha
    posterior = lrvb.summarize(case.response())
    chunk = next(lrvb.AutodiffSum().bind(problem, problem.n).respond(fit.m))
    a, d, n = alpha.size, problem.local.size, problem.n
    with double():

        def L(flat):
            m, z = flat[:a], flat[a:].reshape(n, d)

            def local_term(z, row):
                return problem.structure.local_term(problem.traced, m, z, Row(row))

            local_terms = jax.vmap(local_term)(z, dict(problem.rows.columns))
            return problem.structure.global_term(problem.traced, m) + local_terms.sum()

        H = np.asarray(jax.jit(jax.hessian(L))(np.concatenate([fit.m, chunk.z.reshape(-1)])))
    V = np.zeros((a + n * d, a + n * d))
    V[:a, :a] = posterior.response.V
    for i in range(n):
        V[a + i * d : a + (i + 1) * d, a + i * d : a + (i + 1) * d] = chunk.V[i]
    dense = np.linalg.solve(np.eye(len(V)) - V @ H, V)
    Sigma = posterior.response.Sigma
    scale = np.sqrt(np.outer(np.diag(Sigma), np.diag(Sigma)))
    assert_allclose(Sigma / scale, dense[:a, :a] / scale, atol=1e-8)
    cross = np.einsum("nda,ab->ndb", chunk.R, Sigma)
    assert_allclose(
        cross.reshape(n * d, a) / np.sqrt(np.diag(Sigma)),
        dense[a:, :a] / np.sqrt(np.diag(Sigma)),
        atol=1e-8 * np.sqrt(np.diag(dense)[a:].max()),
    )
    local = chunk.Sigma + np.einsum("nda,nea->nde", cross, chunk.R)
    for i in range(n):
        here = slice(a + i * d, a + (i + 1) * d)
        assert_allclose(local[i], dense[here, here], atol=1e-8 * np.diag(dense)[here].max())


@every_case
def test_supplemented_em_gives_the_same_covariance(case):
    """app:SEM: Σ̂ = (I − DM)⁻¹V with DM = VH̃ the Jacobian of the coordinate-ascent map of m."""
    response = case.response()
    fit = case.small_fit()
    objective = Objective(fit.problem, fit.local_sum.bind(fit.problem))
    a = fit.alpha.size

    def ascended(eta):
        """M in natural coordinates: η ← ∂L/∂m, whose Jacobian is H̃V = (VH̃)ᵀ."""
        with double():
            return objective.at(eta).gradient

    DM = np.zeros((a, a))
    for i in range(a):
        direction = np.zeros(a)
        direction[i] = 1e-4 / np.linalg.norm(response.C.T[:, i])  # in units of 1/sd of m_i
        plus, minus = ascended(fit.eta + direction), ascended(fit.eta - direction)
        DM[:, i] = (plus - minus) / (2 * direction[i])
    Sigma = response.V @ np.linalg.inv(np.eye(a) - DM)
    scale = np.sqrt(np.outer(np.diag(response.Sigma), np.diag(response.Sigma)))
    assert_allclose(Sigma / scale, response.Sigma / scale, atol=2e-5)  # a difference of step 1e-4


@every_case
def test_symmetric_positive_definite_and_larger_than_mean_field(case):
    """Σ̂ is symmetric and positive definite."""
    Sigma = case.response().Sigma
    sd = np.sqrt(np.diag(Sigma))
    assert_allclose(Sigma, Sigma.T, rtol=0, atol=0)
    assert np.linalg.eigvalsh(Sigma / np.outer(sd, sd))[0] > 0


@every_case
def test_chunk_size_changes_nothing(case):
    """Row sums in chunks of 7 equal the sum in one piece, to rounding."""
    whole = case.response()
    parts = lrvb.respond(lrvb.linearize(case.fit(chunk_size=7)))
    scale = np.sqrt(np.outer(np.diag(whole.Sigma), np.diag(whole.Sigma)))
    assert_allclose(parts.Sigma / scale, whole.Sigma / scale, atol=1e-8)


@every_case
def test_order_of_rows_changes_nothing(case):
    """A permutation of the rows leaves the answer, and permutes the local variables."""
    columns = case.data
    n = len(next(iter(columns.values())))
    order = np.random.default_rng(0).permutation(n)
    shuffled = {k: np.asarray(v)[order] for k, v in columns.items()}
    whole = lrvb.summarize(case.response())
    other = lrvb.summarize(
        lrvb.respond(lrvb.linearize(lrvb.fit(case.model, shuffled, init=case.init, tol=1e-9)))
    )
    assert_allclose(other.sd(), whole.sd(), rtol=1e-7)
    if case.name != "RandomSlope":
        name = next(iter(whole.fit.problem.local.blocks))
        assert_allclose(other.local(name)["sd"], whole.local(name)["sd"].values[order], rtol=1e-7)


@every_case
def test_elbo_never_decreases(case):
    """Every accepted step ascends, to the rounding of a sum of that size."""
    trace = case.fit(init=None if case.name != "NormalMixture" else case.init).trace
    assert len(trace) > 2
    assert np.all(np.diff(trace) >= -1e-12 * (1 + np.abs(trace[:-1])))


@every_case
def test_fast_paths_agree_with_autodiff(case):
    """STYLE: the default row sum meets the generic one."""
    fit = case.small_fit()
    fast, slow = lrvb.linearize(fit), lrvb.linearize(fit, local_sum=lrvb.AutodiffSum())
    scale = np.abs(slow.H).max()
    assert_allclose(fast.H, slow.H, rtol=1e-9, atol=1e-12 * scale)
    if case.name == "NormalMixture":
        assert isinstance(fit.local_sum, lrvb.GramSum)
        for order in (1, 2):
            with double():
                g = lrvb.GramSum().bind(fit.problem, 50).evaluate(fit.m, order)
                s = lrvb.AutodiffSum().bind(fit.problem, 50).evaluate(fit.m, order)
            assert_allclose(g.value, s.value, rtol=1e-12)
            assert_allclose(g.gradient, s.gradient, rtol=1e-9, atol=1e-10)


@every_case
def test_fixed_point(case):
    """eq:fixed_pt: η = ∂L/∂m at the optimum, measured in linear-response sds."""
    fit, Sigma = case.small_fit(), case.response().Sigma
    r = fit.point.residual
    assert np.sqrt(r @ Sigma @ r) <= 1e-8
    assert fit.converged
    assert fit.stationarity <= 1e-8
