"""Tails of marginals far out, whose index is known: where no ray of a coordinate shows it."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import lrvb
from blackbox.densities import density, gaussian
from lrvb.blackbox.far_ridges import laplace, rays_of, ridge_tails
from lrvb.blackbox.kernel import Kernel
from lrvb.blackbox.outposts import raised

D, N = 4, 4000
TURN = 0.5 * np.array([[1.0, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]])


def scales(df, rng):
    return df / rng.chisquare(df, N)


def turned(df):
    """One t among normals, turned so that it is no coordinate's."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, D))
    z[:, 0] *= np.sqrt(scales(df, rng))

    def log_density(x):
        z = TURN.T @ x
        return -0.5 * (df + 1) * jnp.log1p(z[0] ** 2 / df) - 0.5 * (z[1:] ** 2).sum()

    return log_density, z @ TURN.T


def together(df):
    """A t of several dimensions: on a ray p falls like x^−(df + D), in a marginal like x^−(df + 1)."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, D)) * np.sqrt(scales(df, rng))[:, None]
    return lambda x: -0.5 * (df + D) * jnp.log1p((x**2).sum() / df), x


def mixed(df):
    """The same with the logarithm of its variance for a coordinate, the last."""
    rng = np.random.default_rng(0)
    w = scales(df, rng)
    x = np.column_stack([rng.normal(size=(N, D)) * np.sqrt(w)[:, None], np.log(w)])

    def log_density(x):
        square, s = (x[:-1] ** 2).sum(), x[-1]
        return -0.5 * square * jnp.exp(-s) - 0.5 * (D + df) * s - 0.5 * df * jnp.exp(-s)

    return log_density, x


def tails(log_density, x):
    """Of draws and their mirror images, so that the center is that of the t."""
    mirrored = x.copy()
    mirrored[:, :D] *= -1
    x = np.concatenate([x, mirrored])
    kernel = Kernel(density(log_density, np.zeros(x.shape[1])))
    return ridge_tails(kernel, lambda x: x, x, x.std(axis=0))


@pytest.mark.parametrize("df", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("case", [turned, together, mixed])
def test_the_index_is_that_of_the_marginal(case, df):
    """1/df, to the 3 % that 20 sds are not yet infinity; of a log variance, whose tail is light, none."""
    log_density, x = case(df)
    index = tails(log_density, x).indices
    assert index[:D] == pytest.approx(1 / df, rel=0.03)
    assert not index[D:].any()


def test_a_normal_has_no_tail_and_costs_little():
    there, mean, S = gaussian(5)
    kernel = Kernel(there)
    x = np.random.default_rng(0).multivariate_normal(mean, S, N)
    found = ridge_tails(kernel, lambda x: x, x, x.std(axis=0))
    assert not found.indices.any()
    assert not found.beyond.any()
    assert kernel.count.gradients < 400 * 5


def test_a_wall_is_silent():
    """log p falls like −exp(40x): at x = 12 the square of its slope has no floating point number."""
    kernel = Kernel(density(lambda x: -jnp.exp(40 * x[0]) - 0.5 * x[1] ** 2, np.zeros(2)))
    u, a = np.array([[12.0, 5.0]]), np.array([[0.0, 1.0]])
    with np.errstate(over="raise", invalid="raise"):
        up = raised(kernel, np.zeros(2), np.eye(2), u, a, np.full(5, 1.0))
    assert up[0] == pytest.approx([7.0, 5.0])


def test_laplace_of_a_normal_is_its_marginal():
    """In a normal of any correlations log p(x_d) is −½t² at t sds from the mean."""
    there, mean, S = gaussian(5)
    x = np.random.default_rng(0).multivariate_normal(mean, S, N)
    ridges, starts = rays_of(Kernel(there), x)
    _, log_p = laplace(ridges, np.stack([0 * starts[1], starts[1]]))
    sd = np.sqrt(np.diag(S))
    first = np.tile((x.mean(axis=0) - mean) / sd, 2)
    last = first + np.repeat([20.0, -20.0], 5) * np.tile(x.std(axis=0, ddof=1) / sd, 2)
    # second derivatives are differences: 1e-4 of an sd, of values of a few hundred
    assert log_p[1] - log_p[0] == pytest.approx(0.5 * (first**2 - last**2), rel=1e-4)


def test_what_is_beyond_the_draws_is_known_by_the_density():
    """Of a t with three degrees of freedom whose draws end at eight: ∫x²p beyond, over the variance seen."""
    df = 3.0
    log_density, x = together(df)
    x = x[np.abs(x).max(axis=1) < 8]
    found = tails(log_density, x).unseen(x)
    grid = np.geomspace(np.abs(x - x.mean(axis=0)).max(), 1e5, 4000)
    exact = 2 * np.trapezoid(grid**2 * stats.t.pdf(grid, df), grid) / x.var(axis=0)
    # the density at the center is taken for a normal's with the same quartiles
    assert found == pytest.approx(exact, rel=0.5)


def test_no_sd_where_a_scale_is_a_coordinate():
    """A t with two degrees of freedom of ten dimensions and its variance: nothing is trusted but this."""

    def log_density(v):
        square, s = (v["x"] ** 2).sum(), v["s"]
        return -0.5 * square * jnp.exp(-s) - 6 * s - jnp.exp(-s)

    found = lrvb.from_log_density(log_density, {"x": np.zeros(10), "s": 0.0}).infer().certificate
    table = found.summary().drop(index="s")
    assert set(table["verdict"]) == {"do not trust"}
    assert table["sd"].isna().all()
    assert (found.tail_index.drop("s") > 0.45).all()
