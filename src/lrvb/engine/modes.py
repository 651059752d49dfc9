"""Other optima: fits from far starts, and whether they are copies of the first by a relabelling."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..collapsed.chunks import point_chunks
from ..collapsed.seam import SMALL
from ..errors import LrvbError
from ..families import Beta, Dirichlet
from ..numerics.algebra import linear_response
from ..numerics.double import in_double
from ..statement.meanfield import MeanField
from ..statement.parameters import invalid_parts
from ..statement.programs import global_density_program
from .ascent import LEVEL, Search
from .newton import Curved, curved
from .objective import Objective, Point
from .response import Response

SAME = 0.3  # sds of some quantity up to which two optima are one, each found to about `NEAR`
FAR = 3.0  # sds of some quantity up to which draws around one optimum may reach another
NEAR = 0.03  # sds from an optimum that is found: its evidence is then off by half of the square
SYMMETRIC = 1e-8  # of the ELBO, up to which that of other labels is the same to rounding
CLOSE = 0.1  # sds for each coordinate of a first step from where an optimum is nearly reached
CLIMB = 100  # sweeps of a far start, where a curvature costs many of them
FEW = 30  # Newton steps after those
PACE = 1000  # such sweeps from the first optimum's height, from which a start is given up
_MOST_COPIES = 6  # whose 720 orders are tried


class Mode(NamedTuple):
    """Another optimum: log evidence to one loop less that of the first, and what is known there."""

    gain: float
    point: Point
    curved: Curved

    def response(self, response: Response) -> Response:
        """Linear response at this optimum, of the same problem."""
        fit = replace(response.fit, point=self.point, curved=self.curved)
        Sigma = linear_response(self.curved.C, self.curved.H, self.curved.K)
        return Response(fit, self.curved.C, Sigma)


class Modes(NamedTuple):
    """Optima that are not the first: `others` far from it, `near` where draws around it may come.

    `relabelled` is whether some starts ended at copies under other labels, `starts` how many ended at
    an optimum at all.
    """

    others: tuple[Mode, ...] = ()
    near: tuple[Mode, ...] = ()
    relabelled: bool = False
    starts: int = 0

    @property
    def share(self) -> float:
        """Share of the evidence of all optima that the far ones hold."""
        return share_of(self.others)


def share_of(modes: Iterable[Mode]) -> float:
    """Share of the evidence that modes hold beside the first."""
    odds = float(np.exp(np.clip([mode.gain for mode in modes], -700, 700)).sum())
    return odds / (1 + odds)


@in_double
def other_modes(
    response: Response,
    points: np.ndarray,
    seconds: float = np.inf,
    members: np.ndarray | None = None,
    known: Sequence[np.ndarray] = (),
) -> Modes:
    """Fits from the conditional optima η = ∂L̄/∂m at point moments (S, a), for at most so long.

    Where a block has none, since a term is not linear in its statistics, from the member with moments
    `members` (k, a) for the first k points; other such points are left out. Natural parameters that
    are `known` come first; `starts` does not count them.
    """
    problem, rows = response.fit.problem, response.fit.bound()
    order = 2 if problem.alpha.size <= SMALL else 1
    ((_, padded),) = point_chunks(points[:64], 0)
    _, slopes = global_density_program(problem.structure, True)(problem.traced, padded)

    def starts() -> Iterator[np.ndarray]:
        for i, (m, slope) in enumerate(zip(points, np.asarray(slopes), strict=False)):
            eta = slope if rows is None else slope + rows.evaluate(m, order).gradient
            if members is not None and i < len(members) and invalid_parts(problem.alpha, eta):
                known = np.isfinite(members[i]).all()
                eta = problem.alpha.member(members[i]) if known else members[i]
            if np.isfinite(eta).all():
                yield eta

    return modes_from(response, itertools.chain(known, starts()), seconds, len(known))


@in_double
def modes_from(
    response: Response, starts: Iterable[np.ndarray], seconds: float = np.inf, known: int = 0
) -> Modes:
    """Fits from natural parameters, for at most so long; of the first `known` ends are not counted."""
    fit, alpha = response.fit, response.alpha
    objective = Objective(fit.problem, fit.bound())
    sd = np.sqrt(np.diag(response.Sigma))
    orders = orders_of(alpha)
    base = _evidence(fit.elbo, fit.curved)
    far: list[Mode] = []
    near: list[Mode] = []
    relabelled, until, ended = False, time.monotonic() + seconds, 0
    for i, eta in enumerate(starts):
        if time.monotonic() > until:
            break
        search = Search(objective, 100, progress=False, until=until)
        try:
            search.begin(eta, explicit=False)
            search.ascend()
            converged = (
                _climbed(search, fit.elbo) and search.newton(NEAR, CLOSE if i < known else 10.0)[0]
            )
        except LrvbError:  # a start from which there is no way up says nothing of the optimum
            continue
        finally:
            search.close()
        if not converged or search.curved is None or not search.curved.is_concave:
            continue
        ended += i >= known
        copy, away = copy_of(objective, search.point, response.m, orders, sd)
        relabelled |= copy > 0
        if away <= SAME:
            continue
        gain = _evidence(search.point.elbo, search.curved) - base
        mode = Mode(gain, search.point, search.curved)
        if copy > 0:
            mode = _relabelled(mode, orders[copy])
        kept = near if away <= FAR else far
        if all(_distance(mode.point.m, one.point.m, sd) > SAME for one in kept):
            kept.append(mode)
    return Modes(tuple(far), tuple(near), relabelled, ended)


def copy_of(
    objective: Objective, point: Point, m: np.ndarray, orders: list[np.ndarray], sd: np.ndarray
) -> tuple[int, float]:
    """The order under which an optimum is nearest m, and how near; the first unless it is a copy there.

    Only a symmetry of the model makes copies: under priors that tell the components apart the optimum with
    the labels exchanged is another one, and its ELBO is not the same in that order. A far
    optimum is counted in one order too, that of the least Σ log(1 + distance).
    """
    away = [_distance(point.m[order], m, sd) for order in orders]
    nearest = np.argsort(away, kind="stable")
    if away[nearest[0]] > FAR:
        scale = np.where(sd > 0, sd, 1.0)
        sums = [np.log1p(np.abs(point.m[order] - m) / scale).sum() for order in orders]
        nearest = np.array([np.argmin(sums)])
    for k in nearest:
        if k == 0 or (away[k] > FAR and len(nearest) > 1):
            break
        again = objective.at(point.eta[orders[k]], order=1).elbo
        if abs(again - point.elbo) <= SYMMETRIC * (1 + abs(point.elbo)):
            return int(k), away[k]
    return 0, away[0]


def _climbed(search: Search, height: float) -> bool:
    """Sweeps up to where Newton is short, if a curvature costs many; False for a way without an end.

    A component without rows, under flat priors, makes every sweep gain the same for ever.
    """
    if search.objective.small:
        return True
    gain = search.climb(CLIMB)
    search.max_iter = search.n_iter + FEW
    return gain < LEVEL or search.point.elbo + PACE * gain > height


def _relabelled(mode: Mode, order: np.ndarray) -> Mode:
    """The same optimum under other labels."""
    point = mode.point.permuted(order)
    assert point.H is not None
    return Mode(mode.gain, point, curved(point.residual, point.C, point.H))


def orders_of(alpha: MeanField) -> list[np.ndarray]:
    """The order of the flat coordinates as it is, and those that exchange labels."""
    return [np.arange(alpha.size), *relabellings(alpha)]


def relabellings(alpha: MeanField) -> Iterator[np.ndarray]:
    """Orders of the flat coordinates that permute the copies of all batched blocks of one length.

    A simplex of that many entries goes with them; a share p, with 1 − p, may go with two.
    """
    lengths = {
        f.batch[0] for f in alpha.blocks.values() if f.batch and 1 < f.batch[0] <= _MOST_COPIES
    }
    shares = [n for n, f in alpha.blocks.items() if isinstance(f, Beta) and not f.batch]
    for K in sorted(lengths):
        for permutation in itertools.permutations(range(K)):
            if permutation == tuple(range(K)):
                continue
            order = np.arange(alpha.size)
            for name, family in alpha.blocks.items():
                here = alpha.slices[name]
                simplex = isinstance(family, Dirichlet) and not family.batch and family.dim == K
                if simplex or (family.batch and family.batch[0] == K):
                    order[here] = order[here].reshape(K, -1)[list(permutation)].ravel()
            yield order
            if K == 2 and len(shares) == 1:
                other = order.copy()
                other[alpha.slices[shares[0]]] = order[alpha.slices[shares[0]]][::-1]
                yield other


def _evidence(elbo: float, curved: Curved | None) -> float:
    """E − ½ log det(I − VH)."""
    assert curved is not None
    return elbo - float(np.log(np.diag(curved.K)).sum())


def _distance(a: np.ndarray, b: np.ndarray, sd: np.ndarray | float) -> float:
    scale = np.where(np.asarray(sd) > 0, sd, 1.0)
    return float(np.max(np.abs(a - b) / scale))
