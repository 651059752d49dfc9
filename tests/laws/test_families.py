"""The laws of an exponential family: A(η) and its derivatives, round trips, its domain."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from family_cases import TYPICAL
from family_values import (
    RTOL,
    derivatives,
    evaluate,
    evaluate_apart,
    evaluated,
    every_case,
    every_typical_case,
    flat_eta,
    natural,
    referenced,
)
from numpy.testing import assert_allclose

from lrvb import (
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    GaussianChain,
    MarkovChain,
    MultivariateNormal,
    Normal,
    Tilted,
    Wishart,
)
from lrvb.families import Family
from lrvb.numerics.double import double

# ---- A(η) and its derivatives -------------------------------------------------------------


@every_typical_case
def test_mean_and_covariance_are_derivatives_of_log_partition(case):
    """M = ∇A and V = ∇²A, by autodiff."""
    _, m, C, _ = evaluated(case)
    with double():
        gradient, hessian = case.compiled(derivatives, flat_eta(case))
    assert_allclose(m, gradient, rtol=1e-12, atol=1e-12)
    assert_allclose(C @ C.T, hessian, rtol=1e-11, atol=1e-11 * np.abs(hessian).max())


@every_case
def test_log_partition_mean_and_entropy_are_exact(case):
    """A, m and S = A − η·m keep their digits at every parameter."""
    A, m, _, S = evaluated(case)
    A_exact, m_exact, _ = referenced(case)
    S_exact = A_exact - mp.fdot((mp.mpf(float(e)) for e in flat_eta(case)), m_exact)
    assert_allclose(A, float(A_exact), rtol=1e-12, atol=case.log_partition_atol)
    assert_allclose(S, float(S_exact), rtol=1e-12, atol=1e-12)
    # the mean of a logarithm is a difference of digammas of size up to 20: 1e-14 is their rounding
    logs = [label is not None and label.startswith("log") for label in _labels(case.family)]
    gap = np.abs(m - np.array([float(v) for v in m_exact]))
    assert np.all(gap <= RTOL * np.abs(m) + np.where(logs, 1e-14, 0)), gap


@every_case
def test_factor_is_exact_to_its_smallest_pivot(case):
    """CCᵀ = V, entry by entry and in every Cholesky pivot, however close V is to singular."""
    _, _, C, _ = evaluated(case)
    V = referenced(case)[2]
    exact = mp.matrix(C.tolist())
    ours = exact * exact.T
    size = case.family.size
    for i in range(size):
        for j in range(size):
            unit = mp.sqrt(V[i, i] * V[j, j])
            assert abs(ours[i, j] - V[i, j]) <= 10 * RTOL * unit
    if not isinstance(case.family, Categorical | MarkovChain):  # whose V is singular
        K, K_exact = mp.cholesky(ours), mp.cholesky(V)
        for i in range(size):
            assert abs(K[i, i] / K_exact[i, i] - 1) < 1e-8


@every_typical_case
def test_evaluate_agrees_with_its_four_parts(case):
    """(A, m, C, S) in one call are log_partition, mean, factor and entropy."""
    with double():
        together = jax.tree.leaves(case.compiled(evaluate, case.eta))
        apart = jax.tree.leaves(case.compiled(evaluate_apart, case.eta))
    for one, other in zip(together, apart, strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-300)


@every_case
def test_every_case_is_inside_the_domain(case):
    """Valid says yes at every parameter we claim to support."""
    with double():
        assert case.family.valid(case.eta)


def _labels(family: Family) -> list[str | None]:
    return [slot.label for slot in family.slots for _ in slot.indices()]


# ---- round trips --------------------------------------------------------------------------


@every_case
def test_natural_inverts_mean(case):
    """∇A(η) = m is solved for η, up to what rounding of m can move it."""
    family = case.family
    _, m, C, _ = evaluated(case)
    with double():
        error = np.asarray(case.compiled(natural, m)) - flat_eta(case)
    if isinstance(family, Categorical):  # η + const is the same q
        error = error - error[-1]
        error[m < 1e-50] = 0
    rounding = 1e-14 * np.abs(np.linalg.pinv(C)) @ (np.abs(m) + 1)
    assert np.linalg.norm(C.T @ error) <= 1e-9 + np.linalg.norm(rounding)


@every_case
def test_usual_parameters_round_trip(case):
    """from_params and params are inverse to each other."""
    params = case.family.params(case.eta)
    assert tuple(params) == case.family.parameters
    for name, value in case.params.items():
        assert_allclose(params[name], value, rtol=1e-10, atol=1e-14)


@every_case
def test_flat_coordinates_round_trip(case):
    """Natural parameters pair with means by the plain dot product of flat coordinates."""
    family, eta = case.family, case.eta
    back = family.unflatten(family.flatten(eta, natural=True), natural=True)
    for one, other in zip(back, eta, strict=True):
        assert_allclose(one, other, rtol=1e-15)
    _, m, _, _ = evaluated(case)
    contraction = sum(
        np.sum(np.asarray(e) * np.asarray(s)) for e, s in zip(eta, family.unflatten(m), strict=True)
    )
    assert_allclose(flat_eta(case) @ m, contraction, rtol=1e-11)
    assert len(family.names("x")) == family.size


# ---- the domain ---------------------------------------------------------------------------

INDEFINITE = np.array([[1.0, 2.0], [2.0, 1.0]])
EDGES = [
    (Normal(), Normal.Stats(0.0, 0.0), Normal.Stats(0.0, -1e-300)),
    (Normal(), Normal.Stats(np.nan, -1.0), Normal.Stats(1e100, -1.0)),
    (Gamma(), Gamma.Stats(-1.0, -1.0), Gamma.Stats(-1.0, np.nextafter(-1.0, 0))),
    (Gamma(), Gamma.Stats(0.0, 1.0), Gamma.Stats(-1e-300, 1.0)),
    (Beta(), Beta.Stats(0.0, -1.0), Beta.Stats(0.0, np.nextafter(-1.0, 0))),
    (Dirichlet(2), Dirichlet.Stats(np.array([-1.0, 3.0])), Dirichlet.Stats(np.array([-0.99, 3.0]))),
    (
        MultivariateNormal(2),
        MultivariateNormal.Stats(np.zeros(2), -INDEFINITE),
        MultivariateNormal.Stats(np.zeros(2), -1e-300 * np.eye(2)),
    ),
    (
        MultivariateNormal(2),
        MultivariateNormal.Stats(np.zeros(2), np.zeros((2, 2))),
        MultivariateNormal.Stats(np.zeros(2), -np.eye(2) - 0.999 * np.eye(2)[::-1]),
    ),
    (Wishart(2), Wishart.Stats(-np.eye(2), -1.0), Wishart.Stats(-np.eye(2), np.nextafter(-1.0, 0))),
    (Wishart(2), Wishart.Stats(-INDEFINITE, 1.0), Wishart.Stats(-np.eye(2), 1.0)),
    (
        Categorical(2),
        Categorical.Stats(np.array([0.0, np.nan])),
        Categorical.Stats(np.array([0.0, -np.inf])),
    ),
    (
        GaussianChain(2),
        GaussianChain.Stats(np.zeros(2), np.full(2, -0.5), np.full(1, 1.0)),
        GaussianChain.Stats(np.zeros(2), np.full(2, -0.5), np.full(1, 0.999)),
    ),
    (
        MarkovChain(2, 2),
        MarkovChain.Stats(
            np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.array([[[0.0, -np.inf], [0.0, 0.0]]])
        ),
        MarkovChain.Stats(np.array([[0.0, -np.inf], [-np.inf, 0.0]]), np.zeros((1, 2, 2))),
    ),
    (Tilted(lambda z: -jnp.exp(z)), Normal.Stats(0.0, 0.0), Normal.Stats(0.0, -1e-6)),
]


@pytest.mark.parametrize(("family", "outside", "inside"), EDGES, ids=lambda v: repr(v)[:30])
def test_domain_is_guarded(family, outside, inside):
    """Valid says no on the boundary and beyond, yes just inside; and inside, A is finite."""
    with double():
        assert not family.valid(outside)
        assert family.valid(inside)
        assert np.isfinite(family.log_partition(inside))


@pytest.mark.parametrize("case", TYPICAL, ids=str)
def test_start_is_inside_the_domain(case):
    """Every family knows where a fit may start."""
    with double():
        start = case.family.start()
        assert case.family.valid(start)
        parts = jax.tree.leaves(case.compiled(evaluate, start))
        assert all(np.isfinite(x).all() for x in parts)
