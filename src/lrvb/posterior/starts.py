"""A look for other modes: fits from points far around the optimum, and from the families' own."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ..engine.curvature import linearize
from ..engine.fitting import fit
from ..engine.modes import Modes, modes_from, other_modes, share_of
from ..engine.response import Response, respond
from ..engine.second_order import thinned
from ..errors import LrvbError
from ..numerics.sobol import normal_points
from .elsewhere import SOME, elsewhere
from .rivals import Rivals
from .target import Target
from .verdicts import LEFT_OUT, MODE

STARTS = 12  # of fits that look for other modes
RIVALS = 2  # optima of some rows that all rows are asked about
SPREAD = 64  # points of a normal, by which a start has the spread of a member
WIDE = (3.0, 100.0)  # sds around the optimum from which half of them start: the nearest, the widest


def look_around(
    target: Target,
    response: Response,
    seed: int,
    starts: int,
    seconds: float = np.inf,
    known: Sequence[np.ndarray] = (),
) -> Modes:
    """Other optima from so many starts, for at most so long, and from natural parameters `known` before."""
    rng = np.random.default_rng(seed + 1)
    near = (starts + 2) // 4  # on either side
    ray = rng.standard_normal((near, target.size))
    ray *= np.sqrt(target.size) / np.linalg.norm(ray, axis=1, keepdims=True)
    steps = np.geomspace(*WIDE, near)[:, None] * ray @ target.root.T
    u = np.concatenate([target.center + steps, target.center - steps])
    own = _vague(response, rng, starts - 2 * near)
    u = u[np.isfinite(target.statistics(u)).all(axis=1)]
    members = np.array([_around(target, one) for one in u]).reshape(len(u), len(response.m))
    own = members[:0] if own is None else own
    points = np.concatenate([target.statistics(u), own[np.isfinite(own).all(axis=1)]])
    if not len(points):
        return Modes()
    return other_modes(response, points, max(0.0, seconds), members, known)


def _around(target: Target, u: np.ndarray) -> np.ndarray:
    """E T of linear response's normal moved to u, which some member has: an average of T is inside."""
    x = normal_points(SPREAD, target.size)
    return target.statistics(u + x @ target.root.T).mean(axis=0)


def look_around_some(response: Response, seed: int, starts: int, most: int = SOME) -> Modes:
    """Other optima, found by at most so many rows, and those that may matter confirmed by all.

    Rows that stand for many make a sharper choice among optima than all rows do; what they find is a
    start from which all rows decide.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rough fits to some rows
        some = of_some_rows(response, most)
        found = look_around(Target(some), some, seed, starts, known=elsewhere(some))
    rivals = found.others + found.near
    if some is response or not _matter(found, some):
        return found
    best = sorted(rivals, key=lambda mode: -mode.gain)[:RIVALS]
    own = modes_from(response, [mode.point.eta for mode in best])
    return own._replace(relabelled=found.relabelled or own.relabelled, starts=found.starts)


def _matter(found: Modes, response: Response) -> bool:
    """Whether other optima hold enough of the evidence, or lie so far away that an sd needs them."""
    if share_of(found.others + found.near) >= MODE:
        return True
    if not found.others:
        return False
    rivals, sd = Rivals.of(found.others), np.sqrt(np.diag(response.Sigma))
    return bool(rivals.left_out(rivals.T, response.m, sd).sum(axis=0).max() > LEFT_OUT)


def of_some_rows(response: Response, most: int) -> Response:
    """The response of at most so many rows, each counted for several; itself where they are few."""
    some = thinned(response.fit, most)
    if some is response.fit:
        return response
    return respond(linearize(fit(some.problem, init=response.fit, local_sum=some.local_sum)))


def _vague(response: Response, rng: np.random.Generator, n: int) -> np.ndarray | None:
    """T of draws from the families' own vague members, where they can be drawn."""
    parts = []
    for family in response.alpha.blocks.values():
        for _ in range(family.copies):
            try:
                x = family.sample(family.start(), rng, n)
                parts.append(np.asarray(family.flatten(family.statistics(x))))
            except (NotImplementedError, LrvbError):  # the starts are then all from the answer
                return None
    return np.concatenate(parts, axis=1) if n else None
