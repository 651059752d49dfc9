"""The evidence by joint draws: against exact sums, and its own error."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from small_blocks import crossed, regression

import lrvb
from lrvb.integrated.block.fitting import cold_start, fit
from lrvb.integrated.block.integration import integrate_block
from lrvb.integrated.block.joint import DRAWS, Joint, joint
from lrvb.integrated.block.layout import PARTS, Layout
from lrvb.integrated.block.level_sums import gap
from lrvb.integrated.block.model import Block
from lrvb.integrated.crossed import Crossed
from lrvb.integrated.importance import Budget
from lrvb.integrated.integration import integrate_path

HARD = {"N": 300, "G": 80, "K": 8, "slopes": False, "sds": (1.2, 0.8)}


def brute_force(rows, terms, u):
    """log p(y, u) of one fixed effect, and intercepts of some levels and of two, by nodes of the priors."""
    (a, b), sds = terms, np.exp(u)
    x, w = np.polynomial.hermite_e.hermegauss(30)
    log_w = np.log(w / w.sum())
    total = []
    for beta, of_beta in zip(*np.polynomial.hermite_e.hermegauss(60), strict=True):
        for first, w1 in zip(x, log_w, strict=True):
            h = sds[1] * np.stack([np.full(30, first), x])[b.codes]  # (N, nodes of the second)
            eta = rows.X[:, [0]] * (rows.mean[0] + 3.0 * beta) + h
            by = np.empty((30, a.levels, 30))
            for k, z in enumerate(sds[0] * x):
                table = rows.likelihood.log_p([c[:, None] for c in rows.columns], eta + z, ())
                by[k] = [table[a.codes == g].sum(0) for g in range(a.levels)]
            levels = logsumexp(by + log_w[:, None, None], axis=0).sum(0)
            total.append(logsumexp(levels + log_w) + w1 + np.log(of_beta) - np.log(2 * np.pi) / 2)
    return logsumexp(total)


@pytest.mark.parametrize("family", ["bernoulli", "poisson"])
@pytest.mark.parametrize("summed", [0, 1])
def test_the_evidence_is_that_of_brute_force(family, summed):
    """To four of its own errors, whichever factor is summed; nearer than with levels' own sums alone."""
    rows, terms = crossed(family, N=14, G=4, K=2, slopes=False)
    rows = regression(family, rows.columns[0], rows.X[:, :1])
    layout, u = Layout(rows, terms), np.log([1.2, 0.8])
    fitted = fit(layout, u, cold_start(layout))
    exact = brute_force(rows, terms, u) + layout.constant + layout.log_prior(u[None])[0]
    found = [Joint(layout, summed, seed)(fitted) for seed in range(8)]
    errors = np.array([one.value - exact for one in found])
    told = np.array([one.noise.std() for one in found]) / np.sqrt(PARTS)
    assert (np.abs(errors) < 4 * told + 1e-3).all()
    assert abs(errors.mean()) < 4 * told.mean() / np.sqrt(8) + 1e-3
    assert abs(errors.mean()) < abs(fitted.bound + gap(layout, fitted).total - exact)
    assert min(one.efficiency for one in found) > 0.5


def test_parts_tell_the_error():
    """The sd over seeds is that of the mean of the parts, which sum to nothing."""
    rows, terms = crossed("bernoulli", **HARD)
    layout = Layout(rows, terms)
    fitted = fit(layout, np.log([1.6, 1.1]), cold_start(layout))
    found = [Joint(layout, 1, seed)(fitted) for seed in range(40)]
    told = np.sqrt(np.mean([one.noise.var(ddof=1) for one in found]) / PARTS)
    assert_allclose(np.std([one.value for one in found]), told, rtol=0.4)
    assert_allclose([one.noise.mean() for one in found], 0, atol=1e-12)


def test_slopes_are_summed_or_drawn_alike():
    """Two effects a level on nodes and one drawn, or the reverse: the same evidence."""
    rows, terms = crossed("poisson", N=120, G=10, K=8)
    layout = Layout(rows, terms)
    fitted = fit(layout, np.array([-0.5, -0.9, 0.3, -0.8]), cold_start(layout))
    a, b = (Joint(layout, f)(fitted) for f in (0, 1))
    assert abs(a.value - b.value) < 4 * np.hypot(a.noise.std(), b.noise.std()) / np.sqrt(PARTS)


def test_where_levels_are_many_there_are_none():
    assert joint(Layout(*crossed("poisson", N=300, G=80, K=30))) is not None
    assert joint(Layout(*crossed("poisson", N=3000, G=80, K=30))) is None


def test_means_are_those_of_exact_sums(monkeypatch):
    """Sds, of which the block alone is off by more than it may: means to 0.05 sd, with an error as small."""
    monkeypatch.setattr("lrvb.integrated.block.integration.MEAN_ERROR", 0.0)
    rows, terms = crossed("bernoulli", **HARD)
    block = Block(Layout(rows, terms))
    found = integrate_block(block)
    exact = integrate_path(Crossed(rows, terms[0], terms[1]), Budget(final=2048))
    assert block.joint
    assert found.doubt is None
    assert found.noise is not None
    ours, theirs = np.exp(found.theta[:, 2:]), np.exp(exact.theta[:, [-1, -2]])
    sd = exact.weighted.sd(theirs)
    away = found.weighted.mean(ours) - exact.weighted.mean(theirs)
    assert (np.abs(away) < 0.05 * sd).all()
    assert_allclose(found.weighted.sd(ours), sd, rtol=0.06)


def test_the_certificate_says_so_and_a_file_keeps_it(monkeypatch, tmp_path):
    """Counts with slopes and an effect of every row; the sentence has the draws instead of levels' sums."""
    monkeypatch.setattr("lrvb.integrated.block.integration.MEAN_ERROR", 0.0)
    rng = np.random.default_rng(0)
    s, v = np.repeat(np.arange(20), 5), np.tile(np.linspace(-1, 1, 5), 20)
    eta = 1 + 0.6 * rng.normal(size=20)[s] + 0.5 * rng.normal(size=20)[s] * v
    y = rng.poisson(np.exp(eta + 0.4 * rng.normal(size=100)))
    data = pd.DataFrame({"y": y, "s": s, "v": v, "row": np.arange(100)})
    fit = lrvb.MixedModel("y ~ v + (v | s) + (1 | row)", family="poisson").fit(data)
    certificate = fit.certificate_
    assert certificate.joint == DRAWS
    assert f"from {DRAWS} weighted draws" in certificate.sentence(certificate.names)
    fit.save(tmp_path / "fit.lrvb")
    assert lrvb.load(tmp_path / "fit.lrvb").certificate_.joint == DRAWS
