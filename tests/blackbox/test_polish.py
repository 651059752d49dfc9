"""Rounds of HMC: when they end."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from blackbox.densities import density
from lrvb.blackbox.kernel import Kernel, Values
from lrvb.blackbox.polish import AGREED, ROUNDS, Polishing


def test_what_has_no_sd_asks_for_no_rounds():
    """A t of 1.5 degrees of freedom: R̂ of its values settles in no number of rounds, that of ranks soon."""
    target = density(lambda x: -1.25 * jnp.log1p(x[0] ** 2 / 1.5) - 0.5 * x[1] ** 2, np.zeros(2))
    for seed in range(3):
        kernel, values = Kernel(target), Values(target)
        rng = np.random.default_rng(seed)
        polishing = Polishing(kernel, values, np.zeros(2), np.eye(2), rng, tqdm(disable=True))
        found = polishing.go_on()
        np.testing.assert_array_equal(found.endless, [True, False])
        assert polishing.agreed
        assert found.r_hat[0] > found.worst
        assert found.rounds < ROUNDS
        assert found.ranked.max() <= AGREED
