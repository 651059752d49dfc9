"""The log density of unconstrained coordinates u of the global variables, data included.

Of coordinates that are redundant, as the log gammas of π are, only their contrasts are among them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg

from ..engine.density import CollapsedDensity, ThinnedDensity
from ..engine.response import Response
from ..errors import InvalidModel
from ..numerics.double import in_double
from ..numerics.sobol import normal_points
from .blocks import FamilyBlock
from .draws import Unconstrained, unconstrained
from .estimate import Estimate, estimate_of

if TYPE_CHECKING:
    from tqdm import tqdm

THIN = 20_000  # rows that stand for twice as many and more, where few draws are made
TRIED = 8  # points at which that is compared with all rows, as many near by as far out
WIDER = 1.5  # times as far as the normal reaches, where draws still count
CLOSE = (
    0.1  # of a log density, most less least: moves no mean by more than some hundredths of an sd
)
_STEP = 1e-5  # of a difference in u, whose scale is one by construction


class _Copy(NamedTuple):
    """One copy of a block: its coordinates u, its statistics T, and the copy as a block."""

    free: slice
    flat: slice
    block: FamilyBlock


def free_coordinates(estimate: Estimate) -> Unconstrained:
    """Unconstrained coordinates of all blocks, none of them redundant."""
    free = unconstrained(estimate)
    parts = {}
    for name, block in estimate.blocks.items():
        assert isinstance(block, FamilyBlock)
        parts[name] = block.contrasts(free.widths[name])
    A = scipy.linalg.block_diag(*parts.values())
    widths = {name: len(part) for name, part in parts.items()}
    return Unconstrained(A @ free.mean, A @ free.W, A @ free.R @ A.T, widths)


class Target:
    """log p(x, α(u)) + log |∂α/∂u|: a function of u (n, k) that importance sampling and HMC take.

    `center` (k,) and `root` (k, k) are linear response's mean of u and a root of its covariance, `W`
    (k, a) has the part W(T − m) of u;
    `passes` counts the points at which it was asked, those with a gradient three times; `pace` has
    the seconds of one, as the fastest call had it.
    """

    def __init__(self, response: Response):
        estimate = estimate_of(response)
        self.density: CollapsedDensity | ThinnedDensity = CollapsedDensity(response.fit)
        free = free_coordinates(estimate)
        self.center, self.W, self.root = free.mean, free.W, free.root(estimate.Sigma)
        self.passes, self.pace = 0, np.inf
        self._bar: tqdm | None = None
        self._fallback = estimate.m
        self._copies: list[_Copy] = []
        start = 0
        for name, block in estimate.blocks.items():
            assert isinstance(block, FamilyBlock)
            family, flat = block.family, estimate.slices[name]
            width = free.widths[name] // family.copies
            for k in range(family.copies):
                at = slice(flat.start + k * family.size, flat.start + (k + 1) * family.size)
                one = FamilyBlock(family.single(), response.eta[at])
                self._copies.append(_Copy(slice(start, start + width), at, one))
                start += width

    @in_double
    def thin(self, response: Response) -> bool:
        """Let some rows stand for all, if that is the density at a few points. See: `ThinnedDensity`."""
        if response.fit.problem.n <= 2 * THIN:
            return False
        some = ThinnedDensity(response.fit, THIN)
        e = np.concatenate([scale * normal_points(TRIED, self.size) for scale in (1.0, WIDER)])
        T, _ = self._inside(self.center + e @ self.root.T)
        off = self.density.at(T).value - some.at(T).value
        if not np.ptp(off) <= CLOSE:
            return False
        some.constant += float(off.mean())
        self.density = some
        return True

    def watch(self, bar: tqdm) -> None:
        """Count points on a progress bar."""
        self._bar = bar

    def _count(self, points: int, each: int = 1) -> None:
        self.passes += each * points
        if self._bar is not None:
            self._bar.update(points)

    @property
    def size(self) -> int:
        """Coordinates k."""
        return len(self.center)

    def carried(self, eta: np.ndarray, u: np.ndarray) -> np.ndarray:
        """Coordinates (n, k) of the points that have coordinates u where the parameters are η (a,)."""
        own = np.empty_like(u)
        for copy in self._copies:
            own[:, copy.free] = copy.block.carried(eta[copy.flat], u[:, copy.free])
        return own

    def statistics(self, u: np.ndarray) -> np.ndarray:
        """T(α(u)), (n, a)."""
        T = np.empty((len(u), len(self._fallback)))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            for copy in self._copies:
                T[:, copy.flat] = copy.block.statistics(u[:, copy.free])
        return T

    def __call__(self, u: np.ndarray) -> np.ndarray:
        """Values (n,); −∞ where a statistic leaves the range of doubles."""
        return self.with_statistics(u)[1]

    def with_statistics(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """T (n, a), the means where they leave the range of doubles, and values (n,)."""
        begun = time.monotonic()
        T, inside = self._inside(u)
        self._count(len(u))
        value = self.density.at(T).value + self._log_measure(u)
        self.pace = min(self.pace, (time.monotonic() - begun) / max(len(u), 1))
        self._require_numbers(value, inside, u)
        return T, np.where(inside, value, -np.inf)

    def with_gradient(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (n,) and gradients (n, k): ∂/∂m by differentiation, ∂T/∂u by differences."""
        T, inside = self._inside(u)
        self._count(len(u), 3)
        sums = self.density.at(T, gradient=True)
        assert sums.gradient is not None
        value, gradient = sums.value + self._log_measure(u), np.zeros(u.shape)
        for copy in self._copies:
            own, k = u[:, copy.free], copy.free.stop - copy.free.start
            if k == 0:  # a share that is the only one
                continue
            steps = _STEP * np.eye(k)
            ends = np.concatenate([own + s for s in (*steps, *-steps)])
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                moved = copy.block.statistics(ends).reshape(2, k, len(u), -1)
                measure = copy.block.log_measure(ends).reshape(2, k, len(u))
                dT = (moved[0] - moved[1]) / (2 * _STEP)
                slope = np.einsum("kna,na->nk", dT, sums.gradient[:, copy.flat])
                gradient[:, copy.free] = slope + (measure[0] - measure[1]).T / (2 * _STEP)
        inside &= np.isfinite(gradient).all(axis=1) & np.isfinite(value)
        return np.where(inside, value, -np.inf), np.where(inside[:, None], gradient, 0.0)

    def _inside(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Statistics, those that are not finite replaced, and where none had to be."""
        T = self.statistics(u)
        inside = np.isfinite(T).all(axis=1)
        T[~inside] = self._fallback
        return T, inside

    def _log_measure(self, u: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return sum(
                (copy.block.log_measure(u[:, copy.free]) for copy in self._copies),
                np.zeros(len(u)),
            )

    def _require_numbers(self, value: np.ndarray, inside: np.ndarray, u: np.ndarray) -> None:
        wrong = inside & (np.isnan(value) | (value == np.inf))
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InvalidModel(
                f"The log density is {value[at]} at a draw of the global variables, so that the "
                "answer cannot be checked; look for a term that has no value at a single point, "
                "where every variance under q is zero.",
                point=u[at],
            )
