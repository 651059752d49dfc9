"""Functions of rows agree with what is known of their variables, and predictive draws with both."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb


class Means(lrvb.Model):
    """y_n ~ N(z_n, 1), z_n ~ N(μ, 1/τ), stated by log p and by how a row is drawn."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}
    local_blocks = {"z": lrvb.Normal()}

    def log_prior(self, t):
        return -(t.mu**2) / 20 + 9 * jnp.log(t.tau) - 10 * t.tau

    def log_row(self, t, z, row):
        return (jnp.log(t.tau) - t.tau * (z.z - t.mu) ** 2 - (row.y - z.z) ** 2) / 2

    def sample_row(self, t, z, row, rng):
        return rng.normal(z.z, 1.0)


@pytest.fixture(scope="module")
def posterior():
    rng = np.random.default_rng(0)
    y = 2 + rng.normal(size=25) + rng.normal(size=25)
    return lrvb.infer(Means(), {"y": y}, certify=False)


def test_named_functions_are_a_table(posterior):
    """Names, means, sds and intervals; the sds are those of `of` without names."""
    table = posterior.of({"mu": lambda m: m.mu.x, "double": lambda m: 2 * m.mu.x}, prob=0.9)
    assert list(table.columns) == ["mean", "sd", "mfvb_sd", "lower", "upper"]
    assert_allclose(table["mean"], posterior.mean(["mu"])["mu"] * np.array([1, 2]), rtol=1e-12)
    assert_allclose(table["sd"], posterior.sd(["mu"])["mu"] * np.array([1, 2]), rtol=1e-12)
    assert_allclose(table["lower"] + table["upper"], 2 * table["mean"], rtol=1e-12)
    with pytest.raises(lrvb.InvalidModel, match="'both' gives an array"):
        posterior.of({"both": lambda m: jnp.stack([m.mu.x, m.tau.x])})
    with pytest.raises(lrvb.InvalidModel, match="functions alone"):
        posterior.of({"mu": lambda m: m.mu.x}, lambda m: m.tau.x)


def test_functions_of_rows_have_the_covariances_of_their_variables(posterior):
    """z alone is `local`, μ alone is global, and Var(z − μ) = Var z + Var μ − 2 Cov(z, μ)."""
    known = posterior.local("z", rows=[3, 7])
    alone = posterior.local(lambda m, z, row: z.x, rows=[3, 7])
    assert_allclose(alone["sd"], known["sd"], rtol=1e-10)
    assert_allclose(alone["mfvb_sd"], known["mfvb_sd"], rtol=1e-10)
    variance = posterior.sd(["mu"])["mu"] ** 2
    assert_allclose(posterior.local(lambda m, z, row: m.mu.x)["sd"] ** 2, variance, rtol=1e-10)
    apart = posterior.local(lambda m, z, row: z.x - m.mu.x + row.y, rows=[3, 7])
    cross = known["cov"].sel(quantity="mu").values
    assert_allclose(apart["sd"] ** 2, known["sd"] ** 2 + variance - 2 * cross, rtol=1e-9)
    assert list(apart["row"].values) == [3, 7]
    with pytest.raises(lrvb.InvalidModel, match="cannot be differentiated"):
        posterior.local(lambda m, z, row: z.nothing)


def test_predictive_draws_have_the_mean_and_variance_of_a_new_measurement(posterior):
    """E y = E z and Var y = 1 + Var z, within five standard errors."""
    n = 400
    drawn = posterior.predictive(n, seed=1, rows=[0, 5, 9])
    assert drawn.shape == (n, 3)
    z = posterior.local("z", rows=[0, 5, 9])
    sd = np.sqrt(1 + z["sd"].values ** 2)
    assert np.all(np.abs(drawn.mean(axis=0) - z["mean"].values) < 5 * sd / np.sqrt(n))
    assert np.all(np.abs(drawn.std(axis=0) / sd - 1) < 5 / np.sqrt(2 * n))


def test_a_model_that_does_not_say_how_rows_are_drawn_is_told(posterior):
    """One sentence with the signature."""

    class Silent(Means):
        sample_row = None

    other = lrvb.infer(Silent(), {"y": np.arange(5.0)}, certify=False)
    with pytest.raises(
        lrvb.InvalidModel, match=r"Silent has no sample_row\(self, t, z, row, rng\)"
    ):
        other.predictive(2)
