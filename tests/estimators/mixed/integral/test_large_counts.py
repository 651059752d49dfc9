"""Effects of rows in large counts, where a count's logarithm is nearly normal: the referee is least squares.

exp(yη − e^η) is in η a density with mean digamma(y) and variance trigamma(y), and nearly normal; what a
normal one is off by falls with the count.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import digamma, polygamma

import lrvb

SPAN = np.linspace(-2, 2, 61)  # of a log sd around the simulated one
TAUS = np.exp(np.linspace(np.log(0.08), np.log(1.2), 61))
GROUPS, EACH, TAU = 20, 15, 0.3


def counts(level: float, sd: float, groups: int) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = GROUPS * EACH
    g, x = np.arange(n) % GROUPS, rng.normal(size=n)
    eta = np.log(level) + 0.2 * x + sd * rng.normal(size=n)
    if groups:
        eta += TAU * rng.normal(size=GROUPS)[g]
    return pd.DataFrame({"y": rng.poisson(np.exp(eta)), "x": x, "g": g, "obs": np.arange(n)})


def least_squares(data: pd.DataFrame, sd: float, grouped: bool) -> tuple[list[float], list[float]]:
    """Means and sds of β, the groups' sd and the rows' sd, on a grid of both with their default priors."""
    y, g = data["y"].to_numpy(dtype=float), data["g"].to_numpy()
    X = np.column_stack([np.ones(len(y)), data["x"]])
    t, v = digamma(y), polygamma(1, y)
    sds = sd * np.exp(SPAN)
    taus = TAUS if grouped else np.zeros(1)
    log_p = np.empty((len(sds), len(taus)))
    mean, variance = np.empty((*log_p.shape, 2)), np.empty((*log_p.shape, 2))
    columns = np.column_stack([X, t])
    for i, s in enumerate(sds):
        w = 1 / (v + s**2)
        S = columns.T @ (columns * w[:, None])
        total = np.bincount(g, w)
        sums = np.stack([np.bincount(g, w * c) for c in columns.T], axis=1)
        for j, tau in enumerate(taus):
            share = tau**2 / (1 + tau**2 * total)
            A = S - (sums.T * share) @ sums
            m = np.linalg.solve(A[:2, :2], A[:2, 2])
            log_det = np.log1p(tau**2 * total).sum() + np.linalg.slogdet(A[:2, :2])[1]
            own = np.log(s) + (np.log(tau) if grouped else 0.0)
            prior = sum(-2 * np.log1p((a / 2.5) ** 2 / 3) for a in (s, tau))
            rest = A[2, 2] - A[2, :2] @ m
            log_p[i, j] = (np.log(w).sum() - log_det - rest) / 2 + own + prior
            mean[i, j], variance[i, j] = m, np.diag(np.linalg.inv(A[:2, :2]))
    weights = np.exp(log_p - log_p.max())
    weights /= weights.sum()
    found = [(mean[..., k], variance[..., k]) for k in (0, 1)]
    found += [(np.broadcast_to(taus, log_p.shape), 0.0)] if grouped else []
    found += [(np.broadcast_to(sds[:, None], log_p.shape), 0.0)]
    means = [float((weights * m).sum()) for m, _ in found]
    squares = [float((weights * (m**2 + w)).sum()) for m, w in found]
    return means, [float(np.sqrt(b - a**2)) for a, b in zip(means, squares, strict=True)]


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize(("level", "sd"), [(300, 0.1), (1000, 0.05), (1000, 0.2)])
def test_small_effects_of_rows_in_large_counts(level, sd, grouped):
    """Trusted, and within 0.1 sd of least squares, which are off by a few hundredths themselves."""
    data = counts(level, sd, GROUPS if grouped else 0)
    formula = "y ~ x + " + ("(1|g) + " if grouped else "") + "(1|obs)"
    found = lrvb.MixedModel(formula, "poisson", verbose=False).fit(data).summary()
    mean, sds = least_squares(data, sd, grouped)
    assert (found["verdict"] == "trust").all()
    assert (np.abs(found["mean"] - mean) < 0.1 * np.array(sds)).all()
    np.testing.assert_allclose(found["sd"], sds, rtol=0.08)
