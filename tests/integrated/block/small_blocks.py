"""Small crossed models and their coefficients' dense precision."""

from __future__ import annotations

import numpy as np
from scipy.linalg import block_diag

from lrvb.integrated.block.layout import Layout
from lrvb.integrated.density import Density
from lrvb.integrated.regression import Regression
from lrvb.integrated.terms import Term
from lrvb.likelihoods import likelihood_of
from lrvb.prior import LKJ, HalfStudentT

HALF_T = HalfStudentT(3, 2.5)


def regression(family, y, X, sd=3.0):
    """Rows with independent normal priors of β."""
    p = X.shape[1]
    density = Density(likelihood_of(family))
    return Regression.independent(density, (y,), X, np.zeros(len(y)), np.zeros(p), np.full(p, sd))


def crossed(family="poisson", N=150, G=12, K=7, slopes=True, seed=0, sds=(0.6, 0.4)):
    """y ~ 1 + x + (1 + x | g) + (1 | h), or without the slopes."""
    rng = np.random.default_rng(seed)
    g, h = (np.concatenate([np.arange(n), rng.integers(n, size=N - n)]) for n in (G, K))
    x = rng.normal(size=N)
    eta = 0.2 + 0.4 * x + sds[0] * rng.normal(size=G)[g] + sds[1] * rng.normal(size=K)[h]
    y = rng.poisson(np.exp(eta)) if family == "poisson" else rng.random(N) < 1 / (1 + np.exp(-eta))
    X, one = np.column_stack([np.ones(N), x]), np.ones((N, 1))
    first = Term(g, X, G, (HALF_T, HALF_T), LKJ(1.0)) if slopes else Term(g, one, G, (HALF_T,))
    return regression(family, y.astype(float), X), [first, Term(h, one, K, (HALF_T,))]


def dense(layout: Layout, w, u):
    """C (N, p + M), and Q = CᵀWC + P."""
    columns = [layout.rows.X]
    for factor in layout.factors:
        Z = np.zeros((layout.N, factor.levels, factor.q))
        Z[np.arange(layout.N), factor.codes] = factor.R
        columns.append(Z.reshape(layout.N, -1))
    C = np.concatenate(columns, axis=1)
    blocks = [
        np.kron(np.eye(f.levels), L)
        for f, L in zip(layout.factors, layout.precisions(u), strict=True)
    ]
    return C, C.T @ (w[:, None] * C) + block_diag(layout.rows.P, *blocks)
