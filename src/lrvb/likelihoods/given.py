"""What a density needs besides y and η, by name: columns (N,) such as trials, and dispersions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Given = Mapping[str, Any]
NOTHING: Given = {}


def take(given: Given, rows: Any) -> Given:
    """What is given of some rows; a number belongs to all of them."""
    return {name: part[rows] if np.ndim(part) else part for name, part in given.items()}
