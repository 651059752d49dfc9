"""Short HMC from the Gaussian fit, whitened by it and then by its own draws, until the chains agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ..numerics.hmc import MANY, Chains, average, hmc, normal_scores, r_hat, root_of, steady
from ..posterior.polish import AGREED, APART, SETTLED
from ..posterior.tails import far_indices, hanging
from ..posterior.verdicts import TAIL
from .kernel import Kernel, Values
from .outposts import outposts

CHAINS = 64
ROUNDS = 6
AGAIN = 6  # rounds of a second run
LATE = (
    10,
    8,
)  # rounds of a first run whose chains nearly agree, and of a second that is not back yet
NEARLY = 1.2  # R̂ at which some more rounds are worth while
PAUSE = 3  # rounds after which a funnel is looked for, where chains still disagree
ADAPT, KEEP = 12, 25
AGREE = 1.03  # R̂ at which another round is not needed; that of a verdict after the first few
EFFECTIVE = 400  # draws of the worst quantity at which none is needed either
SHORT, LONGEST = 40, 160  # leapfrog steps at most, at first and where paths were cut off
ENDLESS = 1e6  # difference of two runs that is none to speak of
JITTER = 0.85  # of the steps of later rounds


class Polished(NamedTuple):
    """Draws x (n, D) of the posterior and named values (n, q), chain within step, with their quality.

    They are of `chains` chains. Weights (n,) are those of control variates; R̂, effective draws and Monte
    Carlo errors of mean and sd are of every value, (q,), `ranked` is R̂ of its ranks alone. `slowest` is the
    largest R̂ of the coordinates' own ranks, in which the neck of a funnel is long that is short in a scale.
    `endless` (q,) marks values whose averages no number of rounds settles.
    """

    x: np.ndarray
    values: np.ndarray
    weights: np.ndarray
    r_hat: np.ndarray
    ess: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    ranked: np.ndarray
    rounds: int
    slowest: float
    sound: bool  # whether control variates move means by no more than their errors
    chains: int = CHAINS
    endless: np.ndarray | bool = False

    @property
    def worst(self) -> float:
        """The largest R̂ of what varies, and of the coordinates; of what is endless that of its ranks."""
        found = np.where(self.endless, self.ranked, self.r_hat)
        return max(self.slowest, float(found[self.values.std(axis=0) > 0].max(initial=1.0)))

    @property
    def fewest(self) -> float:
        """Effective draws of the worst quantity that varies and is not endless."""
        settles = (self.values.std(axis=0) > 0) & ~np.asarray(self.endless)
        return float(self.ess[settles].min(initial=np.inf))


class Polishing:
    """64 chains from N(mean, root rootᵀ), 12 steps to adapt and 25 kept a round.

    After a round whose chains disagree, or whose draws are few, the next is whitened by the draws; of
    r rounds the last ⌈r/2⌉ are kept.
    """

    def __init__(
        self,
        kernel: Kernel,
        values: Values,
        mean: np.ndarray,
        root: np.ndarray,
        rng: np.random.Generator,
        bar: tqdm,
    ):
        self._kernel, self._values, self._rng, self._bar = kernel, values, rng, bar
        self._mean, self._root, self._path = mean, root, 0.5 * np.pi
        self._longest, self._adapt = SHORT, (ADAPT, ADAPT // 2)
        self._patient = PAUSE + 1
        self._x = _starts(kernel, mean, root, rng)
        self._step: float | None = None
        self._endless: np.ndarray | bool = False
        self._rounds: list[tuple[Chains, np.ndarray]] = []
        self.agreed = False

    def go_on(self, until: int = ROUNDS) -> Polished:
        """To that many rounds, or until the chains agree."""
        while True:
            found = self._round()
            worst = found.worst
            agree = AGREE if found.rounds < self._patient else AGREED
            self.agreed = worst <= agree and found.fewest >= EFFECTIVE
            if not self.agreed:
                self._mean, self._root = found.x.mean(axis=0), _whitened(found.x, self._root)
                if worst > 1.1:
                    self._path = min(1.3 * self._path, 6.0)
                if self._step is not None and self._path > self._longest * self._step:
                    self._longest = min(2 * self._longest, LONGEST)
            if self.agreed or found.rounds >= until:
                return found

    def to_the_end(self) -> Polished:
        """All rounds of a first run; some more where its chains nearly agree: time is all they lack."""
        found = self.go_on() if len(self._rounds) < ROUNDS else self.found
        while AGREED < found.worst <= NEARLY and found.rounds < LATE[0]:
            found = self.go_on(found.rounds + 1)
        return found

    def again(self) -> Polishing:
        """A second run from `outposts` of the draws, of `AGAIN` rounds; of more where not all are back."""
        last = self._rounds[-1][0].x
        x = last.reshape(-1, self._kernel.size)
        mean, root = x.mean(axis=0), _whitened(x, self._root)
        run = Polishing(self._kernel, self._values, mean, root, self._rng, self._bar)
        begin, good = outposts(self._kernel, mean, root, CHAINS, self._rng)
        run._x = np.where(good[:, None], begin, last[-1])
        run._path, run._longest, run._step = self._path, self._longest, self._step
        run._adapt, run._patient = (2 * ADAPT, ADAPT // 2), PAUSE
        found = run.go_on(AGAIN)
        while found.worst > SETTLED and found.rounds < LATE[1]:
            found = run.go_on(found.rounds + 1)
        return run

    @property
    def kept(self) -> list[tuple[Chains, np.ndarray]]:
        """The rounds that count."""
        return self._rounds[-((len(self._rounds) + 1) // 2) :]

    @property
    def found(self) -> Polished:
        """What they give."""
        return _polished(self.kept, len(self._rounds))._replace(endless=self._endless)

    def _round(self) -> Polished:
        r, first = len(self._rounds), self._step is None
        chains = hmc(
            self._kernel,
            self._x,
            self._mean,
            self._root,
            self._rng,
            adapt=self._adapt[min(r, 1)],
            keep=KEEP,
            step=self._step,
            path=self._path,
            longest=self._longest,
            jitter=0.0 if first else JITTER,
        )
        self._x, self._step = chains.x[-1], chains.step
        values = self._values(chains.x.reshape(-1, self._kernel.size))
        self._rounds.append((chains, values))
        self._bar.update()
        found = self.found
        unsettled = (found.r_hat > AGREE) | (found.ess < EFFECTIVE)
        if unsettled.any() and found.slowest <= SETTLED:
            self._endless = self._no_sd(found)
        return found._replace(endless=self._endless)

    def _no_sd(self, found: Polished) -> np.ndarray:
        """Which values have no finite sd by log p far out, or hang together with one that has none, (q,)."""
        center, sd, spread = found.x.mean(axis=0), found.x.std(axis=0), found.values.std(axis=0)
        far = far_indices(lambda x: self._kernel(x)[0], self._values, center, sd, spread)
        return hanging(found.values, far > TAIL)


def together(first: Polishing, second: Polishing) -> Polished:
    """Two runs in the same coordinates as one of twice as many chains, as long as the shorter."""
    runs = [[np.concatenate(part) for part in _columns(run.kept)] for run in (first, second)]
    steps = min(len(run[0]) for run in runs)
    x, gradient, g = (
        np.concatenate([a[-steps:], b[-steps:]], axis=1) for a, b in zip(*runs, strict=True)
    )
    return _judged(x, gradient, g, len(first._rounds))


def apart(first: Polished, second: Polished) -> np.ndarray:
    """max(|difference of means| in sds, |log ratio of sds|) of two runs, (q,).

    As good as endless where the second run's own chains disagree.
    """
    answers = []
    for run in (first, second):
        mean = run.weights @ run.values
        answers.append((mean, np.sqrt(run.weights @ (run.values - mean) ** 2)))
    (mean, sd), (other, other_sd) = answers
    varies = np.ptp(first.values, axis=0) > 0
    with np.errstate(all="ignore"):
        found = np.maximum(np.abs(mean - other) / sd, np.abs(np.log(other_sd / sd)))
    found = np.where(second.r_hat <= APART, found, np.inf)
    return np.where(varies, np.fmin(found, ENDLESS), 0.0)


def _starts(
    kernel: Kernel, mean: np.ndarray, root: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draws of the normal where log p is finite."""
    x = mean + rng.standard_normal((4 * CHAINS, kernel.size)) @ root.T
    value, _ = kernel(x)
    good = x[np.isfinite(value)]
    if not len(good):
        good = mean[None]
    return good[np.arange(CHAINS) % len(good)]


def _columns(kept: list[tuple[Chains, np.ndarray]]) -> list[list[np.ndarray]]:
    """Draws, gradients and values of rounds, each (steps, chains, ·)."""
    shape = (*kept[0][0].x.shape[:2], -1)
    return [
        [chains.x for chains, _ in kept],
        [chains.gradient for chains, _ in kept],
        [values.reshape(shape) for _, values in kept],
    ]


def _polished(kept: list[tuple[Chains, np.ndarray]], rounds: int) -> Polished:
    x, gradient, g = (np.concatenate(part) for part in _columns(kept))
    return _judged(x, gradient, g, rounds)


def _judged(x: np.ndarray, gradient: np.ndarray, by_chain: np.ndarray, rounds: int) -> Polished:
    """Averages over draws x (steps, chains, D) of values (steps, chains, q), and their quality."""
    steps, chains, D = x.shape
    g = steady(by_chain.reshape(steps * chains, -1))
    by_chain = g.reshape(by_chain.shape)
    found = average(x, gradient, g)
    with np.errstate(divide="ignore", invalid="ignore"):
        ess = np.where(found.plain_error > 0, g.var(axis=0) / found.plain_error**2, float(len(g)))
    ranked = r_hat(normal_scores(by_chain))
    return Polished(
        x.reshape(-1, D),
        g,
        found.weights,
        # a scale near zero, where the neck of a funnel is, looks alike in chains that have never been there
        np.maximum(r_hat(by_chain), ranked),
        ess,
        found.mean_error,
        found.sd_error,
        ranked,
        rounds,
        float(r_hat(normal_scores(x)).max()),
        found.sound,
        chains,
    )


def _whitened(x: np.ndarray, root: np.ndarray) -> np.ndarray:
    """A root of the draws' covariance; of few draws in many dimensions their sds alone are taken over."""
    if len(x) >= MANY * x.shape[1]:
        return root_of(x)
    return root * (x.std(axis=0) / np.sqrt((root**2).sum(axis=1)))[:, None]
