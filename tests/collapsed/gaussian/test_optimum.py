"""The best Gaussian factor given the precisions: by brute force, and by its conditions where it is hard."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from block_cases import Shape, dense_rows, flat, layout_of
from lrvb.collapsed.gaussian.arrow import Prior
from lrvb.collapsed.gaussian.best_gaussian import NoOptimum
from lrvb.collapsed.gaussian.layout import Layout
from lrvb.collapsed.gaussian.optimum import IteratedOptimum, optimum
from lrvb.collapsed.gaussian.reweighted import Reweighted
from lrvb.collapsed.gaussian.row_terms import Averaged, Joint
from lrvb.collapsed.gaussian.tilted_rows import TiltedRows
from lrvb.likelihoods import BINOMIAL, POISSON

TOL = 1e-10
S = 1.4


def dense_prior(layout: Layout, prior: Prior) -> np.ndarray:
    """P in full."""
    first = layout.G * layout.q
    P = np.zeros((layout.size, layout.size))
    P[:first, :first] = np.kron(np.eye(layout.G), prior.first)
    P[first:, first:] = prior.rest
    return P


def setting_of(layout: Layout, rows, *, joint: bool = True, offset=0.0) -> Reweighted:
    masks = None
    if not joint:
        owner = np.concatenate(
            [np.zeros(layout.p, int)]
            + [
                1 + 100 * f + np.repeat(np.arange(g.levels), g.R.shape[1])
                for f, g in enumerate(layout.others)
            ]
        )
        masks = np.ones((layout.q, layout.q), bool), owner[:, None] == owner
    return Reweighted(layout, rows, np.zeros(layout.n) + offset, masks)


def spherical(layout: Layout, precision: float, fixed: float = 0.1) -> Prior:
    rest = np.full(layout.r, precision)
    rest[: layout.p] = fixed
    return Prior(precision * np.eye(layout.q), np.diag(rest))


def data_of(kind: str, layout: Layout, seed: int = 0):
    """Rows of a kind with moderate effects."""
    rng = np.random.default_rng(seed)
    eta = 0.5 * dense_rows(layout) @ rng.normal(size=layout.size)
    counts = rng.poisson(np.exp(eta + 0.5)).astype(float)
    trials = np.full(layout.n, 3.0)
    successes = rng.binomial(3, 1 / (1 + np.exp(-eta))).astype(float)
    return {
        "poisson": lambda: Averaged(POISSON, counts),
        "binomial": lambda: Averaged(BINOMIAL, successes, {"trials": trials}),
        "poisson, joint": lambda: Joint(Averaged(POISSON, counts)),
        "binomial, joint": lambda: Joint(Averaged(BINOMIAL, successes, {"trials": trials})),
        "poisson, tilted": lambda: TiltedRows(POISSON, counts),
    }[kind]()


def solve(
    setting: Reweighted, prior: Prior, center=None, start: IteratedOptimum | None = None
) -> IteratedOptimum:
    pull = setting.layout.zeros() if center is None else prior.times(center)
    return optimum(setting, prior, pull, S, start, TOL)


# ---- brute force -----------------------------------------------------------------------------


def brute_force(setting: Reweighted, prior: Prior, center: np.ndarray):
    """Mean, covariance and bound: BFGS over μ and the entries of a Cholesky factor that masks leave."""
    layout, C = setting.layout, dense_rows(setting.layout)
    P, size = dense_prior(layout, prior), layout.size
    lower = np.tril(np.ones((size, size), bool))
    if setting.masks is not None:
        first, kept = layout.G * layout.q, np.zeros((size, size), bool)
        kept[:first, :first] = np.kron(np.eye(layout.G), setting.masks[0]) > 0
        kept[first:, first:] = setting.masks[1]
        lower &= kept

    def loss(x):
        mu, L = x[:size], np.zeros((size, size))
        L[lower] = x[size:]
        if (np.diag(L) <= 0).any():
            return np.inf, np.zeros_like(x)
        A = C @ L
        terms = setting.rows.at(C @ mu + setting.offset, (A**2).sum(axis=1), S)
        away = mu - center
        value = terms.value - 0.5 * away @ P @ away - 0.5 * np.sum(L * (P @ L))
        value += np.log(np.diag(L)).sum()
        dL = (2 * C.T @ (terms.v[:, None] * A) - P @ L + np.diag(1 / np.diag(L)))[lower]
        return -value, -np.concatenate([C.T @ terms.e - P @ away, dL])

    start = np.concatenate([np.zeros(size), 0.3 * np.eye(size)[lower]])
    best = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9, "maxiter": 2000})
    L = np.zeros((size, size))
    L[lower] = best.x[size:]
    return best.x[:size], L @ L.T, -best.fun


@pytest.mark.parametrize("joint", [True, False], ids=["one factor", "separate"])
@pytest.mark.parametrize(
    "kind", ["poisson", "binomial", "poisson, joint", "binomial, joint", "poisson, tilted"]
)
@pytest.mark.parametrize("crossed", [False, True], ids=["one grouping", "crossed"])
def test_the_optimum_is_that_of_a_blind_search(kind, joint, crossed):
    """3 groups, 10 rows: means, covariances and the bound."""
    shape = Shape(2, ((3, 1), (2, 1))) if crossed else Shape(2, ((3, 1),))
    layout = layout_of(shape, n=10, seed=4)
    setting = setting_of(layout, data_of(kind, layout), joint=joint, offset=0.2)
    prior, center = spherical(layout, 1.5), layout.zeros()
    center.rest[: layout.p] = [0.3, -0.2]
    state = solve(setting, prior, center)
    mean, cov, bound = brute_force(setting, prior, flat(center))
    assert_allclose(flat(state.mu), mean, rtol=1e-6, atol=1e-6)
    first = layout.G * layout.q
    Z = state.Sigma.blocks
    assert_allclose(Z.Z11.ravel(), np.diag(cov)[:first], rtol=1e-6)
    assert_allclose(Z.Z1r, cov[:first, first:], atol=1e-6)
    assert_allclose(Z.Zrr, cov[first:, first:], atol=1e-6)
    P = dense_prior(layout, prior)
    away = flat(state.mu - center)
    ours = state.value - 0.5 * away @ P @ away - 0.5 * np.sum(P * cov) - 0.5 * state.Sigma.logdet
    assert_allclose(ours, bound, rtol=1e-9)  # both are maxima: errors enter squared


# ---- conditions ------------------------------------------------------------------------------


def assert_stationary(
    setting: Reweighted, prior: Prior, state: IteratedOptimum, center=None
) -> None:
    """Cᵀℓ_η = P(μ − μ₀) in units of sds, Σ⁻¹ = CᵀWC + P and v = diag(CΣCᵀ), densely."""
    layout, C = setting.layout, dense_rows(setting.layout)
    P = dense_prior(layout, prior)
    center = np.zeros(layout.size) if center is None else center
    terms = setting.rows.at(C @ flat(state.mu) + setting.offset, state.v, S)
    gradient = C.T @ terms.e - P @ (flat(state.mu) - center)
    Hessian = C.T @ (-terms.ee[:, None] * C) + P
    assert gradient @ np.linalg.solve(Hessian, gradient) < (1e3 * TOL) ** 2
    cov = np.linalg.inv(C.T @ (-2 * terms.v[:, None] * C) + P)
    assert_allclose(state.v, np.einsum("ni,ij,nj->n", C, cov, C), rtol=1e3 * TOL)


HARD = {
    "all counts zero": (np.zeros(30), 1.0, 0.0),
    "one group of zeros": (np.repeat([0.0, 3.0, 8.0], 10), 1.0, 0.0),
    "wide effects": (np.repeat([0.0, 2.0, 900.0], 10), 1 / 9, 0.0),
    "very wide effects": (np.repeat([0.0, 2.0, 900.0], 10), 1e-3, 0.0),
    "narrow effects": (np.repeat([1.0, 2.0, 4.0], 10), 1e6, 0.0),
    "big counts": (np.repeat([1e6, 3e5, 2e6], 10), 1.0, 0.0),
    "offsets": (np.repeat([1.0, 2.0, 4.0], 10), 1.0, np.linspace(-8, 8, 30)),
}


@pytest.mark.parametrize("name", HARD)
@pytest.mark.parametrize("own", [False, True], ids=["", "with an effect of every row"])
def test_hard_counts(name, own):
    """The start is found without help."""
    y, precision, offset = HARD[name]
    layout = layout_of(Shape(2, ((3, 1),)), n=30, seed=5)
    rows = Joint(Averaged(POISSON, y)) if own else Averaged(POISSON, y)
    setting = setting_of(layout, rows, offset=offset)
    prior = spherical(layout, precision)
    assert_stationary(setting, prior, solve(setting, prior))


@pytest.mark.parametrize("precision", [1e-2, 1.0, 1e3])
def test_hard_choices(precision):
    """All failures in one group, all successes in another."""
    y = np.concatenate([np.zeros(10), np.ones(10), np.tile([0.0, 1.0], 5)])
    layout = layout_of(Shape(1, ((3, 2),)), n=30, seed=6)
    setting = setting_of(layout, Averaged(BINOMIAL, y, {"trials": np.ones(30)}))
    prior = spherical(layout, precision)
    assert_stationary(setting, prior, solve(setting, prior))


@pytest.mark.parametrize("kind", ["poisson", "binomial", "poisson, joint"])
def test_the_optimum_does_not_depend_on_the_start(kind):
    """From the optimum under other precisions, a thousand times smaller or larger."""
    layout = layout_of(Shape(2, ((5, 2), (3, 1))), n=60, seed=7)
    rows = data_of(kind, layout)
    setting = setting_of(layout, rows)
    prior = spherical(layout, 1.0)
    cold = solve(setting, prior)
    for other in (1e-2, 1e3):
        warm = solve(setting, prior, start=solve(setting, spherical(layout, other)))
        assert_allclose(flat(warm.mu), flat(cold.mu), rtol=1e-7, atol=1e-8)
        assert_allclose(warm.v, cold.v, rtol=1e-7)
        assert_allclose(warm.value, cold.value, rtol=1e-11)


def test_without_an_optimum_there_is_no_answer():
    """All counts zero and a flat prior of the intercept: the search says so instead of stopping."""
    layout = layout_of(Shape(1, ((3, 1),)), n=12, seed=8)
    layout.X[:] = 1.0
    setting = setting_of(layout, Averaged(POISSON, np.zeros(12)))
    with pytest.raises(NoOptimum):
        solve(setting, spherical(layout, 1.0, fixed=0.0))
