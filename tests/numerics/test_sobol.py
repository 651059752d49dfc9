"""Sobol points: the tabled sequence, and nets that stay nets when scrambled."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import qmc

from lrvb.numerics.sobol import _directions, _gray, sobol


class _NoShift:
    """In place of a generator: the shift that does nothing."""

    def integers(self, low, high, size, dtype):
        return np.zeros(size, dtype)


def test_unscrambled_points_are_those_of_joe_and_kuo():
    """All 128 dimensions, against SciPy's table; ours lie at the middle of the last digit's cell."""
    ours = _gray(_directions(), 512, _NoShift())
    assert_allclose(ours, qmc.Sobol(128, scramble=False).random(512), rtol=0, atol=2.0**-32)


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_scrambled_points_are_a_net(seed):
    """Every elementary interval 2^−a × 2^−b, a + b = m, holds exactly one of 2^m points."""
    m = 8
    x = sobol(2**m, 2, seed)
    for a in range(m + 1):
        cell = (x[:, 0] * 2**a).astype(int) * 2 ** (m - a) + (x[:, 1] * 2 ** (m - a)).astype(int)
        assert len(np.unique(cell)) == 2**m


def test_dimensions_beyond_the_table_are_stratified():
    x = sobol(64, 131, 3)
    assert x.shape == (64, 131)
    assert ((x > 0) & (x < 1)).all()
    for column in x.T:
        assert len(np.unique((column * 64).astype(int))) == 64


def test_points_depend_on_the_seed_alone():
    assert np.array_equal(sobol(16, 3, 5), sobol(16, 3, 5))
    assert not np.array_equal(sobol(16, 3, 5), sobol(16, 3, 6))
