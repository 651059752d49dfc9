"""A cubic learnt at few points: exact where the density is one, refused where it is not nearly so."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import digamma, polygamma

from lrvb.integrated.importance import Budget
from lrvb.integrated.inside import Evaluated
from lrvb.integrated.proposals import SplitT, fit_blocks
from lrvb.integrated.surrogate import NOTHING, Cubic, Known, Mended, NotSmooth, learn

ONES = np.ones(2)
START = SplitT(np.zeros(2), np.eye(2), ONES, ONES, 7.0)


def learnt(log_density, seed=0, mend=False, known=NOTHING):
    def evaluate(x):
        return Evaluated(log_density(x), x, x**2)

    return learn(
        log_density,
        evaluate,
        START,
        2,
        lambda x, w: fit_blocks(x, w, 0),
        Budget(final=4096),
        seed=seed,
        mend=mend,
        known=known,
    )


def test_cubics_are_learnt_exactly():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2))

    def cubic(x):
        return 3.0 - x[:, 0] ** 2 / 2 - x[:, 1] ** 2 + 0.02 * x[:, 0] ** 2 * x[:, 1] + 0.3 * x[:, 1]

    found = Cubic(x, cubic(x))
    new = rng.normal(size=(20, 2))
    assert_allclose(found(new), cubic(new), atol=1e-10)


def log_gamma(shape):
    """Two gamma variables on the log scale, standardised."""

    def log_density(x):
        log_t = np.log(shape) + x / np.sqrt(shape)
        return (shape * log_t - np.exp(log_t)).sum(1)

    return log_density


@pytest.mark.parametrize(("shape", "mend"), [(400.0, False), (3.0, True)])
def test_a_skewed_density_has_its_moments(shape, mend):
    """Those of log gamma variables are digamma and trigamma; much skewness is learnt beside a cubic."""
    found = learnt(log_gamma(shape), mend=mend)
    w = found.weighted
    mean = np.sqrt(shape) * (digamma(shape) - np.log(shape))
    sd = np.sqrt(shape * polygamma(1, shape))
    assert found.off < 0.03
    assert_allclose(w.mean(w.x), mean, atol=0.02)
    assert_allclose(w.sd(w.x), sd, rtol=0.02)


def test_more_skewness_than_a_cubic_has_is_refused_unless_it_is_learnt():
    with pytest.raises(NotSmooth, match="A cubic through"):
        learnt(log_gamma(3.0))


def test_a_mended_cubic_goes_through_its_points():
    rng = np.random.default_rng(2)
    x = rng.normal(size=(80, 2))
    value = log_gamma(8.0)(x)
    cubic = Cubic(x, value)
    mended = Mended(cubic, x, value)
    near = np.argsort(-value)[:40]
    assert np.abs(mended(x) - value)[near].max() < 0.1 * np.abs(cubic(x) - value)[near].max()
    far = np.array([[60.0, 60.0]])
    assert_allclose(mended(far), cubic(far))


def test_a_rest_goes_on_along_its_slope():
    """Beyond the edge: as it falls there, and where it does not fall, as high as it was."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(200, 2))
    found = Cubic(x, -(x**2).sum(1) / 2, -(x[:, 0] ** 2) / 2)
    unit = found.root.T * found.edge
    at, beyond = found(found.mean + unit), found(found.mean + 1.5 * unit)
    slope = -(found.mean[0] + unit[0, 0]) * unit[0, 0]
    assert_allclose(beyond[0] - at[0], 0.5 * slope, rtol=1e-3)  # of a difference over a thousandth
    assert_allclose(beyond[1], at[1], atol=1e-9)


def test_a_likelihood_is_learnt_beside_what_is_known():
    """In coordinates with a long tail, up to an end: moments are those of sums over a grid."""

    def smooth(x):
        return np.column_stack([1 / np.sqrt(1 + np.exp(4 * x[:, 0])), x[:, 1]])

    def part(x):
        return -(x**2).sum(1) / 2

    def log_density(x):
        u, v = smooth(x).T
        return part(x) + 2 * np.sin(2 * u) * (1 + v / 4) - v**2

    grid = np.linspace(-6, 6, 301)
    x = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1).reshape(-1, 2)
    share = np.exp(log_density(x))
    share /= share.sum()
    mean = share @ x
    found = learnt(log_density, mend=True, known=Known(part, smooth))
    w = found.weighted
    assert found.off < 0.03
    assert_allclose(w.mean(w.x), mean, atol=0.02)
    assert_allclose(w.sd(w.x), np.sqrt(share @ (x - mean) ** 2), rtol=0.02)


def test_a_kink_is_refused():
    def log_density(x):
        return -4 * np.abs(x).sum(1)

    with pytest.raises(NotSmooth, match="A cubic through"):
        learnt(log_density)


@pytest.mark.parametrize(
    "log_density",
    [
        lambda x: x[:, 0] ** 3 - (x**2).sum(1) / 2,  # rises without end
        lambda x: np.where((x > 1).any(1), -(x**2).sum(1) / 2, -np.inf),  # hardly anywhere finite
    ],
    ids=["rising", "nowhere"],
)
def test_what_has_no_finite_middle_is_refused(log_density):
    """At the first look, before anything is drawn from it."""
    with pytest.raises(NotSmooth):
        learnt(log_density)
