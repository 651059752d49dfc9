"""Pairs of effects whose covariance is all but singular: correlations next to ±1, sds next to 0."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from small import regression, sloped

from lrvb.integrated.integration import integrate_path
from lrvb.integrated.slopes import Slopes
from lrvb.integrated.terms import partial_root

LEVELS = 24


def few_rows(seed: int, family: str = "bernoulli") -> Slopes:
    """Three to six rows a level, x around 1, with sds of ½."""
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(LEVELS), rng.integers(3, 7, LEVELS))
    x = 1 + rng.normal(size=len(codes))
    z = 0.5 * rng.normal(size=(2, LEVELS))
    eta = 0.2 - 1.5 * x + z[0, codes] + z[1, codes] * x
    X = np.column_stack([np.ones(len(codes)), x])
    return Slopes(regression(family, eta, X, seed), sloped(codes, x, LEVELS))


def over_nine_sds(inside: Slopes, theta: np.ndarray) -> float:
    """log p(y, θ) by a grid of z = M⁻¹Le over e, which no Σ makes ill-conditioned."""
    p, (term,) = inside.p, inside.terms
    root, _ = partial_root(theta[None, p + 2 :], 2)
    T = np.linalg.solve(term.basis, np.exp(theta[p : p + 2])[:, None] * root[0])
    e = np.linspace(-9, 9, 361)  # rows may leave a twentieth of an sd
    grid = np.stack(np.meshgrid(e, e, indexing="ij"), axis=-1).reshape(-1, 2)
    eta = inside.rows.predictor(theta[None, :p])[0][:, None] + inside.R @ T @ grid.T
    columns = tuple(column[:, None] for column in inside.rows.columns)
    rows = inside.groups.sum(inside.rows.likelihood.log_p(columns, eta, []), axis=0)
    each = logsumexp(rows - (grid**2).sum(1) / 2, axis=1) + 2 * np.log(e[1] - e[0])
    return float(
        (each - np.log(2 * np.pi)) @ inside.groups.counts + inside._log_prior(theta[None])[0]
    )


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
@pytest.mark.parametrize(
    "spread",
    [(-12, 0.3, 9), (0.3, -11, -9), (0.3, 0.3, 8), (-12, 0.3, 0), (-0.5, 0.5, -5.5), (-11, -11, 0)],
)
def test_sums_where_a_covariance_is_all_but_singular(family, spread):
    """What they leave out is 1e-2 of a log density at most, where Σ⁻¹ on the columns lost 10⁶."""
    inside = few_rows(0, family)
    theta = np.r_[0.2, -1.5, np.array(spread, float)]
    inside.choose_nodes(theta[None])
    inside._known = 0.0
    assert_allclose(inside.log_density(theta[None])[0], over_nine_sds(inside, theta), atol=1e-2)


@pytest.mark.parametrize("seed", [3, 4])
def test_draws_of_few_rows_meet_no_invented_density(seed):
    found = integrate_path(few_rows(seed))
    assert found.node_error < 0.05
    assert found.weighted.k_hat < 0.7
    assert found.weighted.ess > 0.2 * len(found.weighted.x)
