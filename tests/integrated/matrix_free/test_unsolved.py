"""Conjugate gradients that end before their goal say so, up to the verdict."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lrvb
from integrated.matrix_free.crossing import by_probes, model
from integrated.small import intercepts
from lrvb.integrated.block import precision
from lrvb.integrated.matrix_free import conjugate, direct
from lrvb.integrated.matrix_free.evidence import Evidence
from lrvb.integrated.matrix_free.integration import integrate_matrix_free
from lrvb.integrated.matrix_free.sums import factors_of, sum_rows


def test_what_is_left_is_the_largest_residual(monkeypatch):
    """‖Ax − b‖/‖b‖ of the worst column after so many iterations, and 0 where every one is small."""
    rng = np.random.default_rng(0)
    R = rng.normal(size=(60, 60))
    A, Z = R @ R.T + np.eye(60), rng.normal(size=(60, 4)) * [1, 10, 0, 1e-3]
    monkeypatch.setattr(conjugate, "MOST", 12)
    found = conjugate.solve(lambda x: A @ x, Z, 1e-7)
    share = (
        np.linalg.norm(A @ found.x - Z, axis=0)[[0, 1, 3]] / np.linalg.norm(Z, axis=0)[[0, 1, 3]]
    )
    assert found.unsolved == pytest.approx(share.max(), rel=1e-6)
    assert found.unsolved > 1e-3
    monkeypatch.setattr(conjugate, "MOST", 1000)
    assert conjugate.solve(lambda x: A @ x, Z, 1e-7).unsolved == 0.0


def chained(r, a, b, sd):
    """Factors that meet in rows (a, b), of sds so many times the residual's; h by factors and by probes."""
    one, y = np.ones((len(a), 1)), np.random.default_rng(1).normal(size=len(a))
    terms = [intercepts(a, r), intercepts(b, r)]
    factors = factors_of(terms)
    return Evidence(sum_rows(factors, one, y), terms, [f.terms for f in factors], 1), np.log(
        [sd, sd]
    )


def test_chains_have_factors_at_any_length(monkeypatch):
    """Each level meets the next: iterations grow with the sds, a factor never fills; at random it does."""
    monkeypatch.setattr(direct, "DENSE", 10)
    monkeypatch.setattr(direct, "SPARSE", 20)
    r = 2000
    along = np.arange(2 * r)
    found, zeta = chained(r, along // 2, (along + 1) // 2 % r, 100.0)
    assert found.direct
    h = found.at(zeta)
    assert h.unsolved == 0
    by_probes(found, 16)
    monkeypatch.setattr(conjugate, "MOST", 50)
    assert found.at(zeta).unsolved > 1e-2
    rng = np.random.default_rng(0)
    a, b = (np.r_[np.arange(r), rng.integers(r, size=2 * r)] for _ in range(2))
    assert not chained(r, a, b, 1.0)[0].direct


def test_a_fit_tells_that_residuals_are_left(monkeypatch):
    made = model("crossed", times=3, probes=16)
    integrate_matrix_free(made)
    assert made.unknown == ""
    monkeypatch.setattr(conjugate, "MOST", 3)
    made = model("crossed", times=3, probes=16)
    integrate_matrix_free(made)
    assert "ended after 3 iterations" in made.unknown


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_no_verdict_trusts_what_is_left(monkeypatch, family):
    """Gaussian rows and a block, whose levels would otherwise have a factor."""
    monkeypatch.setattr("lrvb.estimators.mixed.integral.statement.DENSE", 0.0)
    monkeypatch.setattr("lrvb.integrated.matrix_free.evidence.is_small", lambda sums: False)
    monkeypatch.setattr(precision, "PAIRS", 0.0)
    monkeypatch.setattr(conjugate, "MOST", 3)
    rng = np.random.default_rng(4)
    N, G, K = 900, 120, 60
    g, h = (np.r_[np.arange(n), rng.integers(n, size=N - n)] for n in (G, K))
    eta = 0.5 + 0.6 * rng.normal(size=G)[g] + 0.4 * rng.normal(size=K)[h]
    y = eta + rng.normal(size=N) if family == "gaussian" else rng.poisson(np.exp(eta))
    data = pd.DataFrame({"y": y, "g": g, "h": h})
    fit = lrvb.MixedModel("y ~ 1 + (1 | g) + (1 | h)", family=family).fit(data)
    assert "ended after 3 iterations" in fit.certificate_.sentence(fit.certificate_.names)
    assert set(fit.posterior_.verdicts["verdict"]).isdisjoint({"trust"})
