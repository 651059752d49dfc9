"""Adaptive importance sampling of any log density, with the verdict on its own weights.

Rounds of quasi-random draws, each from a proposal fitted to all draws before it, are weighed against
the mixture of all rounds' proposals; a last, larger net comes from the last fit. Where few draws of a round
count, rounds are longer, and of another fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import logsumexp

from ..errors import LrvbError
from ..numerics.pareto import smooth, smooth_columns, tail_size
from .proposals import Mixture, Proposal, Target, fit_blocks, pooled

Earlier = tuple[Proposal, np.ndarray, np.ndarray]  # points (n, d) of it, and the target there (n,)
Refit = Callable[[np.ndarray, np.ndarray], Proposal]
Wanting = Callable[["Weighted"], "np.ndarray | None"]

_DEFENCE = 0.05  # share of every round drawn from the start, whose tails no fit can forget
_COLDEST = 1e-6  # power of weights below which no more of them will be effective
_ENOUGH = 0.5  # effective share of a round's draws from which no further round is needed
_PULLED = 0.99  # of a draw by which controls may follow it, at most
_SLIGHT = 0.05  # share of a variance below which the shape of its tail does not matter
_FAIR = 0.5  # k-hat of the weights from which on a proposal is mended while more are drawn


@dataclass(frozen=True)
class Budget:
    """How many draws: `rounds` of `explore`, more of them up to `most` while few are effective, `final`.

    Without rounds all draws come from the start.
    `limit` is what `final` may grow to where it is not enough, by a `growth` of all that were drawn so far;
    `patience` what whoever doubts the answers may set it to.
    """

    final: int = 2048
    explore: int = 256
    rounds: int = 2
    most: int = 6
    limit: int = 0
    growth: float = 1.0
    patience: int = 0


@dataclass(frozen=True, eq=False)
class Weighted:
    """Draws x (n, d) with normalised weights (n,); k_hat judges the weights, ess counts their worth.

    log_evidence is log ∫ exp(target), with its Monte Carlo error; `raw` are the unsmoothed weights;
    log_p and log_q are log densities (n,) of the target and of what was drawn from. controls (n, K) are
    orthonormal columns whose sums over draws are known, if weights were `calibrated` by them.
    """

    x: np.ndarray
    log_p: np.ndarray
    log_q: np.ndarray
    weights: np.ndarray
    raw: np.ndarray = field(repr=False)
    k_hat: float
    ess: float
    log_evidence: float
    log_evidence_error: float
    controls: np.ndarray | None = field(default=None, repr=False)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """E f from its values at the draws (n, ...)."""
        return np.tensordot(self.weights, values, axes=1)

    def sd(self, values: np.ndarray) -> np.ndarray:
        """Standard deviation of f from its values at the draws (n, ...)."""
        centered = values - self.mean(values)
        return np.sqrt(self.mean(centered**2))

    def error(self, added: np.ndarray) -> np.ndarray:
        """Standard errors of sums of what draws add (n, ...), of mean zero, as if they were independent.

        A Sobol net's are smaller. What controls explain of them has none; what is left of a draw that pulls
        the fit to itself is made larger by as much as it pulled.
        """
        if self.controls is None:
            return np.sqrt((added**2).sum(axis=0))
        Q, flat = self.controls, added.reshape(len(added), -1)
        pulled = np.minimum((Q**2).sum(axis=1), _PULLED)
        left = (flat - Q @ (Q.T @ flat)) / (1 - pulled)[:, None]
        return np.sqrt((left**2).sum(axis=0)).reshape(added.shape[1:])

    def mean_error(self, values: np.ndarray) -> np.ndarray:
        """Standard error of `mean`."""
        return self.error(self._by_raw(values) * (values - self.mean(values)))

    def sd_error(self, values: np.ndarray) -> np.ndarray:
        """Standard error of `sd`, by its influence function ((f − μ)² − σ²)/2σ."""
        square = (values - self.mean(values)) ** 2
        variance = np.maximum(self.mean(square), np.finfo(float).tiny)
        # weights first, of draws too far out to be squared
        error = self.error(self._by_raw(values) * (square / variance - 1))
        return error * np.sqrt(variance) / 2

    def _by_raw(self, values: np.ndarray) -> np.ndarray:
        """Unsmoothed weights in the shape of values (n, ...)."""
        return self.raw.reshape(-1, *(1,) * (values.ndim - 1))

    def quantile(self, values: np.ndarray, p: float | np.ndarray) -> np.ndarray:
        """Quantiles of f from its values (n,), linear between the middles of its steps."""
        order = np.argsort(values)
        w = self.weights[order]
        return np.interp(p, np.cumsum(w) - w / 2, values[order])

    def heavy(self, ignored: float = 1e-6) -> np.ndarray:
        """Indices of the draws that carry all but `ignored` of the weight."""
        order = np.argsort(-self.weights)
        reach = int(np.searchsorted(np.cumsum(self.weights[order]), 1 - ignored)) + 1
        return np.sort(order[:reach])


def tails_of(raw: np.ndarray, square: np.ndarray) -> np.ndarray:
    """k̂ (a,) of squares (n, a) with these weights (n,): where it is large, a few draws decide an sd.

    −∞ where what the largest have beyond the others is next to nothing, as where most of a variance is
    known given each draw: below k̂ = 1 what draws have not seen of such a tail is less still.
    """
    value = np.maximum(raw[:, None] * square, np.finfo(float).tiny)
    k = smooth_columns(np.log(value))[1]
    first = max(len(value) - tail_size(len(value)) - 1, 0)
    beyond = np.maximum(value - np.partition(value, first, axis=0)[first], 0.0).sum(0)
    return np.where((k < 1) & (beyond < _SLIGHT * value.sum(0)), -np.inf, k)


def integrate(
    target: Target,
    start: Proposal,
    refit: Refit | None = None,
    budget: Budget | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    wanting: Wanting | None = None,
    again: Refit | None = None,
    before: Earlier | None = None,
) -> Weighted:
    """Weighted draws of exp(target)/Z and log Z; target maps points (n, d) to (n,), −∞ where zero.

    refit makes the next proposal from draws and weights (two t's by default), `again` where those of the last
    were poor; progress is called with the draws done and expected; `wanting` tells where more draws are
    to be desired, by log factors of the weights (n,), or that none are. Draws made `before` count among them.
    """
    budget = budget or Budget()
    refit = refit or (lambda x, w: fit_blocks(x, w, 0))
    again = again or refit
    proposals: list[Proposal] = [start]
    counts: list[int] = []
    xs: list[np.ndarray] = []
    values: list[np.ndarray] = []
    if before is not None:
        proposals, counts = [before[0], start], [len(before[1])]
        xs, values = [before[1]], [before[2]]
    last, drawn, poor = budget.rounds == 0, 0, False
    while True:
        n = budget.explore * (2 if poor else 1)
        if last:
            n = min(int(budget.growth * drawn), budget.limit - drawn) if drawn else budget.final
        x = proposals[-1].draw(n, seed + len(counts))
        counts.append(n)
        xs.append(x)
        values.append(_evaluated(target, x))
        points, log_p = np.concatenate(xs), np.concatenate(values)
        log_q = pooled(proposals, counts).log_density(points)
        log_w = log_p - log_q
        if progress is not None:
            progress(len(points), len(points) + (0 if last else budget.final))
        if last:
            drawn += n
            found = _weighted(points, log_p, log_q)
            lacking = None if wanting is None or drawn >= budget.limit else wanting(found)
            if lacking is None:
                return found
            poor, log_w = poor or not found.k_hat < _FAIR, log_w + lacking
        else:
            own = log_w[-n:]
            effective = _ess(own) / n if np.isfinite(own).any() else 0.0
            done = len(counts)
            poor = done >= budget.rounds and not effective >= _ENOUGH
            last = done >= budget.rounds and (not poor or done >= budget.most)
        fitted = (again if poor else refit)(points, tempered(log_w, 6 * x.shape[1]))
        proposals.append(Mixture((fitted, start), np.array([1 - _DEFENCE, _DEFENCE])))


def resampled(weights: np.ndarray, n: int, seed: int | np.random.Generator = 0) -> np.ndarray:
    """Indices of n draws in proportion to their weights, evenly spaced along their cumulated sum."""
    start = np.random.default_rng(seed).random()
    edges = np.cumsum(weights)
    places = (np.arange(n) + start) / n * edges[-1]
    return np.minimum(np.searchsorted(edges, places), len(edges) - 1)


def tempered(log_weights: np.ndarray, need: float) -> np.ndarray:
    """Normalised weights w^γ with the largest γ ≤ 1 for which `need` draws or more are effective.

    They are round numbers, to 2⁻²⁴: what is fitted to them may be sensitive to the last digits of a sum.
    """
    power = 1.0
    while _ess(power * log_weights) < need and power > _COLDEST:
        power *= 0.8
    weights = np.rint(2**24 * np.exp(power * log_weights - logsumexp(power * log_weights)))
    return weights / weights.sum()


def _ess(log_weights: np.ndarray) -> float:
    """Effective draws (Σw)²/Σw²."""
    return float(np.exp(2 * logsumexp(log_weights) - logsumexp(2 * log_weights)))


def _evaluated(target: Target, x: np.ndarray) -> np.ndarray:
    """The target at a round's points, checked."""
    value = np.asarray(target(x), dtype=np.float64)
    wrong = np.isnan(value) | (value == np.inf)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise LrvbError(
            f"The log density is {value[at]} at {np.array2string(x[at], precision=4)}, where "
            "importance sampling needs a number or −∞.",
            point=x[at],
        )
    if not np.isfinite(value).any():
        raise LrvbError(
            "The density is zero at every draw of a round of importance sampling: its start is far "
            "from where the density is. Try another center or a larger scale.",
            points=x,
        )
    return value


def _weighted(x: np.ndarray, log_p: np.ndarray, log_q: np.ndarray) -> Weighted:
    """The verdict: smoothed weights, k̂, effective draws, evidence and its error."""
    log_w = log_p - log_q
    n = len(log_w)
    raw = np.exp(log_w - logsumexp(log_w))
    smoothed, k_hat = smooth(log_w)
    return Weighted(
        x=x,
        log_p=log_p,
        log_q=log_q,
        weights=np.exp(smoothed),
        raw=raw,
        k_hat=k_hat,
        ess=float(1 / (raw**2).sum()),
        log_evidence=float(logsumexp(log_w) - np.log(n)),
        log_evidence_error=float(np.sqrt(((n * raw - 1) ** 2).sum()) / n),
    )
