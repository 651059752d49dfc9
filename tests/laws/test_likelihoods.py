"""The laws of a likelihood, for everyone that is shipped and for two that state a density and no more."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import jax
import mpmath as mp
import numpy as np
import pytest
from likelihood_cases import CASES, ETA, SHIPPED, LikelihoodCase
from numpy.testing import assert_allclose

import lrvb
from lrvb.data.tables import invalid_value
from lrvb.likelihoods import (
    CLOGLOG,
    FAMILIES,
    IDENTITY,
    LOG,
    LOGIT,
    POISSON,
    PROBIT,
    LikelihoodRows,
)
from lrvb.likelihoods.given import take
from lrvb.likelihoods.totals import join, total
from lrvb.numerics.double import double
from lrvb.numerics.functions import NUMPY
from lrvb.numerics.special import JAX

every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_shipped_case = pytest.mark.parametrize("case", SHIPPED, ids=str)
SDS = [0.0, 1e-5, 0.15, 0.29, 0.31, 1.0, 2.5]


def support(case: LikelihoodCase, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Values y of row n and their weights: all counts, or a fine grid of all that is probable."""
    eta, given = case.eta[n : n + 1], take(case.given, np.array([n]))
    mean = float(case.likelihood.mean(eta, given)[0])
    sd = float(np.sqrt(case.likelihood.variance(eta, given)[0]))
    if case.likelihood.discrete:
        if case.likelihood.categorical:
            return np.arange(1.0, len(given) + 2), np.ones(len(given) + 1)
        top = given["trials"][0] if "trials" in given else 1 if case.likelihood.binary else None
        y = np.arange(top + 1.0 if top else np.ceil(mean + 40 * sd + 60))
        return y, np.ones_like(y)
    link = case.likelihood.link
    low = 0.0 if link in (LOG, LOGIT) else mean - 12 * sd
    y = np.linspace(low, 1.0 if link is LOGIT else mean + 25 * sd, 400_001)[1:-1]
    return y, np.full(len(y), y[1] - y[0])


def rows_of(case: LikelihoodCase) -> Iterator[tuple[np.ndarray, dict, np.ndarray, np.ndarray]]:
    """η (1,), what is given, the values y and their probabilities."""
    for n in range(len(case.eta)):
        eta, given = case.eta[n : n + 1], take(case.given, np.array([n]))
        y, weight = support(case, n)
        yield eta, given, y, weight * np.exp(case.likelihood.log_p(y, eta, given, NUMPY))


# ---- the density ----------------------------------------------------------------------------


@every_case
def test_density_is_normalised_and_has_its_moments(case):
    """Σ p = 1, Σ yp = mean, Σ (y − mean)²p = variance; a grid's error is below 1e-8."""
    rtol = 1e-11 if case.likelihood.discrete else 1e-8
    for eta, given, y, p in rows_of(case):
        mean, variance = (
            float(part(eta, given)[0]) for part in (case.likelihood.mean, case.likelihood.variance)
        )
        assert_allclose(p.sum(), 1, rtol=rtol)
        assert_allclose(p @ y, mean, rtol=rtol, atol=rtol)
        assert_allclose(p @ (y - mean) ** 2, variance, rtol=100 * rtol)


@every_case
def test_distribution_function_sums_the_density(case):
    """P(Y ≤ y) = Σ p up to y: exact for counts, half a step of the grid otherwise."""
    for eta, given, y, p in rows_of(case):
        below = np.cumsum(p) if case.likelihood.discrete else np.cumsum(p) - p / 2
        some = np.unique(np.linspace(0, len(y) - 1, 60).astype(int))
        found = case.likelihood.cdf(y[some], np.broadcast_to(eta, some.shape), _wide(given, some))
        assert_allclose(found, below[some], atol=1e-11 if case.likelihood.discrete else 1e-8)
        outside = case.likelihood.cdf(np.array([-np.inf]), eta, given)
        assert_allclose(outside, 0, atol=1e-15)


def _wide(given: dict, some: np.ndarray) -> dict:
    return {k: np.broadcast_to(v, some.shape) if np.ndim(v) else v for k, v in given.items()}


@every_case
def test_traced_density_is_the_same(case):
    """One statement serves NumPy and JAX."""
    with double():
        traced = jax.jit(lambda y, eta, given: case.likelihood.log_p(y, eta, given, JAX))(
            case.y, case.eta, case.given
        )
    ours = case.likelihood.log_p(case.y, case.eta, case.given, NUMPY)
    assert_allclose(traced, ours, rtol=1e-12, atol=1e-12)


@every_case
@pytest.mark.parametrize("prob", [1e-4, 0.03, 0.5, 0.97, 0.9999])
def test_quantile_inverts_the_distribution_function(case, prob):
    """The smallest y with P(Y ≤ y) ≥ prob."""
    likelihood, eta, given = case.likelihood, case.eta, case.given
    y = likelihood.quantile(prob, eta, given)
    if likelihood.discrete:
        assert (likelihood.cdf(y, eta, given) >= prob).all()
        assert (likelihood.cdf(y - 1, eta, given) < prob).all()
    else:
        assert_allclose(likelihood.cdf(y, eta, given), prob, atol=1e-10)


@every_case
def test_averaged_quantile_and_moments(case):
    """E P(Y ≤ y | η) by a fine average over η reaches prob there and, of counts, not before."""
    likelihood, sd = case.likelihood, 0.8
    x = np.linspace(-8, 8, 401)
    w = np.exp(-(x**2) / 2)
    w /= w.sum()

    def averaged(f):
        return sum(weight * f(case.eta + sd * node) for node, weight in zip(x, w, strict=True))

    v = np.full(len(case.eta), sd**2)
    mean, variance = likelihood.averaged(case.eta, v, case.given)
    expected = averaged(lambda eta: likelihood.mean(eta, case.given))
    assert_allclose(mean, expected, rtol=1e-9, atol=1e-12)
    square = averaged(
        lambda eta: likelihood.variance(eta, case.given) + likelihood.mean(eta, case.given) ** 2
    )
    assert_allclose(variance, square - expected**2, rtol=1e-8)
    for prob in (0.05, 0.95):
        y = likelihood.averaged_quantile(case.eta, v, prob, case.given)
        at = averaged(lambda eta, y=y: likelihood.cdf(y, eta, case.given))
        if likelihood.discrete:
            before = averaged(lambda eta, y=y: likelihood.cdf(y - 1, eta, case.given))
            assert (at >= prob - 1e-6).all()
            assert (before < prob + 1e-6).all()
        else:
            assert_allclose(
                at, prob, atol=1e-6
            )  # exp(−16) of the trapezoid rule, 4e-8 of its reach


@every_case
def test_draws_follow_the_distribution_function(case):
    """Shares of draws at most y are P(Y ≤ y), within five standard errors."""
    rng, n = np.random.default_rng(11), 4000
    for k in range(len(case.eta)):
        given = take(case.given, np.full(n, k))
        eta = np.full(n, case.eta[k])
        y = case.likelihood.draw(rng, eta, given)
        for prob in (0.1, 0.5, 0.9):
            edge = case.likelihood.quantile(prob, eta[:1], take(given, np.array([0])))
            p = float(case.likelihood.cdf(edge, eta[:1], take(given, np.array([0])))[0])
            error = np.sqrt(p * (1 - p) / n)
            assert abs((y <= edge).mean() - p) <= 5 * error + 1e-12


# ---- links ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "link", [IDENTITY, LOG, LOGIT, PROBIT, CLOGLOG], ids=lambda link: link.name
)
def test_links_invert_and_have_their_slopes(link):
    """g(g⁻¹(η)) = η, and the slope is the derivative by five points: h⁴ is 1e-10."""
    assert_allclose(link.apply(link.inverse(ETA)), ETA, atol=1e-13)
    h = 3e-3
    f = link.inverse
    found = (8 * (f(ETA + h) - f(ETA - h)) - (f(ETA + 2 * h) - f(ETA - 2 * h))) / (12 * h)
    assert_allclose(link.slope(ETA), found, rtol=1e-9, atol=1e-13)  # rounding of f over h


@every_case
def test_slope_is_that_of_the_mean(case):
    """The error of five points is 1e-10."""
    h, given, eta = 3e-3, case.given, case.eta

    def f(eta):
        return case.likelihood.mean(eta, given)

    found = (8 * (f(eta + h) - f(eta - h)) - (f(eta + 2 * h) - f(eta - 2 * h))) / (12 * h)
    assert_allclose(case.likelihood.slope(eta, given), found, rtol=1e-9)


# ---- expectations ---------------------------------------------------------------------------


@pytest.mark.parametrize(("case", "sd"), [(c, sd) for c in CASES for sd in c.sds or SDS], ids=str)
def test_derived_expectations_are_exact(case, sd):
    """Value and derivatives in η̄ and v against E f⁽ʲ⁾, with f⁽ʲ⁾ to 40 digits and averaged densely.

    f is read in double precision, so that its rounding over h⁴, h = 0.3, remains: 1e-10 of its size.
    """
    likelihood, some = case.likelihood, np.array([1, 4, 5])
    rows = LikelihoodRows(likelihood, case.y[some], take(case.given, some))
    terms = rows.at(case.eta[some], np.full(len(some), sd**2))
    exact = np.array([expectations(case, row, sd) for row in some]).T
    value, exact = exact[0].sum(), exact[1:]
    unit = np.asarray(likelihood.scale(case.given), dtype=float)
    size = np.abs(exact[1]).max() * unit**2 + 1
    assert_allclose(terms.value, value, rtol=1e-11, atol=1e-11)
    for power, (name, factor) in enumerate(
        [("e", 1.0), ("ee", 1.0), ("ev", 0.5), ("vv", 0.25)], start=1
    ):
        gap = np.abs(getattr(terms, name) - factor * exact[power - 1])
        assert gap.max() <= 1e-10 * size / np.min(unit) ** power, name
    assert_allclose(terms.v, terms.ee / 2, rtol=1e-15)


def expectations(case: LikelihoodCase, row: int, sd: float) -> list[float]:
    """E f and E f′ to E f⁗ of one row: derivatives of log p by Taylor series, averaged densely."""
    y, eta = mp.mpf(float(case.y[row])), mp.mpf(float(case.eta[row]))
    given = {k: mp.mpf(float(v[row] if np.ndim(v) else v)) for k, v in case.given.items()}

    def derivatives(at):
        with mp.workdps(40):
            f = mp.taylor(lambda u: case.likelihood.log_p(y, u, given, MPMATH), at, 4)
            return [f[j] * mp.factorial(j) for j in range(5)]

    if sd == 0:
        return [float(part) for part in derivatives(eta)]
    # Trapezoids with step h ≤ 0.2 are off by exp(−2π²/h²), or by exp(−2π²/(h sd)) of poles at ±πi.
    x = np.linspace(-10, 10, 101 if sd < 2 else 161)
    w = np.exp(-(x**2) / 2)
    w /= w.sum()
    table = np.array([[float(p) for p in derivatives(eta + sd * float(node))] for node in x])
    return list(w @ table)


class MpmathFunctions:
    """The functions of log p to 40 digits."""

    exp, log, expm1 = staticmethod(mp.exp), staticmethod(mp.log), staticmethod(mp.expm1)
    log1p = staticmethod(mp.log1p)
    gammaln, minimum, maximum = staticmethod(mp.loggamma), staticmethod(min), staticmethod(max)

    @staticmethod
    def log_ndtr(x):
        return mp.log(mp.ncdf(x))

    @staticmethod
    def where(condition, a, b):
        return a if condition else b

    @staticmethod
    def logaddexp(a, b):
        return mp.log(mp.exp(a) + mp.exp(b))


MPMATH = MpmathFunctions()


@every_shipped_case
@pytest.mark.parametrize("sd", SDS)
def test_closed_forms_agree_with_the_derived_ones(case, sd):
    """`rows` of every likelihood against what the base class derives from log p."""
    v = np.full(len(case.eta), sd**2)
    ours = case.likelihood.rows(case.y, case.given).at(case.eta, v)
    derived = LikelihoodRows(case.likelihood, case.y, case.given).at(case.eta, v)
    unit = float(np.asarray(case.likelihood.scale(case.given)))
    size = np.abs(derived.ee).max() * unit**2 + 1
    assert_allclose(ours.value, derived.value, rtol=1e-11)
    for name in ("e", "v", "ee", "ev", "vv"):
        # the binomial's own sums have 20 sd² nodes, of which the fourth derivative has nine digits
        gap = np.abs(getattr(ours, name) - getattr(derived, name))
        assert gap.max() <= 1e-9 * size / unit**4, name


@every_case
@pytest.mark.parametrize("sd", [0.05, 0.2999, 0.9])
def test_derivatives_are_those_of_the_expectation(case, sd):
    """∂E/∂η̄ and ∂E/∂v, and theirs, by five points: h⁴ of a fifth derivative and rounding over h."""
    rows, v = case.likelihood.rows(case.y, case.given), np.full(len(case.eta), sd**2)
    terms = rows.at(case.eta, v)

    def slope(f, h=1e-3):
        return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)

    size = np.abs(terms.ee).max() + 1
    by_eta = slope(lambda h: rows.at(case.eta + h, v).value)
    assert abs(terms.e.sum() - by_eta) < 1e-8 * size
    for name, by in (("e", "ee"), ("v", "ev"), ("ev", "vv")):
        if name == "ev":
            found = slope(lambda h: rows.at(case.eta, v + h * sd**2 / 10).v) / (sd**2 / 10)
        else:
            found = slope(lambda h, name=name: getattr(rows.at(case.eta + h, v), name))
        assert np.abs(getattr(terms, by) - found).max() < 1e-7 * size, by


def test_expectations_of_many_rows_are_those_of_each():
    """Rows of every sd at once, beyond one chunk."""
    rng = np.random.default_rng(2)
    eta, v = rng.normal(size=3000), rng.uniform(0, 2, size=3000) ** 4
    y = rng.poisson(np.exp(eta)).astype(float)
    together = LikelihoodRows(POISSON, y).at(eta, v)
    closed = POISSON.rows(y).at(eta, v)
    assert_allclose(together.value, closed.value, rtol=1e-9)
    some = np.arange(0, 3000, 500)
    apart = LikelihoodRows(POISSON, y[some]).at(eta[some], v[some])
    assert_allclose(together.vv[some], apart.vv, rtol=1e-9, atol=1e-11)


# ---- data -----------------------------------------------------------------------------------


@every_case
def test_starts_are_finite_with_positive_weights(case):
    guess, weight = case.likelihood.start(case.y, case.given)
    assert np.isfinite(guess).all()
    assert (np.broadcast_to(weight, guess.shape) > 0).all()


@every_case
def test_the_level_is_told_by_totals_of_parts(case):
    """And an offset moves it by as much, but where thresholds carry the level."""
    y, given, n = case.likelihood.working(case.y), case.given, len(case.y)
    offset = np.linspace(-1, 1, n)
    whole = total(y, offset, given)
    parts = [total(y[at], offset[at], take(given, at)) for at in np.array_split(np.arange(n), 3)]
    none = np.arange(0)
    joined = join([*parts, total(y[none], offset[none], take(given, none))])
    assert_allclose(joined, whole, rtol=1e-12)
    level = case.likelihood.level(joined)
    assert_allclose(level, case.likelihood.level(whole), rtol=1e-12, atol=1e-12)
    assert np.isfinite(level)
    moved = case.likelihood.level(total(y, offset + 0.7, given))
    assert case.likelihood.categorical or abs(moved - (level - 0.7)) < 1e-12


REFUSED = [(case, problem) for case in CASES for problem in case.refused]


@pytest.mark.parametrize(("case", "problem"), REFUSED, ids=str)
def test_bad_data_are_named(case, problem):
    """Column, row and value, in one sentence."""
    values, row = case.refused[problem]
    y = np.array(values)
    given = take(case.given, slice(len(y)))

    def refuse(column, row, value, problem, remedy):
        return invalid_value(column, (row,), value, problem, remedy)

    with pytest.raises(lrvb.InvalidData) as error:
        case.likelihood.check(y, given, {"response": "y", "trials": "n"}, refuse)
    said = str(error.value)
    assert said.startswith(f"Column 'y', row {row}: the value {values[row]}")
    assert problem in said
    assert (error.value.column, error.value.row, error.value.value) == ("y", row, values[row])


@every_case
def test_good_data_are_accepted(case):
    names = {"response": "y", "trials": "n"}
    case.likelihood.check(case.y, case.given, names, lambda *_: AssertionError())


@every_case
def test_free_sides_are_where_log_p_never_falls(case):
    """Beyond ±30 log p does not fall along a free side, and falls on both sides of a bound row.

    Of a row that is bounded on both sides it is constant there.
    """
    sides = case.likelihood.free_sides(case.y, case.given)
    if sides is None and case.likelihood.discrete:
        return  # it says nothing

    def log_p(eta):
        eta = np.full(len(case.y), eta)
        return case.likelihood.log_p(case.y, eta, case.given, NUMPY)

    with np.errstate(over="ignore"):
        up, down = log_p(60.0) < log_p(30.0), log_p(-60.0) < log_p(-30.0)
    sign, bound = (np.ones(len(case.y)), np.full(len(case.y), True)) if sides is None else sides
    assert_allclose(up & down, bound)
    assert (np.where(sign > 0, ~up, ~down) | bound).all()
    assert not ((up | down) & (sign == 0) & ~bound).any()


# ---- names ----------------------------------------------------------------------------------


def test_names_are_those_of_the_objects():
    assert all(likelihood.name == name for name, likelihood in FAMILIES.items())


def test_likelihoods_do_without_jax():
    """Neither the folder nor what it imports of ours imports JAX."""
    source = Path(lrvb.__file__).parent
    waiting, seen = sorted((source / "likelihoods").glob("*.py")), set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        if path.name == "lazy.py":  # which defers it: tests/test_cold_start.py sees that it does
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not any(alias.name.startswith("jax") for alias in node.names), path
            if not isinstance(node, ast.ImportFrom):
                continue
            assert node.level or not (node.module or "").startswith("jax"), path
            folder = path.parents[node.level - 1] if node.level else None
            if folder is not None and node.module:
                file = folder.joinpath(*node.module.split(".")).with_suffix(".py")
                if file.exists() and file not in seen:
                    waiting.append(file)
    assert source / "numerics" / "functions.py" in seen
