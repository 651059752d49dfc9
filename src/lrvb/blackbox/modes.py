"""Modes: many starts climb together, the best go on to their summits, and evidence ranks them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import InvalidModel
from ..numerics.lazy import jax
from .ascent import Summit, lbfgs, newton
from .basin import all_lead_to
from .density import Density
from .kernel import BATCH, Kernel

STEPS = 400  # of Adam, all starts together
RATE = 0.05
FIRST = 50  # steps after which one summit is enough, if all climbers lead to it
EARLY = 100  # steps after which the climbers are remembered: still on the slopes of a funnel
SUMMITS = 6  # climbers that go on by Newton's method
TRIALS = 8  # steps of L-BFGS that are tried together, as a batch costs no more than a point
ASKED = 8  # starts at which data are looked at one by one, where log p is finite at none
FEW = 50  # dimensions to which Newton's method starts by itself, and curvatures are of full rank


@dataclass(frozen=True, eq=False)
class Mode:
    """A proper maximum x (D,) of log p, its precision −∇²log p, and Laplace's log evidence."""

    x: np.ndarray
    log_density: float
    precision: np.ndarray
    log_evidence: float

    @property
    def root(self) -> np.ndarray:
        """A root of the covariance P⁻¹, by the factor of P scaled to a unit diagonal."""
        C = np.linalg.cholesky(self.precision * np.outer(self.scale, self.scale))
        return self.scale[:, None] * np.linalg.inv(C).T

    @property
    def scale(self) -> np.ndarray:
        """Sds of each coordinate given the others."""
        return 1 / np.sqrt(np.diag(self.precision))


class Modes(NamedTuple):
    """All that were found, by falling evidence, and a point on the slopes where there is none.

    `only` is whether every start led to the one that was found.
    """

    found: list[Mode]
    slope: np.ndarray
    only: bool = False

    @property
    def differences(self) -> tuple[float, ...]:
        """log evidence less that of the first."""
        return tuple(float(mode.log_evidence - self.found[0].log_evidence) for mode in self.found)


def find_modes(density: Density, kernel: Kernel, seed: int) -> Modes:
    """64 starts: the model's own and uniform(−2, 2)ᴰ around the origin.

    Where all lead to one summit soon, as in regressions, the search ends there.
    """
    rng = np.random.default_rng(seed)
    own = density.starts[: BATCH - BATCH // 4]
    wide = rng.uniform(-2, 2, (BATCH - len(own), kernel.size))
    climb = Climb(kernel, np.concatenate([own, wide]), density)
    climb.go_on(FIRST)
    if kernel.size <= FEW and (only := _only_one(kernel, climb)) is not None:
        return Modes([only], climb.top, True)
    climb.go_on(EARLY)
    slope = climb.top
    climb.go_on(STEPS)
    ends, value = climb.best, climb.highest
    found: list[Mode] = []
    tried = 0
    most = SUMMITS if kernel.size <= FEW else 3
    for j in np.argsort(-value):
        if tried == most or not np.isfinite(value[j]):
            break
        if any(_in_basin(mode, ends[j], value[j]) for mode in found):
            continue
        tried += 1
        summit = _summit(kernel, ends[j])
        if summit.proper and not any(_same(mode, summit) for mode in found):
            found.append(_mode(summit))
    found.sort(key=lambda mode: -mode.log_evidence)
    return Modes(found, slope)


class Climb:
    """Adam from every start: the best point of each so far and log p there."""

    def __init__(self, kernel: Kernel, x: np.ndarray, density: Density):
        self._kernel, self._x, self._t = kernel, x, 0
        self._first = self._second = np.zeros_like(x)
        self._value, self._gradient = kernel(x)
        if not np.isfinite(self._value).any():
            raise InvalidModel(
                f"The log density of {density.source} or its gradient is not a number at any of {len(x)} "
                "starting points. Look for a log or a square root of a negative number, a division by "
                "zero, or data outside the support of their distribution."
                f"{_missing(density) or _outside(density, x)}"
            )
        self.best, self.highest, self._before = x, self._value, self._value

    @property
    def top(self) -> np.ndarray:
        """The best point of all."""
        return self.best[np.argmax(self.highest)]

    def go_on(self, until: int) -> None:
        """To that many steps; beyond `EARLY` no farther than any climber rises."""
        while self._t < until:
            self._t += 1
            self._step()
            if self._t % 50 == 0:
                rising = (self.highest > self._before + 0.02) & np.isfinite(self.highest)
                if self._t > EARLY and not rising.any():
                    break
                self._before = self.highest

    def _step(self) -> None:
        t, gradient = self._t, self._gradient
        self._first = 0.9 * self._first + 0.1 * gradient
        self._second = 0.999 * self._second + 0.001 * gradient**2
        rate = RATE * min(1.0, 0.1 + 0.9 * (STEPS - t) / 100)
        step = self._first / (1 - 0.9**t) / (np.sqrt(self._second / (1 - 0.999**t)) + 1e-12)
        known = np.isfinite(self._value)[:, None]
        self._x = np.where(known, self._x + rate * step, self.best)
        self._value, self._gradient = self._kernel(self._x)
        better = self._value > self.highest
        self.best = np.where(better[:, None], self._x, self.best)
        self.highest = np.where(better, self._value, self.highest)


def _missing(density: Density) -> str:
    """A sentence on the first missing value of the data, if there is one."""
    for name, values in (density.observed or {}).items():
        if np.issubdtype(np.asarray(values).dtype, np.floating) and np.isnan(values).any():
            place = ",".join(map(str, np.argwhere(np.isnan(values))[0]))
            return f" '{name}[{place}]' of the data is missing: leave it out, or impute it."
    return ""


def _outside(density: Density, x: np.ndarray) -> str:
    """A sentence on the first entry of the data whose log density is not finite at any of a few points."""
    if density.entries is None:
        return ""
    for name, found in jax.vmap(density.entries)(x[:ASKED]).items():
        bad = ~np.isfinite(np.asarray(found)).any(axis=0)
        if bad.any():
            place = ",".join(map(str, np.argwhere(bad)[0]))
            at = f"{name}[{place}]" if place else name
            return (
                f" It is so of '{at}': either it is outside its support, or what it depends on is missing or "
                "not a number."
            )
    return ""


def _only_one(kernel: Kernel, climb: Climb) -> Mode | None:
    """The summit that all climbers lead to, if there is one."""
    summit = newton(kernel, climb.top)
    if not summit.proper or summit.log_density < climb.highest.max() - 1e-6:
        return None
    only = _mode(summit)
    return only if all_lead_to(kernel, only.x, only.root, climb.best) else None


def _summit(kernel: Kernel, x: np.ndarray) -> Summit:
    if kernel.size <= FEW:
        return newton(kernel, x)
    climbed = lbfgs(kernel, x, tol=1e-3, most=400, together=TRIALS)
    return newton(kernel, climbed.x, most=12)


def _mode(summit: Summit) -> Mode:
    D = len(summit.x)
    volume = 0.5 * D * np.log(2 * np.pi) - 0.5 * float(np.linalg.slogdet(summit.precision)[1])
    return Mode(summit.x, summit.log_density, summit.precision, summit.log_density + volume)


def _in_basin(mode: Mode, x: np.ndarray, value: float) -> bool:
    """Whether log p at x is what the mode's parabola says."""
    d = x - mode.x
    fall = 0.5 * float(d @ mode.precision @ d)
    return abs(fall - (mode.log_density - value)) <= 0.5 * fall + 1.0


def _same(mode: Mode, summit: Summit) -> bool:
    d = summit.x - mode.x
    return float(d @ mode.precision @ d) < 0.1 * len(d)
