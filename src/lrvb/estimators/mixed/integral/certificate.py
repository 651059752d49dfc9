"""The verdict on every quantity of an integrated model, from its weights and Monte Carlo errors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ....errors import InvalidModel
from ....integrated.importance import tails_of
from ....integrated.integral import Integral
from ....integrated.integration import NODE_ERROR
from ....integrated.wanting import DOUBTED, MEAN_ERROR, SD_ERROR
from ....posterior.arguments import require_whole
from ....posterior.estimate import Estimate
from ....posterior.intervals import check_probability
from ....posterior.verdicts import (
    DOUBTFUL,
    NO,
    NOT_CHECKED,
    REPAIRED,
    TRUST,
    Compared,
    Draws,
    judge,
)
from ....posterior.weighted import WeightedDraws

APPROXIMATE = "approximate"
IMPORTANCE, BLOCK, VARIATIONAL = "importance", "block", "variational"
K_HAT, HOPELESS = 0.7, 1.0
_LIMIT = 9.0  # of a tail's index as it is stored: far beyond any that matters
TOLD = 0.01  # error of levels' sds from which on it is told
REFUSED = 0.01  # share beyond what sums can cover, from which on nothing is trusted


@dataclass(frozen=True, eq=False, repr=False)
class MixedCertificate:
    """What stands behind the numbers: weighted draws over exact sums or a Gaussian block; or neither.

    `reason` tells why it is not the first, `unknown` what of a block's error is not counted. The draws are
    the answer itself, or check that of a variational fit, which is `judged`; `estimate` has their means and
    covariances, `weighted` the draws.

    `k_hat` judges the weights of `drawn` draws, `ess` counts the effective ones; `exact` tells whether
    the sums given the hyperparameters are; `refused` draws, with sds beyond what sums can cover, count
    for nothing; `lost` is the share that these may have, of the posterior or of a quantity's variance.
    `probes` are those of log determinants, 0 where these are exact; `levels_error` is what levels' sds are
    off by, as a share, where fixed draws give them; `joint` counts the weighted draws of all
    coefficients that a block's evidence is from, if any. Errors are Monte Carlo's,
    of means in sds and of log sds. `tail` is k-hat of each quantity's squares, weighted: where it is large,
    a few draws decide its sd, and no error that was seen tells of those that were not met.
    """

    method: str
    exact: bool
    reason: str
    unknown: str = ""
    k_hat: float = np.nan
    ess: float = np.nan
    drawn: int = 0
    log_evidence: float = np.nan
    log_evidence_error: float = np.nan
    node_error: float = np.nan
    refused: int = 0
    probes: int = 0
    levels_error: float = 0.0
    joint: int = 0
    mean_error: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    sd_error: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    tail: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    lost: pd.Series = field(default_factory=lambda: pd.Series(dtype=float))
    estimate: Estimate | None = None
    weighted: WeightedDraws | None = None
    judged: Estimate | None = None

    @property
    def names(self) -> list[str]:
        """Every named quantity."""
        return list((self.judged or self._answer[0]).index)

    @property
    def mean(self) -> np.ndarray:
        """Of every coordinate, (a,); not a number where the draws do not have one that is judged."""
        at = self._at
        return np.where(at < 0, np.nan, self._answer[0].m[at])

    @property
    def cov(self) -> np.ndarray:
        """Of all coordinates, (a, a)."""
        at = self._at
        return np.where((at < 0) | (at < 0)[:, None], np.nan, self._answer[0].Sigma[np.ix_(at, at)])

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        """Verdict and reason of every named quantity."""
        if self.judged is None:
            return [(self.verdict(name), self.sentence([name])) for name in self.names]
        return [self._judgement(name) for name in self.names]

    def verdict(self, name: str) -> str:
        """Of one quantity: "trust", "doubtful", "do not trust", or "approximate" without a check.

        A judged one is "repaired" where the draws are trusted and do not agree with it.
        """
        return self._of_draws(name) if self.judged is None else self._judgement(name)[0]

    def _judgement(self, name: str) -> tuple[str, str]:
        """Of a judged quantity: whether it agrees with draws that are sound."""
        estimate, judged = self._answer[0], self.judged
        assert judged is not None
        if name not in estimate.index:
            return NOT_CHECKED, "Not checked: the draws do not have it."
        if self._of_draws(name) != TRUST:
            return self._of_draws(
                name
            ), f"It cannot be confirmed: {self._sentence_of_draws([name])}"
        at, own = estimate.index[name], judged.index[name]
        sd = np.sqrt(estimate.Sigma[at, at])
        found = Compared(
            mean=estimate.m[[at]],
            sd=np.array([sd]),
            lrvb_mean=judged.m[[own]],
            lrvb_sd=np.sqrt(judged.Sigma[[own], [own]]),
            mean_error=np.array([self.mean_error[name] * sd]),
            sd_error=np.array([self.sd_error[name] * sd]),
            tail=np.zeros(1),
            quality=np.zeros(1),
            heavy=np.zeros(1, dtype=bool),
        )
        return judge(Draws("integration", True, self.k_hat, self.ess), found)[0]

    @property
    def _at(self) -> np.ndarray:
        """Where the draws have each coordinate that is told of, −1 where they do not."""
        estimate, told = self._answer[0], self.judged or self._answer[0]
        if self.judged is None:
            return np.arange(len(estimate.m))
        found = np.full(len(told.m), -1)
        for name, own in told.index.items():
            found[own] = estimate.index.get(name, -1)
        return found

    def _of_draws(self, name: str) -> str:
        """Whether the draws can be trusted in one quantity."""
        if self.method == VARIATIONAL:
            return APPROXIMATE
        worst = max(self.mean_error[name] / MEAN_ERROR, self.sd_error[name] / SD_ERROR)
        if self.method == IMPORTANCE:  # of a block the errors have it
            worst = max(worst, self.node_error / NODE_ERROR)
        if not self.k_hat < HOPELESS or not worst < 5:
            return NO
        few = not self._leaves_out(name) and not self.unknown
        sound = self.k_hat < K_HAT and self.tail.get(name, -np.inf) < DOUBTED
        if not (self.exact and few and sound and worst <= 1):
            return APPROXIMATE if self.method == BLOCK else DOUBTFUL
        return TRUST

    def summary(self, prob: float = 0.94) -> pd.DataFrame:
        """Mean, sd, quantiles, Monte Carlo errors, and a verdict with its reason, a row a quantity.

        The columns of every certificate. `lrvb_mean` and `lrvb_sd` are those of `posterior_`: where they are
        the draws' own, `shift` is 0 and `ratio` 1. `mcse` is the error of the mean in its unit,
        `sd_error` that of the sd as a share of it.
        """
        check_probability("prob", prob)
        estimate, weighted = self._answer
        told = self.judged or estimate
        names = [name for name in self.names if name in estimate.index]
        at, own = ([one.index[name] for name in names] for one in (estimate, told))
        mean, sd = estimate.m[at], np.sqrt(np.diag(estimate.Sigma)[at])
        lrvb_mean, lrvb_sd = told.m[own], np.sqrt(np.diag(told.Sigma)[own])
        lower, upper = weighted.intervals(prob)
        verdicts = dict(zip(self.names, self.verdicts, strict=True))
        columns = {
            "mean": mean,
            "sd": sd,
            "lower": lower[at],
            "upper": upper[at],
            "lrvb_mean": lrvb_mean,
            "lrvb_sd": lrvb_sd,
            "shift": (mean - lrvb_mean) / sd,
            "ratio": lrvb_sd / sd,
            "mcse": self.mean_error[names].to_numpy() * sd,
            "sd_error": self.sd_error[names].to_numpy(),
            "verdict": [verdicts[name][0] for name in names],
            "why": [verdicts[name][1] for name in names],
        }
        return pd.DataFrame(columns, index=pd.Index(names))

    def draws(self, n: int, seed: Any = 0) -> dict[str, np.ndarray]:
        """n joint draws of every named quantity, in proportion to their weights."""
        estimate, weighted = self._answer
        require_whole("n", n, 1)
        require_whole("seed", seed, 0)
        return weighted.draw(estimate, n, np.random.default_rng(seed))

    def to_arviz(self, n: int = 1000, seed: Any = 0) -> Any:
        """ArviZ's container with such draws; `MixedModel.to_arviz` has levels and predictions too."""
        from ....bridges.arviz import draws_to_arviz

        return draws_to_arviz(self.draws(n, seed))

    def __repr__(self) -> str:
        names = [] if self.weighted is None else self.names
        counts = pd.Series([self.verdict(name) for name in names], dtype=str).value_counts(
            sort=False
        )
        found = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
        return (
            f"<lrvb.MixedCertificate by {self.method}: {self.sentence(names)} {found}".rstrip()
            + ">"
        )

    @property
    def _answer(self) -> tuple[Estimate, WeightedDraws]:
        if self.estimate is None or self.weighted is None:
            raise InvalidModel(
                f"There are no draws of the exact posterior behind this fit: {self.reason}; its numbers are "
                "those of summary()."
            )
        return self.estimate, self.weighted

    def _leaves_out(self, name: str) -> bool:
        """Whether refused draws may have too much of a quantity; a file may know only how many there are."""
        return bool(self.lost.get(name, self.refused / max(self.drawn, 1)) > REFUSED)

    def sentence(self, names: list[str]) -> str:
        """Why the verdicts are what they are, for the quantities shown."""
        said = self._sentence_of_draws(names)
        if self.judged is None:
            return said
        told = "beside the exact posterior under the same priors"
        if any(self.verdict(name) == REPAIRED for name in names):
            told += '; rows marked "repaired" show its numbers'
        return f"{told}: {said}"

    def _sentence_of_draws(self, names: list[str]) -> str:
        if self.method == VARIATIONAL:
            return f"approximate: {self.reason}."
        head = (
            f"{self.drawn:,} draws of the hyperparameters, {self.ess:,.0f} effective, "
            f"k-hat {self.k_hat:.2f}"
        )
        if self.refused:
            head += f", {self.refused:,} with sds beyond what sums can cover left out"
        if not self.k_hat < K_HAT:
            return f"{head}: the weights have no reliable average; a narrower prior of the sds may help."
        levels = f"; levels' sds by fixed draws, to about {self.levels_error:.0%}"
        after = f"{levels if self.levels_error > TOLD else ''}."
        if self.method == BLOCK:
            return f"{head}; {self._of_block(names)}{after}"
        if not self.exact:
            return f"{head}: the sums over levels have not converged at some draws."
        if self.unknown:
            return f"{head}: {self.unknown}."
        poor = [name for name in names if self._of_draws(name) != TRUST]
        if poor:
            listed = ", ".join(poor[:3]) + (", …" if len(poor) > 3 else "")
            if any(self._leaves_out(name) for name in poor):
                return (
                    f"{head}, which may have more than {REFUSED:.0%} of the posterior, or of the variance of "
                    f"{listed}; a narrower prior of the sds may help."
                )
            if max(float(self.tail.get(name, -np.inf)) for name in poor) >= DOUBTED:
                return f"{head}: a few draws far out decide the sd of {listed}; read the interval instead."
            return (
                f"{head}: Monte Carlo's error of {listed} is above {MEAN_ERROR:.2f} sds of a mean or "
                f"{SD_ERROR:.0%} of an sd, as long tails make it; read the interval instead."
            )
        if self.probes:
            return (
                f"{head}; log determinants given them by {self.probes} probes, whose error counts"
                + after
            )
        return f"{head}; sums given them are exact{after}"

    def _of_block(self, names: list[str]) -> str:
        """What the block leaves, and what of it is too much."""
        by = "mended by every level's own sum"
        if self.joint:
            by = f"from {self.joint} weighted draws of all coefficients at each of its points"
        head = f"{self.reason}: a Gaussian block given them, its evidence {by}"
        if not self.exact:
            return f"{head}, which no polynomial in the hyperparameters follows well enough"
        if self.unknown:
            return f"{head}; what that leaves is not known, since {self.unknown}"
        poor = [name for name in names if self._of_draws(name) != TRUST]
        worst = max(float(self.mean_error[name]) for name in names)
        if not poor:
            return f"{head}, which leaves an estimated {worst:.2f} sds of a mean or less"
        listed = ", ".join(poor[:3]) + (", …" if len(poor) > 3 else "")
        return f"{head}, which leaves an estimated {worst:.2f} sds of a mean ({listed})"


def certify(
    integral: Integral,
    at: np.ndarray,
    T: np.ndarray,
    within: np.ndarray,
    labels: list[str],
    why: str = "",
    unknown: str = "",
    levels_error: float = 0.0,
    joint: int = 0,
) -> MixedCertificate:
    """Errors of values T (n, a) at the draws `at`, which have the variances `within` (n, a) besides.

    why tells of a Gaussian block what it stands in for, unknown what of its error is not counted;
    levels_error is that of levels' sds, joint the draws at each of a block's points.
    """
    w = integral.weighted
    weights, raw = w.weights[at] / w.weights[at].sum(), w.raw[at]
    away = T - weights @ T
    square = away**2 + within
    variance = weights @ square
    sd = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    added = np.zeros((2, len(w.raw), len(sd)))
    added[:, at] = raw[:, None] * np.stack([away / sd, (square - variance) / (2 * sd**2)])
    mean_error, sd_error = w.error(added[0]), w.error(added[1])
    if integral.noise is not None:
        noise = integral.noise[at] - weights @ integral.noise[at]
        by = weights[:, None] * noise / np.sqrt(noise.shape[1])
        mean_error = np.hypot(mean_error, (away.T @ by).std(1) / sd)
        sd_error = np.hypot(sd_error, ((square - variance).T @ by).std(1) / (2 * sd**2))
    if integral.doubt is not None:
        doubt = weights * (integral.doubt[at] - weights @ integral.doubt[at])
        mean_error = np.hypot(mean_error, np.abs(away.T @ doubt) / sd)
        sd_error = np.hypot(sd_error, np.abs((square - variance).T @ doubt) / (2 * sd**2))
    tail = tails_of(raw, square)
    bounded = [label.startswith("corr[") for label in labels]  # no draw is far out
    exact = integral.node_error < NODE_ERROR
    refused = _refused(integral)
    return MixedCertificate(
        method=BLOCK if why else IMPORTANCE,
        exact=bool(exact),
        reason=why,
        unknown=unknown,
        k_hat=float(w.k_hat),
        ess=float(w.ess),
        drawn=len(w.x),
        log_evidence=w.log_evidence,
        log_evidence_error=w.log_evidence_error,
        node_error=integral.node_error,
        refused=int(refused.sum()),
        probes=0 if integral.noise is None else integral.noise.shape[1],
        levels_error=levels_error,
        joint=joint,
        mean_error=pd.Series(mean_error, index=labels),
        sd_error=pd.Series(sd_error, index=labels),
        lost=pd.Series(_lost(integral, refused, at, square), index=labels),
        tail=pd.Series(np.where(bounded, -_LIMIT, np.clip(tail, -_LIMIT, _LIMIT)), index=labels),
    )


def _refused(integral: Integral) -> np.ndarray:
    """Draws (n,) that count for nothing and may have mass: beyond all others, in more than correlations.

    A correlation that is one to ten digits has none.
    """
    nothing = np.isneginf(integral.weighted.log_p)
    if integral.inside is None or nothing.all():
        return nothing
    theta = integral.theta[:, np.array(integral.inside.kinds) != "correlation"]
    kept = theta[~nothing]
    return nothing & ((theta < kept.min(0)) | (theta > kept.max(0))).any(1)


def _lost(
    integral: Integral, refused: np.ndarray, at: np.ndarray, square: np.ndarray
) -> np.ndarray:
    """The share (a,) of the posterior, or of the variance of each quantity, that refused draws may have.

    Towards either end the density of log sd falls by e a unit or more, and sd² times it towards large sds,
    as under all priors that leave an sd a variance: beyond the last draw there is about 1/(e − 1) of what is
    within a unit before it, or less. Of several ends that a draw is beyond, that with least before it
    counts; draws that are beyond others in no logarithm have their share of all draws. square (k, a) are
    squared deviations of the quantities at the draws `at`.
    """
    unknown, found = refused.copy(), np.zeros(square.shape[1])
    if integral.inside is None or refused.all():
        return found + unknown.mean()
    weights, theta = integral.weighted.weights, integral.theta
    kept = ~np.isneginf(integral.weighted.log_p)
    share = weights[at][:, None] * square / (weights[at] @ square)
    sides = []
    for column in theta[:, np.array(integral.inside.kinds) == "log"].T:
        low, high = column[kept].min(), column[kept].max()
        sides += [(column < low, column < low + 1), (column > high, column > high - 1)]
    for beyond, before in sorted(sides, key=lambda side: float(weights[side[1]].sum())):
        if (unknown & beyond).any():
            found += np.maximum(weights[before].sum(), share[before[at]].sum(0)) / np.expm1(1.0)
            unknown &= ~beyond
    return found + unknown.mean()


def variational_certificate(why: str) -> MixedCertificate:
    """No check: the numbers are those of a variational fit."""
    return MixedCertificate(method=VARIATIONAL, exact=False, reason=why)
