"""A model checked before it is trusted: terms against log p, conjugacy, scales, and the first update.

Terms are compared by their gradients in the moments, at random moments and for a few rows: there a moment
that is wrong has a name, while constants, which move the ELBO and nothing else, are gone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..data.tables import Rows
from ..errors import LrvbError
from ..families import Normal, Tilted
from ..numerics.double import in_double
from ..numerics.lazy import jax, jnp
from ..numerics.program import Program
from ..statement.expectation import DRAWS, EXACT, expected, planned
from ..statement.meanfield import MeanField
from ..statement.model import derived, overrides
from ..statement.parameters import invalid_parts
from ..statement.problem import Problem, state_problem
from .fitting import default_sum
from .objective import Objective

SAME = 1e-6  # of the largest coefficient: terms and log p are the same formula, computed twice
POINTS = 2
WIDEST = 200  # moments of a term that is compared with itself
OFFSET = 1e4  # a mean of so many sds costs eight of sixteen digits once it is squared


class Finding(NamedTuple):
    """One thing found: "error", "warning" or "note"; what it is about, and a sentence."""

    level: str
    about: str
    text: str


@dataclass(frozen=True)
class Check:
    """What `lrvb.check` found; `ok` where nothing is an error. Printed, it is one page."""

    model: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is an error."""
        return not any(finding.level == "error" for finding in self.findings)

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        warned = any(finding.level == "warning" for finding in self.findings)
        head = f"Check of {self.model}: " + ("no errors" if self.ok else "errors")
        head += ", but warnings" if self.ok and warned else ""
        order = {"error": 0, "warning": 1, "note": 2}
        found = sorted(self.findings, key=lambda f: order[f.level])
        return "\n".join([head, *(f"  {f.level:7s}  {f.about}: {f.text}" for f in found)])


@in_double
def check(model: Any, data: Any = None) -> Check:
    """Check a model's statement against its own log p, and against what usually goes wrong.

    Where `log_prior` or `log_row` stand beside `global_term` or `local_term`, their gradients in the
    moments must agree, and a moment that does not is named. Without them a term is compared with the mean
    under q of its own values at points, which finds a square of a mean, not a
    missing normaliser. Nothing is fitted.
    """
    name = type(model).__name__
    try:
        problem = state_problem(model, data)
        found = [*_terms(problem), *_conjugacy(problem), *_scales(problem.rows), *_update(problem)]
    except LrvbError as error:
        return Check(name, [Finding("error", "statement", str(error))])
    return Check(name, found)


# ---- terms against log p ----------------------------------------------------------------------


def _terms(problem: Problem) -> Iterator[Finding]:
    model, structure = problem.model, problem.structure
    alpha, both = structure.alpha, MeanField(structure.alpha.blocks | structure.local.blocks)
    for term, log_p, field_ in (
        ("global_term", "log_prior", alpha),
        ("local_term", "log_row", both),
    ):
        if getattr(model, log_p) is None:
            if overrides(model, term):
                yield from _against_itself(problem, term, log_p, field_)
            continue
        rests = _rests(problem, term)
        plan = planned(getattr(structure, log_p), field_.blocks, rests, f"{log_p} of the model")
        inexact = sorted({f"{b} ({r})" for rules in plan for b, r in rules.items() if r != EXACT})
        how = f"by nodes or draws over {', '.join(inexact)}" if inexact else "exact in every block"
        yield Finding("note", log_p, f"its expectation is {how}")
        if not derived(model, term):
            yield from _compared(problem, term, log_p, field_, plan, rests)


def _rests(problem: Problem, term: str) -> list[Any]:
    """The numbers of the model, and for a row's term a few rows."""
    numbers = dict(problem.traced)
    if term == "global_term":
        return [numbers]
    rows = problem.rows
    assert rows is not None
    places = sorted({0, rows.n // 2, rows.n - 1})
    return [(numbers, {k: np.asarray(c[i]) for k, c in rows.columns.items()}) for i in places]


def _by_hand(problem: Problem, term: str, rest: Any, flat: Any) -> Any:
    structure, a = problem.structure, problem.alpha.size
    if term == "global_term":
        return structure.global_term(rest, flat)
    return structure.local_term(rest[0], flat[:a], flat[a:], structure.row(rest[1]))


def _compared(
    problem: Problem,
    term: str,
    log_p: str,
    q: MeanField,
    plan: Any,
    rests: list[Any],
    implied: Any = None,
) -> Iterator[Finding]:
    """Where a term's gradient in the moments is not that of the expectation of log p.

    Against what the term itself implies, `implied`, a difference is a warning: a bound is no expectation.
    """
    raw = implied or getattr(problem.structure, log_p)
    what = f"{term} at points" if implied else log_p
    level = "warning" if implied else "error"

    def gradients(rest: Any, flat: Any) -> Any:
        def of_log_p(flat: Any) -> Any:
            return expected(raw(rest), q.blocks, q.moments(flat), plan)

        hand = functools.partial(_by_hand, problem, term, rest)
        return jax.grad(hand)(flat), jax.grad(of_log_p)(flat)

    program = Program(gradients)
    rng = np.random.default_rng(5)
    told: set[str] = set()
    for rest in rests:
        for _ in range(POINTS):
            flat = _moments(q, rng)
            hand, true = (np.asarray(g) for g in program(rest, flat))
            gap = hand - true
            for block, family in q.blocks.items():
                here, scale = q.slices[block], max(1.0, float(np.abs(true).max()))
                if block in told or np.abs(gap[here]).max() <= SAME * scale:
                    continue
                told.add(block)
                text = _diagnosis(problem, what, block, family, hand[here], true[here], flat[here])
                yield Finding(level, f"{term}, block '{block}'", text)
    if not told and not implied:
        yield Finding("note", term, f"agrees with {log_p} in every moment")


def _moments(q: MeanField, rng: np.random.Generator) -> np.ndarray:
    """Flat moments that some member has: the mean statistics of eight draws near each start."""
    parts = []
    for family in q.blocks.values():
        base = Normal() if isinstance(family, Tilted) else family.single()
        draws = base.sample(base.start(), rng, 8 * family.copies)
        T = np.asarray(base.flatten(base.statistics(np.asarray(draws))))
        parts.append(T.reshape(8, family.copies * family.size).mean(axis=0))
    return np.concatenate(parts)


def _diagnosis(
    problem: Problem,
    what: str,
    block: str,
    family: Any,
    hand: np.ndarray,
    true: np.ndarray,
    m: np.ndarray,
) -> str:
    """Which moment of a block is wrong, and what that usually means."""
    gap = hand - true
    prefix = ("z" if block in problem.local.blocks else "m") + f".{block}"
    labels = [f"{prefix}.{name}" for name, slot in zip(family.Stats._fields, family.slots, strict=True)
              for _ in range(slot.size)] * family.copies  # fmt: skip
    worst = int(np.argmax(np.abs(gap)))
    said = f"its derivative in {labels[worst]} is {hand[worst]:.4g}, and that of E[{what}] {true[worst]:.4g}"
    eta = _natural(family, m)
    if eta is not None:
        for times, words in ((1.0, "is in the term"), (-1.0, "is subtracted in the term")):
            if np.allclose(gap, -times * eta, rtol=1e-4, atol=1e-6):
                return said + f"; the entropy of q({block}) {words}, but it is added for you"
    if "xx" in family.Stats._fields:
        second = np.array([label.endswith(".xx") for label in labels])
        first = np.array([label.endswith(".x") for label in labels])
        off = SAME * (1 + np.abs(true).max())
        if np.abs(gap[second]).max() > off and np.abs(gap[first]).max() > off:
            return (
                said
                + f"; {prefix}.x**2 seems to stand for {prefix}.xx, which is the mean of the square"
            )
    logs = np.array([".log" in label for label in labels])
    if logs.any() and np.abs(gap[~logs]).max(initial=0.0) <= SAME * (1 + np.abs(true).max()):
        return said + "; a normaliser, such as ½ log τ, seems to be missing or doubled"
    return said


def _natural(family: Any, m: np.ndarray) -> np.ndarray | None:
    """η of a block at flat moments; minus the gradient of its entropy."""
    if isinstance(family, Tilted):
        return None
    one = family.single()
    copies = jnp.asarray(m).reshape(family.copies, family.size)
    eta = [one.flatten(one.natural(one.unflatten(c)), natural=True) for c in copies]
    return np.concatenate([np.asarray(e) for e in eta])


def _against_itself(problem: Problem, term: str, log_p: str, q: MeanField) -> Iterator[Finding]:
    """Without log p: at T(θ) a term says log p of θ, and at moments it must be the mean of that under q.

    z.x**2 for z.xx shows, since at a point they are the same; a forgotten normaliser does not.
    """
    if q.size > WIDEST:
        yield Finding("note", term, f"there is no {log_p} to compare it with")
        return

    def implied(rest: Any) -> Any:
        def at(values: Any) -> Any:
            parts = [_statistics(f, values[name]) for name, f in q.blocks.items()]
            return _by_hand(problem, term, rest, jnp.concatenate(parts))

        return at

    rests = _rests(problem, term)
    try:
        plan = planned(implied, q.blocks, rests, f"{term} at single points")
    except LrvbError:
        text = f"it has no value where every variance is zero, so that only {log_p} could be compared with it"
        yield Finding("note", term, text)
        return
    except (
        jax.errors.TracerArrayConversionError
    ):  # statistics of a family of the user's own, in NumPy
        yield Finding("note", term, f"there is no {log_p} to compare it with")
        return
    if any(rule == DRAWS for rules in plan for rule in rules.values()):
        yield Finding("note", term, f"there is no {log_p} to compare it with")
        return
    found = list(_compared(problem, term, log_p, q, plan, rests, implied))
    said = f"without {log_p}, a normaliser that is missing would not show"
    if found:
        yield from found
    else:
        yield Finding("note", term, f"it is the mean under q of its values at points; {said}")


def _statistics(family: Any, value: Any) -> Any:
    """Flat T(θ) of every copy of a block."""
    base = Normal() if isinstance(family, Tilted) else family.single()
    copies: Any = jnp.reshape(value, (family.copies, *jnp.shape(value)[len(family.batch) :]))
    return jnp.ravel(base.flatten(base.statistics(copies)))


# ---- the rest ---------------------------------------------------------------------------------


def _conjugacy(problem: Problem) -> Iterator[Finding]:
    if problem.rows is None:
        return
    yield Finding(
        "note", "indices", "every index that a term takes from the data is inside its array"
    )
    if not problem.local.blocks:
        return
    if problem.structure.conjugate:
        text = "rows are linear in their moments: they are integrated out exactly"
    else:
        text = "rows are not linear in their moments: q of them is the best of its family"
    yield Finding("note", f"local {', '.join(problem.local.blocks)}", text)


def _scales(rows: Rows | None) -> Iterator[Finding]:
    for name, column in ({} if rows is None else rows.columns).items():
        values = np.asarray(column, dtype=float)
        sd = float(values.std())
        if values.dtype.kind == "f" and sd > 0 and abs(values.mean()) > OFFSET * sd:
            away = f"{abs(values.mean()) / sd:.0e}"
            text = f"its mean is {away} sds from zero; subtract it, or squares lose digits"
            yield Finding("warning", f"column '{name}'", text)
        elif np.abs(values).max(initial=0.0) > 1e8:
            yield Finding(
                "warning", f"column '{name}'", "it has values above 1e8; use larger units"
            )


def _update(problem: Problem) -> Iterator[Finding]:
    """The first coordinate-ascent update of every block lies in its domain, or a prior may be missing."""
    bound = default_sum(problem).bind(problem) if problem.rows is not None else None
    point = Objective(problem, bound).at(problem.alpha.start(), order=1)
    if not np.isfinite(point.elbo):
        row = f" at row {point.failed}" if point.failed >= 0 else ""
        yield Finding(
            "error",
            "start",
            f"the ELBO is not finite{row}: check for logarithms of zero and overflow",
        )
        return
    for block, part in invalid_parts(problem.alpha, point.gradient):
        text = (
            f"the first update of '{part}' leaves the domain of {problem.alpha.blocks[block]!r}; check the "
            "signs of the terms that contain it, and that its prior is there"
        )
        yield Finding("warning", f"block '{block}'", text)
