"""Shelves a few sds out, of known shares of a variance: what draws lack of them is told."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import lrvb
from blackbox.densities import density
from lrvb.blackbox.kernel import Kernel, Values
from lrvb.blackbox.shelves import missed_on_slopes

SHARE, AT, WIDE, NEAR = 0.01, 1.8, 0.5, 0.3  # of a shelf of x₀, and the bulk's sd


def log_density(x):
    """x₀ a mixture of normals, x₁ given x₀ a normal that follows it and widens with it."""
    bulk = jnp.log1p(-SHARE) - 0.5 * (x[0] / NEAR) ** 2 - jnp.log(NEAR)
    shelf = jnp.log(SHARE) - 0.5 * ((x[0] - AT) / WIDE) ** 2 - jnp.log(WIDE)
    beside = -0.5 * ((x[1] - 0.5 * x[0]) * jnp.exp(-0.3 * x[0])) ** 2 - 0.3 * x[0]
    return jnp.logaddexp(bulk, shelf) + beside


def rate(v):
    return jnp.exp(v["x"][0])


def drawn(n, share):
    rng = np.random.default_rng(0)
    on = rng.random(n) < share
    x = np.where(on, AT + WIDE * rng.normal(size=n), NEAR * rng.normal(size=n))
    return np.stack([x, 0.5 * x + np.exp(0.3 * x) * rng.normal(size=n)], axis=1)


def missed(x):
    known = density(log_density, np.zeros(2)).with_functions({"rate": rate})
    values = Values(known)
    return dict(
        zip(values.names, missed_on_slopes(Kernel(known), values, x, values(x)), strict=True)
    )


def moments():
    """E and E of the square of exp(x₀)."""
    parts = (1 - SHARE, 0.0, NEAR), (SHARE, AT, WIDE)
    return [sum(w * np.exp(k * m + (k * s) ** 2 / 2) for w, m, s in parts) for k in (1, 2)]


def test_a_shelf_that_no_draw_has_met():
    """What its squares are in units of the draws' variance, to the few percent that the constant varies."""
    x = drawn(20_000, 0.0)
    g = np.exp(x[:, 0])
    shelf = SHARE * (
        np.exp(2 * AT + 2 * WIDE**2) - 2 * g.mean() * np.exp(AT + WIDE**2 / 2) + g.mean() ** 2
    )
    assert missed(x)["rate"] == pytest.approx(shelf / g.var(), rel=0.1)
    assert missed(x)["x[0]"] == pytest.approx(SHARE * (AT**2 + WIDE**2) / NEAR**2, rel=0.1)


def test_draws_that_have_it_lack_nothing():
    """But for chance: their own share of the squares is as it should be to 0.1."""
    assert max(missed(drawn(200_000, SHARE)).values()) < 0.1


def test_of_a_normal_nothing_is_followed():
    """Rays are looked at in a few points each."""
    kernel = Kernel(density(lambda x: -0.5 * x @ x, np.zeros(3)))
    x = np.random.default_rng(0).normal(size=(4000, 3))
    assert (missed_on_slopes(kernel, lambda x: x, x, x) == 0).all()
    assert kernel.count.gradients <= 3 * 3 * 6 + 6


@pytest.mark.parametrize("seed", [0, 1])
def test_an_sd_without_its_shelf_is_not_trusted(seed):
    """Chains that agree and linear response have both missed it; the sd is less than half."""
    model = lrvb.from_log_density(log_density, np.zeros(2))
    found = model.infer(seed=seed, functions={"rate": rate}).certificate.summary().loc["rate"]
    mean, square = moments()
    off = abs(np.log(found["sd"] / np.sqrt(square - mean**2)))
    assert found["verdict"] != "trust" or off < 0.15
    if found["verdict"] == "doubtful":
        assert "squares that draws are likely to miss" in found["why"]
