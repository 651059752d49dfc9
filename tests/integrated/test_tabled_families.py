"""A table of every family's rows, at typical and extreme predictors and dispersions: right, or not there."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from small import intercepts

from lrvb.integrated import integration
from lrvb.integrated.density import Density
from lrvb.integrated.effort import enough
from lrvb.integrated.importance import resampled
from lrvb.integrated.integration import NODE_ERROR
from lrvb.integrated.levels import Levels
from lrvb.integrated.mode import NoMode
from lrvb.integrated.regression import Regression
from lrvb.integrated.surrogate import NotSmooth
from lrvb.likelihoods.values import AtHand

sys.path.append(str(Path(__file__).resolve().parents[1] / "laws"))
from likelihood_cases import SHIPPED, LikelihoodCase

LEVELS, N = 6, 900
DRAWS = 100
CASES = [case for case in SHIPPED if case.likelihood.concave and not case.likelihood.quadratic]

#: middle of η, how far levels are from it, and what is given
TYPICAL = 0.3, 0.7, {}
COUNTS = [(9.0, 2.0, {}), (-3.0, 1.0, {})]
SHAPES = [(1.0, 0.7, {"shape": 0.05}), (1.0, 0.7, {"shape": 200.0})]
FAR = [(0.0, 6.0, {}), (0.0, 30.0, {})]


def extremes(case: LikelihoodCase) -> list:
    """Large and small counts, levels whose rows are all alike, dispersions of either size."""
    log = case.likelihood.link.name == "log"
    return (COUNTS if log else FAR) + (SHAPES if "shape" in case.given else [])


def few_levels(case: LikelihoodCase, middle: float, apart: float, given: dict) -> Levels:
    """Six levels of 150 rows each, drawn by the family itself, and a further column."""
    rng, family = np.random.default_rng(3), case.likelihood
    codes, x = rng.permutation(np.arange(N) % LEVELS), rng.normal(size=N)
    eta = middle + 0.4 * x + apart * np.linspace(-1, 1, LEVELS)[codes]
    values = {**case.given, **given}
    values = {key: np.resize(v, N) if np.ndim(v) else v for key, v in values.items()}
    y = family.draw(rng, eta, values)
    dispersions = family.dispersions_of(AtHand(y))
    ordered = any(len(each.labels) > 1 for each in dispersions)  # whose thresholds are intercepts
    X = x[:, None] if ordered else np.column_stack([np.ones(N), x])
    p = X.shape[1]
    rows = Regression.independent(
        Density(family, family.extras, dispersions),
        (y, *(values[name] for name in family.extras)),
        X,
        np.zeros(N),
        np.zeros(p),
        np.full(p, 30.0),
        tuple(each.prior(1.0) for each in dispersions),
    )
    return Levels(rows, intercepts(codes, LEVELS))


def check(case: LikelihoodCase, *stated) -> None:
    """Over draws that were made by the table, values and slopes of the rows themselves.

    By Cauchy and Schwarz no mean is moved by more of its sd than the root mean square of what a log density
    is off by; a mode moves by the slope's error times a variance, in sds by that times an sd.
    """
    inside = few_levels(case, *stated)
    found = integration._drawn(inside, enough(4, 10), 0, None, None, tables=True)
    tabled, points = found.near, found.theta[resampled(found.weighted.weights, DRAWS, 7)]
    off = tabled.log_density(points) - inside.log_density(points)
    assert np.sqrt(np.mean(off**2)) < NODE_ERROR
    z = inside._ends(points).z
    slope, _ = tabled.inside._rows_at(points).slopes(z)
    exact, information = inside._rows_at(points).slopes(z)
    precision = information[..., 0, 0] + inside._precision(points)[0][:, :, 0]
    moved = (slope - exact)[..., 0] / np.sqrt(precision)
    assert np.sqrt(np.mean(moved**2)) < NODE_ERROR


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_by_a_table_have_the_density_and_slopes_of_the_rows(case):
    check(case, *TYPICAL)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_far_out_a_table_is_right_or_refused(case):
    """Counts in the thousands, or hardly any; |η| to 30; shapes of 0.05 and 200."""
    for stated in extremes(case):
        try:
            check(case, *stated)
        except (NotSmooth, NoMode):  # then the rows themselves are asked
            continue
