"""A variational fit judged by the exact posterior: the same priors, integrated."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ....errors import InvalidModel
from ....integrated.effort import TooMuchWork
from ....integrated.mode import NoMode
from ....posterior.costs import DRAWS
from ....posterior.estimate import Estimate
from ....prior import Gamma
from ..design.design import Design
from ..design.standardised import Standardisation
from ..fit.progress import draws_bar
from ..priors.stated import MixedPriors, SpreadPrior
from .certificate import MixedCertificate
from .fit import integrate_model
from .statement import NoExactSums


@dataclass(frozen=True, eq=False)
class MixedCertifier:
    """What certifies the estimate of a variational fit."""

    design: Design
    priors: MixedPriors
    standard: Standardisation
    estimate: Estimate

    def certify(
        self,
        draws: int = DRAWS,
        seed: int = 0,
        *,
        budget: float | None = None,
        passes: int | None = None,
        progress: bool = False,
    ) -> MixedCertificate:
        """The certificate: integration under the priors of the fit, with as many draws as it needs."""
        if (draws, seed, budget, passes) != (DRAWS, 0, None, None):
            raise InvalidModel(
                "A mixed model is certified by integration, which chooses its own draws: call certify() "
                "without draws, seed, budget or passes."
            )
        try:
            found = integrate_model(
                self.design, as_spreads(self.priors), self.standard, draws_bar(progress, None)
            )
        except (NoExactSums, TooMuchWork, NoMode) as error:
            raise InvalidModel(f"This fit cannot be certified: {error}") from error
        return replace(found.certificate, judged=self.estimate)


def as_spreads(priors: MixedPriors) -> MixedPriors:
    """The same priors, a precision's Gamma as that of a term's sd."""
    terms = (SpreadPrior((one,)) if isinstance(one, Gamma) else one for one in priors.terms)
    return replace(priors, terms=tuple(terms))
