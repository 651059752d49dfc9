"""Short HMC from the Gaussian fit, whitened by it and then by its own draws, until the chains agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ..numerics.hmc import Chains, ControlVariates, control_variates, hmc, no_controls, r_hat
from .kernel import Kernel, Values

CHAINS = 64
ROUNDS = 6
ADAPT, KEEP = 12, 25
AGREE = 1.03  # R̂ at which another round is not needed
EFFECTIVE = 400  # draws of the worst quantity at which none is needed either
LONGEST = 40  # leapfrog steps
JITTER = 0.85  # of the steps of later rounds
MANY = 8  # draws a dimension from which a covariance is estimated
FAR = 7.0  # standard errors by which control variates may move a mean: beyond, density has an edge


class Polished(NamedTuple):
    """Draws x (n, D) of the posterior and named values (n, q), chain within step, with their quality.

    R̂, effective draws and Monte Carlo errors of mean and sd are of every value, (q,).
    """

    x: np.ndarray
    values: np.ndarray
    controls: ControlVariates
    r_hat: np.ndarray
    ess: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    rounds: int
    sound: bool  # whether control variates move means by no more than their errors


def polish(
    kernel: Kernel,
    values: Values,
    mean: np.ndarray,
    root: np.ndarray,
    rng: np.random.Generator,
    bar: tqdm,
) -> Polished:
    """64 chains from N(mean, root rootᵀ), 12 steps to adapt and 25 kept a round.

    After a round whose chains disagree, or whose draws are few, the next is whitened by the draws; of
    r rounds the last ⌈r/2⌉ are kept.
    """
    x = _starts(kernel, mean, root, rng)
    step, path = None, 0.5 * np.pi
    rounds: list[tuple[Chains, np.ndarray]] = []
    for r in range(ROUNDS):
        chains = hmc(
            kernel,
            x,
            mean,
            root,
            rng,
            adapt=ADAPT if r == 0 else ADAPT // 2,
            keep=KEEP,
            step=step,
            path=path,
            longest=LONGEST,
            jitter=0.0 if r == 0 else JITTER,
        )
        x, step = chains.x[-1], chains.step
        rounds.append((chains, values.steady(chains.x.reshape(-1, kernel.size))))
        bar.update()
        kept = rounds[-((r + 2) // 2) :]
        found = _polished(kept, r + 1)
        spread = found.values.std(axis=0) > 0
        worst = found.r_hat[spread].max(initial=1.0)
        if worst <= AGREE and found.ess[spread].min(initial=np.inf) >= EFFECTIVE:
            break
        mean, root = found.x.mean(axis=0), _whitened(found.x, root)
        if worst > 1.1:
            path = min(1.3 * path, 6.0)
    return found


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
    steps, chains, D = x.shape
    x = x.reshape(-1, D)
    gradient = np.concatenate([c.gradient for c, _ in kept]).reshape(-1, D)
    g = np.concatenate([values for _, values in kept])
    mean, sd = x.mean(axis=0), x.std(axis=0)
    full = len(x) >= MANY * D
    root = _root(x) if full else np.diag(np.where(sd > 0, sd, 1.0))
    y = np.linalg.solve(root, (x - mean).T).T if full else (x - mean) / np.diag(root)
    controls = control_variates(y, gradient @ root)
    by_chain = (steps, chains, -1)
    averages = (g - g.mean(axis=0)).reshape(by_chain).mean(axis=0)
    plain = averages.var(axis=0, ddof=1) / chains
    moved = controls.weights @ g - g.mean(axis=0)
    sound = bool((moved**2 <= FAR**2 * plain + 1e-18 * g.var(axis=0)).all())
    if not sound:
        controls = no_controls(len(g))
    center = controls.weights @ g
    squares = (g - center) ** 2
    sd = np.sqrt(np.maximum(controls.weights @ squares, 1e-300))
    errors = [
        controls.residual(F).reshape(by_chain).mean(axis=0).std(axis=0, ddof=1) / np.sqrt(chains)
        for F in (g, squares / (2 * sd))
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = np.where(plain > 0, g.var(axis=0) / plain, float(len(g)))
    return Polished(
        x, g, controls, r_hat(g.reshape(by_chain)), ess, errors[0], errors[1], rounds, sound
    )


def _whitened(x: np.ndarray, root: np.ndarray) -> np.ndarray:
    """A root of the draws' covariance; of few draws in many dimensions their sds alone are taken over."""
    if len(x) >= MANY * x.shape[1]:
        return _root(x)
    return root * (x.std(axis=0) / np.sqrt((root**2).sum(axis=1)))[:, None]


def _root(x: np.ndarray) -> np.ndarray:
    """Cholesky's root of the draws' covariance, shrunk a little to its diagonal where draws are few."""
    n, D = x.shape
    S = np.cov(x.T).reshape(D, D)
    sd = np.sqrt(np.maximum(np.diag(S), 1e-300))
    C = S / np.outer(sd, sd)
    share = min(0.5, D / n) + 1e-9
    return sd[:, None] * np.linalg.cholesky((1 - share) * C + share * np.eye(D))
