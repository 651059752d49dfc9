"""What sums over levels ask of a likelihood: kernels, derivatives, and parts that are summed beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from likelihood_cases import CASES
from numpy.testing import assert_allclose

import lrvb
from lrvb.integrated.density import Density
from lrvb.likelihoods import BETA
from lrvb.likelihoods.dispersion import labels_of, values_at
from lrvb.likelihoods.values import AtHand
from lrvb.numerics.functions import NUMPY

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def test_some_likelihood_has_each_of_these_parts():
    """Without one the laws of `apart`, `moves` and `linear` would ask nothing."""
    assert any(case.likelihood.apart for case in CASES)
    assert any(case.likelihood.moves for case in CASES)
    assert any(case.likelihood.linear(case.y) is not None for case in CASES)


@every_case
def test_a_kernel_is_the_density_but_for_a_constant(case):
    """log p = kernel + constant, of every row at many η."""
    eta = case.eta[:, None] + np.linspace(-3, 3, 7)
    given = {k: v[:, None] if np.ndim(v) else v for k, v in case.given.items()}
    y, likelihood = case.y[:, None], case.likelihood
    log_p = likelihood.log_p(y, eta, given, NUMPY)
    found = likelihood.kernel(y, eta, given) + likelihood.constant(y, given)
    assert_allclose(found, log_p, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.likelihood.linear(case.y) is not None], ids=str
)
def test_a_kernel_is_linear_but_for_a_function_of_exponentials(case):
    """kernel = wη + rest(e^η), with a point's dispersions on an axis of their own."""
    likelihood, y, n = case.likelihood, case.y, len(case.y)
    eta = case.eta + np.linspace(-3, 3, 10).reshape(2, 5, 1)
    labels = labels_of(likelihood.dispersions_of(AtHand(y)))
    given = {
        k: np.array([1.0, 1.01]).reshape(2, 1, 1) * v if k in labels else np.broadcast_to(v, n)
        for k, v in case.given.items()
    }
    found = likelihood.linear(y) * eta + likelihood.rest(y, np.exp(eta), given)
    assert_allclose(found, likelihood.kernel(y, eta, given), rtol=1e-12, atol=1e-12)


@every_case
def test_score_and_information_are_derivatives_of_the_density(case):
    """Closed forms against central differences with h = 1e-4: of log p for the score, of that for the other.

    Second differences of log p are known to rounding over h²: four times that of terms of up to a hundred.
    """
    eta = case.eta[:, None] + np.linspace(-2, 2, 5)
    given = {k: v[:, None] if np.ndim(v) else v for k, v in case.given.items()}
    y, likelihood = case.y[:, None], case.likelihood
    score, information = likelihood.derivatives(y, eta, given)
    first, second = lrvb.likelihoods.Likelihood.derivatives(likelihood, y, eta, given)
    size = 1 + np.abs(likelihood.kernel(y, eta, given))
    assert_allclose(score / size, first / size, atol=1e-7)
    assert_allclose(information / size, second / size, atol=4 * 1.1e-16 * 100 / 1e-8)
    if type(likelihood).derivatives is not lrvb.likelihoods.Likelihood.derivatives:
        up, down = (likelihood.derivatives(y, eta + h, given)[0] for h in (1e-4, -1e-4))
        assert_allclose(information / size, (down - up) / 2e-4 / size, atol=1e-7)


@pytest.mark.parametrize("case", [case for case in CASES if case.likelihood.apart], ids=str)
def test_a_part_apart_knows_nothing_of_eta(case):
    """log p less `part` is the same whatever the dispersion `apart` is."""
    likelihood = case.likelihood
    other = case.given | {likelihood.apart: 0.9}
    left = [
        likelihood.log_p(case.y, case.eta, given) - likelihood.part(case.y, given)
        for given in (case.given, other)
    ]
    assert_allclose(left[0], left[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case.likelihood.moves], ids=str)
def test_a_dispersion_that_moves_eta_is_in_its_place(case):
    """Its first coordinate moved as η is changes nothing; that moves all of its values."""
    likelihood = case.likelihood
    dispersions = likelihood.dispersions_of(AtHand(case.y))
    density = Density(likelihood, dispersions=dispersions)
    u = np.concatenate([dispersion.range.start() for dispersion in dispersions])[None]
    first, moved = (values_at(dispersions, u - 0.7 * density.moving * side) for side in (0, 1))
    assert density.moving.any()
    here = density.log_p((case.y,), case.eta, first)
    assert_allclose(density.log_p((case.y,), case.eta + 0.7, moved), here, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("phi", [0.05, 1.0, 8.0, 300.0])
def test_shares_of_many_rows_come_from_a_table(phi):
    """Each row's log density to 1e-10 of what it is alone, with a φ of every point."""
    rng = np.random.default_rng(0)
    y, eta = rng.beta(3, 2, size=4000), rng.normal(scale=1.5, size=(2, 5, 4000))
    given = {"phi": np.array([phi, 1.4 * phi]).reshape(2, 1, 1)}
    found = BETA.kernel(y, eta, given)
    assert_allclose(found, BETA.log_p(y, eta, given) - BETA.constant(y), rtol=1e-14, atol=1e-10)
    few = np.array([BETA.derivatives(y[::9], eta[:, [k], ::9], given) for k in range(5)])
    many = np.array(BETA.derivatives(y, eta, given))[..., ::9]
    assert_allclose(many, np.moveaxis(few[:, :, :, 0], 0, 2), rtol=1e-12, atol=1e-10)
