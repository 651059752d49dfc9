"""Quantities by their names, as summaries print them; a block's name stands for all of its quantities."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import numpy as np

from ..errors import InvalidModel
from .estimate import Estimate


class Named:
    """The names of an estimate's quantities, `beta[1]`, `log(tau)`, and where each is."""

    estimate: Estimate
    absent: dict[str, str]
    _aliases: dict[str | None, str | None]

    @property
    def names(self) -> list[str]:
        """Every named scalar quantity."""
        return list(self.estimate.index)

    def _choose(self, names: str | Iterable[str] | None) -> list[str]:
        """The names asked for, a block's name standing for all of its quantities."""
        if names is None:
            return self.names
        chosen: list[str] = []
        index = self.estimate.index
        if not isinstance(names, Iterable):
            raise InvalidModel(f"names={names!r} must be a name or a list of names.")
        for name in [names] if isinstance(names, str) else names:
            name = name if name in index else self._aliases.get(name) or name
            if name in index:
                chosen.append(name)
                continue
            inside = [k for k in self.names if _stem(k) == name] or self._of_block(name)
            if not inside:
                if name in self.absent:
                    raise InvalidModel(self.absent[name])
                close = difflib.get_close_matches(str(name), self.names, n=3)
                hint = f" Did you mean {', '.join(close)}?" if close else ""
                shown = ", ".join(self.names[:12]) + (", …" if len(self.names) > 12 else "")
                raise InvalidModel(f"There is no quantity '{name}'.{hint} There are: {shown}.")
            chosen.extend(inside)
        return chosen

    def _of_block(self, name: str) -> list[str]:
        """The quantities of a block, in whatever form they are named."""
        slices = self.estimate.slices
        own = self.estimate.labels[slices[name]] if name in slices else ()
        return [label for label in own if label is not None]

    def _at(self, names: Iterable[str]) -> np.ndarray:
        return np.array([self.estimate.index[name] for name in names], dtype=int)


def _stem(name: str) -> str:
    """`mu[0,1]` → `mu`, `log(pi[0])` → `log(pi)`."""
    head, bracket, tail = name.partition("[")
    return head + tail.partition("]")[2] if bracket else name
