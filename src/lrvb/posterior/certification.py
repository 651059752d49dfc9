"""Making a certificate: importance sampling of the collapsed density, and HMC where that fails.

The proposal is linear response's normal in unconstrained coordinates, with the tails of a t. Where its
weights are poor it is adapted; where they stay poor, HMC takes over, whitened by the same covariance.
"""

from __future__ import annotations

import numbers
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..engine.response import Response
from ..engine.second_order import refine
from ..errors import InvalidModel, LrvbError
from ..integrated.importance import Budget, Refit, Weighted, integrate
from ..integrated.proposals import Proposal, SplitT, fit_blocks
from ..numerics.double import in_double
from ..numerics.hmc import hmc, r_hat
from ..statement.problem import Problem
from .certificate import Certificate, require_whole
from .estimate import Estimate
from .quick_verdict import not_known, quick_verdicts, rows_for
from .starts import STARTS, look_around
from .target import Target
from .units import Units
from .verdicts import K_HAT, R_HAT

if TYPE_CHECKING:
    from tqdm import tqdm

FEW = 20  # coordinates up to which a proposal of two t's is fitted
MOST = 50  # coordinates up to which HMC is tried
CHAINS = 64
GRADIENTS = 12_000  # of one round of chains; each costs about three values
ROUNDS = 4  # of HMC, each whitened by the draws of the one before
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
        progress: bool = False,
        starts: int = STARTS,
        thorough: bool = True,
    ) -> Certificate:
        """The certificate; `budget` is the most seconds to begin another round or chain in.

        `starts` fits look for other modes. Unless it is to be `thorough`, draws in many dimensions are
        not adapted, and HMC is not tried.
        """
        from tqdm import tqdm

        require_whole("draws", draws, 64)
        require_whole("seed", seed, 0)
        if budget is not None and not (isinstance(budget, numbers.Real) and budget > 0):
            raise InvalidModel(f"budget={budget!r} must be a positive number of seconds, or None.")
        until = time.monotonic() + (np.inf if budget is None else float(budget))
        target = Target(self.response)
        bar = tqdm(total=None, desc="certify", unit="draw", disable=not progress)
        try:
            begun = time.monotonic()
            weighted = integrate(target, _start(target), budget=Budget(draws, rounds=0), seed=seed)
            best = self._of_weights(target, weighted)
            bar.update(len(weighted.x))
            each = (time.monotonic() - begun) / len(weighted.x)
            few = target.size <= MOST
            if not weighted.k_hat < K_HAT and time.monotonic() < until:
                second = self._second_order(target, draws, seed)
                if second is not None:
                    bar.update(len(second.x))
                    best = min(best, self._of_weights(target, second), key=_unsettled)
                    weighted = max(weighted, second, key=lambda w: w.ess)
            if best.unsettled and (thorough or few) and time.monotonic() < until:
                adapted = self._adapted(target, draws, seed + 1)
                bar.update(len(adapted.x))
                best = min(best, self._of_weights(target, adapted), key=_unsettled)
                weighted = max(weighted, adapted, key=lambda w: w.ess)
            affordable = time.monotonic() + 3 * GRADIENTS * each < until
            if thorough and best.unsettled and few and affordable:
                T, ess = self._chains(target, weighted, seed, until, bar)
                best = min(best, self._of_chains(target, T, ess, weighted), key=_unsettled)
            modes = look_around(target, self.response, seed, starts, until - time.monotonic())
        finally:
            bar.close()
        return replace(best, others=modes.share, relabelled=modes.relabelled)

    def _of_weights(self, target: Target, weighted: Weighted) -> Certificate:
        keep = weighted.weights > 0
        T = target.statistics(weighted.x[keep])
        return self._certificate(target, T, weighted.weights[keep], weighted, weighted.ess, 0)

    def _of_chains(
        self, target: Target, T: np.ndarray, ess: float, weighted: Weighted
    ) -> Certificate:
        weights = np.full(len(T), 1 / len(T))
        return self._certificate(target, T, weights, weighted, ess, CHAINS)

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
            T if self.units is None else T @ self.units.M.T + self.units.c,
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

    def _adapted(self, target: Target, draws: int, seed: int) -> Weighted:
        """Draws from proposals fitted to the draws before them, from a wider start."""
        d = target.size
        explore = int(np.clip(16 * d, 256, 2048))
        budget = Budget(max(2 * draws, 2048), explore, rounds=2, most=8)
        return integrate(target, _start(target, 1.2, 7.0), refitted(d), budget, seed)

    def _chains(
        self, target: Target, weighted: Weighted, seed: int, until: float, bar: tqdm
    ) -> tuple[np.ndarray, float]:
        """Statistics of HMC draws, chains innermost, and how many are effective."""
        rng = np.random.default_rng(seed)
        start = weighted.x[rng.choice(len(weighted.x), CHAINS, p=weighted.weights)]
        start = start + 0.1 * rng.standard_normal(start.shape) @ target.root.T
        start = np.where(np.isfinite(target(start))[:, None], start, target.center)
        mean, root = target.center, target.root
        if weighted.ess > 5 * target.size:
            mean, root = moments(weighted.x, weighted.weights)
        kept: np.ndarray | None = None
        for _ in range(ROUNDS):
            chains = hmc(target.with_gradient, start, mean, root, rng)
            bar.update(chains.x.shape[0] * CHAINS)
            kept, start = chains.x, chains.x[-1]
            if r_hat(kept).max() <= R_HAT - 0.02 or time.monotonic() > until:
                break
            flat = kept.reshape(-1, target.size)
            mean, root = moments(flat, np.full(len(flat), 1 / len(flat)))
        assert kept is not None
        averages = kept.mean(axis=0)
        total = kept.reshape(-1, target.size)
        effective = CHAINS * total.var(axis=0) / np.maximum(averages.var(axis=0, ddof=1), 1e-300)
        return target.statistics(total), float(min(effective.min(), len(total)))


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
