"""Joint draws of a posterior: shapes, values, seeds, and linear response's covariance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from posterior_cases import every_case, posterior_of, prior
from scipy.special import digamma

import lrvb
from lrvb.numerics.scores import inverse_trigamma

SHAPES = {"x": (), "b": (3,), "mu": (2, 2), "Lambda": (2, 1, 2, 2), "pi": (3,), "tau": ()}


def test_draws_have_the_shapes_of_their_blocks() -> None:
    draws = prior().draws(11, seed=1)
    assert {name: values.shape[1:] for name, values in draws.items()} == SHAPES
    assert all(len(values) == 11 for values in draws.values())


def test_draws_are_valid_values() -> None:
    draws = prior().draws(500, seed=2)
    assert (np.linalg.eigvalsh(draws["Lambda"]) > 0).all()
    np.testing.assert_array_equal(draws["Lambda"], np.swapaxes(draws["Lambda"], -1, -2))
    np.testing.assert_allclose(draws["pi"].sum(axis=-1), 1.0, rtol=1e-12)
    assert (draws["pi"] > 0).all()
    assert ((draws["b"] > 0) & (draws["b"] < 1)).all()
    assert (draws["tau"] > 0).all()


def test_draws_repeat_by_seed() -> None:
    first, again, other = (prior().draws(5, seed=s) for s in (3, 3, 4))
    for name, values in first.items():
        np.testing.assert_array_equal(values, again[name])
        assert not np.array_equal(values, other[name])
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(prior().draws(5, seed=rng)["x"], first["x"])
    assert not np.array_equal(prior().draws(5, seed=rng)["x"], first["x"])


@every_case
def test_draws_have_the_linear_response_covariance(name: str) -> None:
    """Means and covariances of statistics that are coordinates: x, log τ. Within 5 MC errors.

    E τ is the table's, so that E log τ lies ψ(a) − log a below log E τ, with ψ′(a) = Var(log τ).
    """
    posterior, n = posterior_of(name), 40_000
    draws = posterior.draws(n, seed=5)
    coordinates = {}
    for quantity in posterior.names:
        block = next(b for b in draws if b in quantity)
        index = quantity[quantity.find("[") + 1 : quantity.find("]")] if "[" in quantity else ""
        values = draws[block][(slice(None), *map(int, index.split(","))) if index else ()]
        if quantity.startswith("log("):
            coordinates[quantity] = np.log(values) if block != "pi" else None
        elif f"log({quantity})" not in posterior.names and block != "Lambda":
            coordinates[quantity] = values if not quantity.startswith("logdet") else None
    found = {q: v for q, v in coordinates.items() if v is not None}
    names, u = list(found), np.stack(list(found.values()))
    cov, sd = posterior.cov(names).to_numpy(), posterior.sd(names).to_numpy()
    assert len(names) >= 1
    means = posterior.mean(names)
    for quantity in names:
        if quantity.startswith("log(") and (inside := quantity[4:-1]) in posterior.names:
            a = inverse_trigamma(posterior.sd(quantity).item() ** 2)
            means[quantity] = np.log(posterior.mean(inside).item()) + digamma(a) - np.log(a)
    np.testing.assert_allclose((u.mean(1) - means) / sd, 0, atol=5 / np.sqrt(n))
    error = (np.cov(u) - cov) / np.outer(sd, sd)
    np.testing.assert_allclose(error, 0, atol=5 * np.sqrt(2 / n))


def test_draws_of_matrices_and_probabilities(mixture: lrvb.Posterior) -> None:
    """log |Λ| and log ratios of π are linear in both the statistics and the coordinates."""
    n = 40_000
    draws = mixture.draws(n, seed=6)
    expected = mixture.of(
        lambda m: [*m.Lambda.logdet_x, m.pi.log_x[0] - m.pi.log_x[1], m.mu.x[0, 0]]
    )
    u = np.stack(
        [
            *np.linalg.slogdet(draws["Lambda"])[1].T,
            np.log(draws["pi"][:, 0] / draws["pi"][:, 1]),
            draws["mu"][:, 0, 0],
        ]
    )
    sd = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        (np.cov(u) - expected) / np.outer(sd, sd), 0, atol=5 * np.sqrt(2 / n)
    )
    # E A_jj² is q's, so that E log|Λ| falls by half of what its variance gains, to second order
    names = ["logdet(Lambda[0])", "logdet(Lambda[1])"]
    gained = mixture.sd(names) ** 2 - mixture.sd(names, method="mfvb") ** 2
    means = mixture.mean(names) - gained / 2
    np.testing.assert_allclose((u[:2].mean(1) - means) / sd[:2], 0, atol=5 / np.sqrt(n))


@pytest.mark.parametrize("n", [0, -1, 2.5, np.nan, "a", None, True])
def test_numbers_of_draws(n: Any, counts: lrvb.Posterior) -> None:
    with pytest.raises(
        lrvb.InvalidModel, match=r"n=.* must be a whole number of draws, 1 or more\.$"
    ):
        counts.draws(n)


@pytest.mark.parametrize("seed", [-1, "a", 1.5])
def test_seeds(seed: Any, counts: lrvb.Posterior) -> None:
    with pytest.raises(lrvb.InvalidModel, match=r"seed=.* must be a whole number"):
        counts.draws(1, seed=seed)
