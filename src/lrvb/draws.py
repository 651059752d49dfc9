"""Joint draws: a Gaussian in unconstrained coordinates with the linear-response covariance."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from .errors import NotAMaximum
from .refinement import refine
from .response import Response


def draw(
    response: Response, n: int, rng: np.random.Generator, *, refined: bool = False
) -> dict[str, np.ndarray]:
    """n draws of every global block.

    Each family gives coordinates u = mean + W(T − m) + rest, with rest uncorrelated with T and of
    covariance R; so Cov(u) = WΣ̂Wᵀ + R over all blocks together.
    """
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
            copies.append((name, natural))
    W, R = np.concatenate(loadings), scipy.linalg.block_diag(*rests)
    noise = rng.standard_normal((n, len(W))) @ _root(W @ response.Sigma @ W.T + R).T
    u = np.concatenate(means) + noise
    if refined:
        second = refine(response, W)
        plain = np.einsum("ka,ab,kb->k", W, response.Sigma, W)
        rest = np.diag(R)
        scale = np.sqrt((second.variance + rest) / (plain + rest))
        u = np.concatenate(means) + second.shift + noise * scale
    result: dict[str, list[np.ndarray]] = {name: [] for name in alpha.blocks}
    start = 0
    for (name, natural), mean in zip(copies, means, strict=True):
        here = slice(start, start + len(mean))
        start = here.stop
        result[name].append(np.asarray(alpha.blocks[name].constrain(natural, u[:, here])))
    return {
        name: np.stack(parts, axis=1).reshape(n, *alpha.blocks[name].batch, *parts[0].shape[1:])
        for name, parts in result.items()
    }


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
