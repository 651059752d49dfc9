"""Small designs of every kind, and their rows' covariance written down."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from small import intercepts, sloped

from integrated.small import NORMAL_ROWS
from lrvb.integrated.matrix_free.evidence import Evidence
from lrvb.integrated.matrix_free.model import MatrixFree
from lrvb.integrated.matrix_free.sums import factors_of, sum_rows
from lrvb.integrated.regression import Regression
from lrvb.integrated.terms import split_by_size
from lrvb.prior import HalfStudentT

SIZES = (400, 40, 25, 20)  # rows, and levels of three factors
KINDS = ["crossed", "nested", "three", "slopes in both", "slope beside"]
RESIDUAL = HalfStudentT(3.0, 2.5)


def rows_and_terms(kind, times=1):
    """Rows and levels, each so many times."""
    N, A, B, C = (times * size for size in SIZES)
    rng = np.random.default_rng(3)
    x = rng.normal(0.5, 1, N)
    a, b, c = rng.integers(0, A, N), rng.integers(0, B, N), rng.integers(0, C, N)
    terms = {
        "crossed": [intercepts(b, B), intercepts(a, A)],
        "nested": [intercepts(a, A), intercepts(a % C, C)],
        "slopes in both": [*sloped(a, x, A), *sloped(b, x, B)],
        "three": [intercepts(b, B), intercepts(a, A), intercepts(c, C)],
        "slopes": [*sloped(a, x, A), intercepts(b, B)],
        "slope beside": [*sloped(b, x, B, correlated=False), intercepts(a, A)],
    }[kind]
    u, v, w, s, t, r = (rng.normal(size=size) for size in (A, B, C, A, B, C))
    y = 2 + 0.3 * x + rng.normal(size=N) + 0.7 * u[a] + 0.5 * v[b] + 0.3 * s[a] * x + 0.4 * t[b] * x
    y += 0.5 * r[a % C] if kind == "nested" else 0.4 * w[c]
    X = np.column_stack([np.ones(N), x])
    mean, sd = np.array([1.0, -0.5]), np.array([3.0, 2.0])
    return Regression.independent(NORMAL_ROWS, (y,), X, 0.1 * x, mean, sd), terms


def evidence(kind, probes=None):
    """Direct or exact, or with so many probes."""
    rows, terms = rows_and_terms(kind)
    factors = factors_of(terms)
    y = rows.columns[0] - rows.offset - rows.X @ rows.mean
    found = Evidence(sum_rows(factors, rows.X, y), terms, [f.terms for f in factors], 1)
    if probes is not None:
        by_probes(found, probes)
    return found, factors, np.column_stack([rows.X, y])


def by_probes(found, probes):
    """Without the direct factor of a small design."""
    found.direct = found.exact = False
    found.probe(probes)


def model(kind, times=1, probes=None):
    rows, terms = rows_and_terms(kind, times)
    made = MatrixFree(rows, terms, RESIDUAL)
    if probes is not None:
        by_probes(made.evidence, probes)
    return made


def covariance(terms, zeta):
    """I + Σ Z Σ_t Zᵀ of the rows, in units of σ²."""
    V = np.eye(SIZES[0])
    for term, part in zip(terms, split_by_size(zeta[None], terms), strict=True):
        Z = columns(term)
        V += Z @ np.kron(np.eye(term.levels), term.spread(part).covariance[0]) @ Z.T
    return V


def columns(term):
    """A term's columns of C, (N, levels · q)."""
    N = len(term.codes)
    Z = np.zeros((N, term.levels, term.q))
    Z[np.arange(N), term.codes] = term.R
    return Z.reshape(N, -1)
