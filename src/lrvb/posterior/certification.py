"""Making a certificate: importance sampling of the collapsed density, and HMC where that fails.

The proposal is linear response's normal in unconstrained coordinates, with the tails of a t. Where its
weights are poor it is adapted; where they stay poor, HMC takes over, whitened by the same covariance.
"""

from __future__ import annotations

import numbers
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..engine.response import Response
from ..engine.second_order import refine
from ..errors import InvalidModel, LrvbError
from ..integrated.importance import Budget, Refit, Weighted, integrate
from ..integrated.proposals import Proposal, SplitT, fit_blocks
from ..numerics.double import in_double
from ..numerics.hmc import Chains, average, hmc, r_hat
from ..statement.problem import Problem
from .certificate import Certificate, require_whole
from .estimate import Estimate
from .quick_verdict import not_known, quick_verdicts, rows_for
from .starts import STARTS, look_around
from .tails import SEVERAL, far_indices
from .target import Target
from .units import Units
from .verdicts import K_HAT, R_HAT

FEW = 20  # coordinates up to which a proposal of two t's is fitted
MOST = 50  # coordinates up to which HMC is tried
CHAINS = 64
GRADIENTS = 12_000  # of one round of chains; each costs about three values
ROUNDS = 4  # of HMC, each whitened by the draws of the one before
START = 60  # passes that a fit from a far start is counted as
MANY_PASSES = 10**15  # where no limit is given
DRAWS = 1024
ASK = "posterior.certify() makes one"
WORK = 5e7  # elementary terms of an automatic certificate: about a second


class Checked(NamedTuple):
    """What is known of an answer unasked: a certificate, verdicts without draws, or why neither."""

    certificate: Certificate | None = None
    quick: tuple[tuple[str, str], ...] = ()
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Certifier:
    """What makes certificates: the engine's response, and the estimate that is to be judged.

    Statistics of the estimate are T = M T′ + c of the engine's; log p(x) is the engine's plus `shift`.
    """

    response: Response
    estimate: Estimate
    units: Units | None = None
    shift: float = 0.0

    @in_double
    def certify(
        self,
        draws: int = DRAWS,
        seed: int = 0,
        *,
        budget: float | None = None,
        passes: int | None = None,
        progress: bool = False,
        starts: int = STARTS,
        thorough: bool = True,
    ) -> Certificate:
        """The certificate; no round is begun that `budget` seconds or `passes` over the rows would end.

        `starts` fits look for other modes. Unless it is to be `thorough`, draws in many dimensions are
        not adapted, and HMC is not tried.
        """
        from tqdm import tqdm

        require_whole("draws", draws, 64)
        require_whole("seed", seed, 0)
        target = Target(self.response)
        purse = Purse(target, budget, passes)
        bar = tqdm(total=None, desc="certify", unit="draw", disable=not progress)
        target.watch(bar)
        try:
            first = draws if passes is None else int(np.clip(passes, 64, draws))
            weighted = integrate(target, _start(target), budget=Budget(first, rounds=0), seed=seed)
            best = self._of_weights(target, weighted)
            few = target.size <= MOST
            if not weighted.k_hat < K_HAT and purse.allows(draws):
                second = self._second_order(target, draws, seed)
                if second is not None:
                    best = min(best, self._of_weights(target, second), key=_unsettled)
                    weighted = max(weighted, second, key=lambda w: w.ess)
            if best.unsettled and (thorough or few):
                adapted = self._adapted(target, draws, seed + 1, purse)
                if adapted is not None:
                    best = min(best, self._of_weights(target, adapted), key=_unsettled)
                    weighted = max(weighted, adapted, key=lambda w: w.ess)
            if thorough and best.unsettled and few and purse.allows(3 * GRADIENTS):
                chains = self._chains(target, weighted, seed, purse)
                best = min(best, self._of_chains(target, chains, weighted), key=_unsettled)
            far = self._far(target, purse)
            affordable = min(starts, purse.passes // START)
            left = purse.seconds
            modes = look_around(target, self.response, seed, affordable, left)
        finally:
            bar.close()
        looked = (affordable > 0 and left > 0) or starts == 0
        found = replace(best, others=modes.share, relabelled=modes.relabelled, looked=looked)
        return replace(found, far=far)

    def _far(self, target: Target, purse: Purse) -> np.ndarray | None:
        """Tail indices of the named quantities beyond the draws, where that costs little."""
        if (
            target.size > MOST
            or self.units is not None
            or not purse.allows(max(SEVERAL, 8 * target.size))
        ):
            return None
        sd = np.sqrt(np.diag(target.root @ target.root.T))
        far = far_indices(target, target.statistics, target.center, sd)
        return far[list(self.estimate.index.values())]

    def _of_weights(self, target: Target, weighted: Weighted) -> Certificate:
        keep = weighted.weights > 0
        T = self._in_units(target.statistics(weighted.x[keep]))
        return self._certificate(target, T, weighted.weights[keep], weighted, weighted.ess, 0)

    def _of_chains(self, target: Target, chains: Chains, weighted: Weighted) -> Certificate:
        """Averages that lean on control variates, and errors of what those leave."""
        _, several, d = chains.x.shape
        T = self._in_units(target.statistics(chains.x.reshape(-1, d)))
        named = T[:, list(self.estimate.index.values())]
        found = average(chains.x, chains.gradient, named)
        with np.errstate(divide="ignore", invalid="ignore"):
            ess = named.var(axis=0) / found.plain_error**2
        least = float(min(ess[np.isfinite(ess)].min(initial=np.inf), len(T)))
        plain = self._certificate(target, T, found.weights, weighted, least, several)
        return replace(plain, errors=np.stack([found.mean_error, found.sd_error]))

    def _in_units(self, T: np.ndarray) -> np.ndarray:
        return T if self.units is None else T @ self.units.M.T + self.units.c

    def _certificate(
        self,
        target: Target,
        T: np.ndarray,
        weights: np.ndarray,
        weighted: Weighted,
        ess: float,
        chains: int,
    ) -> Certificate:
        return Certificate(
            self.estimate,
            T,
            weights,
            method="hmc" if chains else "importance",
            exact=target.density.exact,
            k_hat=weighted.k_hat,
            ess=ess,
            log_evidence=weighted.log_evidence + self.shift,
            log_evidence_error=weighted.log_evidence_error,
            chains=chains,
        )

    def automatic(self, *, progress: bool = False) -> Checked:
        """What is found out unasked: a certificate of about a second, else verdicts cheaper than the fit.

        Which of them is decided by the number of rows and what one of them costs, never by a clock, so
        that an answer does not depend on the machine. HMC is not tried.
        """
        problem = self.response.fit.problem
        work = problem.n * row_cost(problem)
        draws = next((n for n in (DRAWS, DRAWS // 2) if n * work <= WORK), 0)
        try:
            if draws and problem.structure.conjugate and problem.total is None:
                found = self.certify(draws, progress=progress, starts=STARTS - 4, thorough=False)
                return Checked(certificate=found)
            return self.quick()
        except LrvbError as error:
            return Checked(reason=not_known(error))

    def quick(self) -> Checked:
        """Verdicts by the size of the second order, where that costs less than the fit did."""
        named = list(self.estimate.index.values())
        rows = rows_for(self.response, len(named))
        if not rows:
            return Checked(reason=f"a check would cost more than the fit; {ASK}")
        directions = np.eye(len(self.response.m)) if self.units is None else self.units.M
        return Checked(quick=tuple(quick_verdicts(self.response, directions[named], rows)))

    def _second_order(self, target: Target, draws: int, seed: int) -> Weighted | None:
        """Draws around the second order's means with its sds; None where it has none."""
        if target.size > MOST:
            return None
        try:
            second = refine(self.response, target.free.W)
        except LrvbError:  # too far off for a correction; adaptation goes on from what there is
            return None
        plain = np.maximum(np.diag(target.root @ target.root.T), 1e-300)
        wider = np.sqrt(1 + np.clip((second.variance - second.first) / plain, -0.75, 8.0))
        moved = np.sqrt(plain) * np.clip(second.shift / np.sqrt(plain), -2.0, 2.0)
        ones, df = np.ones(target.size), max(7.0, target.size / 2)
        start = SplitT(target.center + moved, wider[:, None] * target.root, ones, ones, df)
        return integrate(target, start, budget=Budget(draws, rounds=0), seed=seed)

    def _adapted(self, target: Target, draws: int, seed: int, purse: Purse) -> Weighted | None:
        """Draws from proposals fitted to the draws before them, from a wider start; None if too many."""
        d = target.size
        explore = int(np.clip(16 * d, 256, 2048))
        final = max(2 * draws, 2048)
        if not purse.allows(final + 2 * explore):
            return None
        most = next(n for n in range(8, 1, -1) if n == 2 or purse.allows(final + n * explore))
        budget = Budget(final, explore, rounds=2, most=most)
        return integrate(target, _start(target, 1.2, 7.0), refitted(d), budget, seed)

    def _chains(self, target: Target, weighted: Weighted, seed: int, purse: Purse) -> Chains:
        """HMC from the weighted draws, each round whitened by the one before."""
        rng = np.random.default_rng(seed)
        start = weighted.x[rng.choice(len(weighted.x), CHAINS, p=weighted.weights)]
        start = start + 0.1 * rng.standard_normal(start.shape) @ target.root.T
        start = np.where(np.isfinite(target(start))[:, None], start, target.center)
        mean, root = target.center, target.root
        if weighted.ess > 5 * target.size:
            mean, root = moments(weighted.x, weighted.weights)
        for _ in range(ROUNDS):
            chains = hmc(target.with_gradient, start, mean, root, rng)
            start = chains.x[-1]
            if r_hat(chains.x).max() <= R_HAT - 0.02 or not purse.allows(3 * GRADIENTS):
                break
            flat = chains.x.reshape(-1, target.size)
            mean, root = moments(flat, np.full(len(flat), 1 / len(flat)))
        return chains


class Purse:
    """What is left to spend: seconds, and passes over all rows, of which a gradient counts three."""

    def __init__(self, target: Target, budget: float | None, passes: int | None):
        if budget is not None and not (isinstance(budget, numbers.Real) and budget > 0):
            raise InvalidModel(f"budget={budget!r} must be a positive number of seconds, or None.")
        if passes is not None:
            require_whole("passes", passes, 64)
        self.target, self.begun = target, time.monotonic()
        self.until = self.begun + (np.inf if budget is None else float(budget))
        self.most = MANY_PASSES if passes is None else int(passes)

    @property
    def seconds(self) -> float:
        """Left to begin something in."""
        return self.until - time.monotonic()

    @property
    def passes(self) -> int:
        """Left."""
        return max(0, self.most - self.target.passes)

    def allows(self, passes: int) -> bool:
        """Whether so many further ones can be paid, at the speed of those before."""
        each = (time.monotonic() - self.begun) / max(self.target.passes, 1)
        return passes <= self.passes and passes * each <= self.seconds


def _start(target: Target, wider: float = 1.0, df: float | None = None) -> SplitT:
    """Linear response's normal with the tails of a t, lighter in many dimensions."""
    ones = np.ones(target.size)
    df = max(7.0, target.size / 2) if df is None else df
    return SplitT(target.center, wider * target.root, ones, ones, df)


def _unsettled(certificate: Certificate) -> int:
    return certificate.unsettled


def row_cost(problem: Problem) -> float:
    """Elementary terms of one row's collapsed value: nodes of a quadrature, or entries of z."""
    blocks = problem.local.blocks.values()
    own = sum(f.copies * getattr(f, "nodes", f.size) for f in blocks)
    width = problem.alpha.size / 8 if problem.model.features is not None else 0.0
    return max(1.0, own) * max(1.0, width)


def check_certify(certify: object) -> None:
    """True, False or "auto"."""
    if not isinstance(certify, bool) and not (isinstance(certify, str) and certify == "auto"):
        raise InvalidModel(f"certify={certify!r} must be 'auto', True or False.")


def moments(x: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean and a root of the covariance of draws (n, d)."""
    mean = weights @ x
    S = ((x - mean) * weights[:, None]).T @ (x - mean)
    sd = np.sqrt(np.diag(S))
    scaled = S / np.outer(sd, sd) + 1e-9 * np.eye(len(sd))
    return mean, sd[:, None] * np.linalg.cholesky(scaled)


def refitted(d: int) -> Refit:
    """How a proposal is fitted to weighted draws: two t's in few dimensions, otherwise one."""
    if d <= FEW:
        return lambda x, w: fit_blocks(x, w, 0)

    def one(x: np.ndarray, weights: np.ndarray) -> Proposal:
        mean, root = moments(x, weights)
        return SplitT(mean, 1.1 * root, np.ones(d), np.ones(d), max(7.0, d / 2))

    return one
