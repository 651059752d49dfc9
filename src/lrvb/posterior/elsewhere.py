"""Places far from an optimum that a model itself knows of: where to look for others, and to draw from.

A place need not be an optimum of the ELBO to matter. Where the exact density has but a shelf there, of a
share p of the evidence at Δ sds, it adds pΔ² to a variance, and draws around the optimum do not come there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from ..data.sample import sample_rows
from ..engine.modes import FAR, copy_of, orders_of
from ..engine.objective import Objective
from ..engine.response import Response
from ..integrated.importance import Earlier
from ..integrated.proposals import SplitT
from ..integrated.wanting import Values
from ..numerics.algebra import gram
from ..numerics.double import in_double
from ..statement.model import asked, join
from ..statement.parameters import initial
from .proposal import around
from .target import Target

SOME = 1000  # rows that tell the model where
PILOTS = 64  # draws that tell what a place holds
WIDER = 1.2  # than the normal of its mean-field covariance
NEEDED = 1e-3  # of a variance: what a place must add to some for draws of its own


@in_double
def elsewhere(response: Response) -> list[np.ndarray]:
    """Natural parameters of such places, under the labels that are nearest the answer's."""
    fit, sd = response.fit, np.sqrt(np.diag(response.Sigma))
    model = join(fit.problem.model, fit.problem.traced)
    rows = None if fit.problem.rows is None else sample_rows(fit.problem.rows, SOME)
    found = asked(
        f"elsewhere of {type(model).__name__}", lambda r: model.elsewhere(fit.params(), r), rows
    )
    if not len(found):
        return []
    objective, orders = Objective(fit.problem, fit.bound()), orders_of(fit.alpha)
    points = [objective.at(initial(fit.alpha, params), order=1) for params in found]
    copies = [copy_of(objective, point, response.m, orders, sd)[0] for point in points]
    return [point.eta[orders[copy]] for point, copy in zip(points, copies, strict=True)]


@in_double
def drawn_from(
    target: Target,
    response: Response,
    etas: list[np.ndarray],
    pilots: Earlier,
    values: Values,
    mean: np.ndarray,
    sd: np.ndarray,
) -> tuple[SplitT, ...]:
    """t's around those places that add to the variance of a quantity, as a few draws of each tell.

    Quantities are `values` (n, q) of points, with mean and sd (q,); `pilots` are draws around the optimum,
    which tell its evidence.
    """
    proposal, x, log_p = pilots
    log_w = log_p - proposal.log_density(x)
    evidence = logsumexp(log_w) - np.log(len(x))
    found = []
    for i, eta in enumerate(etas):
        t = around(target, mean_field_at(response, eta)).t(WIDER)
        x = t.draw(PILOTS, i)
        share = np.exp(np.minimum(target(x) - t.log_density(x) - evidence, 0.0)) / PILOTS
        away = np.where(share[:, None] > 0, (values(x) - mean) / sd, 0.0)
        far = np.where(np.abs(away) > FAR, away, 0.0)
        if (share @ far**2)[sd > 0].max() >= NEEDED:
            found.append(t)
    return tuple(found)


def mean_field_at(response: Response, eta: np.ndarray) -> Response:
    """The member with natural parameters η, its own V in place of Σ̂: there is no optimum."""
    fit = response.fit
    point = Objective(fit.problem, fit.bound()).at(eta, order=1)
    return Response(replace(fit, point=point, curved=None), point.C, gram(point.C))
