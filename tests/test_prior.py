"""Priors of sds and correlations: normalised, and the same prior in every coordinate."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.testing import assert_allclose
from scipy.integrate import quad

from lrvb.errors import InvalidModel
from lrvb.integrated.terms import Term
from lrvb.prior import LKJ, Beta, Exponential, Gamma, HalfNormal, HalfStudentT, Normal, Wishart

OF_SD = [
    HalfStudentT(3, 2.5),
    HalfStudentT(1, 0.3),
    HalfNormal(0.7),
    Exponential(2.0),
    Gamma(1.0, 0.04),
    Gamma(2.5, 3.0),
]


@pytest.mark.parametrize("prior", OF_SD, ids=repr)
def test_density_of_an_sd_integrates_to_one(prior):
    """∫ p(sd) dsd = 1; in log sd, where every prior here is smooth with exponential tails."""
    total, _ = quad(lambda u: np.exp(prior.log_density(np.exp(u)) + u), -20, 25, limit=500)
    assert_allclose(total, 1, rtol=1e-7)


@pytest.mark.parametrize(
    ("prior", "reference"),
    [
        (HalfNormal(0.7), scipy.stats.halfnorm(scale=0.7)),
        (Exponential(2.0), scipy.stats.expon(scale=0.5)),
        (HalfStudentT(1, 0.3), scipy.stats.halfcauchy(scale=0.3)),
    ],
    ids=["half-normal", "exponential", "half-Cauchy"],
)
def test_densities_are_the_named_ones(prior, reference):
    sd = np.array([0.01, 0.3, 1.0, 4.0])
    assert_allclose(prior.log_density(sd), reference.logpdf(sd), rtol=1e-12)


def test_densities_of_numbers_and_probabilities_are_the_named_ones():
    p, x = np.array([1e-9, 0.2, 0.9, 1.0]), np.array([-3.0, 0.0, 2.0])
    assert_allclose(Beta(2.5, 1).log_density(p), scipy.stats.beta(2.5, 1).logpdf(p), rtol=1e-12)
    assert_allclose(Normal(1, 2).log_density(x), scipy.stats.norm(1, 2).logpdf(x), rtol=1e-12)
    assert_allclose(Normal(1, np.inf).log_density(x), 0)
    assert repr(Beta(1, 2)) == "Beta(a=1, b=2)"
    with pytest.raises(InvalidModel, match=r"Beta\(b=0\) must be a positive number"):
        Beta(1, 0)


def test_gamma_of_a_precision_is_the_same_measure():
    """p(sd) |dsd| = p(λ) |dλ|, the Jacobian by differences: O(h²)."""
    sd, h = np.array([0.2, 1.0, 3.0]), 1e-5
    reference = scipy.stats.gamma(2.5, scale=1 / 3.0)
    jacobian = np.abs((sd + h) ** -2 - (sd - h) ** -2) / (2 * h)
    expected = reference.logpdf(sd**-2) + np.log(jacobian)
    assert_allclose(Gamma(2.5, 3.0).log_density(sd), expected, rtol=1e-7)


@pytest.mark.parametrize("q", [2, 3])
def test_wishart_of_a_precision_matrix_is_the_same_measure(q):
    """p(sds, R) = Wishart(Λ) |∂Λ/∂(sds, R)|, the Jacobian by differences: O(h²)."""
    rng = np.random.default_rng(q)
    A = rng.normal(size=(q, q))
    scale = A @ A.T / q + np.eye(q)
    sd = rng.uniform(0.5, 2.0, q)
    R = np.eye(q) + 0.3 * (1 - np.eye(q))
    low = np.tril_indices(q, -1)
    whole = np.tril_indices(q)

    def precision(v):
        C = np.eye(q)
        C[low] = v[q:]
        C.T[low] = v[q:]
        return np.linalg.inv(C * np.outer(v[:q], v[:q]))[whole]

    v, h = np.r_[sd, R[low]], 1e-5
    columns = [(precision(v + h * e) - precision(v - h * e)) / (2 * h) for e in np.eye(len(v))]
    jacobian = np.linalg.slogdet(np.array(columns))[1]
    L = np.zeros((q, q))
    L[whole] = precision(v)
    Lambda = L + np.tril(L, -1).T
    expected = scipy.stats.wishart(q + 1.5, scale).logpdf(Lambda) + jacobian
    assert_allclose(Wishart(q + 1.5, scale).log_density(sd, R), expected, rtol=1e-7)


def test_lkj_of_one_correlation():
    """2 × 2: LKJ(1) is uniform on (−1, 1), and any LKJ(eta) is normalised there."""
    rho = np.linspace(-0.99, 0.99, 7)
    R = np.array([[[1, r], [r, 1]] for r in rho])
    assert_allclose(LKJ(1).log_density(R), -np.log(2), rtol=1e-12)
    for eta in (0.7, 2.0, 5.0):
        total, _ = quad(
            lambda r, eta=eta: np.exp(LKJ(eta).log_density(np.array([[1, r], [r, 1]]))), -1, 1
        )
        assert_allclose(total, 1, rtol=1e-6)


def _term(q, sds, correlations, x=None):
    x = np.random.default_rng(0).normal(1.0, 1.0, (50, q - 1)) if x is None else x
    return Term(np.zeros(50, int), np.column_stack([np.ones(50), x]), 1, sds, correlations)


@pytest.mark.parametrize("eta", [1.0, 2.5])
def test_lkj_integrates_to_one_in_three_dimensions(eta):
    """∫ p(θ) over Fisher's z of 3 partial correlations, by Gauss–Legendre on ρ; sds fixed."""
    term = _term(3, (HalfNormal(1.0),) * 3, LKJ(eta), np.zeros((50, 2)))
    node, weight = np.polynomial.legendre.leggauss(40)
    rho = np.stack(np.meshgrid(node, node, node, indexing="ij"), -1).reshape(-1, 3)
    w = np.prod(np.meshgrid(weight, weight, weight, indexing="ij"), axis=0).ravel()
    theta = np.column_stack([np.zeros((len(rho), 3)), np.arctanh(rho)])
    spread = term.spread(theta)
    log_p = term.log_prior(theta, spread) - np.log1p(-(rho**2)).sum(1)
    at_one = 3 * HalfNormal(1.0).log_density(1.0)
    # half-integer powers at the edges: Gauss–Legendre converges like n^−2 to n^−4 there
    assert_allclose(w @ np.exp(log_p - at_one), 1, rtol=1e-4)


PRIORS = [
    (2, Wishart(4.0, np.array([[1.0, 0.2], [0.2, 0.5]])), None),
    (2, (HalfStudentT(3, 1.0), Exponential(1.0)), LKJ(2.0)),
    (3, (HalfNormal(1.0), Gamma(2.0, 1.0), Exponential(1.0)), LKJ(1.5)),
    (3, Wishart(5.0, 0.7), None),
]


@pytest.mark.parametrize(("q", "sds", "correlations"), PRIORS, ids=str)
def test_priors_in_bent_basis_are_the_same_measure(q, sds, correlations):
    """p(θ) = p(sds, R) |∂(sds, R)/∂θ|, with θ in the basis (1, x − x̄); differences, O(h²)."""
    term = _term(q, sds, correlations)
    theta = np.random.default_rng(1).normal(0, 0.4, term.size)
    low = np.tril_indices(q, -1)

    def stated(t):
        spread = term.spread(t[None])
        return np.r_[spread.sd[0], spread.correlation[0][low]]

    h = 1e-5
    J = [(stated(theta + h * e) - stated(theta - h * e)) / (2 * h) for e in np.eye(len(theta))]
    spread = term.spread(theta[None])
    if isinstance(sds, Wishart):
        direct = sds.log_density(spread.sd[0], spread.correlation[0])
    else:
        direct = sum(prior.log_density(s) for prior, s in zip(sds, spread.sd[0], strict=True))
        direct += correlations.log_density(spread.correlation[0])
    expected = direct + np.linalg.slogdet(np.array(J))[1]
    assert_allclose(term.log_prior(theta[None], spread)[0], expected, rtol=1e-7)


def test_precision_is_the_inverse_covariance():
    term = _term(3, *PRIORS[2][1:])
    spread = term.spread(np.random.default_rng(2).normal(0, 0.5, (4, term.size)))
    identity = spread.precision @ spread.covariance
    assert_allclose(identity, np.broadcast_to(np.eye(3), (4, 3, 3)), atol=1e-10)
    assert_allclose(spread.logdet, np.linalg.slogdet(spread.covariance)[1], rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HalfStudentT(0, 1), r"HalfStudentT\(df=0\) must be a positive number"),
        (lambda: HalfStudentT(3, -1), r"HalfStudentT\(scale=-1\) must be a positive number"),
        (lambda: HalfNormal("a"), r"HalfNormal\(scale='a'\) must be a positive number"),
        (lambda: Exponential(np.inf), r"Exponential\(rate=inf\) must be a positive number"),
        (lambda: LKJ(0), r"LKJ\(eta=0\) must be a positive number"),
        (
            lambda: _term(2, (HalfNormal(1.0),), LKJ(1)),
            "needs 2 priors of their sds, and LKJ for the correlations",
        ),
    ],
)
def test_wrong_priors_are_named(make, message):
    with pytest.raises(InvalidModel, match=message):
        make()


def test_wishart_is_known_up_to_a_correlation_of_one():
    """From Λ and log |Σ| of a root: the same density, and a number where R is singular by rounding."""
    prior = Wishart(4.0, np.array([[2.0, 0.3], [0.3, 1.0]]))
    for z in (0.5, 20.0):
        rho, rest = np.tanh(z), 1 / np.cosh(z)
        sd = np.array([[0.7, 1.2]])
        L = sd[:, :, None] * np.array([[[1.0, 0.0], [rho, rest]]])
        inverse = np.linalg.inv(L)
        logdet = 2 * np.log(sd).sum(-1) + 2 * np.log(rest)
        found = prior.log_density_at(sd, inverse.swapaxes(1, 2) @ inverse, logdet)
        assert np.isfinite(found).all()
        if z < 1:
            R = np.array([[[1.0, rho], [rho, 1.0]]])
            np.testing.assert_allclose(found, prior.log_density(sd, R), rtol=1e-12)
