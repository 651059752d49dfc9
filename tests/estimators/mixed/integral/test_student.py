"""Noise with heavy tails: log densities that are not concave, levels with two bumps, df estimated."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import lrvb
from lrvb.likelihoods import Student, likelihood_of

G = np.repeat(np.arange(6), 8)
PRIORS = {
    "Intercept": lrvb.prior.Normal(0, 2),
    "1|g": lrvb.prior.HalfNormal(1.5),
    "sigma": lrvb.prior.HalfNormal(5.0),
}


def response(seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 0.4 + 0.5 * rng.normal(size=6)[G] + 0.4 * rng.standard_t(3, size=48)


class OnGrid:
    """The posterior of intercept, sd, sigma and df, each level summed over η = intercept + effect."""

    def __init__(self, y: np.ndarray, df: np.ndarray, log_df: np.ndarray):
        beta, sd = np.linspace(-4, 4, 41), np.exp(np.linspace(-3.2, 2.2, 19))
        sigma, h = np.exp(np.linspace(-2.2, 1.0, 19)), 0.02
        self.B, self.S, D = np.meshgrid(beta, sd, np.arange(len(sigma) * len(df)), indexing="ij")
        K, F = (part.ravel() for part in np.meshgrid(sigma, df, indexing="ij"))
        self.K, self.F = K[D], F[D]
        log_p = stats.norm.logpdf(self.B, 0, 2) + stats.halfnorm.logpdf(self.S, 0, 1.5)
        log_p += np.log(self.S) + stats.halfnorm.logpdf(self.K, 0, 5) + np.log(self.K)
        log_p += np.tile(log_df, len(sigma))[D]
        eta = np.arange(-9, 9, h)[:, None]
        prior = np.exp(stats.norm.logpdf(eta, self.B[..., 0].ravel(), self.S[..., 0].ravel()))
        for k in range(6):
            rows = sum(stats.t.logpdf(value, F, eta, K) for value in y[k == G])
            top, shape = rows.max(0), log_p.shape
            weight = np.exp(rows - top)
            total = np.maximum(prior.T @ weight, 1e-300)
            log_p += (np.log(total * h) + top).reshape(shape)
            mean = (prior.T @ (eta * weight) / total).reshape(shape)
            square = (prior.T @ (eta**2 * weight) / total).reshape(shape)
            self.last = mean - self.B, square - 2 * self.B * mean + self.B**2  # of the last level
        self.p = np.exp(log_p - logsumexp(log_p))

    def moments(self, value: np.ndarray, square: np.ndarray | None = None) -> tuple[float, float]:
        """Mean and sd."""
        mean = float((self.p * value).sum())
        total = float((self.p * (value**2 if square is None else square)).sum())
        return mean, float(np.sqrt(total - mean**2))


def test_a_level_with_two_bumps():
    """Half of a level's rows at −3, half at 3: its mean and sd, and all else, as on a grid.

    2048 draws or more: means to a tenth of an sd, sds to a tenth.
    """
    y, rng = response(), np.random.default_rng(1)
    y[G == 5] = np.r_[-3 + 0.1 * rng.normal(size=4), 3 + 0.1 * rng.normal(size=4)]
    model = lrvb.MixedModel("y ~ 1 + (1|g)", Student(df=3), PRIORS).fit({"y": y, "g": G})
    exact = OnGrid(y, np.array([3.0]), np.zeros(1))
    for name, value in (("Intercept", exact.B), ("sd[1|g]", exact.S), ("sigma", exact.K)):
        mean, sd = exact.moments(value)
        assert abs(model.posterior_.mean(name)[name] - mean) < 0.1 * sd, name
        assert abs(model.posterior_.sd(name)[name] / sd - 1) < 0.1, name
    mean, sd = exact.moments(*exact.last)
    ours = model.ranef("1|g").iloc[5]
    assert sd > 1.5  # neither bump has it all
    assert abs(ours["mean"] - mean) < 0.1 * sd
    assert abs(ours["sd"] / sd - 1) < 0.1


def test_degrees_of_freedom_on_a_grid():
    """df with its default prior, Gamma(2, 0.1) above 1."""
    df = 1 + np.exp(np.linspace(-3.5, 4.6, 13))
    log_df = stats.gamma.logpdf(df, 2, 0, 10) - stats.gamma.logsf(1, 2, 0, 10) + np.log(df - 1)
    y = response()
    exact = OnGrid(y, df, log_df)
    model = lrvb.MixedModel("y ~ 1 + (1|g)", "student", PRIORS).fit({"y": y, "g": G})
    for name, value in (("sd[1|g]", exact.S), ("sigma", exact.K), ("df", exact.F)):
        mean, sd = exact.moments(value)
        assert abs(model.posterior_.mean(name)[name] - mean) < 0.1 * sd, name
        assert abs(model.posterior_.sd(name)[name] / sd - 1) < 0.1, name


def test_units_change_nothing():
    """A response in other units, with another origin: the same posterior in those units."""
    y, unit = response(), 1e6
    first, second = (
        lrvb.MixedModel("y ~ 1 + (1|g)", "student").fit({"y": values, "g": G})
        for values in (y, unit * (y + 30))
    )
    names = ["sd[1|g]", "sigma"]
    sd = first.posterior_.sd(names)
    gap = second.posterior_.mean(names) / unit - first.posterior_.mean(names)
    assert (np.abs(gap) < 0.1 * sd).all()
    df = first.posterior_.mean("df")["df"], second.posterior_.mean("df")["df"]
    assert abs(df[0] - df[1]) < 0.1 * first.posterior_.sd("df")["df"]
    table = second.predict({"g": np.arange(6)}, interval=0.9, kind="response")
    assert (table["lower"] > unit * 20).all()
    assert (table["upper"] < unit * 40).all()


def test_said_in_words_and_refused():
    assert likelihood_of("student(df=4)").name == Student(df=4).name == "student(df=4)"
    assert repr(Student(df=4)) == "Student(df=4)"
    for wrong in (0, -1, np.inf, "4"):
        with pytest.raises(lrvb.InvalidModel, match=f"df={wrong!r} must be a positive number"):
            Student(df=wrong)
    model = lrvb.MixedModel("y ~ 1 + (1|g)", "student", {"df": lrvb.prior.Normal(4, 1)})
    with pytest.raises(lrvb.InvalidModel, match="degrees of freedom, which take"):
        model.fit({"y": response(), "g": G})
