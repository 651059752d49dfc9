"""Coordinates of a term's Σ: on (1, x − x̄), or on the columns as they are."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.integrated.terms import Term
from lrvb.prior import LKJ, HalfStudentT

THREE = (HalfStudentT(3.0, 2.5),) * 3


@pytest.fixture
def term() -> Term:
    """Three rows a level, 1 and the indicators of the second and third."""
    R = np.tile([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0]], (4, 1))
    return Term(np.repeat(np.arange(4), 3), R, 4, THREE, LKJ(2.0))


def coordinates(covariance: np.ndarray) -> np.ndarray:
    """θ of Σ (3, 3): log sds and Fisher's z of partial correlations."""
    sd = np.sqrt(np.diag(covariance))
    R = covariance / np.outer(sd, sd)
    partial = (R[2, 1] - R[1, 0] * R[2, 0]) / np.sqrt((1 - R[1, 0] ** 2) * (1 - R[2, 0] ** 2))
    return np.r_[np.log(sd), np.arctanh([R[1, 0], R[2, 0], partial])]


def density(term: Term, theta: np.ndarray) -> float:
    """log p(θ)."""
    return float(term.log_prior(theta[None], term.spread(theta[None]))[0])


def test_prior_is_one_on_either_columns(term: Term) -> None:
    """log p(θ) = log p(θ') + log |∂θ'/∂θ|, by differences."""
    own = replace(term, as_they_are=True)

    def across(theta: np.ndarray) -> np.ndarray:
        return coordinates(term.spread(theta[None]).covariance[0])

    theta = np.array([-0.4, 0.3, -0.6, 0.5, -0.2, 0.7])
    np.testing.assert_allclose(own.spread(across(theta)[None]).sd, term.spread(theta[None]).sd)
    moves = 1e-5 * np.eye(6)
    J = np.array([across(theta + m) - across(theta - m) for m in moves]) / 2e-5
    expected = density(own, across(theta)) + np.linalg.slogdet(J)[1]
    np.testing.assert_allclose(density(term, theta), expected, atol=1e-7)


def test_nil_sd_of_the_intercept_is_a_spike_on_centred_columns(term: Term) -> None:
    """There log p(θ) grows by (q − 2) log 10 with each tenth of the sd, here it falls by log 10."""
    own, M = replace(term, as_they_are=True), term.basis
    R = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.6], [0.2, 0.6, 1.0]])
    found = []
    for s in (1e-4, 1e-5):
        sds = np.array([s, 0.7, 0.4])
        covariance = R * np.outer(sds, sds)
        there = density(term, coordinates(M @ covariance @ M.T))
        found.append([there, density(own, coordinates(covariance))])
    np.testing.assert_allclose(np.diff(found, axis=0)[0], np.log(10) * np.array([1, -1]), rtol=1e-3)
    assert term.spiked
    assert not own.spiked
    assert not replace(term, centred=True).spiked


@pytest.fixture(scope="module")
def nil() -> lrvb.MixedModel:
    """Three counts a level whose first has no effect: on centred columns there is no mode."""
    rng = np.random.default_rng(0)
    g, row = np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30)
    z = rng.normal(size=(30, 1)) * [0.7, 0.5]
    a, c = (row == 1) * 1.0, (row == 2) * 1.0
    y = rng.poisson(np.exp(1.6 + a * (0.5 + z[g, 0]) + c * (0.5 + z[g, 1])))
    return lrvb.MixedModel(
        "y ~ a + c + (1 + a + c | g)",
        family="poisson",
        priors={f"sd[{name}|g]": THREE[0] for name in ("1", "a", "c")},
        verbose=False,
    ).fit(pd.DataFrame({"y": y, "a": a, "c": c, "g": g}))


def test_counts_with_a_nil_intercept_are_fitted(nil: lrvb.MixedModel) -> None:
    """Once refused; now on the columns as they are, by the block, which claims no more than it did."""
    assert nil._integrated.statement.terms[0].as_they_are
    sds = nil.posterior_.mean([f"sd[{name}|g]" for name in ("1", "c", "a")]).to_numpy()
    assert (np.diff(sds) > 0).all()
    assert nil.certificate_.method == "block"
    assert set(nil.summary()["verdict"]) == {"approximate"}


def test_counts_with_a_nil_intercept_are_read_as_they_were_fitted(
    nil: lrvb.MixedModel, tmp_path: Path
) -> None:
    """A file's answers are those of its 2000 draws: tables to rounding, means to five standard errors."""
    read = lrvb.load(nil.save(tmp_path / "model.npz"))
    pd.testing.assert_frame_equal(read.summary(), nil.summary())
    names = nil.certificate_.names
    assert read.certificate_.sentence(names) == nil.certificate_.sentence(names)
    rows = pd.DataFrame({"a": [0.0, 1.0, 0.0], "c": [0.0, 0.0, 1.0], "g": [0, 1, 2]})
    fitted, again = nil.predict(rows), read.predict(rows)
    error = fitted["sd"] / np.sqrt(2000)
    assert (np.abs(again["mean"] - fitted["mean"]) < 5 * error).all()
    counts = nil.simulate(2000, seed=1).to_numpy()[[0, 4, 8]]  # the same rows
    error = counts.std(1) / np.sqrt(counts.shape[1])
    assert (np.abs(counts.mean(1) - fitted["mean"]) < 5 * error).all()


def test_a_spread_of_nothing_has_a_density(term: Term) -> None:
    """However far out a draw is: Σ of no sd or of ρ = ±1 is singular, log |Σ| and log p(θ) are numbers."""
    two = replace(term, R=term.R[:, :2], sds=THREE[:2], correlations=LKJ(1.0), centred=True)
    theta = np.array(
        [[0.0, -1000.0, 0.3], [0.0, 0.0, 1000.0], [-900.0, 0.0, -800.0], [0.1, 0.2, 0.3]]
    )
    with np.errstate(invalid="raise", divide="raise"):
        spread = two.spread(theta)
        value = two.log_prior(theta, spread)
    assert np.isfinite(value).all()
    assert np.isfinite(spread.precision).all()
    rest = -2 * np.log(np.cosh(0.3))
    np.testing.assert_allclose(spread.logdet[[0, 3]], [-2000 + rest, 0.6 + rest], rtol=1e-12)
