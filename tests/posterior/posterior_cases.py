"""The posterior of every case, which the tests of this folder ask."""

from __future__ import annotations

from functools import cache

import jax.numpy as jnp
import pytest

import lrvb
from cases import CASES

BY_NAME = {str(case): case for case in CASES}
COUNTS, SLOPE, MIXTURE = (
    BY_NAME[n] for n in ("NormalPoisson-tilted", "RandomSlope", "NormalMixture")
)


@cache
def posterior_of(name: str) -> lrvb.Posterior:
    return lrvb.summarize(BY_NAME[name].response())


every_case = pytest.mark.parametrize("name", list(BY_NAME))


class Prior(lrvb.Model):
    """Blocks of every shape under their priors: no rows."""

    global_blocks = {
        "x": lrvb.Normal(),
        "b": lrvb.Beta(batch=(3,)),
        "mu": lrvb.MultivariateNormal(2, batch=(2,)),
        "Lambda": lrvb.Wishart(2, batch=(2, 1)),
        "pi": lrvb.Dirichlet(3),
        "tau": lrvb.Gamma(),
    }

    def global_term(self, m):
        normal = -0.5 * (m.x.xx - 2 * m.x.x) - 0.5 * jnp.sum(m.mu.xx * jnp.eye(2)) * m.tau.x
        beta = jnp.sum(2 * m.b.log_x + 3 * m.b.log1m_x)
        wishart = jnp.sum(3 * m.Lambda.logdet_x) - jnp.sum(m.Lambda.x * jnp.eye(2))
        return normal + beta + wishart + 4 * m.pi.log_x.sum() + 5 * m.tau.log_x - 2 * m.tau.x


@cache
def prior() -> lrvb.Posterior:
    return lrvb.infer(Prior())
