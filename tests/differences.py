"""Derivatives by differences, the referee of every derivative that is computed otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def slope(f: Callable[[float], Any], h: float) -> Any:
    """f'(0) by five points: the error is h⁴/30 of a fifth derivative, and 1.5/h of the error of f."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def bend(f: Callable[[float], Any], h: float) -> Any:
    """f''(0) by five points: the error is h⁴/90 of a sixth derivative, and 5/h² of the error of f."""
    near, far = f(h) + f(-h), f(2 * h) + f(-2 * h)
    return (16 * near - far - 30 * f(0.0)) / (12 * h**2)


def central(f: Callable[[float], Any], h: float) -> Any:
    """f'(0) by two points, where f is dear: the error is h²/6 of a third derivative."""
    return (f(h) - f(-h)) / (2 * h)
