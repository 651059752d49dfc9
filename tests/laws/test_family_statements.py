"""Families from A(η) alone, in fifty dimensions, and statements that cannot be used."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb import (
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    InvalidModel,
    MultivariateNormal,
    Normal,
    Wishart,
)
from lrvb.families import Family
from lrvb.numerics.double import double
from lrvb.numerics.packing import Slot

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
