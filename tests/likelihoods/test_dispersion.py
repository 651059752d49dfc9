"""Coordinates of the parameters of a response: values within their range, densities of total mass one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.likelihoods import POSITIVE, PROBABILITY, Dispersion, Ordered, Positive
from lrvb.likelihoods.dispersion import labels_of, split_coordinates, values_at
from lrvb.prior import Beta, Exponential, HalfNormal, HalfStudentT, Normal

CASES = [
    (POSITIVE, HalfStudentT(3, 2), (-25, 16)),
    (Positive(1.0), Exponential(0.3), (-25, 6)),
    (Positive(1.5), HalfNormal(2.0), (-25, 4)),
    (Positive(1.0), HalfStudentT(4, 2), (-25, 16)),
    (PROBABILITY, Beta(1, 1), (-35, 35)),
    (PROBABILITY, Beta(0.7, 3), (-45, 25)),
    (Ordered(np.array([0.3])), Normal(0.5, 2), (-20, 20)),
]


@pytest.mark.parametrize(("where", "prior", "ends"), CASES, ids=str)
def test_a_prior_in_its_coordinates_has_mass_one(where, prior, ends):
    """∫ p(u) du = 1, truncated or not."""
    u = np.linspace(*ends, 20_001)
    p = np.exp(where.log_density(prior, u[:, None]))
    assert_allclose(np.trapezoid(p, u), 1, rtol=1e-6)


def test_ordered_values_have_mass_one():
    """Three of them, in one of six orders: Gaussian tails of every value, e^u ones of the gaps."""
    where, prior = Ordered(np.array([-1.0, 0.0, 1.0])), Normal(0.5, 1.0)

    ends = [(-7.0, 7.0), (-12.0, 3.0), (-12.0, 3.0)]
    axes = [np.linspace(*end, 121) for end in ends]
    u = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    total = np.exp(where.log_density(prior, u)).sum() * cell
    assert_allclose(total, 1, rtol=1e-4)  # a trapezoid of analytic functions; e^−12 beyond the ends


@pytest.mark.parametrize(
    "where", [POSITIVE, Positive(1.0), PROBABILITY, Ordered(np.array([-1.0, 0.2, 0.7]))], ids=str
)
def test_the_jacobian_is_that_of_the_values(where):
    """log |∂ values/∂u| by central differences."""
    h, u = 1e-5, np.array([0.3, -0.8, 0.4])[: where.size]
    E = h * np.eye(where.size)
    J = (where.natural(u + E) - where.natural(u - E)) / (2 * h)
    assert_allclose(where.log_jacobian(u[None])[0], np.linalg.slogdet(J)[1], atol=1e-8)


def test_values_have_their_ranges_and_labels():
    wild = np.array([[-800.0], [-3.0], [0.0], [50.0], [800.0]])
    with np.errstate(over="ignore"):
        assert (Positive(1.0).natural(wild) >= 1).all()
    p = PROBABILITY.natural(wild)
    assert (p >= 0).all()
    assert (p < 1).all()
    first = np.array([-1.0, 0.2, 0.7])
    ordered = Ordered(first)
    assert_allclose(ordered.natural(ordered.start()[None])[0], first)
    both = (
        Dispersion("threshold", lambda scale: Normal(0, 3), ordered),
        Dispersion("zi", lambda scale: Beta(1, 1), PROBABILITY),
    )
    assert labels_of(both) == ("threshold[1]", "threshold[2]", "threshold[3]", "zi")
    u = np.array([[0.0, 0.0, 0.0, 0.0]])
    assert_allclose(np.ravel(values_at(both, u)), [0, 1, 2, 0.5])
    assert [part.shape for _, part in split_coordinates(both, u)] == [(1, 3), (1, 1)]
