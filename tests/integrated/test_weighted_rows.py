"""A row with weight w is w rows: every sum agrees with that over the repeated rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from integrated.small import HALF_T, NORMAL_ROWS, dispersion, intercepts, regression, sloped
from lrvb.integrated.chain import Chain
from lrvb.integrated.crossed import Crossed
from lrvb.integrated.fixed import Fixed
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.levels import Levels
from lrvb.integrated.matrix_free.sums import factors_of, sum_rows
from lrvb.integrated.nested import Nested
from lrvb.integrated.regression import Regression
from lrvb.integrated.slopes import Slopes

RNG = np.random.default_rng(8)
N, G = 30, 5
CODES = np.arange(N) % G
WITHIN = np.arange(N) % (2 * G)
SMALL = RNG.integers(0, 3, N)
X1 = RNG.normal(size=N)
WEIGHTS = RNG.integers(1, 4, N).astype(float)
ROWS = np.repeat(np.arange(N), WEIGHTS.astype(int))

MAKERS = {
    "none": lambda rows, terms: Fixed(rows),
    "levels": lambda rows, terms: Levels(rows, terms[0]),
    "slopes": lambda rows, terms: Slopes(rows, terms),
    "nested": lambda rows, terms: Nested(rows, *terms),
    "crossed": lambda rows, terms: Crossed(rows, *terms),
    "chain": Chain,
}


def terms_of(kind):
    """Terms of the single rows."""
    return {
        "none": [],
        "levels": [intercepts(CODES, G)],
        "slopes": sloped(CODES, X1, G),
        "nested": [intercepts(CODES, G), intercepts(WITHIN, 2 * G)],
        "crossed": [intercepts(CODES, G), intercepts(SMALL, 3)],
        "chain": [
            intercepts(CODES, G),
            intercepts(WITHIN, 2 * G),
            intercepts(np.arange(N) % (4 * G), 4 * G),
        ],
    }[kind]


def both(terms, rows):
    """Weighted rows with their terms, and repeated ones with theirs."""
    repeated = [replace(t, codes=t.codes[ROWS], R=t.R[ROWS]) for t in terms]
    weighted = [replace(t, weights=WEIGHTS) for t in terms]
    return (rows.weighted(WEIGHTS), weighted), (rows.take(ROWS), repeated)


@pytest.mark.parametrize("family", ["bernoulli", "binomial", "poisson", "negbinomial", "shaped"])
@pytest.mark.parametrize("kind", [*MAKERS])
def test_weighted_rows_are_repeated_rows(kind, family):
    """Log density and derivatives; the same nodes in both, so that only rounding is left."""
    X = np.column_stack([np.ones(N), X1])
    found = []
    for rows, terms in both(terms_of(kind), regression(family, 0.2 + 0.3 * X1, X)):
        inside = MAKERS[kind](rows, terms)
        theta = inside.start() + 0.1
        theta[len(theta) - len(dispersion(family)) :] = dispersion(family)
        found.append((inside.log_density(theta[None])[0], *inside.derivatives(theta)))
    for weighted, repeated in zip(*found, strict=True):
        np.testing.assert_allclose(weighted, repeated, rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("kind", ["none", "levels", "slopes", "crossed"])
def test_weighted_gaussian_rows_are_repeated_rows(kind):
    """Evidence and moments of β, and all sums that a fit without matrices reads."""
    X, y = np.column_stack([np.ones(N), X1]), RNG.normal(size=N)
    rows = Regression.independent(NORMAL_ROWS, (y,), X, 0.1 * X1, np.zeros(2), np.full(2, 3.0))
    found, sums = [], []
    for made, terms in both(terms_of(kind), rows):
        model = Gaussian(made, terms, HALF_T)
        theta = np.full((1, len(model.kinds)), 0.2)
        found.append((model.log_density(theta), *model.beta(theta), model.start()))
        if terms:
            sums.append(sum_rows(factors_of(terms), made.X, made.columns[0]))
    for weighted, repeated in zip(*found, strict=True):
        np.testing.assert_allclose(weighted, repeated, rtol=1e-10, atol=1e-12)
    for a, b in zip(*([s.n, s.TT, *s.D, *s.t] for s in sums), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    for cells in zip(*(s.cells.values() for s in sums), strict=True):
        np.testing.assert_allclose(cells[0].C, cells[1].C, rtol=1e-10)
