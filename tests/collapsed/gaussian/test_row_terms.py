"""What rows say about their linear predictor: values by brute force, derivatives by differences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import binom, norm, poisson

from differences import slope
from lrvb.collapsed.gaussian.row_terms import Averaged, Joint
from lrvb.collapsed.gaussian.tilted_rows import TiltedRows
from lrvb.likelihoods import BINOMIAL, FAMILIES, POISSON
from lrvb.numerics.hermite import hermite

COUNTS = np.array([0.0, 1.0, 2.0, 5.0, 40.0, 0.0, 3.0])
TRIALS = np.array([1.0, 1.0, 4.0, 9.0, 60.0, 3.0, 3.0])
ETA = np.array([-1.0, 0.4, 0.1, 1.2, 3.0, 0.7, -0.3])
VARIANCE = np.array([0.1, 0.8, 1.7, 0.3, 0.05, 2.0, 1.0])
S = 1.7

ROWS = {
    "poisson": lambda: Averaged(POISSON, COUNTS),
    "binomial": lambda: Averaged(BINOMIAL, COUNTS, {"trials": TRIALS}),
    "poisson, joint": lambda: Joint(Averaged(POISSON, COUNTS)),
    "binomial, joint": lambda: Joint(Averaged(BINOMIAL, COUNTS, {"trials": TRIALS})),
    "poisson, tilted": lambda: TiltedRows(POISSON, COUNTS),
    "binomial, tilted": lambda: TiltedRows(BINOMIAL, COUNTS, {"trials": TRIALS}),
}
every_kind = pytest.mark.parametrize("kind", ROWS)


H = 2e-3  # five points: h⁴ of a fifth derivative is about 1e-10


@every_kind
def test_first_derivatives_are_those_of_the_value(kind):
    """∂/∂η̄, ∂/∂v and ∂/∂s of Σℓ, row by row."""
    rows = ROWS[kind]()
    terms = rows.at(ETA, VARIANCE, S)
    for n, unit in enumerate(np.eye(len(ETA))):
        by_eta = slope(lambda h, d=unit: rows.at(ETA + h * d, VARIANCE, S).value, H)
        by_v = slope(lambda h, d=unit: rows.at(ETA, VARIANCE + h * d, S).value, H)
        assert_allclose([terms.e[n], terms.v[n]], [by_eta, by_v], rtol=1e-8, atol=1e-8)
    if rows.scaled:
        by_s = slope(lambda h: rows.at(ETA, VARIANCE, S + h).value, H)
        assert_allclose(terms.s.sum(), by_s, rtol=1e-8)


@every_kind
def test_second_derivatives_are_those_of_the_first(kind):
    """Every mixed derivative, from both sides where there are two."""
    rows = ROWS[kind]()
    terms = rows.at(ETA, VARIANCE, S)
    moves = {
        "e": lambda h: rows.at(ETA + h, VARIANCE, S),
        "v": lambda h: rows.at(ETA, VARIANCE + h, S),
        "s": lambda h: rows.at(ETA, VARIANCE, S + h),
    }
    letters = "evs" if rows.scaled else "ev"
    for first in letters:
        for by in letters:
            name = "".join(sorted(first + by, key="evs".index))
            found = slope(lambda h, a=first, b=by: getattr(moves[b](h), a), H)
            assert_allclose(getattr(terms, name), found, rtol=1e-8, atol=2e-9, err_msg=name)


@every_kind
def test_declarations_hold(kind):
    """`gaussian_mean`: ℓ_ηη = 2ℓ_v (Price's theorem); not `coupled`: ℓ_v is constant."""
    rows = ROWS[kind]()
    terms = rows.at(ETA, VARIANCE, S)
    if rows.gaussian_mean:
        assert_allclose(terms.ee, 2 * terms.v, rtol=1e-12)
    if not rows.coupled:
        assert not terms.ev.any()
        assert not terms.vv.any()
    assert rows.scaled == bool(len(terms.s))


# ---- values ----------------------------------------------------------------------------------


def log_likelihood(kind, n, u):
    """log p(y_n | u) by scipy."""
    if kind.startswith("poisson"):
        return poisson.logpmf(COUNTS[n], np.exp(u))
    # p alone would round to one: log(1 − p) = −log(1 + e^u)
    choices = binom.logpmf(COUNTS[n], TRIALS[n], 0.5) + TRIALS[n] * np.log(2)
    return COUNTS[n] * u - TRIALS[n] * np.logaddexp(0, u) + choices


def expected(kind, n, mean, variance):
    """E log p(y_n | u), u ~ N(mean, variance), by trapezoids over 14 sds."""
    x = np.linspace(-14, 14, 1501)
    weight = np.exp(-0.5 * x**2) * (x[1] - x[0]) / np.sqrt(2 * np.pi)
    return weight @ log_likelihood(kind, n, mean + np.sqrt(variance) * x)


def one_row(kind, n):
    y, trials = COUNTS[n : n + 1], TRIALS[n : n + 1]
    if kind.endswith("tilted"):
        return TiltedRows(FAMILIES[kind.split(",")[0]], y, {"trials": trials})
    rows = Averaged(FAMILIES[kind.split(",")[0]], y, {"trials": trials})
    return Joint(rows) if kind.endswith("joint") else rows


def value(kind, n, s=S):
    return one_row(kind, n).at(ETA[n : n + 1], VARIANCE[n : n + 1], s).value


@pytest.mark.parametrize("kind", ["poisson", "binomial"])
def test_value_is_the_expected_log_likelihood(kind):
    """Constants included."""
    for n in range(len(ETA)):
        assert_allclose(value(kind, n), expected(kind, n, ETA[n], VARIANCE[n]), rtol=1e-11)


@pytest.mark.parametrize("kind", ["poisson, joint", "binomial, joint"])
def test_joint_value_is_the_best_over_mean_slope_and_variance(kind):
    """q(e | ζ) = N(a − f(ζ − ζ̄), E), searched by brute force."""
    for n in range(len(ETA)):
        v = VARIANCE[n]

        def loss(at, n=n, v=v):
            a, f, E = at[0], at[1], np.exp(at[2])
            fit = expected(kind, n, ETA[n] + a, (1 - f) ** 2 * v + E)
            return -(fit + 0.5 * at[2] + 0.5 - 0.5 * S * (a**2 + f**2 * v + E))

        best = minimize(loss, [0.0, 0.5, -0.7], method="BFGS", options={"gtol": 1e-7})
        assert_allclose(value(kind, n), -best.fun, rtol=1e-10)


@pytest.mark.parametrize("kind", ["poisson, tilted", "binomial, tilted"])
def test_tilted_value_is_the_log_of_an_integral(kind):
    """log ∫ p(y | u) exp(sη̄u − su²/2) du − ½s(η̄² + v) − ½ log 2π: an exact evidence when v = 0."""
    for n in range(0, len(ETA), 2):

        def integrand(u, n=n):
            return np.exp(log_likelihood(kind, n, u)) * norm.pdf(u, ETA[n], S**-0.5)

        mass = quad(integrand, ETA[n] - 12, ETA[n] + 12, points=[ETA[n]], epsabs=0, epsrel=1e-12)[0]
        exact = np.log(mass) - 0.5 * np.log(S) - 0.5 * S * VARIANCE[n]
        assert_allclose(value(kind, n), exact, rtol=1e-10)


@pytest.mark.parametrize("kind", ["poisson", "binomial"])
def test_a_joint_factor_is_below_the_evidence_and_above_none(kind):
    """With v = 0 a Gaussian q(e) loses at most its KL; an effect of sd zero changes nothing."""
    eta, still = ETA, np.full(len(ETA), 1e-12)
    for n in range(len(ETA)):
        here = slice(n, n + 1)
        joint = one_row(f"{kind}, joint", n).at(eta[here], still[here], S).value
        exact = one_row(f"{kind}, tilted", n).at(eta[here], still[here], S).value
        assert exact - 0.05 < joint <= exact + 1e-12
        s = 1e8
        near = one_row(f"{kind}, joint", n).at(eta[here], VARIANCE[here], s).value
        bare = value(kind, n)
        assert_allclose(near + 0.5 * np.log(s), bare, rtol=1e-5)


# ---- quadrature ------------------------------------------------------------------------------


@pytest.mark.parametrize("sd", [0.5, 1.0, 2.0, 3.0, 4.0])
def test_gauss_hermite_error_obeys_its_law(sd):
    """Poles of order k at ±πi leave (2√nodes/sd)ᵏ⁻¹ exp(π²/2sd² − 2π√nodes/sd), and rounding."""
    centers = np.linspace(-8, 8, 33)
    rows = Averaged(BINOMIAL, np.zeros(33), {"trials": np.ones(33)})
    terms = rows.at(centers, np.full(33, sd**2))
    x = np.linspace(-12, 12, 6001)
    u = centers[:, None] + sd * x
    weight = norm.pdf(x) * (x[1] - x[0])
    p = 1 / (1 + np.exp(-u))
    d = p * (1 - p)
    exact = {"e": -(p @ weight), "v": -(d @ weight) / 2}
    exact["ev"] = -((d * (1 - 2 * p)) @ weight) / 2
    exact["vv"] = -((d * (1 - 6 * d)) @ weight) / 4
    nodes = min(max(16, int(20 * sd**2 + 12)), 320)
    law = 2 * np.pi * np.exp(np.pi**2 / (2 * sd**2) - 2 * np.pi * np.sqrt(nodes) / sd)
    for order, name in enumerate(("e", "v", "ev", "vv")):
        allowed = law * (2 * np.sqrt(nodes) / sd) ** order + 2e-13
        assert allowed < 1e-8
        assert np.abs(getattr(terms, name) - exact[name]).max() < allowed, name


def test_nodes_are_those_of_a_standard_normal():
    """Moments 1, 0, 1, 0, 3."""
    for sd in (0.1, 1.0, 4.0, 100.0):
        x, w = hermite(sd)
        assert_allclose([w @ x**k for k in range(5)], [1, 0, 1, 0, 3], atol=1e-12)


# ---- extremes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inner",
    [Averaged(POISSON, COUNTS * 1e5), Averaged(BINOMIAL, COUNTS, {"trials": TRIALS})],
    ids=["counts", "trials"],
)
@pytest.mark.parametrize("s", [1e-2, 1.0, 1e4])
def test_joint_rows_solve_their_conditions_far_from_the_start(inner, s):
    """ℓ_η = sa and t = (1 − f)²v + E, from a predictor ten away from the data."""
    rows = Joint(inner)
    a, t, terms = rows.solve(ETA - 10.0, VARIANCE, s)
    W = -2 * terms.v
    scale = np.abs(inner.inner.y) + 1
    assert_allclose((terms.e - s * a) / scale, 0, atol=1e-10)
    assert_allclose(t, (s / (W + s)) ** 2 * VARIANCE + 1 / (W + s), rtol=1e-10)
