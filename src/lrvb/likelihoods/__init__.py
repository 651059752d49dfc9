"""Likelihoods: how a response follows from its linear predictor, one file each."""

from typing import Any

from ..errors import InvalidModel
from .base import Likelihood, LikelihoodRows
from .binomial import BERNOULLI, BINOMIAL, Bernoulli, Binomial
from .dispersion import POSITIVE, PROBABILITY, Dispersion, Ordered, Positive, Probability, Range
from .gaussian import GAUSSIAN, Gaussian
from .given import Given
from .links import IDENTITY, LOG, LOGIT, Link
from .negative_binomial import NEGATIVE_BINOMIAL, NegativeBinomial
from .poisson import POISSON, Poisson
from .zeros import (
    HURDLE_NEGATIVE_BINOMIAL,
    HURDLE_POISSON,
    ZERO_INFLATED_NEGATIVE_BINOMIAL,
    ZERO_INFLATED_POISSON,
    HurdleNegativeBinomial,
    HurdlePoisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)

#: The families that have a name, by their names.
FAMILIES: dict[str, Likelihood] = {
    likelihood.name: likelihood
    for likelihood in (
        GAUSSIAN,
        POISSON,
        NEGATIVE_BINOMIAL,
        ZERO_INFLATED_POISSON,
        ZERO_INFLATED_NEGATIVE_BINOMIAL,
        HURDLE_POISSON,
        HURDLE_NEGATIVE_BINOMIAL,
        BERNOULLI,
        BINOMIAL,
    )
}
DEFAULT = GAUSSIAN.name


def likelihood_of(family: Any) -> Likelihood:
    """The likelihood that a name stands for, or the one that was given."""
    if isinstance(family, Likelihood):
        return family
    if isinstance(family, str) and family in FAMILIES:
        return FAMILIES[family]
    if isinstance(family, type) and issubclass(family, Likelihood):
        raise InvalidModel(
            f"family={family.__name__} is a class; give an object of it, {family.__name__}()."
        )
    listed = ", ".join(f"'{name}'" for name in FAMILIES)
    raise InvalidModel(
        f"family={family!r} is not known; there are {listed}, and any lrvb.likelihoods.Likelihood."
    )


__all__ = [
    "BERNOULLI",
    "BINOMIAL",
    "DEFAULT",
    "FAMILIES",
    "GAUSSIAN",
    "HURDLE_NEGATIVE_BINOMIAL",
    "HURDLE_POISSON",
    "IDENTITY",
    "LOG",
    "LOGIT",
    "NEGATIVE_BINOMIAL",
    "POISSON",
    "POSITIVE",
    "PROBABILITY",
    "ZERO_INFLATED_NEGATIVE_BINOMIAL",
    "ZERO_INFLATED_POISSON",
    "Bernoulli",
    "Binomial",
    "Dispersion",
    "Gaussian",
    "Given",
    "HurdleNegativeBinomial",
    "HurdlePoisson",
    "Likelihood",
    "LikelihoodRows",
    "Link",
    "NegativeBinomial",
    "Ordered",
    "Poisson",
    "Positive",
    "Probability",
    "Range",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "likelihood_of",
]
