"""The laws of an exponential family, for every family at typical and extreme parameters."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest
from family_cases import CASES, SCALE, TYPICAL, FamilyCase
from numpy.testing import assert_allclose

from lrvb import (
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    GaussianChain,
    InvalidModel,
    MarkovChain,
    MultivariateNormal,
    Normal,
    Tilted,
    Wishart,
)
from lrvb.families import Family
from lrvb.numerics.double import double
from lrvb.numerics.packing import Slot

DRAWS = 40_000
RTOL = 1e-12  # a few thousand roundings
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_typical_case = pytest.mark.parametrize("case", TYPICAL, ids=str)
drawable = [case for case in TYPICAL if case.coordinates is not None]
every_drawable_case = pytest.mark.parametrize("case", drawable, ids=str)


def evaluate(family, eta):
    return family.evaluate(eta)


def evaluate_apart(family, eta):
    return family.log_partition(eta), family.mean(eta), family.factor(eta), family.entropy(eta)


def derivatives(family, flat):
    """∇A and ∇²A in flat coordinates."""

    def A(flat):
        return family.log_partition(family.unflatten(flat, natural=True))

    return jax.grad(A)(flat), jax.hessian(A)(flat)


def natural(family, flat):
    """Flat natural parameters of flat moments."""
    return family.flatten(family.natural(family.unflatten(flat)), natural=True)


@functools.cache
def evaluated(case: FamilyCase) -> tuple[float, np.ndarray, np.ndarray, float]:
    """(A, m, C, S) of a case, with m flat."""
    with double():
        A, m, C, S = case.compiled(evaluate, case.eta)
        return float(A), np.asarray(case.family.flatten(m)), np.asarray(C), float(S)


@functools.cache
def referenced(case: FamilyCase) -> tuple[Any, Any, Any]:
    """(A, m, V) of a case to 40 digits."""
    return case.reference(case.eta)


@functools.cache
def drawn(case: FamilyCase) -> tuple[np.ndarray, np.ndarray]:
    """Draws x and their flat statistics T(x)."""
    x = case.family.sample(case.eta, np.random.default_rng(20), DRAWS)
    return x, np.asarray(case.family.flatten(case.family.statistics(x)))


def flat_eta(case: FamilyCase) -> np.ndarray:
    return np.asarray(case.family.flatten(case.eta, natural=True))


def assert_mean(draws: np.ndarray, expected: Any, standard_errors: float = 5.0) -> None:
    """The mean of independent draws (n, ...) is what is expected, given their spread."""
    error = draws.std(axis=0) / np.sqrt(len(draws))
    gap = np.abs(draws.mean(axis=0) - expected)
    assert np.all(gap <= standard_errors * error + 1e-12), (gap / (error + 1e-300)).max()


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


# ---- draws --------------------------------------------------------------------------------


@every_typical_case
def test_draws_have_the_stated_moments(case):
    """E T = m and Cov T = V = CCᵀ."""
    _, m, C, _ = evaluated(case)
    _, T = drawn(case)
    assert_mean(T, m)
    centred = T - m
    assert_mean(centred[:, :, None] * centred[:, None, :], C @ C.T)


@every_typical_case
def test_entropy_is_minus_expected_log_density(case):
    """S = −E_q[η·T − A]."""
    A, _, _, S = evaluated(case)
    _, T = drawn(case)
    assert_mean(A - T @ flat_eta(case), S)


@every_drawable_case
def test_unconstrained_coordinates(case):
    """U = mean + W(T − m) + a rest uncorrelated with T, of covariance R; `constrain` inverts it."""
    family = case.family
    _, m, _, _ = evaluated(case)
    x, T = drawn(case)
    u = case.coordinates(x, case.params)
    center, W, R = family.unconstrained(case.eta)
    for array in (center, W, R):
        assert isinstance(array, np.ndarray)
        assert array.dtype == np.float64
    assert W.shape == (u.shape[1], family.size)
    assert_allclose(family.constrain(case.eta, u), x, rtol=1e-8)
    assert_mean(u, center)
    rest = (u - center) - (T - m) @ W.T
    assert_mean(rest[:, :, None] * (T - m)[:, None, :], 0.0)
    assert_mean(rest[:, :, None] * rest[:, None, :], R)
    assert np.linalg.eigvalsh(R).min() > -1e-12


@every_drawable_case
def test_log_jacobian_integrates_the_density(case):
    """∂θ/∂v by differences in the contrasts v of u, or in u itself: its log determinant."""
    family, eta = case.family, case.eta
    x, _ = drawn(case)
    u = case.coordinates(x, case.params)[:40]
    A = family.contrasts()
    v = u if A is None else u @ A.T
    k, h = v.shape[1], 1e-5
    assert_allclose(family.constrain(eta, family.lift(v)), x[:40], rtol=1e-8)

    def coordinates(v):
        """The entries that have a Lebesgue measure: of shares, all but the last."""
        value = family.constrain(eta, family.lift(v))
        if value.ndim == 3:
            return value[(slice(None), *np.triu_indices(value.shape[1]))]
        return value.reshape(len(v), -1)[:, :k]

    steps = h * np.eye(k)
    J = np.stack([(coordinates(v + s) - coordinates(v - s)) / (2 * h) for s in steps], axis=2)
    expected = np.linalg.slogdet(J)[1]
    assert_allclose(family.log_jacobian(eta, family.lift(v)), expected, atol=1e-6)


@every_drawable_case
def test_statistics_are_inverted(case):
    """The variable from T(x)."""
    x, _ = drawn(case)
    assert_allclose(case.family.from_statistics(case.family.statistics(x)), x, rtol=1e-12)


def test_wishart_coordinates_at_many_degrees_of_freedom():
    """R shrinks like 1/ν: at ν = 1e8 it is still positive and T explains nearly everything."""
    family = Wishart(3)
    _, W, R = family.unconstrained(family.from_params(dof=1e8, scale=SCALE))
    assert np.all(np.linalg.eigvalsh(R) > -1e-24)
    assert_allclose(np.diag(R)[3:], np.array([0.5, 0.5, 1.5]) / 1e8, rtol=1e-6)
    assert np.all(np.isfinite(W))


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


# ---- fifty dimensions ---------------------------------------------------------------------


def _correlated(P: int) -> np.ndarray:
    return 0.5 ** np.abs(np.subtract.outer(np.arange(P), np.arange(P)))


def test_multivariate_normal_in_fifty_dimensions():
    """V by Isserlis' theorem at 1325 coordinates."""
    P, S = 50, _correlated(50)
    mu = np.linspace(-3, 3, P)
    family = MultivariateNormal(P)
    with double():
        _, m, C, entropy = jax.jit(family.evaluate)(family.from_params(loc=mu, cov=S))
    r, c = np.triu_indices(P)
    C = np.asarray(C)
    assert C.shape == (1325, 1325)
    V = S[np.ix_(r, r)] * S[np.ix_(c, c)] + S[np.ix_(r, c)] * S[np.ix_(c, r)]
    for a, b in ((r, c), (c, r)):
        V += mu[a][:, None] * (mu[r] * S[np.ix_(b, c)] + mu[c] * S[np.ix_(b, r)])
    assert_allclose(C[P:] @ C[P:].T, V, atol=1e-11)
    assert_allclose(C[:P] @ C[:P].T, S, atol=1e-13)
    assert_allclose(m.xx, np.outer(mu, mu) + S, atol=1e-12)
    expected = 0.5 * (P * np.log(2 * np.pi * np.e) + np.linalg.slogdet(S)[1])
    assert_allclose(entropy, expected, rtol=1e-13)


def test_wishart_in_fifty_dimensions():
    """V = ν(W_ik W_jl + W_il W_jk), and log|Λ| beside it, at 1276 coordinates."""
    P, W, nu = 50, _correlated(50), 49.5
    family = Wishart(P)
    eta = family.from_params(dof=nu, scale=W)
    with double():
        _, m, C, _ = jax.jit(family.evaluate)(eta)
    r, c = np.triu_indices(P)
    V = nu * (W[np.ix_(r, r)] * W[np.ix_(c, c)] + W[np.ix_(r, c)] * W[np.ix_(c, r)])
    C = np.asarray(C)
    assert_allclose(C[:-1] @ C[:-1].T, V, atol=1e-10)
    assert_allclose(C[:-1] @ C[-1], 2 * W[r, c], atol=1e-12)
    assert_allclose(m.x, nu * W, atol=1e-10)
    center, weights, R = family.unconstrained(eta)
    assert np.isfinite(center).all()
    assert np.isfinite(weights).all()
    assert np.linalg.eigvalsh(R).min() > -1e-12


# ---- families from A(η) alone -------------------------------------------------------------


class ExponentialStats(NamedTuple):
    """Slot of T(x) = x."""

    x: Any


class Exponential(Family):
    """q(x) ∝ exp(ηx) on x > 0, stated by A(η) = −log(−η) and nothing else."""

    Stats = ExponentialStats
    slots = (Slot((), "{}"),)

    def log_partition(self, eta):
        """−log(−η)."""
        return -jnp.log(-eta.x)

    def valid(self, eta):
        """The rate is positive."""
        return eta.x < 0

    def start(self):
        """Rate 1."""
        return ExponentialStats(np.full((), -1.0))


class PlainGamma(Gamma):
    """Gamma without its closed forms."""

    mean = Family.mean
    factor = Family.factor
    entropy = Family.entropy


@pytest.mark.parametrize("rate", [1e-3, 0.7, 1e3])
def test_a_family_is_its_log_partition(rate):
    """Mean 1/r, sd 1/r, entropy 1 − log r and the map back follow from A(η)."""
    family = Exponential()
    with double():
        eta = ExponentialStats(jnp.asarray(-rate))
        A, m, C, S = jax.jit(family.evaluate)(eta)
        back = jax.jit(family.natural)(m)
    assert_allclose([A, m.x, C[0, 0]], [-np.log(rate), 1 / rate, 1 / rate], rtol=1e-12)
    assert_allclose(S, 1 - np.log(rate), rtol=1e-12)
    assert_allclose(back.x, -rate, rtol=1e-10)


def test_closed_forms_agree_with_the_derived_ones():
    """Gamma's overrides against what the base class derives from A(η)."""
    ours, derived = Gamma(), PlainGamma()
    eta = ours.from_params(shape=2.5, rate=0.4)
    with double():
        for one, other in zip(
            jax.tree.leaves(ours.evaluate(eta)),
            jax.tree.leaves(derived.evaluate(eta)),
            strict=True,
        ):
            assert_allclose(one, other, rtol=1e-12, atol=1e-12)


# ---- statements that cannot be used -------------------------------------------------------


@pytest.mark.parametrize("family", [MultivariateNormal, Wishart, Dirichlet, Categorical])
@pytest.mark.parametrize("dim", [0, -1, 2.5, "3", None, True])
def test_dimension_must_be_a_positive_whole_number(family, dim):
    """One sentence names the argument and the value."""
    with pytest.raises(InvalidModel, match=r"dim=.* must be a whole number, at least 1\.$"):
        family(dim)


@pytest.mark.parametrize("batch", [-1, 0, 2.5, (2, 0), ("a",), None])
def test_batch_must_hold_positive_whole_numbers(batch):
    """One sentence names the argument and the value."""
    with pytest.raises(InvalidModel, match=r"^Normal: batch=.* must be a whole number"):
        Normal(batch=batch)


def test_families_are_values():
    """Equal arguments make equal families, which hash alike and print as they are written."""
    assert Dirichlet(3, batch=2) == Dirichlet(3, batch=(2,))
    assert hash(Wishart(2)) == hash(Wishart(2))
    assert Wishart(2) != Wishart(3)
    assert Normal() != Gamma()
    assert repr(MultivariateNormal(3, batch=(2, 4))) == "MultivariateNormal(dim=3, batch=[2, 4])"


def test_names_follow_copies_and_entries():
    """Component first, then row ≤ column; second moments have no name."""
    names = Wishart(2, batch=2).names("Lambda")
    assert names[:4] == ["Lambda[0,0,0]", "Lambda[0,0,1]", "Lambda[0,1,1]", "logdet(Lambda[0])"]
    assert MultivariateNormal(2).names("b") == ["b[0]", "b[1]", None, None, None]
    assert Dirichlet(2).names("pi") == ["log(pi[0])", "log(pi[1])"]
    assert Beta().names("p") == ["log(p)", "log(1-p)"]


def test_a_choice_has_no_continuous_coordinates():
    """Draws of a discrete block are refused in words."""
    family = Categorical(3)
    with pytest.raises(InvalidModel, match="no continuous coordinates"):
        family.unconstrained(family.start())


def test_one_alternative_is_certain():
    """Dirichlet and Categorical with K = 1: probability one, nothing uncertain."""
    with double():
        for family in (Dirichlet(1), Categorical(1)):
            _, m, C, S = family.evaluate(family.start())
            assert_allclose([np.exp(m[0][0]) if isinstance(family, Dirichlet) else m[0][0]], 1.0)
            assert_allclose([C[0, 0], S], 0.0, atol=1e-15)
