"""Zeros and ones with an effect of each, their rows in parts of whole outer levels. See: SingleRows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from .coordinates import Kind
from .factor_density import FAR, MANY, NEAR
from .factor_nodes import TOLERANCE, Off, chosen
from .few import some_inner
from .inside import Evaluated
from .levels import first_nodes
from .nested import Nested
from .nested_sums import largest
from .scattered import with_nodes
from .scattered_nested import ScatteredNested
from .single_rows import AveragedOdds, SingleRows, scale_of, work_of


class ScatteredSingle:
    """The same sums over parts; nodes, and what they are off by at their center, are those of all rows."""

    cost = 1.0

    def __init__(self, nested: ScatteredNested):
        self.nested, self.p, self.known = nested, nested.p, 0.0
        self.parts = nested.parts.prepared(_single)
        sizes, rungs = zip(*(s for s in self.parts.map(_size) if s is not None), strict=True)
        self.N, self.rungs = sum(sizes), rungs[0]
        self.nodes = first_nodes(AveragedOdds(), self.N)
        self.parts = self.parts.prepared(
            partial(_begun, self.nodes, FAR if self.N < MANY else NEAR)
        )

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""
        return self.nested.kinds

    @property
    def fewest(self) -> int:
        """Levels of the outer factor."""
        return self.nested.outer.levels

    @property
    def work(self) -> float:
        """Rows times nodes."""
        return work_of(self.N, self.nodes)

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,)."""
        return self._total(self._ask(_log_density, theta), theta)

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point."""
        done = self.parts.prepared(partial(_differentiated, theta))
        self.parts = done.prepared(_first)
        found = [part for part in done.map(_second) if part is not None]
        value, gradient, H = zip(*found, strict=True)
        none = np.zeros(len(theta)), np.zeros((len(theta),) * 2)
        # every part has the prior, which counts once
        _, own, bend = self.nested.rows.with_prior(theta, 0.0, *none, self._log_hyperprior)
        again = len(value) - 1
        total = self._total([np.array([part]) for part in value], theta[None])
        return float(total[0]), sum(gradient) - again * own, sum(H) - again * bend

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log density at n points, with moments of outer levels, then inner ones."""
        value, first, second = zip(*self._ask(_evaluate, theta), strict=True)
        join = self.nested._joined
        return Evaluated(self._total(value, theta), join(first), join(second))

    def error(self, theta: np.ndarray) -> np.ndarray:
        """What the log density is off by at n points, (n,), by twice the nodes and beyond the ends."""
        off, cut, _ = self._off(theta)
        return np.abs(off - self.known) + cut

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The fewest nodes that suffice at n points; also of the nested sums, which are asked later."""
        learnt = self.parts.prepared(partial(_learnt, theta))

        def ask(bent: bool, nodes: int) -> Off:
            self.parts = learnt.prepared(partial(with_nodes, bent, nodes))
            return self._off(theta)

        bent, self.nodes, self.known = chosen(self.rungs, ask)
        self.parts = learnt.prepared(partial(with_nodes, bent, self.nodes))
        nested, some = self.nested, some_inner(self.nested)
        some.choose_nodes(theta, TOLERANCE * some.N / nested.N)
        nested.step, nested.single, nested._center = some.step, some.single, some._center
        nested.information = largest([nested._informations(point) for point in theta])
        self.parts = self.parts.prepared(partial(_told, nested._state))

    def scale(self, theta: np.ndarray) -> np.ndarray:
        """κ and the outer sd, with which effects grow, at n points (n, 2)."""
        return scale_of(theta, self.p)

    def _log_prior(self, theta: np.ndarray) -> np.ndarray:
        return self.nested._log_prior(theta)

    def _log_hyperprior(self, theta: np.ndarray) -> np.ndarray:
        return self.nested._log_hyperprior(theta)

    # ---- parts ------------------------------------------------------------------------------

    def _total(self, found: Sequence[np.ndarray], theta: np.ndarray) -> np.ndarray:
        """The log density from those of parts without their priors."""
        return np.sum(found, axis=0) + self._log_prior(theta) - self.known

    def _off(self, theta: np.ndarray) -> Off:
        off, cut, most = zip(*self._ask(_off, theta), strict=True)
        return Off(np.sum(off, axis=0), np.sum(cut, axis=0), max(most))

    def _ask(self, question: Callable[..., Any], theta: np.ndarray) -> list:
        """What the parts say."""
        found = self.parts.map(partial(question, theta))
        return [part for part in found if part is not None]


# ---- where the rows are: a part is the sums of its levels, or None if it has no rows -----------


def _single(part: Nested | None) -> SingleRows | None:
    return None if part is None else SingleRows(part)


def _size(_: int, part: SingleRows | None) -> tuple[int, list[tuple[bool, int]]] | None:
    return None if part is None else (part.N, part._rungs())


def _begun(nodes: int, drop: float, part: SingleRows | None) -> SingleRows | None:
    if part is None:
        return None
    here = copy(part)
    here.nodes, here.drop = nodes, drop
    return here


def _learnt(theta: np.ndarray, part: SingleRows | None) -> SingleRows | None:
    if part is None:
        return None
    here = copy(part)
    here.bent = False
    here._learn(theta)
    return here


def _told(state: dict[str, Any], part: SingleRows | None) -> SingleRows | None:
    if part is None:
        return None
    here, here_nested = copy(part), copy(part.nested)
    here_nested.__dict__.update(state)
    here.nested = here_nested
    return here


def _differentiated(
    theta: np.ndarray, part: SingleRows | None
) -> tuple[SingleRows, tuple[float, np.ndarray, np.ndarray]] | None:
    """Derivatives, and the part, which has learnt from them where its levels are."""
    if part is None:
        return None
    here = copy(part)
    value, gradient, H = here.derivatives(theta)
    return here, (value - float(here._log_prior(theta[None])[0]), gradient, H)


def _first(found: tuple[SingleRows, Any] | None) -> SingleRows | None:
    return None if found is None else found[0]


def _second(_: int, found: tuple[SingleRows, Any] | None) -> Any:
    return None if found is None else found[1]


def _log_density(theta: np.ndarray, _: int, part: SingleRows | None) -> Any:
    return None if part is None else part.log_density(theta) - part._log_prior(theta)


def _evaluate(theta: np.ndarray, _: int, part: SingleRows | None) -> Any:
    if part is None:
        return None
    value, first, second = part.evaluate(theta)
    return value - part._log_prior(theta), first, second


def _off(theta: np.ndarray, _: int, part: SingleRows | None) -> Off | None:
    return None if part is None else part._off(theta)
