"""From a model and data to a posterior: fit → linearize → respond → summarize."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

from ..engine.curvature import linearize
from ..engine.fitting import fit
from ..engine.response import Response, respond
from ..engine.second_order import refine
from ..errors import InvalidModel
from .certification import Certifier, check_certify
from .correction import warn_large_correction
from .estimate import estimate_of
from .locals import rows_of
from .posterior import Posterior
from .sensitivity import Sensitivity
from .wide import WidePosterior


def summarize(response: Response) -> Posterior:
    """The posterior with labelled answers."""
    if not isinstance(response, Response):
        raise InvalidModel(
            f"summarize takes the response that lrvb.respond returns, not a {type(response).__name__}."
        )
    warn_large_correction(response)
    estimate = estimate_of(response)
    certifier = Certifier(response, estimate)
    return Posterior(
        estimate,
        response.fit.convergence,
        local_variables=rows_of(response, estimate.index),
        observed=response.fit.problem.data,
        response=response,
        second_order=partial(refine, response),
        certifier=certifier,
        sensitivity=Sensitivity(response, estimate),
    )


def infer(
    model: Any,
    data: Any = None,
    *,
    init: Any = None,
    tol: float = 1e-8,
    max_iter: int = 200,
    progress: bool = False,
    chunk_size: int | None = None,
    certify: str | bool = "auto",
) -> Posterior:
    """Fit a model and correct its covariances: fit → linearize → respond → summarize.

    `data` is a mapping of equally long columns or a DataFrame, None when the model has no rows.
    `tol` is in linear-response standard deviations; see `fit` for the other arguments. `certify` is
    True, False, or "auto": check the answer against the exact posterior, by many draws where that takes about
    a second or less than three fits, by few where rows are many; where rows are not linear in their local
    variables by the size of the second order.

    Beyond 3000 global coordinates no matrix of all of them is formed, and the result is a
    `WidePosterior`, which solves for the sds and covariances that are asked for.
    """
    check_certify(certify)
    optimum = fit(
        model,
        data,
        init=init,
        tol=tol,
        max_iter=max_iter,
        progress=progress,
        chunk_size=chunk_size,
    )
    if optimum.wide:
        wide = WidePosterior(optimum)
        if certify is True:
            wide.certify()
        return cast(Posterior, wide)
    posterior = summarize(respond(linearize(optimum)))
    posterior.settle(certify, progress=progress)
    return posterior
