"""Numbers and words that a user gives, refused in a sentence where they are not what is asked for."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from ..errors import InvalidModel


def require_whole(name: str, value: Any, least: int) -> None:
    """A whole number, at least so large."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise InvalidModel(f"{name}={value!r} must be a whole number, {least} or more.")


def require_flag(name: str, value: Any) -> None:
    """True or False: any text, "no" too, would count as True."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidModel(f"{name}={value!r} must be True or False.")
