r"""Σ̂_w|α: how the means answer a tilt of themselves, in the blocks that rows touch.

The inverse Hessian M⁻¹ of the means is the answer while variances stay. Where the rows' weights depend
on them, the variances of a level's rows follow its linear predictors (see `feedback`), and M loses GᵀAG
for every level of the first factor, with G = Σ_n ℓ_ηv ρ_n c_nᵀ. What passes from one level's variances
to another's is left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from .arrow import Blocks, NotPositive, Prior, invert, posterior_precision
from .best_gaussian import NoResponse
from .feedback import feedback
from .layout import Cross, Layout
from .optimum import IteratedOptimum, level_covariances

if TYPE_CHECKING:
    from .reweighted import Reweighted


def conditional_blocks(given: Reweighted, best: IteratedOptimum, prior: Prior) -> Blocks:
    """The blocks of Σ̂_w|α: exact for rows that are not coupled.

    Feedback so strong that M − ΣGᵀAG is not positive definite is `NoResponse`.
    """
    layout, terms = given.layout, best.terms
    if not given.rows.coupled or not layout.q:
        return best.M.blocks
    M = posterior_precision(layout.cross(-terms.ee), prior)
    loss = _followed(layout, level_covariances(best.Sigma), terms.ev, terms.vv)
    try:
        return invert(Cross(M.D - loss.D, M.B - loss.B, M.A - loss.A)).blocks
    except NotPositive as error:
        raise NoResponse from error


def _followed(layout: Layout, E: np.ndarray, ev: np.ndarray, vv: np.ndarray) -> Cross:
    """GᵀAG summed over levels, in the blocks of M."""
    A = feedback(layout, E, vv).A
    weighted = [ev * rho for rho in layout.products]
    by_z = _sums(layout, weighted, layout.first.R)
    by_rest = _rest_sums(layout, weighted)
    left = by_z.swapaxes(1, 2) @ A
    return Cross(left @ by_z, _blocks_times(left, by_rest), _sandwich(A, by_rest))


def _sums(layout: Layout, weighted: list[np.ndarray], columns: np.ndarray) -> np.ndarray:
    """Σ over each level's rows of weight times column, (G, weights, columns)."""
    return np.stack(
        [np.stack([layout.by_level(w * c) for c in columns.T], axis=1) for w in weighted], axis=1
    )


def _rest_sums(layout: Layout, weighted: list[np.ndarray]) -> Any:
    """The same with the columns of the rest, (G · weights, r): sparse beside other factors."""
    width, G, p = len(weighted), layout.G, layout.p
    codes = layout.first.codes
    dense = np.zeros((G, width, p)) if not p else _sums(layout, weighted, layout.X)
    dense = dense.reshape(G * width, p)
    if not layout.others:
        return dense
    rows = codes[:, None, None] * width + np.arange(width)[:, None]
    entries = np.stack(weighted, axis=1)[:, :, None] * layout.values[:, None, :]
    columns = np.broadcast_to(layout.columns[:, None, :] - p, entries.shape)
    rows = np.broadcast_to(rows, entries.shape)
    shape = (G * width, layout.r - p)
    wide = sp.coo_array((entries.ravel(), (rows.ravel(), columns.ravel())), shape).tocsr()
    return sp.hstack([sp.csr_array(dense), wide], format="csr")


def _blocks_times(left: np.ndarray, right: Any) -> Any:
    """The block-diagonal matrix of left (G, q, w) times right (Gw, r)."""
    G, q, w = left.shape
    if not sp.issparse(right):
        return (left @ right.reshape(G, w, right.shape[1])).reshape(G * q, right.shape[1])
    return sp.bsr_array((left, np.arange(G), np.arange(G + 1)), shape=(G * q, G * w)) @ right


def _sandwich(K: np.ndarray, right: Any) -> np.ndarray:
    """rightᵀ · blockdiag(K) · right, (r, r)."""
    product = right.T @ _blocks_times(K, right)
    return product.toarray() if sp.issparse(product) else product
