"""Few draws beside a normal whose averages are known: exact for a normal, honest errors elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from checked_models import BY_NAME, Squared, StudentT, regression
from numpy.testing import assert_allclose
from scipy.stats import norm

import lrvb
from lrvb.integrated.importance import Budget, Weighted, integrate
from lrvb.integrated.proposals import SplitT
from lrvb.posterior.certification import Certifier
from lrvb.posterior.control import control
from lrvb.posterior.costs import BRIEF
from lrvb.posterior.estimate import estimate_of
from lrvb.posterior.proposal import around
from lrvb.posterior.target import Target
from lrvb.studies.reference import simulate


class Rates(lrvb.Model):
    """Three gamma posteriors of rates, whose shape is 50 and whose rate is 25."""

    global_blocks = {"rate": lrvb.Gamma(batch=3)}

    def global_term(self, m):
        return jnp.sum(49 * m.rate.log_x - 25 * m.rate.x)


@dataclass(frozen=True)
class Independent:
    """A t drawn by chance, in place of a net of points."""

    t: SplitT

    def draw(self, n: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        e = rng.standard_normal((n, len(self.t.center)))
        return self.t.center + (e / np.sqrt(rng.chisquare(self.t.df, (n, 1)) / self.t.df)) @ (
            self.t.axes.T
        )

    def log_density(self, x: np.ndarray) -> np.ndarray:
        return self.t.log_density(x)


def drawn(posterior: lrvb.Posterior, n: int, seed: int = 0) -> tuple[Target, Weighted]:
    """Independent draws from linear response's t."""
    target = Target(posterior.response)
    start = Independent(around(target, posterior.response).t())
    return target, integrate(target, start, budget=Budget(n, rounds=0), seed=seed)


@pytest.fixture(scope="module")
def rates() -> lrvb.Posterior:
    return lrvb.infer(Rates(), None, certify=False)


@pytest.fixture(scope="module")
def counts() -> lrvb.Posterior:
    """Too many rows for 512 draws unasked."""
    data = simulate.normal_poisson(np.random.default_rng(5), n=2000, beta=1.0, sd=0.4)
    return lrvb.infer(lrvb.models.NormalPoisson(), {"x": data["x"], "y": data["y"]})


def test_it_is_exact_for_a_normal_whatever_was_drawn_from():
    """Weights of a t's draws vary; means and covariances of the normal they are of do not."""
    posterior = regression()
    target, weighted = drawn(posterior, 100)
    assert np.ptp(weighted.raw) > 0.1 / 100
    found = Certifier(posterior.response, posterior.estimate)._of_weights(target, weighted)
    assert_allclose(found.control.shares.sum(), 1, rtol=1e-12)
    at = posterior.estimate.slices["beta"].start + np.arange(2)
    assert_allclose(found.mean[at], target.center, rtol=1e-12)
    assert_allclose(found.cov[np.ix_(at, at)], target.root @ target.root.T, rtol=1e-9)
    assert (found.summary()["mcse"] < 1e-12 * found.summary()["sd"]).all()


def test_errors_are_those_of_replication(rates):
    """120 times 128 independent draws: means and sds of gammas are off by the errors that are stated."""
    certifier = Certifier(rates.response, rates.estimate)
    truth = {"rate": (2.0, np.sqrt(50) / 25)}
    scores, gains = [], []
    for seed in range(120):
        target, weighted = drawn(rates, 128, seed)
        found = certifier._of_weights(target, weighted)
        compared = found._compared
        at = [i for i, name in enumerate(found.names) if not name.startswith("log")]
        mean, sd = truth["rate"]
        scores.append(
            [
                (compared.mean[at] - mean) / compared.mean_error[at],
                (compared.sd[at] - sd) / compared.sd_error[at],
            ]
        )
        plain = replace(found, control=None)._compared
        gains.append(compared.mean_error[at] / plain.mean_error[at])
    rms = np.sqrt((np.array(scores) ** 2).mean(axis=(0, 2)))
    # 360 scores a kind: of normal ones the root mean square is 1 ± 0.04; those of sds have heavier tails
    assert_allclose(rms, 1, atol=0.2)
    assert np.median(gains) < 0.35


def test_many_draws_agree_with_and_without(rates):
    """Both are the same average in the limit."""
    target, weighted = drawn(rates, 8192)
    found = Certifier(rates.response, rates.estimate)._of_weights(target, weighted)
    with_it, without = found._compared, replace(found, control=None)._compared
    assert found.control is not None
    error = np.hypot(with_it.mean_error, without.mean_error)
    assert (np.abs(with_it.mean - without.mean) < 4 * error).all()
    error = np.hypot(with_it.sd_error, without.sd_error)
    assert (np.abs(with_it.sd - without.sd) < 4 * error).all()


def test_where_it_would_not_help_it_is_left():
    """A t with two degrees of freedom is no normal."""
    posterior = lrvb.infer(StudentT(), None, certify=False)
    target, weighted = drawn(posterior, 1024)
    assert control(target, weighted, target.statistics, np.arange(1)) is None


def test_many_rows_are_confirmed_by_few_draws(counts, tmp_path):
    """Unasked, by 128 draws, as 1024 plain ones would; a saved certificate says the same."""
    found = counts.certificate
    assert len(found.weights) == BRIEF
    assert found.control is not None
    assert (counts.summary()["verdict"] == "trust").sum() >= 2
    long = replace(counts.certify(4096), control=None)
    a, b = found.summary(), long.summary()
    assert (np.abs(a["mean"] - b["mean"]) < 4 * np.hypot(a["mcse"], b["mcse"])).all()
    assert (a["mcse"] < 2 * b["mcse"]).all()
    share = (1 - 0.94) / 2  # a quantile's error is √(p(1 − p)/n) over the density there, a normal's
    error = np.sqrt(share * (1 - share) / found.ess) / norm.pdf(norm.ppf(share)) * b["sd"]
    for end in ("lower", "upper"):
        assert (np.abs(a[end] - b[end]) < 4 * error).all()
    assert_allclose(counts.sd(method="certified"), counts.certificate.summary()["sd"], rtol=1e-9)
    row = found.of(lambda m: m.beta.x)
    assert_allclose(row["sd"], a.loc["beta", "sd"], rtol=1e-9)
    counts.checked = counts.checked._replace(certificate=found)
    again = lrvb.load(counts.save(tmp_path / "posterior.npz", local=False)).certificate
    pd.testing.assert_frame_equal(again.summary(), a)


@pytest.mark.parametrize("name", ["GammaPoisson", "NormalMixture", "NormalPoisson-tilted"])
def test_few_draws_trust_no_planted_error(name):
    """Σ̂ halved, in the answer, the proposal and the control; means half an sd away."""
    response = BY_NAME[name].response()
    halved = replace(response, Sigma=response.Sigma / 2)
    certificate = Certifier(halved, estimate_of(halved)).certify(BRIEF, brief=True, starts=0)
    true = Certifier(response, estimate_of(response)).certify(starts=0).summary()
    wrong = (true["ratio"] < 1.15).to_numpy()  # the half of it is an error
    assert wrong.any()
    assert (certificate.summary()["verdict"] != "trust")[wrong].all()
    estimate = estimate_of(response)
    moved = replace(estimate, m=estimate.m + 0.5 * np.sqrt(np.diag(estimate.Sigma)))
    found = Certifier(response, moved).certify(BRIEF, brief=True, starts=0).summary()
    off = (np.abs(true["shift"] - 0.5) > 0.2).to_numpy()
    assert (found["verdict"] != "trust")[off].all()


def test_few_draws_see_two_far_modes():
    """Each is nearly normal; the starts of some rows tell."""
    start = {"theta": {"loc": 2.0, "scale": 0.1}}
    posterior = lrvb.infer(Squared(), None, init=start, certify=False)
    found = posterior._certifier.certify(BRIEF, brief=True)
    assert {verdict for verdict, _ in found.verdicts} == {"do not trust"}
