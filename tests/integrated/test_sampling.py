"""Draws of what was summed out: their moments are those of the sums, their margins those of the density."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest, norm
from small import FAMILIES, dispersion, intercepts, log_normal, log_rows
from test_gaussian import KINDS, conditioned, design
from test_sums import BETA, crossed_model, levels_model, nested_model, slopes_model

from lrvb.integrated.levels import Levels
from lrvb.integrated.lines import Line

DRAWS = 4000
FAR = 5.0  # standard errors that a draw's moment may be off by


def moments_agree(inside, theta, draws=DRAWS):
    """Means, squares and products of levels' effects at one θ against those of the sums."""
    drawn = inside.sample(np.repeat(theta[None], draws, axis=0), np.random.default_rng(1))
    found = inside.evaluate(theta[None])
    for effect, z in zip(
        inside.unfold(theta[None], np.ones(1), found.first[0], found.second[0]),
        drawn.effects,
        strict=True,
    ):
        error = effect.sd / np.sqrt(draws) + 1e-12
        assert np.all(np.abs(z.mean(0) - effect.mean) < FAR * error)
        # a variance's error is σ²√((κ − 1)/n), and κ is below 5 here
        assert np.all(np.abs(z.std(0) - effect.sd) < FAR * effect.sd / np.sqrt(draws) + 1e-12)
        square = np.einsum("ngi,ngj->nij", z, z)
        spread = square.std(0) / np.sqrt(draws)
        assert np.all(np.abs(square.mean(0) - effect.square) < FAR * spread + 1e-12)
    return drawn


@pytest.mark.parametrize("nodes", [3, 7, 31])
def test_few_nodes_of_a_normal_are_enough_to_draw_it(nodes):
    """A spline through a quadratic is that quadratic, whatever its nodes."""
    reach = 5.0
    x = np.linspace(-reach, reach, max(nodes, 7))
    u = (np.arange(2000) + 0.5) / 2000
    place = Line(-(x**2)[None] / 2).draw(np.zeros(2000, dtype=int), u)
    z = x[0] + (x[1] - x[0]) * place
    # cells of 10/36 sds, straight in the logarithm: the variance is off by h²/8 of what is off there
    assert kstest(z, norm.cdf).statistic < 1e-3
    assert abs(z.std() - 1) < 0.01


@pytest.mark.parametrize("rise", [0.0, 1e-9, 9e-6, 1.1e-5, 0.3, 40.0])
def test_areas_of_straight_logarithms_are_exact(rise):
    """∫ e^(rise·s − rise) ds from the left, flat or steep: a difference of exponentials loses ε/1e-5."""
    line = Line(np.linspace(0.0, rise, 9)[None])
    s = np.linspace(0.0, 1.0, line.total.shape[1] + 1)[1:]
    exact = s if rise == 0 else np.exp(-rise) * np.expm1(rise * s) / rise
    np.testing.assert_allclose(line.total[0] / line.total.shape[1], exact, rtol=1e-10)


@pytest.mark.parametrize("family", FAMILIES)
def test_levels_have_the_density_of_the_sums(family):
    """With the few nodes that suffice for a sum; levels without rows have their prior."""
    model, rows, codes, theta = levels_model(family)
    model.choose_nodes(np.array([theta, theta + 0.1]))
    drawn = moments_agree(model, theta)
    assert np.array_equal(drawn.beta, np.repeat(BETA[None], DRAWS, axis=0))
    z, phi = np.linspace(-12, 12, 4001), np.exp(dispersion(family))
    at = np.flatnonzero(codes == codes[0])
    f = log_rows(rows, at, rows.predictor(BETA[None])[0][at][:, None] + z, phi) + log_normal(z, 1.7)
    below = np.cumsum(np.exp(f - f.max()))
    below /= below[-1]
    own = drawn.effects[0][:, codes[0], 0]
    assert kstest(own, lambda v: np.interp(v, z, below)).pvalue > 1e-4


def test_merged_levels_have_draws_of_their_own():
    """Levels with the same rows are one group of the sums and independent given θ."""
    model, *_, theta = levels_model("bernoulli")
    rows = replace(
        model.rows,
        columns=tuple(np.r_[c, c] for c in model.rows.columns),
        X=np.vstack([model.rows.X] * 2),
        offset=np.r_[model.rows.offset, model.rows.offset],
    )
    codes = np.r_[model.groups.of, model.groups.of + model.G]
    model = Levels(rows, intercepts(codes, 2 * model.G))
    assert len(np.unique(codes)) // 2 >= model.G
    twins = 0, len(np.unique(codes)) // 2
    z = model.sample(np.repeat(theta[None], DRAWS, axis=0), np.random.default_rng(0)).effects[0]
    assert abs(np.corrcoef(z[:, twins[0], 0], z[:, twins[1], 0])[0, 1]) < FAR / np.sqrt(DRAWS)


@pytest.mark.parametrize("correlated", [True, False])
@pytest.mark.parametrize("family", ["bernoulli", "poisson", "negbinomial"])
def test_pairs_of_effects(family, correlated):
    model, *_, theta = slopes_model(family, correlated)
    model.choose_nodes(np.array([theta, theta + 0.1]))
    moments_agree(model, theta)


@pytest.mark.parametrize(
    ("family", "inner", "draws"),
    [("bernoulli", 0.8, 1500), ("negbinomial", 0.8, 1500), ("poisson", 0.02, 300)],
)
def test_nested_levels(family, inner, draws):
    """On one grid for all, and on one around every outer node where the inner sd is small."""
    model, *_, theta = nested_model(family)
    theta[3] = np.log(inner)
    drawn = moments_agree(model, theta, draws)
    sums = model._sums(theta)
    t, o, _, _, K = sums.grid
    A = sums.P[model.above.of] / sums.F
    first, at = model.inner_level[0], model.above.of[0]
    both = float((sums.W[0] * t) @ (K @ (A[0] * o))) - float(sums.P[at] @ o**2)
    outer = drawn.effects[0][:, np.flatnonzero(model.above.group == at)[0], 0]
    product = outer * drawn.effects[1][:, first, 0]
    assert abs(product.mean() - both) < FAR * product.std() / np.sqrt(draws)


def test_crossed_levels():
    """The small factor's are those of θ."""
    model, theta = crossed_model()
    drawn = moments_agree(model, theta)
    assert np.array_equal(drawn.effects[0][0, :, 0], theta[2:5])


@pytest.mark.parametrize("kind", KINDS)
def test_gaussian_coefficients_have_their_joint_normal(kind):
    """All coefficients' means and covariances given one θ, by dense conditioning."""
    model, rows, terms, theta = design(kind)
    drawn = model.sample(np.repeat(theta[:1], DRAWS, axis=0), np.random.default_rng(2))
    w = np.concatenate([drawn.beta, *(z.reshape(DRAWS, -1) for z in drawn.effects)], axis=1)
    mean, V = conditioned(model, rows, terms, theta[0])
    sd = np.sqrt(np.diag(V))
    assert np.all(np.abs(w.mean(0) - mean) < FAR * sd / np.sqrt(DRAWS))
    off = np.abs(np.cov(w.T) - V) / np.outer(sd, sd)
    assert off.max() < FAR * np.sqrt(2 / DRAWS)
