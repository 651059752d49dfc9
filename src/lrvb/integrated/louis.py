"""Fisher's and Louis's identities for sums over the nodes of independent groups."""

from __future__ import annotations

import numpy as np


def louis(S: np.ndarray, P: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient Σ_g E[S] and the part Σ_g Cov[S] of the Hessian, over each group's nodes.

    S (G, d, K) are complete-data scores at the nodes, P (G, K) the nodes' probabilities, counts (G,) how
    often a group occurs. The Hessian's other part is the expected complete-data Hessian.
    """
    d = S.shape[1]
    expected = np.einsum("gdk,gk->gd", S, P)
    root = (S * np.sqrt(P * counts[:, None])[:, None]).transpose(1, 0, 2).reshape(d, -1)
    return counts @ expected, root @ root.T - (expected * counts[:, None]).T @ expected
