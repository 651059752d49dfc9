"""Laws of the linear response, on every model: derivative, Schur, SEM, invariances."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES, tilted
from differences import bend, central, slope
from lrvb.data.tables import Row
from lrvb.engine.objective import Objective
from lrvb.numerics.double import double

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def slope_under_tilt(case, f, h):
    """d m*/dt at t = 0 by a fourth-order difference: the error is O(h⁴) and rounding/h."""
    fit, model = case.small_fit(), tilted(case, f)

    def refit(t):
        return case.fit(model(t), init=fit).m

    return slope(refit, h)


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
        unit = np.eye(a)[i]
        h = 1e-4 / np.linalg.norm(response.C.T[:, i])  # in units of 1/sd of m_i
        DM[:, i] = central(lambda t, d=unit: ascended(fit.eta + t * d), h)
    Sigma = response.V @ np.linalg.inv(np.eye(a) - DM)
    scale = np.sqrt(np.outer(np.diag(response.Sigma), np.diag(response.Sigma)))
    assert_allclose(Sigma / scale, response.Sigma / scale, atol=2e-5)  # a difference of step 1e-4


@every_case
def test_no_block_is_surer_than_mean_field(case):
    """Σ̂_bb ≥ V_b in every direction of a block b, where L is linear in the moments of b alone.

    Then Σ̂_bb = (V_b⁻¹ − X)⁻¹ with X ≥ 0, what the other blocks and the rows feed back.
    """
    response = case.response()
    for name, here in response.alpha.slices.items():
        for part in _copies(response.alpha, name, here):
            C = response.C[part, part]
            ratio = np.linalg.solve(C, np.linalg.solve(C, response.Sigma[part, part]).T)
            assert np.linalg.eigvalsh((ratio + ratio.T) / 2)[0] > 1 - 1e-9


def _copies(alpha, name, here):
    """The members of a block with several copies, each with its own factor."""
    size = alpha.blocks[name].size
    return [slice(i, i + size) for i in range(here.start, here.stop, size)]


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
def test_the_elbo_bends_as_linear_response_says(case):
    """∂²E/∂m² = −Σ̂⁻¹: along δη the ELBO falls by ½ δmᵀΣ̂⁻¹δm with δm = Vδη, on both sides alike."""
    response = case.response()
    fit, V = case.small_fit(), response.V
    objective = Objective(fit.problem, fit.local_sum.bind(fit.problem))
    rng = np.random.default_rng(4)
    for _ in range(2):
        unit = rng.normal(size=len(fit.m))
        direction = np.linalg.solve(response.C.T, unit / np.linalg.norm(unit))  # one mean-field sd
        moved = V @ direction
        expected = -moved @ np.linalg.solve(response.Sigma, moved)

        def elbo(t, d=direction):
            with double():
                return objective.at(fit.eta + t * d).elbo

        # h⁴ = 1e-8 of a sixth derivative in sds, of order 100; rounding 1e-13 over h² = 1e-4
        assert_allclose(bend(elbo, 1e-2), expected, rtol=3e-6, atol=1e-9 * abs(fit.elbo))


@every_case
def test_fixed_point(case):
    """eq:fixed_pt: η = ∂L/∂m at the optimum, measured in linear-response sds."""
    fit, Sigma = case.small_fit(), case.response().Sigma
    r = fit.point.residual
    assert np.sqrt(r @ Sigma @ r) <= 1e-8
    assert fit.converged
    assert fit.stationarity <= 1e-8
