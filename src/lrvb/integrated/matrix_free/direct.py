"""The Schur complement formed and factorised, where it is small or stays sparse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from .schur import EXACTLY, Schur, logdet
from .sums import Sums

DENSE = 600  # coefficients up to which S is a dense matrix
SPARSE = 20_000  # coefficients up to which a sparse factor is tried
THIN = 500_000  # and up to which one that hardly fills up is, as of levels in chains or trees
ENTRIES = 50  # of a row of S, up to which it is
WORK = 3e7  # products that a sparse factor may cost, and of more coefficients `ENTRIES` each
PAIRS = 3e6  # products that forming S may cost


def is_small(sums: Sums, dense: int = DENSE, most: float = PAIRS) -> bool:
    """Whether S is cheap to form and to factorise: up to `dense` coefficients, or with a sparse factor.

    most are the products that forming it may cost.
    """
    if sums.nested:
        return False
    pairs = float((np.diff(sums.B.indptr).astype(float) ** 2).sum())
    if pairs > most:
        return False
    if sums.r <= dense or sums.r > THIN:
        return sums.r <= dense
    pattern = (sums.Bt @ sums.B).tocsr()
    work = WORK if sums.r <= SPARSE else min(WORK, ENTRIES * sums.r)
    return pattern.nnz <= ENTRIES * sums.r and stays_sparse(pattern, work)


def stays_sparse(pattern: Any, most: float = WORK) -> bool:
    """Whether Σ d² ≤ most, d being each coefficient's neighbours when it is eliminated, fewest first.

    Few rows of levels that meet at random fill a factor up, however few entries the matrix has.
    """
    ends = pattern.indptr
    near = [set(pattern.indices[a:b].tolist()) - {i} for i, (a, b) in enumerate(pairwise(ends))]
    order = [(len(others), i) for i, others in enumerate(near)]
    heapify(order)
    while order:
        d, i = heappop(order)
        if d != len(near[i]):  # as it once was
            continue
        most -= d**2
        if most < 0:
            return False
        clique, near[i] = near[i], set()
        for j in clique:
            near[j] |= clique
            near[j] -= {i, j}
            heappush(order, (len(near[j]), j))
    return True


class Direct(Schur):
    """S as a matrix, with its factor."""

    def __init__(self, sums: Sums, precisions: Sequence[np.ndarray], dense: int = DENSE):
        super().__init__(sums, precisions)
        self.sparse = sums.r > dense

    @cached_property
    def matrix(self) -> Any:
        """S, sparse (r, r)."""
        sums = self.sums
        inner = sums.Bt @ (block_diagonal(self.E) @ sums.B)
        own = [block_diagonal(block) for block in self.own]
        S = sp.block_diag(own, format="csr") - inner
        return (S if sums.across is None else S + sums.across).tocsc()

    @cached_property
    def factor(self) -> Any:
        """Cholesky's, or SuperLU's with an order for little fill."""
        if not self.sparse:
            return cho_factor(self.matrix.toarray(), lower=True)
        from scipy.sparse.linalg import splu

        options = {"SymmetricMode": True}
        return splu(self.matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    def logdet_first(self) -> float:
        """log |D₁ + Λ₁|."""
        return -logdet(self.E)

    def logdet_rest(self) -> float:
        """log |S|."""
        if self.sparse:
            return float(np.log(np.abs(self.factor.U.diagonal())).sum())
        return 2 * float(np.log(np.diagonal(self.factor[0])).sum())

    def solve(self, b: np.ndarray, tolerance: float = EXACTLY) -> np.ndarray:
        """S⁻¹b."""
        return self.factor.solve(b) if self.sparse else cho_solve(self.factor, b)


def block_diagonal(blocks: np.ndarray) -> Any:
    """Sparse, of blocks (K, q, q)."""
    K = len(blocks)
    if blocks.shape[1] == 1:
        return sp.diags_array(blocks[:, 0, 0], format="csr")
    return sp.bsr_array((blocks, np.arange(K), np.arange(K + 1))).tocsr()
