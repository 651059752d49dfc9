r"""The coefficients' covariance averaged over the precisions, not taken at their means.

Var(w) = E[Var(w | λ)] + Var(E[w | λ]). Linear response has the second part, and the first at E λ alone,
which is too small where few levels leave a precision uncertain: a variance is convex in it. The
average is over the 2k points at distance √k along the axes of the linear-response Gaussian of the
precisions in unconstrained coordinates, which has its mean and covariance.
"""

from __future__ import annotations

import numpy as np

from ....collapsed.gaussian.arrow import Blocks
from ....collapsed.gaussian.block import BlockSum
from ....collapsed.gaussian.conditional import conditional_blocks
from ....collapsed.gaussian.optimum import NoOptimum
from ....engine.response import Response
from ....posterior.draws import constrained, unconstrained
from ....posterior.estimate import estimate_of

SHARP = 0.03  # a relative sd of precisions below which the average changes sds by less than 0.1 %


def averaged_blocks(block: BlockSum, inner: Response, here: Blocks) -> Blocks:
    """E[Σ̂_w|λ] in the blocks that rows touch; `here` are those at the expected precisions."""
    m = inner.fit.m
    if _relative_sd(block, inner) < SHARP:
        return here
    estimate = estimate_of(inner)
    free = unconstrained(estimate)
    root = free.root(inner.Sigma)
    k = root.shape[1]
    axes = np.sqrt(k) * np.vstack([root.T, -root.T])
    values = constrained(estimate, free, free.mean + axes)
    remembered, total = block.remembered(), None
    for i in range(2 * k):
        at = _moments(block, inner, m, {name: value[i] for name, value in values.items()})
        try:
            found = conditional_blocks(block, block.collapse(at))
        except NoOptimum:  # a precision so far out that there is no factor: the mean has to do
            found = here
        total = (
            found if total is None else Blocks(*(a + b for a, b in zip(total, found, strict=True)))
        )
    block.recall(remembered)
    assert total is not None
    return Blocks(*(part / (2 * k) for part in total))


def _relative_sd(block: BlockSum, inner: Response) -> float:
    """The largest sd of an entry of a precision matrix, relative to its diagonal."""
    m, sd, where = inner.fit.m, np.sqrt(np.diag(inner.Sigma)), block.precisions
    found = [0.0] if where.scale is None else [sd[where.scale] / m[where.scale]]
    places = [(d.at, d.term, *np.argwhere(d.basis)[0]) for d in where.directions]
    diagonal = {(term, i): m[at] for at, term, i, j in places if i == j}
    for at, term, i, j in places:
        found.append(sd[at] / np.sqrt(diagonal[term, i] * diagonal[term, j]))
    return float(max(found))


def _moments(
    block: BlockSum, inner: Response, m: np.ndarray, values: dict[str, np.ndarray]
) -> np.ndarray:
    """m with given precisions in place of the expected ones."""
    at, where = m.copy(), block.precisions
    for t, term in enumerate(where.terms):
        Lambda = np.reshape(values[term.block], (len(term.columns), len(term.columns)))
        for d in where.directions:
            if d.term == t:
                i, j = np.argwhere(d.basis)[0]
                at[d.at] = Lambda[i, j]
    if where.scale is not None:
        name = inner.alpha.block_of(where.scale)
        at[where.scale] = float(np.reshape(values[name], ()))
    return at
