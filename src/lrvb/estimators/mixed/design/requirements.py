"""What a design must have before anything is fitted to it."""

from __future__ import annotations

from ....errors import InvalidData, InvalidModel
from .design import Design


def require_effects(design: Design, factorization: str) -> None:
    """Something to estimate; random effects where they are to be factorised."""
    text = design.formula.text
    if design.penalised and factorization != "blocked":
        raise InvalidModel(
            f"The term {design.penalised[0].label} has no variational fit, which is what "
            f"factorization={factorization!r} asks for; leave factorization out."
        )
    if not design.terms:
        if not design.names:
            raise InvalidModel(
                f"The formula '{text}' has no effects at all; add an intercept, a fixed effect or a "
                "group."
            )
        if factorization != "blocked":
            raise InvalidModel(
                f"The formula '{text}' has no random effects, which factorization={factorization!r} "
                "would factorise; leave it out, and all effects are integrated together."
            )
        return
    if not design.names and all(term.factor == design.observation for term in design.terms):
        raise InvalidModel(
            f"The formula '{text}' has nothing but an effect of each row; add an intercept, "
            "a fixed effect or a group."
        )


def require_no_smooths(design: Design, why: str) -> None:
    """A fit that is not by exact sums has no smooths and no structures."""
    if design.penalised:
        raise InvalidModel(
            f"The term {design.penalised[0].label} is fitted where sums are exact, but {why}; give smooths "
            "a smaller k, a structure fewer levels, or leave a term out."
        )


EXACT = 1e-9  # of a response's sd: what rounding leaves of one that fixed effects explain


def require_noise(design: Design) -> None:
    """Something of a response with units is left when its fixed effects are taken out."""
    if not design.family.link.has_units or design.penalised:
        return
    response = design.response
    if response.left <= EXACT * max(response.sd, EXACT * response.size):
        raise InvalidData(
            f"The fixed effects of '{design.formula.text}' explain the response exactly, so that no noise is "
            "left to estimate; leave out the column that the response was made of, or take other rows.",
            column=design.formula.response,
        )
