"""Hyperparameters: the numbers of a model, or arguments from which they are made, each with a plain step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

Numbers = Mapping[str, np.ndarray]

_DIFFERENCE = 1e-6  # relative, of numbers as functions of an argument


class Hyperparameter(NamedTuple):
    """A number ε of the prior or the model: its value, a plain step, and the model's numbers at any ε."""

    name: str
    value: float
    step: float
    at: Callable[[float], Numbers]

    def direction(self) -> dict[str, np.ndarray]:
        """d numbers / dε, by central differences: exact where the numbers are linear in ε."""
        h = _DIFFERENCE * (abs(self.value) or 1.0)
        up, down = self.at(self.value + h), self.at(self.value - h)
        return {k: (np.asarray(up[k]) - np.asarray(down[k])) / (2 * h) for k in up}


def plain_step(name: str, value: float) -> float:
    """The step that a person would try: twice the prior's sd, one more observation, or one unit.

    A variance (`…var`, `…variance`) is taken four times, a precision a quarter, so that the sd doubles;
    a shape, a number of degrees of freedom or a concentration rises by one; any other positive number
    doubles, and a number that is zero or negative rises by one.
    """
    words = name.partition("[")[0].lower().split("_")
    if value > 0 and {"var", "variance"} & set(words):
        return 3 * value
    if value > 0 and "precision" in words:
        return -0.75 * value
    if {"shape", "dof", "df", "concentration"} & set(words):
        return 1.0
    return value if value > 0 else 1.0


def stored_numbers(numbers: Numbers) -> list[Hyperparameter]:
    """Every entry of every real number that a model holds, by its attribute's name."""
    found = []
    for name, stored in numbers.items():
        value = np.asarray(stored)
        if value.dtype.kind != "f":
            continue
        for index in np.ndindex(*value.shape):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            here = float(value[index])
            found.append(
                Hyperparameter(label, here, plain_step(label, here), _replacing(name, value, index))
            )
    return found


def _replacing(name: str, value: np.ndarray, index: tuple[int, ...]) -> Callable[[float], Numbers]:
    def at(number: float) -> Numbers:
        changed = np.array(value, dtype=np.float64)
        changed[index] = number
        return {name: changed}

    return at
