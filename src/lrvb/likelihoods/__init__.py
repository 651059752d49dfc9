"""Likelihoods: how a response follows from its linear predictor, one file each."""

import re
from typing import Any

from ..errors import InvalidModel
from .base import Likelihood, LikelihoodRows
from .beta import BETA, Beta
from .binomial import BERNOULLI, BINOMIAL, Bernoulli, Binomial
from .cumulative import CUMULATIVE, Cumulative
from .dispersion import POSITIVE, PROBABILITY, Dispersion, Ordered, Positive, Probability, Range
from .gamma import GAMMA, Gamma
from .gaussian import GAUSSIAN, Gaussian
from .given import Given
from .links import CLOGLOG, IDENTITY, LOG, LOGIT, PROBIT, Link
from .lognormal import LOGNORMAL, LogNormal
from .negative_binomial import NEGATIVE_BINOMIAL, NegativeBinomial
from .poisson import POISSON, Poisson
from .student import STUDENT, Student
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
        STUDENT,
        GAMMA,
        LOGNORMAL,
        BETA,
        CUMULATIVE,
        *(Bernoulli(link) for link in Bernoulli.links),
        *(Binomial(link) for link in Binomial.links),
    )
}
DEFAULT = GAUSSIAN.name


def likelihood_of(family: Any) -> Likelihood:
    """The likelihood that a name stands for, such as "poisson" or "bernoulli(probit)", or the one given."""
    if isinstance(family, Likelihood):
        return family
    name = _without_own_link("".join(family.split())) if isinstance(family, str) else family
    if isinstance(name, str) and name in FAMILIES:
        return FAMILIES[name]
    if isinstance(name, str) and (said := re.fullmatch(r"student\(df=([0-9.e+-]+)\)", name)):
        return Student(_number(said[1]))
    if isinstance(family, type) and issubclass(family, Likelihood):
        raise InvalidModel(
            f"family={family.__name__} is a class; give an object of it, {family.__name__}()."
        )
    listed = ", ".join(f"'{name}'" for name in FAMILIES)
    raise InvalidModel(
        f"family={family!r} is not known; there are {listed}, and any lrvb.likelihoods.Likelihood."
    )


def _number(text: str) -> Any:
    """A number, or the text where it is none."""
    try:
        return float(text)
    except ValueError:
        return text


def _without_own_link(name: str) -> str:
    """A name such as "poisson(log)" without the link that the family has anyway."""
    first, _, rest = name.partition("(")
    own = first in FAMILIES and rest == f"{FAMILIES[first].link.name})"
    return first if own else name


__all__ = [
    "BERNOULLI",
    "BETA",
    "BINOMIAL",
    "CLOGLOG",
    "CUMULATIVE",
    "DEFAULT",
    "FAMILIES",
    "GAMMA",
    "GAUSSIAN",
    "HURDLE_NEGATIVE_BINOMIAL",
    "HURDLE_POISSON",
    "IDENTITY",
    "LOG",
    "LOGIT",
    "LOGNORMAL",
    "NEGATIVE_BINOMIAL",
    "POISSON",
    "POSITIVE",
    "PROBABILITY",
    "PROBIT",
    "STUDENT",
    "ZERO_INFLATED_NEGATIVE_BINOMIAL",
    "ZERO_INFLATED_POISSON",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Cumulative",
    "Dispersion",
    "Gamma",
    "Gaussian",
    "Given",
    "HurdleNegativeBinomial",
    "HurdlePoisson",
    "Likelihood",
    "LikelihoodRows",
    "Link",
    "LogNormal",
    "NegativeBinomial",
    "Ordered",
    "Poisson",
    "Positive",
    "Probability",
    "Range",
    "Student",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "likelihood_of",
]
