"""HMC from the Gaussian fit; of a funnel, in coordinates in which it is straight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from .fits import Fitted, fit_from_draws
from .kernel import Kernel, Values
from .polish import PAUSE, ROUNDS, Polished, Polishing
from .warp import find_warp


class Sampled(NamedTuple):
    """Draws of x, the fit that stands beside them, and the coordinates in which it was made."""

    kernel: Kernel
    values: Values
    fitted: Fitted
    found: Polished
    chains: Polishing

    @property
    def agreed(self) -> bool:
        """Whether the chains do."""
        return self.chains.agreed


def sample(
    kernel: Kernel, values: Values, fitted: Fitted, rng: np.random.Generator, bar: tqdm
) -> Sampled:
    """Polished draws from the fit. Of a funnel, fit and draws are made anew where it is straight.

    The draws in which chains agree best are taken; linear response is that of the same coordinates.
    """
    chains = Polishing(kernel, values, fitted.mean, fitted.root, rng, bar)
    found = chains.go_on(PAUSE)
    best = Sampled(kernel, values, fitted, found, chains)
    for rounds in (PAUSE, ROUNDS):  # the second time from better draws
        if best.agreed:
            return best
        again = _straightened(kernel, values, best.found.x, rng.spawn(1)[0], bar, rounds)
        if again is None or _worst(again.found) >= _worst(best.found):
            break
        best = again
    if best.kernel is kernel:
        best = best._replace(found=chains.go_on())
    return best


def _straightened(
    kernel: Kernel,
    values: Values,
    x: np.ndarray,
    rng: np.random.Generator,
    bar: tqdm,
    rounds: int,
) -> Sampled | None:
    """The same in the coordinates that draws x (n, D) suggest, if they do, and if a Gaussian fits there."""
    warp = find_warp(x)
    if warp is None:
        return None
    kernel, values = kernel.through(warp), values.through(warp)
    fitted = fit_from_draws(kernel, values, warp.inverse(x))
    if not fitted.converged or fitted.answer.Sigma is None:
        return None
    chains = Polishing(kernel, values, fitted.mean, fitted.root, rng, bar)
    found = chains.go_on(rounds)
    found = found._replace(x=warp.forward(found.x))
    return Sampled(kernel, values, fitted, found, chains)


def _worst(found: Polished) -> float:
    """The largest R̂ of what varies, and of the coordinates."""
    return max(found.slowest, float(found.r_hat[found.values.std(axis=0) > 0].max(initial=1.0)))
