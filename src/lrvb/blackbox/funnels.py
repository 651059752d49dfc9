"""HMC from the Gaussian fit; of a funnel, in coordinates in which it is straight."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ..numerics.hmc import root_of
from ..posterior.polish import NEAR, SETTLED
from .fits import Fitted, fit_from_draws
from .kernel import Kernel, Values
from .polish import PAUSE, ROUNDS, Polished, Polishing
from .warp import Warp, find_warp


class Sampled(NamedTuple):
    """Draws of x, the fit that stands beside them, and the coordinates in which that was made.

    The chains' own are those of `warp`.
    """

    kernel: Kernel
    values: Values
    fitted: Fitted
    found: Polished
    chains: Polishing
    warp: Warp | None = None

    def brought_back(self, found: Polished) -> Polished:
        """Draws of the coordinates in which they were made as draws of x."""
        return found if self.warp is None else found._replace(x=self.warp.forward(found.x))

    @property
    def agreed(self) -> bool:
        """Whether the chains do."""
        return self.chains.agreed


def sample(
    kernel: Kernel, values: Values, fitted: Fitted, rng: np.random.Generator, bar: tqdm
) -> Sampled:
    """Polished draws from the fit. Of a funnel, draws and fit are made anew where it is straight.

    The draws in which chains agree best are taken; linear response is that of the same coordinates, unless
    the first one answers as they do.
    """
    chains = Polishing(kernel, values, fitted.mean, fitted.root, rng, bar)
    found = chains.go_on(PAUSE)
    best = Sampled(kernel, values, fitted, found, chains)
    for rounds in (PAUSE, ROUNDS):  # the second time from better draws
        if best.agreed or (best.warp is not None and best.found.worst <= SETTLED):
            break
        again = _straightened(best, kernel, values, rng.spawn(1)[0], bar, rounds)
        if again is None or again.found.worst >= best.found.worst:
            break
        best = again
    if not best.agreed:
        best = best._replace(found=best.brought_back(best.chains.to_the_end()))
    if best.warp is None:
        return best
    if _answers(fitted, best.found):
        return best._replace(kernel=kernel, values=values)
    v = best.warp.inverse(best.found.x)
    return best._replace(fitted=fit_from_draws(best.kernel, best.values, v))


def _answers(fitted: Fitted, found: Polished) -> bool:
    """Whether linear response of a fit is near the draws in every quantity that varies."""
    if not fitted.converged or fitted.answer.Sigma is None:
        return False
    mean, sd = found.values.mean(axis=0), found.values.std(axis=0)
    own = np.sqrt(np.diag(fitted.answer.Sigma))
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.maximum(np.abs(fitted.answer.mean - mean) / sd, np.abs(np.log(own / sd)))
    return bool((gap[sd > 0] <= NEAR).all())


def _straightened(
    best: Sampled,
    kernel: Kernel,
    values: Values,
    rng: np.random.Generator,
    bar: tqdm,
    rounds: int,
) -> Sampled | None:
    """Draws in the coordinates that the best so far suggest, if they do."""
    warp = find_warp(best.found.x)
    if warp is None:
        return None
    kernel, values = kernel.through(warp), values.through(warp)
    v = warp.inverse(best.found.x)
    chains = Polishing(kernel, values, v.mean(axis=0), root_of(v), rng, bar)
    sampled = Sampled(kernel, values, best.fitted, chains.go_on(rounds), chains, warp)
    return sampled._replace(found=sampled.brought_back(sampled.found))
