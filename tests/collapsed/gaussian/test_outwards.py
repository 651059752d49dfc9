"""Best Gaussians along a line, each begun from those before: the same as found anew, in fewer steps."""

from __future__ import annotations

import numpy as np
import pytest

from block_cases import block_of
from lrvb.collapsed.gaussian.outwards import Outwards
from lrvb.collapsed.gaussian.reweighted import Reweighted
from lrvb.collapsed.gaussian.row_terms import Averaged

FAR = np.array([0.0, 0.8, -0.8, 1.6, -1.6])  # of log precisions


def line(block, m):
    """Every matrix of precisions and the rows' own, e^x times as large."""
    places = [d.at for d in block.precisions.directions]
    if block.precisions.scale is not None:
        places.append(block.precisions.scale)
    factor = np.zeros(len(m))
    factor[places] = 1.0
    return lambda x: np.where(factor > 0, m * np.exp(x), m), factor * m


@pytest.mark.parametrize("tangents", [False, True])
@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("kind", ["gaussian", "poisson", "binomial", "poisson, joint"])
def test_values_are_those_of_searches_anew(kind, separate, tangents):
    """A value at its maximum is off by the square of the tolerance."""
    block, m, _ = block_of(kind, False, separate)
    moments, velocity = line(block, m)
    path = Outwards(block, block.evaluate(m, 2 if tangents else 1).state, velocity)
    for x in FAR:
        at = moments(x)
        found = block.evaluate(at, 1, path.at(x, at))
        exact = block.evaluate(at, 1)
        assert abs(found.value - exact.value) < 1e-4
        slope = (found.gradient - exact.gradient) @ (at * (velocity != 0))
        assert abs(slope) < 0.03


def test_a_start_is_the_polynomial_through_what_is_known():
    """Of means and log variances that are cubic in x, with the slope at 0, it is exact."""
    block, m, _ = block_of("poisson", False, False)
    velocity = line(block, m)[1]
    state = block.evaluate(m).state
    path = Outwards(block, state, velocity)
    slope_mu = sum((v * t.mu.rest for v, t in path.steps), np.zeros_like(state.best.mu.rest))
    slope_v = sum((v * t.v / state.best.v for v, t in path.steps), np.zeros_like(state.best.v))
    square, cube = 0.3 * slope_mu + 0.1, 0.2 - slope_mu

    def at(x):
        rest = state.best.mu.rest + x * slope_mu + x**2 * square + x**3 * cube
        v = state.best.v * np.exp(x * slope_v + 0.05 * x**2 - 0.02 * x**3)
        return state.best._replace(mu=state.best.mu._replace(rest=rest), v=v)

    for x in (0.0, 1.0, -1.0):
        path.known[x] = at(x)
    for x in (0.4, 2.0, -1.7):
        start, exact = path._start(x), at(x)
        np.testing.assert_allclose(start.mu.rest, exact.mu.rest, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(start.v, exact.v, rtol=1e-10)


def test_few_steps_do(monkeypatch):
    """Rows are asked less than half as often as from a start of their own."""
    block, m, _ = block_of("binomial", False, False)
    moments, velocity = line(block, m)
    path, asked = Outwards(block, block.evaluate(m).state, velocity), []
    own = Averaged.at
    monkeypatch.setattr(Averaged, "at", lambda *a: asked.append(1) or own(*a))
    for x in FAR:
        path.at(x, moments(x))
    near = len(asked)
    for x in FAR:
        block.collapse(moments(x))
    assert isinstance(block.rows, Reweighted)
    assert near < (len(asked) - near) / 2


def test_a_wild_start_is_none():
    """Where a variance would be more than e² times off, the nearest best Gaussian is the start."""
    block, m, _ = block_of("poisson", False, False)
    best = block.collapse(m).best
    wide = best._replace(v=best.v * np.exp(3.0))
    assert block.rows.combined([(1.5, wide), (-0.5, best)], []) is best
    assert block.rows.combined([(0.5, wide), (0.5, best)], []) is not best
