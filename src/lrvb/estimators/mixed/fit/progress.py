"""When a fit shows how far it is: as it was asked to, or where a person waits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

MANY = 50_000  # rows from which on a fit may take more than two seconds


def wants_bar(rows: int, *said: bool | None) -> bool:
    """Whether to show a bar: as the first that is not None says, or where a person waits for many rows."""
    for asked in said:
        if asked is not None:
            return bool(asked)
    return rows > MANY and sys.stderr.isatty()


def draws_bar(*said: bool | None) -> Callable[[int, int], None] | None:
    """Progress of the draws: as asked for, or after two seconds where a person waits."""
    for asked in said:
        if asked is not None:
            return _shown_draws(0.0) if asked else None
    return _shown_draws(2.0) if sys.stderr.isatty() else None


def _shown_draws(after: float) -> Callable[[int, int], None]:
    """One line that tells how many draws there are, from so many seconds on."""
    start = time.monotonic()

    def show(done: int, expected: int) -> None:
        if time.monotonic() - start >= after:
            end = "\n" if done >= expected else ""
            print(f"\r{done:,} of {expected:,} draws", end=end, file=sys.stderr, flush=True)

    return show
