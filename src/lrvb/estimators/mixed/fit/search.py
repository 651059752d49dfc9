"""The optimum of a mixed model: a start, for a large table from a sample of its levels, then Newton."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ....collapsed.gaussian.optimum import NoOptimum
from ....engine.fitting import Fit, fit
from ....errors import InvalidData, LrvbError
from ....numerics.double import in_double
from ....statement.parameters import Optimum, initial
from ....statement.problem import Problem, global_program
from ..design.design import Design
from ..design.standardised import Coordinates, FixedPrior
from ..design.subsample import sample_of
from .precision_model import RESIDUAL, block_name
from .start import start
from .working import Working, working


@in_double
def search(
    design: Design,
    problem: Problem,
    where: Coordinates,
    prior: FixedPrior,
    factorization: str,
    **options: Any,
) -> tuple[Fit, Working]:
    """The optimum of the precisions and the block of coefficients at it; `options` are those of fit."""
    work = working(design, problem.alpha, where, prior, factorization)
    init: Any = _from_sample(design, problem, where, prior, factorization)
    if init is None:
        init = start(design)
        eta = initial(problem.alpha, init)
        q, *_ = global_program(problem.structure, 2)(problem.traced, eta)
        try:
            work.block.collapse(np.array(q.m))
        except NoOptimum as error:
            raise InvalidData(
                "The coefficients have no finite optimum, even with the precisions held fixed. Rescale "
                "columns with very large values, check the offset, and look for fixed effects that the "
                "data leave undetermined; a proper prior such as "
                "priors={'fixed': lrvb.prior.Normal(0, 10)} helps."
            ) from error
    return fit(problem, init=init, local_sum=work.block, **options), work


def _from_sample(
    design: Design,
    problem: Problem,
    where: Coordinates,
    prior: FixedPrior,
    factorization: str,
) -> Optimum | None:
    """The optimum of a sample, as certain as all levels would make it; None where there is none."""
    small = sample_of(design)
    if small is None:
        return None
    block = working(small, problem.alpha, where, prior, factorization).block
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
        _multiply(parameters[RESIDUAL], design.n / small.n)
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
