"""The experiments by name, each imported when it is asked for."""

from __future__ import annotations

import difflib
import importlib

from ...errors import InvalidModel
from .base import Experiment

#: In the order in which they run and stand on the page; the module has the name with underscores.
NAMES = (
    "normal-poisson",
    "random-slope",
    "mixture",
    "mnist",
    "scaling",
    "exactness",
    "sparsity",
)


def named(name: str) -> Experiment:
    """The experiment of that name."""
    require([name])
    module = importlib.import_module(f"lrvb.studies.experiments.{name.replace('-', '_')}")
    return module.EXPERIMENT


def require(names: list[str]) -> None:
    """Refuse names that are not experiments, with one that is nearly the same, or all of them."""
    for name in names:
        if name not in NAMES:
            plain = name.lower().replace("_", "-")
            close = difflib.get_close_matches(plain, NAMES, n=1, cutoff=0.75)
            hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(NAMES)}."
            raise InvalidModel(f"There is no experiment {name!r}; {hint}")
