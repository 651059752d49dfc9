"""Levels' moments from a sample of the draws, against all of them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.integrated.factor_density import pairs_of
from lrvb.integrated.importance import Weighted
from lrvb.integrated.integral import Integral


class Plain:
    """Moments handed on as they are, so that averages over draws are all that is tested."""

    def unfold(self, theta, weights, first, second):
        return (first, second)

    def expand(self, values):
        return (values,)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_a_sample_knows_what_is_linear_in_the_draws(q: int) -> None:
    """Means linear in θ and variances of their own: a few draws give what all of them give, to rounding."""
    rng = np.random.default_rng(q)
    n, k, d, G = 400, 25, 3, 4
    theta = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + 5
    w = rng.dirichlet(np.ones(n))
    level, slopes = rng.standard_normal(G * q), rng.standard_normal((d, G * q))
    within = rng.standard_normal((G, q, q))
    within = within @ within.swapaxes(1, 2)

    def moments(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = level + points @ slopes
        z = first.reshape(len(points), G, q)
        both = [z[..., i] * z[..., j] + within[:, i, j] for i, j in pairs_of(q)]
        return first, np.stack(both, axis=-1).reshape(len(points), -1)

    sample = theta[rng.choice(n, k, replace=False)]
    weighted = Weighted(theta, np.zeros(n), np.zeros(n), w, w, 0.0, float(n), 0.0, 0.0)
    values = rng.standard_normal((n, 2))
    every = Integral(theta, weighted, 0.0, Plain(), *moments(theta)).moments(values)
    some = Integral(theta, weighted, 0.0, Plain(), *moments(sample), sample).moments(values)
    for one, other in zip(
        (*some.effects, *some.cross), (*every.effects, *every.cross), strict=True
    ):
        assert_allclose(one, other, rtol=1e-9, atol=1e-9)
