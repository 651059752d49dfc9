"""Joint draws: a Gaussian in unconstrained coordinates with the linear-response covariance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from ..engine.response import Response
from ..engine.second_order import refine
from ..errors import NotAMaximum


class Unconstrained(NamedTuple):
    """Coordinates u of all global blocks, u = mean + W(T − m) + rest: Cov(u) = WΣ̂Wᵀ + R."""

    mean: np.ndarray
    W: np.ndarray
    R: np.ndarray
    copies: list[tuple[str, Any, int]]  # block, natural parameters, number of coordinates

    def root(self, Sigma: np.ndarray) -> np.ndarray:
        """A root of Cov(u)."""
        return _root(self.W @ Sigma @ self.W.T + self.R)


def unconstrained(response: Response) -> Unconstrained:
    """Each family gives its coordinates, with a rest uncorrelated with T and of covariance R."""
    alpha, eta = response.alpha, response.fit.eta
    means, loadings, rests, copies = [], [], [], []
    for name, family in alpha.blocks.items():
        for copy in range(family.copies):
            start = alpha.slices[name].start + copy * family.size
            here = slice(start, start + family.size)
            natural = _on_host(family.unflatten(np.asarray(eta[here]), natural=True))
            mean, W, R = family.unconstrained(natural)
            wide = np.zeros((len(mean), alpha.size))
            wide[:, here] = W
            means.append(np.asarray(mean, dtype=float))
            loadings.append(wide)
            rests.append(np.asarray(R, dtype=float))
            copies.append((name, natural, len(mean)))
    return Unconstrained(
        np.concatenate(means), np.concatenate(loadings), scipy.linalg.block_diag(*rests), copies
    )


def constrained(response: Response, where: Unconstrained, u: np.ndarray) -> dict[str, np.ndarray]:
    """The values of every global block at coordinates u (n, k)."""
    blocks = response.alpha.blocks
    result: dict[str, list[np.ndarray]] = {name: [] for name in blocks}
    start = 0
    for name, natural, width in where.copies:
        here = slice(start, start + width)
        start = here.stop
        result[name].append(np.asarray(blocks[name].constrain(natural, u[:, here])))
    return {
        name: np.stack(parts, axis=1).reshape(len(u), *blocks[name].batch, *parts[0].shape[1:])
        for name, parts in result.items()
    }


def draw(
    response: Response, n: int, rng: np.random.Generator, *, refined: bool = False
) -> dict[str, np.ndarray]:
    """n draws of every global block."""
    where = unconstrained(response)
    noise = rng.standard_normal((n, len(where.W))) @ where.root(response.Sigma).T
    u = where.mean + noise
    if refined:
        second = refine(response, where.W)
        plain = np.einsum("ka,ab,kb->k", where.W, response.Sigma, where.W)
        rest = np.diag(where.R)
        scale = np.sqrt((second.variance + rest) / (plain + rest))
        u = where.mean + second.shift + noise * scale
    return constrained(response, where, u)


def _on_host(stats: tuple[object, ...]) -> tuple[object, ...]:
    return type(stats)(*(np.asarray(s) for s in stats))


def _root(S: np.ndarray) -> np.ndarray:
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
