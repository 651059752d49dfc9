"""How long something takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def best_of(repeats: int, action: Callable[[], T]) -> tuple[float, T]:
    """The least seconds of several repetitions, and the last result."""
    least = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        result = action()
        least = min(least, time.perf_counter() - began)
    return least, result
