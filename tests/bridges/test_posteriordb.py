"""Posteriors of posteriordb that were transcribed here, against quadrature and long runs of NUTS."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numpyro")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from posteriordb_more import WITHIN, errors
from posteriordb_regressions import FOLDER, MISSING, Regression

there = pytest.mark.skipif(not FOLDER.is_dir(), reason=MISSING)


def test_the_quadrature_of_a_regression():
    """With flat priors β is Student's and σ² inverse gamma: Var β = (XᵀX)⁻¹ rest/(n − p − 3)."""
    rng = np.random.default_rng(0)
    n, p = 30, 3
    X = np.column_stack([np.ones(n), 1000 + rng.normal(size=n), rng.normal(size=n)])
    y = X @ [1.0, 0.02, -3.0] + rng.normal(size=n)
    b, (rest,), *_ = np.linalg.lstsq(X, y, rcond=None)
    exact = Regression(X, y).exact()
    mean, sd = np.array([exact[f"beta[{i}]"] for i in range(p)]).T
    # Twelve sds of a grid in log σ leave out 1e-12; XᵀX has a condition number of 1e6.
    np.testing.assert_allclose(
        sd**2, np.diag(np.linalg.inv(X.T @ X)) * rest / (n - p - 3), rtol=1e-7
    )
    np.testing.assert_allclose((mean - b) / sd, 0, atol=1e-7)
    center, spread = exact["sigma"]
    np.testing.assert_allclose(center**2 + spread**2, rest / (n - p - 3), rtol=1e-9)


@there
@pytest.mark.parametrize(
    "name", ["earnings-logearn_interaction", "hudson_lynx_hare-lotka_volterra"]
)
def test_right_and_trusted(name):
    """A regression on unstandardised columns, and an ODE with a false mode 34 below in log evidence."""
    found = errors(name)
    assert found.error.max() <= WITHIN
    assert found.trusted.all()
