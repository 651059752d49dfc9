"""The optimum of a mixed model: a start, for a large table from a sample of its levels, then Newton."""

from __future__ import annotations

import warnings
from typing import Any

from ....engine.fitting import Fit, fit
from ....errors import LrvbError
from ....numerics.double import in_double
from ....statement.parameters import Optimum, initial
from ....statement.problem import Problem
from ..design.design import Design
from ..design.standardised import FixedPrior, Standardisation
from ..design.subsample import sample_of
from .arrangement import Arrangement, arrange
from .precision_model import RESIDUAL, block_name
from .start import start


@in_double
def find_optimum(
    design: Design,
    problem: Problem,
    standard: Standardisation,
    prior: FixedPrior,
    factorization: str,
    **options: Any,
) -> tuple[Fit, Arrangement]:
    """The optimum of the precisions and the block of coefficients at it; `options` are those of fit."""
    arrangement = arrange(design, problem.alpha, standard, prior, factorization)
    init: Any = _from_sample(design, problem, standard, prior, factorization)
    if init is None:
        init = start(design)
    return fit(problem, init=init, local_sum=arrangement.block, **options), arrangement


def _from_sample(
    design: Design,
    problem: Problem,
    standard: Standardisation,
    prior: FixedPrior,
    factorization: str,
) -> Optimum | None:
    """The optimum of a sample, as certain as all levels would make it; None where there is none."""
    small = sample_of(design)
    if small is None:
        return None
    block = arrange(small, problem.alpha, standard, prior, factorization).block
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a rough fit; the fit to all rows warns for itself
            found = fit(problem, init=start(small), local_sum=block, tol=1e-3, max_iter=50)
    except LrvbError:  # whatever is wrong, all rows will say it better
        return None
    if not found.converged:
        return None
    parameters = found.params()
    for term in design.terms:
        more = len(design.factors[term.factor].levels) / len(small.factors[term.factor].levels)
        _multiply(parameters[block_name(term.name, len(term.coefficients))], more)
    if RESIDUAL in parameters:
        _multiply(parameters[RESIDUAL], design.total / small.total)
    return Optimum(problem.alpha, initial(problem.alpha, parameters))


def _multiply(parameters: dict[str, Any], more: float) -> None:
    """As many times the data, with the same mean."""
    if "shape" in parameters:
        parameters["shape"], parameters["rate"] = (
            parameters["shape"] * more,
            parameters["rate"] * more,
        )
    else:
        parameters["dof"], parameters["scale"] = (
            parameters["dof"] * more,
            parameters["scale"] / more,
        )
