"""Parts of sums by products of exponentials."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from lrvb.integrated.exponents import _progression
from lrvb.integrated.groups import gather


@pytest.mark.parametrize("Q", [1, 2, 7, 16, 17, 61])
def test_progressions_are_exponentials(Q):
    """exp(start + i·step), and exactly 0 for rows that are not there; rounding is that of Q products."""
    rng = np.random.default_rng(Q)
    start, step = np.append(rng.normal(size=5), -1e4), rng.normal(size=6)
    expected = np.exp(start[:, None] + step[:, None] * np.arange(Q))
    assert_allclose(_progression(start, step, Q), expected, rtol=1e-13)


def test_progressions_whose_powers_are_beyond_reach():
    """Where a power of the ratio alone would overflow, or vanish, the products do not."""
    start, step = np.array([-590.0, 590.0, -1e4]), np.array([78.0, -78.0, 78.0])
    found = _progression(start, step, 16)
    assert np.isfinite(found).all()
    assert_allclose(np.log(found[:2]), start[:2, None] + step[:2, None] * np.arange(16), rtol=1e-12)


@pytest.mark.parametrize("by_size", [True, False])
def test_blocks_have_every_row_once_in_its_group(by_size):
    """Whatever the order of groups is; rows that pad a block are not there."""
    codes = np.random.default_rng(0).integers(40, size=300) ** 2 // 40
    groups = gather(codes, 40, by_size=by_size)
    seen = np.full(len(groups.of), -1)
    for block in groups.blocks(2**12):
        numbers = np.arange(len(groups.starts))[block.groups]
        assert len(numbers) <= 4
        wide = np.broadcast_to(numbers[:, None], block.rows.shape)
        assert (seen[block.rows[block.there]] == -1).all()
        seen[block.rows[block.there]] = wide[block.there]
    assert (seen == groups.of).all()
