"""Modes of little evidence, far away: what an sd needs is not left out in silence."""

from __future__ import annotations

import numpy as np
import pytest

import lrvb
from lrvb.posterior.rivals import Rivals
from lrvb.posterior.verdicts import Compared, Draws, judge


class TwoRates(lrvb.Model):
    """Waiting times of two kinds; priors tell the kinds apart, though hardly."""

    global_blocks = {"rate": lrvb.Gamma(batch=(2,)), "share": lrvb.Beta()}
    local_blocks = {"kind": lrvb.Categorical(2)}

    def global_term(self, m):
        """log prior: rates Gamma(2, 2) and Gamma(4, 1), share Beta(2, 2)."""
        rates = m.rate.log_x[0] + 3 * m.rate.log_x[1] - 2 * m.rate.x[0] - m.rate.x[1]
        return rates + m.share.log_x + m.share.log1m_x

    def local_term(self, m, z, row):
        """log density of one row."""
        log_p = m.rate.log_x - m.rate.x * row.y
        return z.x[0] * (m.share.log_x + log_p[0]) + z.x[1] * (m.share.log1m_x + log_p[1])


@pytest.fixture(scope="module")
def data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "y": np.where(rng.random(400) < 0.5, rng.exponential(3, 400), rng.exponential(0.5, 400))
    }


@pytest.fixture(scope="module")
def exact(data) -> tuple[float, np.ndarray, np.ndarray]:
    """Evidence of exchanged kinds, and means and sds of both rates, on a grid."""
    y = data["y"]
    a, b, s = (np.linspace(*ends) for ends in ((-1.7, 1.5, 65), (-1.7, 1.5, 65), (-2.0, 2.0, 33)))
    u, v, t = (part.ravel() for part in np.meshgrid(a, b, s, indexing="ij"))
    log_s, log_1ms = -np.logaddexp(0, -t), -np.logaddexp(0, t)
    log_p = 2 * u + 4 * v - 2 * np.exp(u) - np.exp(v) + 2 * (log_s + log_1ms)
    for one in y:
        log_p += np.logaddexp(log_s + u - np.exp(u) * one, log_1ms + v - np.exp(v) * one)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    rates = np.exp([u, v])
    mean = rates @ p
    return float(p[u > v].sum()), mean, np.sqrt((rates - mean[:, None]) ** 2 @ p)


@pytest.mark.parametrize("ask", ["posterior.certify", "without draws"])
def test_a_mode_of_half_a_per_cent_is_not_left_out_of_an_sd(data, exact, ask):
    """Its evidence is too small to matter for a mean; at fifty sds the sd is three times as large."""
    share, mean, sd = exact
    posterior = lrvb.infer(TwoRates(), data, certify=False)
    if ask == "posterior.certify":
        certificate = posterior.certify()
        found, verdicts = (
            certificate.rivals,
            dict(zip(certificate.names, certificate.verdicts, strict=True)),
        )
        assert abs(np.log(found.shares.sum() / share)) < 0.1
        ratio = certificate.of(lambda m: m.rate.x[0] / m.rate.x[1])
        assert ratio["verdict"].iloc[0] == "do not trust"
    else:
        quick = posterior._certifier.quick().quick
        verdicts = dict(zip(posterior.names, quick, strict=True))
    assert 0.001 < share < 0.01
    assert abs(posterior.mean("rate[0]").iloc[0] - mean[0]) < 0.2 * sd[0]
    assert sd[0] > 3 * posterior.sd("rate[0]").iloc[0]
    assert verdicts["rate[0]"][0] == "do not trust"
    assert "so far away" in verdicts["rate[0]"][1]


def test_it_is_saved(data, tmp_path):
    """Words of a file are those of the fit."""
    posterior = lrvb.infer(TwoRates(), data, certify=True)
    posterior.save(tmp_path / "two.lrvb")
    found = lrvb.load(tmp_path / "two.lrvb")
    assert found.verdicts.equals(posterior.verdicts)
    np.testing.assert_array_equal(found.certificate.rivals.T, posterior.certificate.rivals.T)


def test_what_draws_came_to_is_not_left_out():
    """pΔ² of the variance, unless about as many draws as there should be are on its side."""
    rivals = Rivals(np.array([0.004, 0.002]), np.array([[10.0, 0.0], [-20.0, 3.0]]))
    mean, sd = np.zeros(2), np.array([1.0, 2.0])
    parts = rivals.left_out(rivals.T, mean, sd)
    np.testing.assert_allclose(parts, [[0.4, 0.0], [0.8, 0.0045]])
    values = np.random.default_rng(0).normal(size=(1000, 2)) * sd
    weights = np.full(1000, 0.001)
    unseen = rivals.unseen(rivals.T, mean, sd, values, weights)
    np.testing.assert_allclose(unseen[0], 1.2)
    values[:4, 0] = 10.0
    assert rivals.unseen(rivals.T, mean, sd, values, weights)[0] == pytest.approx(0.8)
    assert rivals.left_out(rivals.T, mean, np.array([1.0, 0.0]))[:, 1].tolist() == [0.0, 0.0]


def test_numbers_that_draws_cannot_tell_are_not_repaired():
    """With an error of an sd above 6 %, what differs much is off, but what is shown is no better known."""
    one = np.ones(1)
    found = Compared(one, one, 0 * one, one, 0.02 * one, 0.09 * one, 0 * one, 0 * one, one > 1)
    sure = found._replace(sd_error=0.03 * one)
    draws = Draws("importance", True, 0.1, 300.0)
    assert judge(draws, found)[0][0] == "do not trust"
    assert judge(draws, sure)[0][0] == "repaired"
    small = found._replace(lrvb_mean=0.95 * one)
    assert judge(draws, small)[0][0] == "doubtful"
