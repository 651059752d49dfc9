"""Making a certificate: importance sampling of the collapsed density, and HMC where that fails.

The proposal is linear response's normal in unconstrained coordinates, with the tails of a t. Where its
weights are poor it is adapted; where they stay poor, HMC takes over, whitened by the same covariance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ..engine.modes import Modes
from ..engine.response import Response
from ..errors import InvalidModel, LrvbError
from ..integrated.importance import Weighted
from ..integrated.proposals import SplitT
from ..integrated.wanting import in_variances
from ..numerics.double import in_double
from ..numerics.hmc import Chains, average
from .answering import Certifies
from .arguments import require_whole
from .certificate import Certificate
from .control import control
from .costs import DRAWS, FEWER_STARTS, start_cost, unasked
from .elsewhere import PILOTS, drawn_from, elsewhere
from .estimate import Estimate
from .purse import Purse
from .quick_verdict import not_known, quick_verdicts, rows_for
from .rivals import Rivals
from .sampling import MOST, Sampling
from .starts import STARTS, look_around, look_around_some
from .tails import SEVERAL, far_indices
from .target import THIN, Target
from .units import Units
from .verdicts import K_HAT, MODE

ENDED = 3  # fits from other starts that must have ended at an optimum, before any is ruled out
POOR = 0.7  # k̂ of few draws, from which more of the same rarely settle anything
ASK = "posterior.certify() makes one"


class Checked(NamedTuple):
    """What is known of an answer unasked: a certificate, verdicts without draws, or why neither.

    `integrated` is the certificate of an answer that consists of draws itself.
    """

    certificate: Certificate | None = None
    quick: tuple[tuple[str, str], ...] = ()
    reason: str = ""
    integrated: Certifies | None = None


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
        progress: bool | None = False,
        starts: int = STARTS,
        thorough: bool = True,
        brief: bool = False,
    ) -> Certificate:
        """The certificate; no round is begun that `budget` seconds or `passes` over the rows would end.

        `starts` fits look for other modes. Unless it is to be `thorough`, draws in many dimensions are
        not adapted, and HMC is not tried. `progress=None` shows it in a terminal, after two seconds.
        A `brief` one counts the first points among its draws, makes more where those settle too little,
        and lets some rows stand for all beyond the second order and look for other modes.
        """
        from tqdm import tqdm

        require_whole("draws", draws, 64)
        require_whole("seed", seed, 0)
        target = Target(self.response)
        if brief and target.thin(self.response) and passes is not None:
            passes = passes * self.response.fit.problem.n // THIN
        purse = Purse(target, budget, passes)
        hidden, delay = (None, 2) if progress is None else (not progress, 0)
        bar = tqdm(total=None, desc="certify", unit="draw", disable=hidden, delay=delay)
        target.watch(bar)
        try:
            sampling = Sampling(target, purse, draws, seed)
            known = [] if brief or not starts else elsewhere(self.response)
            sampling.reach(self._drawn_from(sampling, known))
            weighted = sampling.brief(draws) if brief else sampling.plain(purse.affordable(draws))
            kept = [Kept(self._of_weights(target, weighted), weighted)]
            if brief:
                modes = look_around_some(self.response, seed, starts)
            else:
                modes = self._look_around(target, purse, seed, starts, kept[0].unsettled > 0, known)
            sampling.know(self.response, modes.near)
            kept[0] = kept[0]._replace(missed=sampling.missed(weighted.x, weighted.weights))
            if not brief:
                self._go_on(sampling, kept, thorough)
            elif kept[0].unsettled and weighted.k_hat < POOR:
                self._add(kept, sampling, sampling.more(brief=True))
            best = min(kept, key=_unsettled)
            light = sampling.scouted.along and not sampling.scouted.tails
            nothing = best.unsettled == len(best.certificate.names)
            far = None if brief and (light or nothing) else self._far(target, purse)
        finally:
            bar.close()
        looked = starts == 0 or modes.starts >= min(starts, ENDED)
        others = max(modes.share, best.missed)
        found = replace(best.certificate, others=others, relabelled=modes.relabelled)
        return replace(found, looked=looked, far=far, rivals=self._rivals(modes))

    def _rivals(self, modes: Modes) -> Rivals | None:
        """Far optima in the estimate's units."""
        if not modes.others:
            return None
        found = Rivals.of(modes.others)
        return found._replace(T=self._in_units(found.T))

    def _add(self, kept: list[Kept], sampling: Sampling, weighted: Weighted | None) -> None:
        """The certificate of further draws, if there are any."""
        if weighted is not None:
            unseen = sampling.missed(weighted.x, weighted.weights)
            kept.append(Kept(self._of_weights(sampling.target, weighted), weighted, unseen))

    def _go_on(self, sampling: Sampling, kept: list[Kept], thorough: bool) -> None:
        """Better draws, one way after another, until nothing is unsettled."""
        target = sampling.target
        few = target.size <= MOST

        def add(weighted: Weighted | None) -> None:
            self._add(kept, sampling, weighted)

        def unsettled() -> int:
            return min(one.unsettled for one in kept)

        if few and not kept[0].weighted.k_hat < K_HAT:
            add(sampling.second_order(self.response))
        rough = kept[0].certificate.rough & few  # in many coordinates no fit to draws is better
        if not few and thorough and kept[0].weighted.k_hat < K_HAT:
            if unsettled():
                add(
                    sampling.more()
                )  # what is too rough with good weights is better with more of them
        elif (unsettled() or rough.any()) and (thorough or few):
            before = len(kept)
            add(self._adapted(sampling, rough, thorough))
            if rough.any() and len(kept) > before:
                del kept[:before]  # whatever they settled
        if unsettled() and thorough and few and not kept[-1].weighted.k_hat < K_HAT:
            known = max(kept, key=lambda one: (one.missed < MODE, one.weighted.ess))
            chains = sampling.chains(known.weighted)
            if chains is not None:
                flat = chains.x.reshape(-1, target.size)
                unseen = sampling.missed(flat, np.full(len(flat), 1 / len(flat)))
                found = self._of_chains(target, chains, known.weighted)
                kept.append(Kept(found, known.weighted, unseen))

    def _adapted(self, sampling: Sampling, rough: np.ndarray, thorough: bool) -> Weighted | None:
        """Draws from fitted proposals, some of them from where the rough quantities' variances come from."""
        target = sampling.target
        named = np.array(list(self.estimate.index.values()))
        asked = named[rough] if rough.any() else named

        def values(x: np.ndarray) -> np.ndarray:
            return self._in_units(target.statistics(x))[:, asked]

        def wanting(weighted: Weighted) -> np.ndarray | None:
            if not weighted.k_hat < K_HAT:
                return None
            found = self._of_weights(target, weighted)
            if found.rough.any():
                v = self._in_units(target.statistics(weighted.x))[:, named[found.rough]]
                return np.log1p(in_variances(v, weighted.weights)) - np.log(2)
            return np.zeros(len(weighted.x)) if found.unsettled else None

        more = thorough and target.size <= MOST
        return sampling.adapted(values, wanting if more else None)

    def _look_around(
        self,
        target: Target,
        purse: Purse,
        seed: int,
        starts: int,
        unsettled: bool,
        known: list[np.ndarray],
    ) -> Modes:
        """Other optima, with half of what is left where draws are to be made anew."""
        part = 2 if unsettled else 1
        each = start_cost(self.response.fit.problem)
        affordable = min(starts + len(known), purse.passes // (part * each))
        target.passes += each * affordable
        known = known[: max(0, affordable - starts)]
        affordable -= len(known)
        seconds = purse.seconds / part
        return look_around(target, self.response, seed, affordable, seconds, known)

    def _drawn_from(self, sampling: Sampling, known: list[np.ndarray]) -> tuple[SplitT, ...]:
        """Places known to the model that some variance needs, in few coordinates."""
        target, pilots = sampling.target, sampling.scouted.pilots
        affordable = sampling.purse.allows(sampling.draws + PILOTS * len(known))
        if not known or pilots is None or target.size > MOST or not affordable:
            return ()
        named = np.array(list(self.estimate.index.values()))
        mean, sd = self.estimate.m[named], np.sqrt(np.diag(self.estimate.Sigma)[named])

        def values(x: np.ndarray) -> np.ndarray:
            return self._in_units(target.statistics(x))[:, named]

        return drawn_from(target, self.response, known, pilots, values, mean, sd)

    def _far(self, target: Target, purse: Purse) -> np.ndarray | None:
        """Tail indices of the named quantities beyond the draws, where that costs little."""
        if (
            target.size > MOST
            or self.units is not None
            or not purse.allows(max(SEVERAL, 8 * target.size))
        ):
            return None
        sd = np.sqrt(np.diag(target.root @ target.root.T))
        spread = np.sqrt(np.diag(self.estimate.Sigma))
        far = far_indices(target, target.statistics, target.center, sd, spread)
        return far[list(self.estimate.index.values())]

    def _of_weights(self, target: Target, weighted: Weighted) -> Certificate:
        """Averages beside those of linear response's normal, where that is near; else those of weights."""

        def statistics(x: np.ndarray) -> np.ndarray:
            return self._in_units(target.statistics(x))

        beside = control(target, weighted, statistics, np.array(list(self.estimate.index.values())))
        if beside is not None:
            T, weights = statistics(weighted.x), weighted.raw
        else:
            keep = weighted.weights > 0
            T, weights = statistics(weighted.x[keep]), weighted.weights[keep]
        found = self._certificate(target, T, weights, weighted, weighted.ess, 0)
        return replace(found, control=beside)

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
        """What is found out unasked: a certificate; without draws, verdicts cheaper than the fit.

        HMC is not tried. Where it takes more than two seconds a terminal shows how far it is.
        """
        allowed = unasked(self.response)
        try:
            if allowed is None:
                return self.quick()
            draws, passes, brief, long = allowed
            if long and not Target(self.response).thin(self.response):
                return self.quick()
            found = self.certify(
                draws,
                passes=passes,
                progress=True if progress else None,
                starts=FEWER_STARTS,
                thorough=False,
                brief=brief,
            )
            return Checked(certificate=found)
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


class Kept(NamedTuple):
    """A certificate, the weighted draws known with it, and the evidence near by that they missed."""

    certificate: Certificate
    weighted: Weighted
    missed: float = 0.0

    @property
    def unsettled(self) -> int:
        """Quantities that are neither trusted nor repaired, which all are where a mode is missed."""
        names = self.certificate.names
        return len(names) if self.missed >= MODE else self.certificate.unsettled


def _unsettled(kept: Kept) -> int:
    return kept.unsettled


def check_certify(certify: object) -> None:
    """True, False or "auto"."""
    if not isinstance(certify, bool) and not (isinstance(certify, str) and certify == "auto"):
        raise InvalidModel(f"certify={certify!r} must be 'auto', True or False.")
