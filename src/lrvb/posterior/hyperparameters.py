"""Hyperparameters: the numbers of a model, or arguments from which they are made, each with a plain step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

Numbers = Mapping[str, np.ndarray]

_DIFFERENCE = 1e-6  # relative, of numbers as functions of an argument
_OF_SPREADS: dict[str, Callable[[float], float]] = {
    "sd": float,
    "scale": float,
    "var": math.sqrt,
    "variance": math.sqrt,
    "precision": lambda precision: 1 / math.sqrt(precision),
}


class PlainSteps(NamedTuple):
    """The step that a person would try, and the same the other way; 0 where there is none."""

    step: float
    back: float


class Hyperparameter(NamedTuple):
    """A number ε of the prior or the model: its value, plain steps, and the model's numbers at any ε."""

    name: str
    value: float
    steps: PlainSteps
    at: Callable[[float], Numbers]

    @property
    def step(self) -> float:
        """The plain one."""
        return self.steps.step

    def said(self, step: float) -> str:
        """A step in words."""
        return f"{self.name} from {self.value:.3g} to {self.value + step:.3g}"

    def direction(self) -> dict[str, np.ndarray]:
        """d numbers / dε, by central differences: exact where the numbers are linear in ε.

        At the least value that is allowed, from which no step leads back, they are differences from there on.
        """
        h = _DIFFERENCE * (abs(self.value) or 1.0)
        places, weights = (
            ((1, -1), (0.5, -0.5)) if self.steps.back else ((1, 2, 0), (2, -0.5, -1.5))
        )
        ends = [self.at(self.value + k * h) for k in places]
        return {k: np.tensordot(weights, [end[k] for end in ends], axes=1) / h for k in ends[0]}


def times(value: float, factor: float = 2.0) -> PlainSteps:
    """To `factor` times a positive number, and to one part in so many."""
    return PlainSteps(value * (factor - 1), value * (1 / factor - 1))


def one_more(value: float, least: float = 0.0) -> PlainSteps:
    """One up and one down, but not beyond half the way to the `least` that is allowed."""
    return PlainSteps(1.0, -min(1.0, max(0.0, (value - least) / 2)))


def either_way(unit: float) -> PlainSteps:
    """Up and down by a unit."""
    return PlainSteps(unit, -unit)


def plain_steps(name: str, value: float, least: float = 0.0) -> PlainSteps:
    """Steps that a person would try: twice or half the prior's sd, one observation more or less, one unit.

    A variance (`…var`, `…variance`) is taken four times, a precision a quarter, so that the sd doubles, and
    the other way; a shape, a number of degrees of freedom or a concentration rises or falls by one (not
    beyond half the way to the `least` one); any other positive number is doubled or halved, and one that is
    zero or negative rises or falls by one.
    """
    words = set(name.partition("[")[0].lower().split("_"))
    if {"shape", "dof", "df", "concentration"} & words:
        return one_more(value, least)
    spread = {"var", "variance", "precision"} & words
    if value > 0:
        return times(value, 0.25 if "precision" in spread else 4.0 if spread else 2.0)
    return PlainSteps(1.0, 0.0) if spread else either_way(1.0)


def stored_numbers(numbers: Numbers) -> list[Hyperparameter]:
    """Every entry of every real number that a model holds, by its attribute's name."""
    found = []
    for name, stored in numbers.items():
        value = np.asarray(stored)
        if value.dtype.kind != "f":
            continue
        for index in np.ndindex(*value.shape):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            here, sd = float(value[index]), _prior_sd(numbers, name, index)
            steps = plain_steps(label, here) if sd is None else either_way(sd)
            found.append(Hyperparameter(label, here, steps, _replacing(name, value, index)))
    return found


def _prior_sd(numbers: Numbers, name: str, index: tuple[int, ...]) -> float | None:
    """The prior's sd of a mean, `beta_mean`, where that is stored too: `beta_sd`, `beta_var` and the like."""
    words = name.split("_")
    if not {"mean", "loc"} & set(words):
        return None
    for other, sd in _OF_SPREADS.items():
        beside = "_".join(other if word in ("mean", "loc") else word for word in words)
        value = np.asarray(numbers.get(beside, np.nan))
        here = value if value.ndim == 0 else value[index] if value.ndim == len(index) else np.nan
        if np.isfinite(here) and here > 0:
            return float(sd(float(here)))
    return None


def _replacing(name: str, value: np.ndarray, index: tuple[int, ...]) -> Callable[[float], Numbers]:
    def at(number: float) -> Numbers:
        changed = np.array(value, dtype=np.float64)
        changed[index] = number
        return {name: changed}

    return at
