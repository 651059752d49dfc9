"""Random effects as tables: every level's mean, sd, mean-field sd and covariance with the rest."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....collapsed.gaussian.functionals import Functionals
from ....collapsed.gaussian.own_effects import OwnEffects, own_effects
from ....collapsed.seam import LocalResponse
from ....numerics.algebra import local_covariance
from ..design.design import Design
from ..design.standardised import Standardisation
from ..fit.arrangement import Arrangement
from ..fit.joint_response import JointResponse
from .effects import LevelEffects, LevelMoments

CHUNK = 2**12  # levels at a time, each with its covariances with β


class Effects(LevelEffects):
    """The effects of a variational fit."""

    def __init__(
        self,
        design: Design,
        standard: Standardisation,
        arrangement: Arrangement,
        joint: JointResponse,
        quantities: list[str],
        M: np.ndarray,
    ):
        """`quantities` are the posterior's names; M (q, p + a) has their slopes in β and the precisions."""
        super().__init__(design, quantities)
        self.standard, self.arrangement, self.joint, self.M = standard, arrangement, joint, M

    def moments(self, t: int, j: int) -> LevelMoments:
        """Of the j-th coefficient of term t."""
        factor = self.design.factors[self.design.terms[t].factor]
        own = self.arrangement.places[t].factor < 0
        found = self._of_rows(factor.codes) if own else self._of_term(t, j)
        return found._replace(cov=found.cov @ self.M.T)

    def _of_term(self, t: int, j: int) -> LevelMoments:
        """A coefficient z_k of a grouping factor."""
        precisions, at = self.arrangement.block.precisions, self._place(t)
        levels = np.arange(len(self.design.factors[self.design.terms[t].factor].levels))
        parts = []
        for start in range(0, len(levels), CHUNK):
            rows = precisions.coefficient(at, j, levels[start : start + CHUNK])
            parts.append(self._moments(self._asked(Functionals(rows, fixed=True))))
        return _joined(parts)

    def _of_rows(self, codes: np.ndarray) -> LevelMoments:
        """The effect e_n of each row."""
        block = self.arrangement.block
        own, at, parts = row_effects(self.arrangement, self.joint), block.precisions.scale, []
        assert at is not None
        for start in range(0, len(codes), CHUNK):
            here = slice(start, start + CHUNK)
            zeta = self._asked(Functionals(block.layout.incidence.some(here), fixed=True))
            parts.append(self._moments(own.some(here).effect(zeta, at)))
        position = np.empty(len(codes), dtype=int)
        position[codes[self.arrangement.order]] = np.arange(len(codes))  # level → place of its row
        return LevelMoments(*(part[position] for part in _joined(parts)))

    def _asked(self, asked: Functionals) -> LocalResponse:
        return self.joint.coefficients.of(asked)

    def _moments(self, found: LocalResponse) -> LevelMoments:
        """From the response of each z beside β."""
        own, cross = local_covariance(found.Sigma, found.R, self.joint.precisions.Sigma)
        cov = np.hstack([own[:, 0, 1:] @ self.standard.T.T, cross[:, 0]])
        return LevelMoments(found.z[:, 0], np.sqrt(own[:, 0, 0]), np.sqrt(found.V[:, 0, 0]), cov)

    def _place(self, t: int) -> int:
        """The number of a design's term among those of the block, which leave the rows' own out."""
        return sum(place.factor >= 0 for place in self.arrangement.places[:t])


def row_effects(arrangement: Arrangement, joint: JointResponse) -> OwnEffects:
    """What is known of the effect e_n of each row, rows in the arrangement's order."""
    fit, block = joint.precisions.fit, arrangement.block
    best: Any = block.collapse(fit.m, fit.point.state).best
    return own_effects(best, block.precisions.s(fit.m))


def _joined(parts: list[LevelMoments]) -> LevelMoments:
    return LevelMoments(*(np.concatenate(part) for part in zip(*parts, strict=True)))
