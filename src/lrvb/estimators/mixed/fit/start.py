"""Where the precisions start: half of the spread that fixed effects leave, shared by the terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..design.design import Design
from .precision_model import RESIDUAL, block_name

LINK_VARIANCE = 0.5  # of a linear predictor on the log or logit scale, where nothing else is known


def start(design: Design) -> dict[str, dict[str, Any]]:
    """Usual parameters of every block, with the certainty of as many levels as there are."""
    residual = _residual_variance(design) if design.family.link.has_units else LINK_VARIANCE
    share = 0.5 * residual / max(len(design.terms), 1)
    init: dict[str, dict[str, Any]] = {}
    for term in design.terms:
        q, levels = len(term.coefficients), len(design.factors[term.factor].levels)
        precision = np.mean(term.R**2, axis=0) * q / share
        name = block_name(term.name, q)
        if q == 1:
            shape = 0.5 * levels + 1
            init[name] = {"shape": shape, "rate": shape / precision[0]}
        else:
            dof = levels + q + 1.0
            init[name] = {"dof": dof, "scale": np.diag(precision) / dof}
    if design.family.quadratic:
        shape = 0.5 * design.total + 1
        init[RESIDUAL] = {"shape": shape, "rate": shape * 0.5 * residual}
    return init


def _residual_variance(design: Design) -> float:
    y = design.working if design.offset is None else design.working - design.offset
    X = design.X
    if X.shape[1]:
        y = y - X @ np.linalg.lstsq(X, y, rcond=None)[0]
    spread = float(np.mean(y**2))
    return spread if spread > 0 else 1.0
