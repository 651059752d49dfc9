"""What a certificate may cost: seconds, and passes over the rows."""

from __future__ import annotations

import numbers
import time

import numpy as np

from ..errors import InvalidModel
from .arguments import require_whole
from .target import Target

MANY_PASSES = 10**15  # where no limit is given


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
        """Whether so many further ones can be paid, at the speed of those before, if there were any."""
        done = self.target.passes
        each = (time.monotonic() - self.begun) / done if done else 0.0
        return passes <= self.passes and passes * each <= self.seconds

    def affordable(self, draws: int) -> int:
        """So many draws, or what can be paid of them, 64 in any case."""
        paid = min(draws, self.passes) if self.seconds > 0 else 0
        if np.isfinite(self.until) and np.isfinite(self.target.pace):
            paid = min(paid, int(self.seconds / max(self.target.pace, 1e-9)))
        return max(paid, 64)
