"""Joint draws by a Gaussian copula: linear response correlates, each family gives its margins.

Of every unconstrained coordinate (log τ, the log gammas of π, Bartlett's factors of Λ) linear response
gives sd and correlations; its distribution is that of the family's member with this sd and the table's
mean (of τ and Λ themselves; refined draws have the refined mean on the log scale). A block that is
alone, or correlated with nothing, is thus drawn from q itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..engine.second_order import Refined
from ..errors import NotAMaximum
from .blocks import DerivedBlock
from .estimate import Estimate


class Unconstrained(NamedTuple):
    """Coordinates u of all blocks, u = mean + W(T − m) + rest: Cov(u) = WΣ̂Wᵀ + R."""

    mean: np.ndarray
    W: np.ndarray
    R: np.ndarray
    widths: dict[str, int]  # number of coordinates of every block

    def root(self, Sigma: np.ndarray) -> np.ndarray:
        """A root of Cov(u)."""
        return root_of(self.W @ Sigma @ self.W.T + self.R)


def unconstrained(estimate: Estimate) -> Unconstrained:
    """Each block gives its coordinates, with a rest uncorrelated with T and of covariance R."""
    parts = {
        name: block.unconstrained(estimate.m[estimate.slices[name]])
        for name, block in estimate.blocks.items()
    }
    return Unconstrained(
        np.concatenate([part.mean for part in parts.values()]),
        scipy.linalg.block_diag(*(part.W for part in parts.values())),
        scipy.linalg.block_diag(*(part.R for part in parts.values())),
        {name: len(part.mean) for name, part in parts.items()},
    )


def constrained(estimate: Estimate, free: Unconstrained, u: np.ndarray) -> dict[str, np.ndarray]:
    """The values of every block at coordinates u (n, k)."""
    values, start = {}, 0
    for name, width in free.widths.items():
        if isinstance(estimate.blocks[name], DerivedBlock):
            continue
        values[name] = estimate.blocks[name].constrain(u[:, start : start + width])
        start += width
    return values


def draw(
    estimate: Estimate,
    n: int,
    rng: np.random.Generator,
    refine: Callable[[np.ndarray | Callable[[Any], Any]], Refined] | None = None,
) -> dict[str, np.ndarray]:
    """n draws of every block; `refine` corrects means and variances of linear functions of T."""
    free = unconstrained(estimate)
    noise = rng.standard_normal((n, len(free.W))) @ free.root(estimate.Sigma).T
    return at_noise(estimate, free, noise, refine)


def at_noise(
    estimate: Estimate,
    free: Unconstrained,
    noise: np.ndarray,
    refine: Callable[[np.ndarray | Callable[[Any], Any]], Refined] | None = None,
) -> dict[str, np.ndarray]:
    """Every block where its unconstrained coordinates are off their means by normal noise (n, k)."""
    plain, rest = np.einsum("ka,ab,kb->k", free.W, estimate.Sigma, free.W), np.diag(free.R)
    sd = np.sqrt(plain + rest)
    score = noise / np.where(sd > 0, sd, 1.0)
    mean = free.mean
    if refine is not None:
        second = refine(free.W)
        mean, sd = mean + second.shift, np.sqrt(second.variance + rest)
    values, start = {}, 0
    for name, width in free.widths.items():
        if isinstance(estimate.blocks[name], DerivedBlock):
            continue
        here = slice(start, start + width)
        values[name] = estimate.blocks[name].at_scores(
            score[:, here], mean[here], sd[here], own_mean=refine is None
        )
        start += width
    return values


def root_of(S: np.ndarray) -> np.ndarray:
    """A matrix square root of a covariance; scaled first, so that units do not matter."""
    sd = np.sqrt(np.diag(S))
    scale = np.where(sd > 0, sd, 1.0)
    eigenvalues, Q = np.linalg.eigh(S / np.outer(scale, scale))
    if eigenvalues[0] < -1e-9 * max(eigenvalues[-1], 1.0):
        raise NotAMaximum(
            f"The covariance of the draws has eigenvalue {eigenvalues[0]:.1e}; it must not be "
            "negative. Refit with a smaller tol."
        )
    return scale[:, None] * (Q * np.sqrt(np.maximum(eigenvalues, 0.0)))
