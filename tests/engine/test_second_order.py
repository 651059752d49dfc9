"""The second order without refits, refereed by refits of the tilted problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES
from lrvb.collapsed.autodiff import AutodiffSum
from lrvb.engine.ascent import Search
from lrvb.engine.objective import Objective, Point
from lrvb.engine.response import Response
from lrvb.engine.second_order import Quantity, SecondOrder, linear
from lrvb.numerics.double import in_double
from lrvb.numerics.second_differences import STEP, around, first_differences, second_differences
from mixtures import overlapping

BY_NAME = {case.name: case for case in CASES}
NAMES = ["NormalPoisson-tilted", "NormalMixture", "NormalPoisson-gaussian"]


class Regression(lrvb.Model):
    """y ~ N(a x + b w, 1) in two blocks."""

    global_blocks = {"a": lrvb.Normal(), "b": lrvb.Normal()}

    def global_term(self, m):
        return -(m.a.xx + m.b.xx) / 2

    def local_term(self, m, z, row):
        square = row.x**2 * m.a.xx + row.w**2 * m.b.xx
        cross = row.x * row.w * m.a.x * m.b.x
        return row.y * (row.x * m.a.x + row.w * m.b.x) - square / 2 - cross


class Tilted(Objective):
    """The objective of the log joint tilted by t times a quantity."""

    t: float
    quantity: Quantity
    value: Callable[[np.ndarray], float]

    def at(self, eta: np.ndarray, order: int = 2, state: Any = None) -> Point:
        point, t = super().at(eta, order, state), self.t
        gradient, H = point.gradient + t * self.quantity.gradient(point.m), point.H
        if H is not None and self.quantity.hessian is not None:
            H = H + t * self.quantity.hessian(point.m)
        elbo = point.elbo + t * self.value(point.m)
        return replace(point, elbo=elbo, gradient=gradient, H=H)


@in_double
def refitted(response: Response, quantity: Quantity, value: Any, t: float) -> float:
    """g = −½ log det(I − VH̃) and the gaps of the rows, at the optimum of the tilted problem."""
    rows = response.fit.bound()
    objective = Tilted(response.fit.problem, rows)
    objective.t, objective.quantity, objective.value = t, quantity, value
    search = Search(objective, 50, progress=False)
    search.begin(response.fit.eta, explicit=False)
    assert search.newton(1e-9)[0]
    own = 0.0 if rows is None else rows.gaps(search.point.m[None])[0]
    return -np.log(np.diag(search.curved.K)).sum() + own


def quantities(response: Response) -> list[tuple[Quantity, Any]]:
    """The first and the last named statistic, and their product, which is E of a product under q."""
    named = [i for i, label in enumerate(response.alpha.names()) if label is not None]
    first, last = np.eye(len(response.m))[[named[0], named[-1]]]
    product = Quantity(
        lambda m: first * (last @ m) + last * (first @ m),
        lambda m: np.outer(first, last) + np.outer(last, first),
    )
    return [
        (linear(first), lambda m: first @ m),
        (linear(last), lambda m: last @ m),
        (product, lambda m: (first @ m) * (last @ m)),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_means_and_variances_are_those_of_refits(name):
    """Derivatives of E + g in the tilt, by refits at ±t: errors of both are O(t²)."""
    response = BY_NAME[name].response()
    second = SecondOrder(response)
    for quantity, value in quantities(response):
        d = quantity.gradient(response.m)
        sd = np.sqrt(d @ response.Sigma @ d)
        h = 0.03 / sd
        up, base, down = (refitted(response, quantity, value, t) for t in (h, 0.0, -h))
        assert_allclose(second.loop, base, atol=1e-7)
        assert_allclose(second.mean(quantity) / sd, (up - down) / (2 * h * sd), atol=1e-3)
        first, variance = second.variance(quantity)
        assert_allclose(first, sd**2, rtol=1e-9)
        assert_allclose(variance / first, 1 + (up - 2 * base + down) / (h * sd) ** 2, atol=2e-3)


def test_a_gaussian_posterior_is_not_moved():
    """There g does not depend on the tilt: corrections are zero to rounding."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 2))
    data = {"x": x[:, 0], "w": x[:, 0] + 0.3 * x[:, 1], "y": rng.normal(size=50)}
    response = lrvb.infer(Regression(), data).response
    second = SecondOrder(response)
    sd = np.sqrt(np.diag(response.Sigma))
    i = response.alpha.names().index("a")
    assert abs(second.shift[i] / sd[i]) < 1e-7
    first, variance = second.variance(linear(np.eye(len(sd))[i]))
    assert_allclose(variance, first, rtol=1e-7)


def test_a_sample_of_the_rows_says_how_large_the_correction_is():
    """A third of the rows, each counted three times: shifts to a few hundredths of an sd."""
    rng = np.random.default_rng(1)
    data = {"y": np.round(rng.gamma(2.0, 2.0, size=600)), "x": rng.normal(size=600)}
    response = lrvb.infer(lrvb.models.NormalPoisson(), data).response
    whole, third = SecondOrder(response), SecondOrder(response, 200)
    assert third.fit.problem.n == 200
    sd = np.sqrt(np.diag(response.Sigma))
    assert_allclose(third.shift / sd, whole.shift / sd, atol=0.03)


def test_gram_sums_bend_as_differences_say():
    """∂ tr(RRᵀH̃)/∂m in closed form against second differences of the gradient: O(step²)."""
    response = BY_NAME["NormalMixture"].response()
    rows, m = response.fit.bound(), response.m
    R = response.C
    near = rows.density(around(m, R), gradient=True).gradient
    sd = np.sqrt(np.diag(response.Sigma))
    assert_allclose(rows.bend(m, R) * sd, second_differences(near) * sd, atol=2e-3)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.data is not None], ids=lambda case: case.name
)
def test_row_sums_bend_as_differences_say(case):
    """The same of rows by differentiation, whose cumulants are the families' own."""
    response = case.response()
    rows, m = AutodiffSum().bind(response.fit.problem), response.m
    R = np.linalg.cholesky(response.Sigma + 1e-12 * np.diag(np.diag(response.Sigma)))
    near = rows.density(around(m, R), gradient=True).gradient
    sd = np.sqrt(np.diag(response.Sigma))
    assert_allclose(rows.bend(m, R) * sd, second_differences(near) * sd, atol=2e-3)


def test_gaps_change_as_differences_say():
    """Slope and bend of what q(z) leaves out against differences of the gaps: O(step²)."""
    response = BY_NAME["NormalPoisson-gaussian"].response()
    rows, m = response.fit.bound(), response.m
    R = np.linalg.cholesky(response.Sigma + 1e-12 * np.diag(np.diag(response.Sigma)))
    near = in_double(rows.gaps)(around(m, R))
    slope = in_double(rows.gap_slope)(m, R)
    assert_allclose(slope, first_differences(near), atol=1e-3 * np.abs(slope).max())
    turn = np.roll(R.T, 1, axis=0)
    bend = in_double(rows.gap_bends)(m, R.T, turn)
    k = len(m)
    straight = (near[1 : k + 1] - 2 * near[0] + near[k + 1 :]) / STEP**2
    expected = straight + np.roll(slope, 1)
    assert_allclose(bend, expected, atol=2e-3 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("name", "of_means", "of_sds"),
    [
        ("NormalPoisson-tilted", 1, 0),
        ("NormalPoisson-gaussian", 2, 1),
    ],
)
def test_it_costs_few_passes(monkeypatch, name, of_means, of_sds):
    """All means: a bend and no curvature of all rows; an sd: two curvatures; gaps of all sds: one pass."""
    response = BY_NAME[name].response()
    rows = type(response.fit.bound())
    asked = []

    def counted(question, own):
        def ask(self, *given, **options):
            asked.append(question)
            return own(self, *given, **options)

        return ask

    for question in ("evaluate", "bend", "density", "products", "_sum"):
        monkeypatch.setattr(rows, question, counted(question, getattr(rows, question)))
    second = SecondOrder(response)
    assert np.isfinite(second.shift).all()
    assert asked.count("_sum") == of_means
    assert set(asked) == {"bend", "_sum"}
    asked.clear()
    second.variances([linear(d) for d in np.eye(len(response.m))[:3]])
    assert asked == ["evaluate"] * 6 + ["_sum"] * of_sds


@pytest.mark.filterwarnings("ignore:The second order moves")
def test_a_mixture_is_refined_in_its_own_units():
    """The same corrections in sds whatever the units; log evidence above the ELBO; four columns."""
    X, _ = overlapping()
    tables, functions_ = [], []
    for scale in (1.0, 100.0):
        mixture = lrvb.GaussianMixture(2, random_state=0, certify=False).fit(X * scale)
        posterior = mixture.posterior_
        table = posterior.refined(["mu[0,0]", "log(pi[0])", "Lambda[0,0,0]"])
        assert list(table.columns) == ["mean", "sd", "lower", "upper"]
        assert ((table["lower"] < table["mean"]) & (table["mean"] < table["upper"])).all()
        assert table.attrs["log_evidence"] > posterior.elbo
        tables.append((table["mean"] - posterior.mean(table.index)) / posterior.sd(table.index))
        apart = posterior.refined(lambda m: m.mu.x[0] - m.mu.x[1])
        functions_.append(apart["mean"] / apart["sd"])
        first = posterior.refined(lambda m: m.mu.x[0, 0])
        assert_allclose(first.loc[0, ["mean", "sd"]], table.loc["mu[0,0]", ["mean", "sd"]])
    assert_allclose(tables[0], tables[1], atol=1e-4)
    assert_allclose(functions_[0], functions_[1], rtol=1e-4)
    assert tables[0].abs().max() > 0.05
