r"""The coefficients' covariance averaged over the precisions, not taken at their means.

Var(w) = E[Var(w | λ)] + Var(E[w | λ]). Linear response has the second part, and the first at E λ alone,
which is too small where few levels leave a precision uncertain: a variance is convex in it. The
average is over the 2k points at distance √k along the axes of the linear-response Gaussian of the
precisions in unconstrained coordinates, which has its mean and covariance.
"""

from __future__ import annotations

import warnings

import numpy as np

from ....collapsed.gaussian.arrow import Blocks
from ....collapsed.gaussian.best_gaussian import NoOptimum, NoResponse
from ....collapsed.gaussian.block import BlockSum
from ....engine.response import Response
from ....errors import NotAveraged
from ....posterior.draws import constrained, unconstrained
from ....posterior.estimate import estimate_of

SHARP = 0.03  # a relative sd of precisions below which the average changes sds by less than 0.1 %


def averaged_conditional(block: BlockSum, precisions: Response, here: Blocks) -> Blocks | None:
    """E[Σ̂_w|λ] in the blocks that rows touch; `here` are those at the expected precisions.

    Every point of the average needs its best Gaussian. Where one has none, there is no average: None,
    with a warning, and what is left is linear response as the paper has it.
    """
    m, state = precisions.fit.m, precisions.fit.point.state
    if _relative_sd(block, precisions) < SHARP:
        return here
    estimate = estimate_of(precisions)
    free = unconstrained(estimate)
    root = free.root(precisions.Sigma)
    k = root.shape[1]
    axes = np.sqrt(k) * np.vstack([root.T, -root.T])
    values = constrained(estimate, free, free.mean + axes)
    total = Blocks(*(np.zeros_like(part) for part in here))
    for i in range(2 * k):
        at = _moments(block, precisions, m, {name: value[i] for name, value in values.items()})
        try:
            found = block.conditional(block.collapse(at, state))
        except (NoOptimum, NoResponse):
            warnings.warn(_not_averaged(block, m, at), stacklevel=2)
            return None
        total = Blocks(*(a + b for a, b in zip(total, found, strict=True)))
    return Blocks(*(part / (2 * k) for part in total))


def _not_averaged(block: BlockSum, m: np.ndarray, at: np.ndarray) -> NotAveraged:
    """The warning, with the precision that is furthest out."""
    names = [block.precisions.terms[d.term].block for d in block.precisions.directions]
    places = [d.at for d in block.precisions.directions]
    with np.errstate(all="ignore"):
        ratio = at[places] / m[places]
    worst = int(np.argmax(np.abs(np.log(np.abs(ratio))))) if places else 0
    name = names[worst] if places else "the residual"
    return NotAveraged(
        "The coefficients have no best Gaussian at precisions that the posterior still holds likely "
        f"({name} at {ratio[worst] if places else 1.0:.2g} times its mean), so their sds are those at "
        "the expected precisions and somewhat too small. State a prior that keeps the precisions of "
        "random effects away from zero, or join the smallest levels.",
        block=name,
    )


def _relative_sd(block: BlockSum, precisions: Response) -> float:
    """The largest sd of an entry of a precision matrix, relative to its diagonal."""
    m, sd, places = precisions.fit.m, np.sqrt(np.diag(precisions.Sigma)), block.precisions
    found = [0.0] if places.scale is None else [sd[places.scale] / m[places.scale]]
    entries = [(d.at, d.term, *np.argwhere(d.basis)[0]) for d in places.directions]
    diagonal = {(term, i): m[at] for at, term, i, j in entries if i == j}
    for at, term, i, j in entries:
        found.append(sd[at] / np.sqrt(diagonal[term, i] * diagonal[term, j]))
    return float(max(found))


def _moments(
    block: BlockSum, precisions: Response, m: np.ndarray, values: dict[str, np.ndarray]
) -> np.ndarray:
    """m with given precisions in place of the expected ones."""
    at, places = m.copy(), block.precisions
    for t, term in enumerate(places.terms):
        Lambda = np.reshape(values[term.block], (len(term.columns), len(term.columns)))
        for d in places.directions:
            if d.term == t:
                i, j = np.argwhere(d.basis)[0]
                at[d.at] = Lambda[i, j]
    if places.scale is not None:
        name = precisions.alpha.block_of(places.scale)
        at[places.scale] = float(np.reshape(values[name], ()))
    return at
