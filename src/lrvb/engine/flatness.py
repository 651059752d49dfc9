"""Flat directions: where the ELBO's curvature cannot be told from zero, and what to call them.

B = I − CᵀH̃C is known up to rounding, |δB| ≲ ε|C|ᵀ|H̃||C|, and up to what the remaining residual
ρ = Cᵀr would still change it: along the orbit of a symmetry, such as a rotation, the curvature is
of the order of ρ. An eigenvalue below both is not known to be positive, and 1/√λ is no sd.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ..statement.meanfield import MeanField
from .newton import Curved

SUSPICIOUS = 1e-5  # reciprocal condition of B above which no rounding reaches its lowest eigenvalue
ROUNDINGS = 32.0  # of one entry of B: row sums and two products, with a margin
FLAT = "the ELBO is flat"  # how such a fit's reason for stopping begins
FEW = 4  # quantities at most that are listed one by one
MOST = 0.999  # of a direction's square length: what the listed ones must carry between them


class Flat(NamedTuple):
    """A unit direction u along which B has this eigenvalue, and the size that zero may have."""

    u: np.ndarray
    eigenvalue: float
    noise: float


def flat_direction(model: Curved) -> Flat | None:
    """The lowest eigenpair of B if it cannot be told from zero; None at a strict maximum or a saddle.

    An estimate of B's condition from its Cholesky factor settles the usual case in O(a²).
    """
    if not np.isfinite(model.B).all() or len(model.B) == 0:
        return None
    if model.is_concave and _reciprocal_condition(model) > SUSPICIOUS:
        return None
    low, Q = scipy.linalg.eigh(model.B, subset_by_index=[0, 0])
    u, eigenvalue = Q[:, 0], float(low[0])
    noise = _noise(model, u)
    return Flat(u, eigenvalue, noise) if abs(eigenvalue) <= noise else None


def _reciprocal_condition(model: Curved) -> float:
    """1 / (|B|₁ |B⁻¹|₁), estimated by LAPACK from K."""
    rcond, _ = scipy.linalg.lapack.dpocon(model.K, np.abs(model.B).sum(axis=0).max(), uplo="L")
    return float(rcond)


def _noise(model: Curved, u: np.ndarray) -> float:
    """How far from zero the curvature along u may come out: rounding, and the residual's share."""
    spread = np.abs(model.C) @ np.abs(u)
    rounding = 1.0 + float(spread @ (np.abs(model.H) @ spread))
    residual = float(np.linalg.norm(model.C.T @ model.r))
    return ROUNDINGS * float(np.finfo(float).eps) * rounding + residual


def loadings(alpha: MeanField, C: np.ndarray, u: np.ndarray) -> dict[str, float]:
    """The change δm = Cu of the named quantities that carry a direction, the largest in sds first."""
    change, sd = C @ u, np.sqrt(np.einsum("ij,ij->i", C, C))
    named = [(name, i) for i, name in enumerate(alpha.names()) if name is not None and sd[i] > 0]
    weight = {name: (change[i] / sd[i]) ** 2 for name, i in named}
    total = sum(weight.values())
    carried, kept = 0.0, {}
    for name, i in sorted(named, key=lambda pair: -weight[pair[0]]):
        if carried > MOST * total:
            break
        carried += weight[name]
        kept[name] = float(change[i])
    return kept


def in_words(alpha: MeanField, carriers: Mapping[str, float]) -> str:
    """`b[0] + 0.3 b[1] − b[2]`, or the blocks that move together where they are many."""
    if not carriers:
        return "a direction without a name"
    place = {name: i for i, name in enumerate(alpha.names()) if name is not None}
    if len(carriers) <= FEW:
        listed = sorted(carriers, key=place.__getitem__)
        largest = max(abs(value) for value in carriers.values())
        unit = largest if carriers[listed[0]] > 0 else -largest
        return _sum({name: carriers[name] / unit for name in listed})
    blocks = dict.fromkeys(alpha.block_of(place[name]) for name in carriers)
    shown = ", ".join(list(carriers)[:3])
    one = f"the coordinates of {next(iter(blocks))}"
    together = " against ".join(blocks) if len(blocks) > 1 else one
    return f"{together} (most of all {shown}), as a rotation, a scale or a shift would move them"


def _sum(terms: Mapping[str, float]) -> str:
    """A signed sum, factors of one left out."""
    text = ""
    for name, factor in terms.items():
        size = "" if abs(abs(factor) - 1) < 5e-3 else f"{abs(factor):.2g} "
        sign = ("− " if factor < 0 else "+ ") if text else ("−" if factor < 0 else "")
        text += f"{' ' if text else ''}{sign}{size}{name}"
    return text
