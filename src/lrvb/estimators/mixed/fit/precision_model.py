"""The precisions of a mixed model: what is left when all coefficients are integrated out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....families import Family, Gamma, Wishart
from ....models.densities import gamma_log_density, wishart_log_density
from ....prior import Gamma as GammaPrior
from ....prior import Wishart as WishartPrior
from ....statement.model import Model
from ..design.design import Design
from ..priors.stated import MixedPriors

RESIDUAL = "precision[residual]"


class PrecisionModel(Model):
    """q(τ) Π_t q(Λ_t): a Gamma for each precision, a Wishart for each correlated term's matrix."""

    def __init__(self, priors: MixedPriors, design: Design):
        self.blocks: dict[str, Family] = {}
        for k, (term, prior) in enumerate(zip(design.terms, priors.terms, strict=True)):
            name = block_name(term.name, len(term.coefficients))
            if isinstance(prior, GammaPrior):
                self._gamma(name, k, prior)
            else:
                assert isinstance(prior, WishartPrior)
                self.blocks[name] = Wishart(len(term.coefficients))
                setattr(self, f"dof_{k}", float(prior.dof))
                setattr(self, f"inverse_{k}", np.linalg.inv(prior.scale))
        if isinstance(priors.residual, GammaPrior):
            self._gamma(RESIDUAL, len(design.terms), priors.residual)

    def _gamma(self, name: str, k: int, prior: GammaPrior) -> None:
        self.blocks[name] = Gamma()
        setattr(self, f"shape_{k}", float(prior.shape))
        setattr(self, f"rate_{k}", float(prior.rate))

    def global_blocks(self, rows: Any) -> dict[str, Family]:
        """Every term's block, and the residual's."""
        return self.blocks

    def global_term(self, m: Any) -> Any:
        """E_q of the log priors."""
        total = 0.0
        for k, (name, family) in enumerate(self.blocks.items()):
            if isinstance(family, Gamma):
                shape, rate = getattr(self, f"shape_{k}"), getattr(self, f"rate_{k}")
                total = total + gamma_log_density(m[name], shape, rate)
            else:
                dof, inverse = getattr(self, f"dof_{k}"), getattr(self, f"inverse_{k}")
                total = total + wishart_log_density(m[name], dof, inverse)
        return total


def block_name(term: str, coefficients: int) -> str:
    """`precision[1|g]` of a single coefficient, `Lambda[g]` of a correlated term."""
    return f"precision[{term}]" if coefficients == 1 else f"Lambda[{term}]"
