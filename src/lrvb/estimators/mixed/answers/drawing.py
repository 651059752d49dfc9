"""Who takes joint draws from which fit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..design.design import Design
from ..design.standardised import Standardisation
from ..fit.arrangement import Arrangement
from ..fit.joint_draws import draw_coefficients
from ..fit.joint_response import JointResponse
from ..fit.precision_model import RESIDUAL, block_name
from .joint import JointDraws
from .levels import row_effects


class VariationalDraws(NamedTuple):
    """Draws of a variational fit, from its Gaussian."""

    design: Design
    standard: Standardisation
    arrangement: Arrangement
    joint: JointResponse

    def draw(self, n: int, rng: np.random.Generator, levels: bool = True) -> JointDraws:
        """n joint draws, with sds and correlations from the precisions drawn."""
        design = self.design
        own = design.observation is not None
        drawn = draw_coefficients(
            *self, row_effects(self.arrangement, self.joint) if own else None, n, rng
        )
        beta = drawn.beta @ self.standard.T.T + self.standard.t
        values = dict(zip(design.names, beta.T, strict=True))
        covariances = []
        for term in design.terms:
            q = len(term.coefficients)
            block = block_name(term.name, q)
            Lambda = np.reshape(drawn.precisions[block], (n, q, q))
            covariance = np.linalg.inv(Lambda)
            covariances.append(covariance)
            sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
            for j, name in enumerate(term.coefficients):
                values[f"sd[{name}|{term.group}]"] = sd[:, j]
            for i in range(q):
                for j in range(i + 1, q):
                    pair = f"{term.coefficients[i]},{term.coefficients[j]}"
                    part = covariance[:, i, j] / (sd[:, i] * sd[:, j])
                    values[f"corr[{term.name}][{pair}]"] = part
            if q == 1:
                values[block] = Lambda[:, 0, 0]
                values[f"log({block})"] = np.log(Lambda[:, 0, 0])
        noise = {}
        if design.family.quadratic:
            noise["residual"] = np.reshape(drawn.precisions[RESIDUAL], n) ** -0.5
            values["sd[residual]"] = noise["residual"]
            values[RESIDUAL] = np.reshape(drawn.precisions[RESIDUAL], n)
            values[f"log({RESIDUAL})"] = np.log(values[RESIDUAL])
        return JointDraws(beta, drawn.effects, covariances, noise, values)
