"""Other modes: far ones end all trust, near ones are drawn from, copies under other labels are none."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from checked_models import BY_NAME, Product, Squared, regression
from numpy.testing import assert_allclose

import lrvb
from lrvb.engine.modes import Modes
from lrvb.posterior.purse import Purse
from lrvb.posterior.sampling import Sampling
from lrvb.posterior.starts import look_around
from lrvb.posterior.target import Target


def test_two_far_modes_are_never_trusted():
    """Each mode is nearly normal, and only the other starts can tell."""
    certificate = lrvb.infer(Squared(), None, init={"theta": {"loc": 2.0, "scale": 0.1}}).certify()
    assert certificate.k_hat < 0.7
    assert 0.4 < certificate.others < 0.6
    assert certificate.summary().loc["theta", "verdict"] == "do not trust"


@pytest.mark.parametrize(("y", "sound"), [(0.6, True), (1.1, False)])
def test_optima_near_each_other_are_both_drawn_from(y, sound):
    """By symmetry both means are zero; draws from one optimum alone are not believed.

    Of y = 1.1 k-hat is about a half, by the seed on either side of it, so that nothing may be confirmed.
    """
    posterior = lrvb.infer(Product(), {"y": np.full(5, y)}, certify=False)
    found = posterior.certify(seed=1).summary()
    exact = _by_grid(5, y)
    assert set(found["verdict"]) <= ({"repaired"} if sound else {"repaired", "do not trust"})
    assert (np.abs(found["mean"]) < 4 * found["mcse"]).all()
    assert_allclose(found["sd"], exact, rtol=0.1)
    target = Target(posterior.response)
    sampling = Sampling(target, Purse(target, None, None), 512, 0)
    one = sampling.places[0].t().draw(512, 0)
    modes = look_around(sampling.target, posterior.response, 1, 12)
    assert not modes.others
    sampling.know(posterior.response, modes.near)
    weights = np.full(512, 1 / 512)
    here = one[(one - sampling.target.center) @ [1, 1] * np.sign(sampling.target.center[0]) > 0]
    assert 0.4 < sampling.missed(here, np.full(len(here), 1 / len(here))) < 0.6
    assert sampling.missed(np.concatenate([one[:256], -one[:256]]), weights) == 0


def _by_grid(n, y):
    """The sd of a and of b."""
    side = np.linspace(-12, 12, 801)
    a, b = np.meshgrid(side, side)
    p = np.exp(-(a**2 + b**2) / 8 - n * (y - a * b) ** 2 / 2)
    return np.sqrt((p * a**2).sum() / p.sum())


def test_too_few_other_starts_rule_nothing_out(monkeypatch):
    """Where hardly a fit from another start ends at an optimum, nobody has looked."""
    posterior = regression()
    monkeypatch.setattr("lrvb.posterior.certification.look_around", lambda *given: Modes(starts=2))
    found = posterior._certifier.certify()
    assert {verdict for verdict, _ in found.verdicts} == {"doubtful"}
    assert "other starts" in found.summary()["why"].iloc[0]


def test_copies_under_other_labels_are_not_other_modes():
    """A mixture's certificate is local to one labelling, and says so."""
    case = BY_NAME["NormalMixture"]
    certificate = lrvb.summarize(case.response()).certify(4096)
    assert certificate.relabelled
    assert certificate.others < 0.01
    assert "labelling" in certificate.summary().attrs["note"]
    assert set(certificate.summary()["verdict"]) <= {"trust", "repaired"}


class TwoNormals(lrvb.Model):
    """½ N(0, 1) + ½ N(gap, 1), its expectation over q by quadrature: no sd of zero, and no η there."""

    global_blocks = {"theta": lrvb.Normal()}

    def __init__(self, gap: float):
        self.gap = float(gap)

    def global_term(self, m):
        nodes, weights = np.polynomial.hermite_e.hermegauss(41)
        sd = jnp.sqrt(jnp.maximum(m.theta.xx - m.theta.x**2, 1e-30))
        x = m.theta.x + sd * nodes
        return weights @ jnp.logaddexp(-(x**2) / 2, -((x - self.gap) ** 2) / 2) / weights.sum()


class TwoNormalsFromLogP(lrvb.Model):
    """The same in the plane, of which only log p is stated; near zero it looks quadratic."""

    global_blocks = {"theta": lrvb.MultivariateNormal(2)}

    def __init__(self, gap: float):
        self.gap = float(gap)

    def log_prior(self, t):
        away = t.theta - self.gap * np.array([1.0, -1.0])
        return jnp.logaddexp(-(t.theta @ t.theta) / 2, -(away @ away) / 2)


@pytest.mark.parametrize("gap", [10, 100])
@pytest.mark.parametrize("model", [TwoNormals, TwoNormalsFromLogP])
def test_modes_are_seen_where_no_block_has_a_conditional_optimum(model, gap):
    """Far starts begin from a member of the families there, at a hundred sds too."""
    certificate = lrvb.infer(model(gap), None).certificate
    assert_allclose(certificate.others, 0.5, atol=0.02)
    assert {verdict for verdict, _ in certificate.verdicts} == {"do not trust"}


class HalfCauchy(lrvb.Model):
    """y ~ N(μ, s²) with a half-Cauchy prior of s, stated as log p: not linear in T of its precision."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}

    def log_prior(self, t):
        return -(t.mu**2) / 200 - jnp.log1p(1 / t.tau) - 1.5 * jnp.log(t.tau)

    def log_row(self, t, z, row):
        return (jnp.log(t.tau) - t.tau * (row.y - t.mu) ** 2) / 2


def test_log_p_that_is_stated_is_what_draws_are_weighed_by():
    """Its expectation has no value where all variances are zero, log p has; the grid is of μ and log τ."""
    y = np.random.default_rng(4).normal(1.0, 2.0, size=8)
    posterior = lrvb.infer(HalfCauchy(), {"y": y}, certify=True)
    mu, log_tau = np.meshgrid(np.linspace(-9, 11, 801), np.linspace(-6, 4, 801))
    square = ((y[:, None, None] - mu) ** 2).sum(0)
    log_p = -(mu**2) / 200 - np.logaddexp(0, -log_tau) - 0.5 * log_tau
    log_p += 4 * log_tau - np.exp(log_tau) * square / 2
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    found = posterior.certificate.summary()
    assert set(found["verdict"]) <= {"trust", "repaired"}
    for name, values in {"mu": mu, "tau": np.exp(log_tau), "log(tau)": log_tau}.items():
        mean = (p * values).sum()
        sd = np.sqrt((p * (values - mean) ** 2).sum())
        assert abs(found.loc[name, "mean"] - mean) < 4 * found.loc[name, "mcse"]
        assert_allclose(found.loc[name, "sd"], sd, rtol=0.03)
    rows = posterior.loo()  # of the same density
    assert np.isfinite(rows["elpd"]).all()
