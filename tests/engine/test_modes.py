"""Fits from far starts: short where curvatures are costly, given up where there is no end, and in time."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.collapsed.seam import SMALL
from lrvb.engine.ascent import LEVEL, Search
from lrvb.engine.modes import CLIMB, PACE, _climbed, other_modes
from lrvb.engine.objective import Objective
from lrvb.engine.response import Response
from lrvb.posterior.starts import look_around
from lrvb.posterior.target import Target


@functools.cache
def clusters() -> Response:
    """Two clusters in nine columns: more coordinates than a curvature is cheap for."""
    rng = np.random.default_rng(2)
    X = np.concatenate([rng.normal(size=(300, 9)), 3 + rng.normal(size=(300, 9))])
    fitted = lrvb.GaussianMixture(2, random_state=0, certify=False).fit(X)
    return fitted.posterior_.response


def test_far_starts_end_with_few_curvatures(monkeypatch):
    """Sweeps bring them to where Newton takes a step or two."""
    response, second = clusters(), []

    def at(self, eta, order=2, state=None, plain=Objective.at):
        second.append(order == 2)
        return plain(self, eta, order, state)

    monkeypatch.setattr(Objective, "at", at)
    assert response.alpha.size > SMALL
    found = look_around(Target(response), response, 0, 8)
    assert found.starts >= 3
    assert found.share < 0.01
    assert sum(second) <= 5 * found.starts
    assert len(second) - sum(second) > sum(second)


def test_time_that_is_up_ends_a_fit():
    """Nothing is found of starts for which there is no time, and a climb stops."""
    response = clusters()
    assert other_modes(response, response.m[None], seconds=-1.0).starts == 0
    search = Search(Objective(response.fit.problem, response.fit.bound()), 100, False, until=0.0)
    search.begin(response.eta, explicit=False)
    assert search.climb(5) == 0
    assert search.newton(0.0) == (False, "the time was up", pytest.approx(0.0, abs=1e-6))


@dataclass
class Way:
    """A search whose last sweep gained so much, so far below."""

    gain: float
    below: float
    n_iter: int = 0
    max_iter: int = 0

    @property
    def objective(self) -> Way:
        return self

    @property
    def point(self) -> Way:
        return self

    small = False

    @property
    def elbo(self) -> float:
        return -self.below

    def climb(self, sweeps: int) -> float:
        self.n_iter = sweeps
        return self.gain


def test_a_way_without_an_end_is_left():
    """Sweeps at which the first optimum's height is a thousand of them away are not followed."""
    assert _climbed(Way(LEVEL / 2, 1e6), 0.0)  # it has ended, however low
    assert _climbed(Way(35.0, PACE * 35.0 - 1), 0.0)
    endless = Way(35.0, PACE * 35.0 + 1)
    assert not _climbed(endless, 0.0)
    assert endless.n_iter == CLIMB


class Shares(lrvb.Model):
    """Two normals of unit variance with prior means −c and c, and the share p of the first."""

    global_blocks = {"mu": lrvb.Normal(batch=(2,)), "p": lrvb.Beta()}
    local_blocks = {"s": lrvb.Categorical(2)}

    def __init__(self, c: float):
        self.c = float(c)

    def global_term(self, m):
        sides = jnp.array([-2.0, 2.0]) * self.c
        return -((m.mu.xx - sides * m.mu.x) / 8).sum() + m.p.log_x + m.p.log1m_x

    def local_term(self, m, z, row):
        f = -0.5 * (row.y**2 - 2 * row.y * m.mu.x + m.mu.xx)
        return z.x[0] * (m.p.log_x + f[0]) + z.x[1] * (m.p.log1m_x + f[1])


@pytest.mark.parametrize("c", [0.0, 0.3])
def test_only_a_symmetry_makes_copies(c):
    """Labels exchanged, p with 1 − p: a copy under equal priors, otherwise a mode with its own evidence."""
    rng = np.random.default_rng(0)
    data = {"y": np.r_[rng.normal(-3, 1, 9), rng.normal(3, 1, 6)]}
    response = lrvb.infer(Shares(c), data, certify=False).response
    found = look_around(Target(response), response, 0, 12)
    assert found.relabelled == (c == 0)
    if c == 0:
        assert not found.others
    else:  # log evidence: of the priors alone, but for O(1) terms that both modes share
        mu = np.asarray(response.fit.moments.mu.x)
        assert_allclose(found.others[0].gain, -2 * c * (mu[1] - mu[0]) / 4, rtol=0.1)
