"""A check names the block and the moment that log p contradicts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import lrvb


class Means(lrvb.Model):
    """z_n ~ N(μ, 1/τ) seen with noise: terms by hand beside log p, with one mistake or none."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}
    local_blocks = {"z": lrvb.Normal()}

    def __init__(self, mistake: str = ""):
        self.mistake = mistake

    def log_prior(self, t):
        return -(t.mu**2) / 20 + jnp.log(t.tau) - t.tau

    def log_row(self, t, z, row):
        return (jnp.log(t.tau) - t.tau * (z.z - t.mu) ** 2 - (row.y - z.z) ** 2) / 2

    def global_term(self, m):
        return -m.mu.xx / 20 + m.tau.log_x - m.tau.x

    def local_term(self, m, z, row):
        xx = z.x**2 if self.mistake == "square" else z.xx
        spread = xx - 2 * z.x * m.mu.x + m.mu.xx
        log_tau = 0.0 if self.mistake == "normaliser" else m.tau.log_x
        term = (log_tau - m.tau.x * spread - (row.y**2 - 2 * row.y * z.x + xx)) / 2
        if self.mistake == "entropy":
            term = term + jnp.log(z.xx - z.x**2) / 2
        return term


DATA = {"y": np.random.default_rng(0).normal(size=20)}


def test_terms_that_agree_are_ok():
    """No error, one page, and it says what it compared."""
    found = lrvb.check(Means(), DATA)
    assert found.ok
    assert bool(found)
    page = repr(found)
    assert "local_term: agrees with log_row in every moment" in page
    assert len(page.splitlines()) < 30


@pytest.mark.parametrize(
    ("mistake", "block", "words"),
    [
        ("square", "z", "z.z.x**2 seems to stand for z.z.xx"),
        ("normaliser", "tau", "a normaliser, such as ½ log τ, seems to be missing or doubled"),
        ("entropy", "z", "the entropy of q(z) is in the term"),
    ],
)
def test_a_mistake_is_named(mistake, block, words):
    """The moment, its derivative by hand and from log p, and what it usually means."""
    found = lrvb.check(Means(mistake), DATA)
    assert not found.ok
    (error,) = (f for f in found.findings if f.level == "error" and f.about.endswith(f"'{block}'"))
    assert words in error.text


def test_without_log_p_a_square_of_a_mean_is_suspected():
    """m.mu.x**2 is quadratic in a mean, which the mean of a square is not."""

    class Alone(lrvb.Model):
        global_blocks = {"mu": lrvb.Normal()}

        def global_term(self, m):
            return -(m.mu.x**2) / 2 - 0.1 * m.mu.xx

    found = lrvb.check(Alone())
    (warning,) = (f for f in found.findings if f.level == "warning")
    assert "m.mu.x**2 seems to stand for m.mu.xx" in warning.text


def test_without_log_p_a_term_is_the_mean_of_its_values_at_points():
    """Of μ, and of τ that multiplies it; E exp z of a normal z is right, though its formula has z.x**2."""

    class Counts(lrvb.Model):
        global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}
        local_blocks = {"z": lrvb.Normal()}

        def local_term(self, m, z, row):
            spread = z.xx - 2 * z.x * m.mu.x + m.mu.x**2
            rate = jnp.exp(z.x + (z.xx - z.x**2) / 2)
            return (m.tau.log_x - m.tau.x * spread) / 2 + row.y * z.x - rate

    found = lrvb.check(Counts(), {"y": np.arange(5.0)})
    told = {f.about: f.text for f in found.findings if f.level == "warning" and "_term" in f.about}
    assert list(told) == ["local_term, block 'mu'", "local_term, block 'tau'"]
    assert "m.mu.x**2 seems to stand for m.mu.xx" in told["local_term, block 'mu'"]


def test_what_cannot_be_stated_is_an_error_of_the_check():
    """A misspelt moment, a wrong sign and an offset are found without a fit."""

    class Signs(lrvb.Model):
        global_blocks = {"mu": lrvb.Normal()}

        def local_term(self, m, z, row):
            return (m.mu.xx - 2 * row.y * m.mu.x) / 2

    found = lrvb.check(Signs(), {"y": 1e6 + DATA["y"]})
    assert any("leaves the domain of Normal()" in f.text for f in found.findings)
    assert any("subtract it" in f.text for f in found.findings)

    class Misspelt(Signs):
        def local_term(self, m, z, row):
            return m.my.x

    assert not lrvb.check(Misspelt(), DATA).ok
