"""Short HMC from the Gaussian fit, whitened by it and then by its own draws, until the chains agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ..numerics.hmc import MANY, Chains, average, hmc, r_hat, root_of
from .kernel import Kernel, Values

CHAINS = 64
ROUNDS = 6
PAUSE = 3  # rounds after which a funnel is looked for, where chains still disagree
ADAPT, KEEP = 12, 25
AGREE = 1.03  # R̂ at which another round is not needed
EFFECTIVE = 400  # draws of the worst quantity at which none is needed either
LONGEST = 40  # leapfrog steps
JITTER = 0.85  # of the steps of later rounds


class Polished(NamedTuple):
    """Draws x (n, D) of the posterior and named values (n, q), chain within step, with their quality.

    Weights (n,) are those of control variates; R̂, effective draws and Monte Carlo errors of mean and
    sd are of every value, (q,).
    """

    x: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    r_hat: np.ndarray
    ess: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    rounds: int
    sound: bool  # whether control variates move means by no more than their errors


class Polishing:
    """64 chains from N(mean, root rootᵀ), 12 steps to adapt and 25 kept a round.

    After a round whose chains disagree, or whose draws are few, the next is whitened by the draws; of
    r rounds the last ⌈r/2⌉ are kept.
    """

    def __init__(
        self,
        kernel: Kernel,
        values: Values,
        mean: np.ndarray,
        root: np.ndarray,
        rng: np.random.Generator,
        bar: tqdm,
    ):
        self._kernel, self._values, self._rng, self._bar = kernel, values, rng, bar
        self._mean, self._root, self._path = mean, root, 0.5 * np.pi
        self._x = _starts(kernel, mean, root, rng)
        self._step: float | None = None
        self._rounds: list[tuple[Chains, np.ndarray]] = []
        self.agreed = False

    def go_on(self, until: int = ROUNDS) -> Polished:
        """To that many rounds, or until the chains agree."""
        while True:
            found = self._round()
            spread = found.values.std(axis=0) > 0
            worst = found.r_hat[spread].max(initial=1.0)
            enough = found.ess[spread].min(initial=np.inf) >= EFFECTIVE
            self.agreed = bool(worst <= AGREE and enough)
            if not self.agreed:
                self._mean, self._root = found.x.mean(axis=0), _whitened(found.x, self._root)
                if worst > 1.1:
                    self._path = min(1.3 * self._path, 6.0)
            if self.agreed or found.rounds >= until:
                return found

    def _round(self) -> Polished:
        r = len(self._rounds)
        chains = hmc(
            self._kernel,
            self._x,
            self._mean,
            self._root,
            self._rng,
            adapt=ADAPT if r == 0 else ADAPT // 2,
            keep=KEEP,
            step=self._step,
            path=self._path,
            longest=LONGEST,
            jitter=0.0 if r == 0 else JITTER,
        )
        self._x, self._step = chains.x[-1], chains.step
        values = self._values.steady(chains.x.reshape(-1, self._kernel.size))
        self._rounds.append((chains, values))
        self._bar.update()
        return _polished(self._rounds[-((r + 2) // 2) :], r + 1)


def _starts(
    kernel: Kernel, mean: np.ndarray, root: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draws of the normal where log p is finite."""
    x = mean + rng.standard_normal((4 * CHAINS, kernel.size)) @ root.T
    value, _ = kernel(x)
    good = x[np.isfinite(value)]
    if not len(good):
        good = mean[None]
    return good[np.arange(CHAINS) % len(good)]


def _polished(kept: list[tuple[Chains, np.ndarray]], rounds: int) -> Polished:
    x = np.concatenate([chains.x for chains, _ in kept])
    gradient = np.concatenate([chains.gradient for chains, _ in kept])
    g = np.concatenate([values for _, values in kept])
    steps, chains, D = x.shape
    found = average(x, gradient, g)
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = np.where(found.plain_error > 0, g.var(axis=0) / found.plain_error**2, float(len(g)))
    return Polished(
        x.reshape(-1, D),
        g,
        found.weights,
        r_hat(g.reshape(steps, chains, -1)),
        ess,
        found.mean_error,
        found.sd_error,
        rounds,
        found.sound,
    )


def _whitened(x: np.ndarray, root: np.ndarray) -> np.ndarray:
    """A root of the draws' covariance; of few draws in many dimensions their sds alone are taken over."""
    if len(x) >= MANY * x.shape[1]:
        return root_of(x)
    return root * (x.std(axis=0) / np.sqrt((root**2).sum(axis=1)))[:, None]
