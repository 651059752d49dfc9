"""Expected terms from log p: `log_prior(t)` and `log_row(t, z, row)` in the raw variables.

E_q is linear, so that the addends of log p are taken one by one, each over the blocks it reads. Over every
block there is a rule (`rules.py`): the exact one, linear in its moments, where the addend is conditionally
conjugate in that block, and a sum over nodes or draws where it is not. Which it is, is decided by trial: at
the statistics T(θ) of a point in place of moments the exact rules must give log p(θ) itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidModel
from ..families import Normal, Tilted
from ..families.base import Family
from ..numerics.fingerprint import Digest
from ..numerics.lazy import core, jax, jnp
from ..numerics.program import Program
from .rules import (
    by_draws,
    by_point,
    by_quadrature,
    exact_rule,
    has_draws,
    has_quadrature,
    has_scale,
    variable_shape,
)

EXACT, QUADRATURE, DRAWS, POINT = "exact", "quadrature", "draws", "point"
SCALES = (1.0, 1.0, 1.0, 30.0, 1000.0)  # of the points at which the exact rules are tried
SAME = 1e-8  # of the addend's own size: the trial is arithmetic, and nothing else

Plan = tuple[Mapping[str, str], ...]  # for each addend, the rule of every block that it reads
Raw = Callable[[Mapping[str, Any]], Any]  # log p from raw variables, by block


class Values:
    """Raw variables by name: `t.beta`, or `t["beta"]`; of a single local block `z` is more."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]):
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self.__getattr__(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            known = ", ".join(self._values) or "none"
            raise AttributeError(f"there is no variable '{name}'; there are: {known}") from None


class Addend(NamedTuple):
    """One summand of log p as a function of raw variables, and the blocks it reads."""

    at: Raw
    reads: tuple[str, ...]


def addends(raw: Raw, blocks: dict[str, Family]) -> list[Addend]:
    """log p as a sum: the last additions of its own computation, followed back to what they add."""
    from jax.interpreters import partial_eval

    closed = jax.make_jaxpr(raw)(specs(blocks))
    names = sorted(blocks)  # JAX's own order of a mapping
    found = []
    for share, variable in _summands(closed):
        part = closed.jaxpr.replace(outvars=[variable])
        used, needed = partial_eval.dce_jaxpr(part, [True])
        constants = _kept_constants(part, used, closed.consts)
        reads = tuple(name for name, need in zip(names, needed, strict=True) if need)

        def at(
            values: Mapping[str, Any],
            used: Any = used,
            constants: Any = constants,
            reads: Any = reads,
            share: float = share,
        ) -> Any:
            given = (jnp.asarray(values[name], jnp.float64) for name in reads)
            return share * jnp.sum(jax.core.eval_jaxpr(used, constants, *given)[0])

        found.append(Addend(at, reads))
    return found


def specs(blocks: dict[str, Family]) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of the raw variables."""
    real = np.dtype(np.float64)
    return {name: jax.ShapeDtypeStruct(variable_shape(f), real) for name, f in blocks.items()}


def _kept_constants(part: Any, used: Any, constants: Any) -> list[Any]:
    """The constants that are left: dead ones are no longer asked for."""
    known = {id(v): c for v, c in zip(part.constvars, constants, strict=True)}
    return [known[id(v)] for v in used.constvars]


def _summands(closed: core.ClosedJaxpr) -> list[tuple[float, Any]]:
    """Variables whose entries, times a number each, add up to the result."""
    made = {id(v): e for e in closed.jaxpr.eqns for v in e.outvars}
    found, waiting = [], [(1.0, closed.jaxpr.outvars[0])]
    while waiting:
        share, v = waiting.pop()
        equation = None if isinstance(v, core.Literal) else made.get(id(v))
        further = [] if equation is None else _parts(equation)
        waiting += [(share * factor, i) for factor, i in further]
        if not further:
            found.append((share, v))
    return found


def _parts(equation: Any) -> list[tuple[float, Any]]:
    """What one operation adds up, and with which factors; nothing where it is no sum."""
    name, inputs, shape = equation.primitive.name, equation.invars, equation.outvars[0].aval.shape
    literal = [isinstance(i, core.Literal) for i in inputs]
    if name in ("add", "add_any", "sub") and all(i.aval.shape == shape for i in inputs):
        return [(1.0, inputs[0]), (-1.0 if name == "sub" else 1.0, inputs[1])]
    if name == "neg":
        return [(-1.0, inputs[0])]
    if name == "reduce_sum" and not shape:
        return [(1.0, inputs[0])]
    if name == "mul" and any(literal) and not all(literal):
        factor, other = inputs if literal[0] else inputs[::-1]
        return [(float(factor.val), other)] if np.ndim(factor.val) == 0 else []
    if name == "div" and literal[1] and np.ndim(inputs[1].val) == 0:
        return [(1 / float(inputs[1].val), inputs[0])]
    return []


def expected(raw: Raw, blocks: dict[str, Family], moments: Any, plan: Plan | None = None) -> Any:
    """E_q of log p, from moments; without a plan all rules are the exact ones."""
    total = jnp.zeros(())
    for i, addend in enumerate(addends(raw, blocks)):
        rules = plan[i] if plan is not None else dict.fromkeys(addend.reads, EXACT)
        total = total + _over(addend, blocks, moments, rules)
    return total


def _over(addend: Addend, blocks: dict[str, Family], moments: Any, rules: Mapping[str, str]) -> Any:
    """E_q of one addend, block after block: what is not exact outermost, then the last stated.

    Local blocks are stated last, so that the result is seen to be linear in their moments.
    """
    stated = [name for name in reversed(blocks) if name in rules]
    order = sorted(stated, key=lambda name: rules[name] == EXACT)

    def inner(k: int, values: Mapping[str, Any]) -> Any:
        if k == len(order):
            return addend.at(values)
        name = order[k]
        rule = _rule(blocks[name], rules[name])
        return rule(blocks[name], moments[name], lambda x: inner(k + 1, {**values, name: x}))

    return inner(0, {})


def _rule(family: Family, kind: str) -> Callable[..., Any]:
    if kind == QUADRATURE:
        return by_quadrature
    if kind == DRAWS:
        return by_draws
    if kind == POINT:
        return by_point
    rule = exact_rule(family)
    if rule is None:
        raise InvalidModel(
            f"{type(family).__name__} has no rule for expectations of log p; write global_term and "
            "local_term with its moments."
        )
    return rule


def at_points(plan: Plan, blocks: Iterable[str]) -> Plan:
    """The plan with log p itself over these blocks, whose moments are then those of single points."""
    names = set(blocks)
    return tuple({b: POINT if b in names else r for b, r in rules.items()} for rules in plan)


def planned(
    make: Callable[[Any], Raw], blocks: dict[str, Family], rests: list[Any], what: str
) -> Plan:
    """Which rule every addend needs for every block, by trial at points and for example rows.

    `make(rest)` is log p with its numbers and one row; `what` names it in a sentence.
    """
    digest = Digest()
    digest.add(jax.make_jaxpr(lambda rest, values: make(rest)(values))(rests[0], specs(blocks)))
    key = (digest.hexdigest(), repr(sorted(blocks.items(), key=lambda b: b[0])))
    if key not in _PLANS:
        if len(_PLANS) >= 256:
            _PLANS.clear()
        _PLANS[key] = _plan(make, blocks, rests, what)
    return _PLANS[key]


_PLANS: dict[Any, Plan] = {}


def _plan(
    make: Callable[[Any], Raw], blocks: dict[str, Family], rests: list[Any], what: str
) -> Plan:
    rng = np.random.default_rng(0)
    points = [{name: _point(f, rng, scale) for name, f in blocks.items()} for scale in SCALES]
    reads: list[tuple[str, ...]] = []

    def note(rest: Any) -> None:  # a row that is traced, as in the term itself
        reads.extend(addend.reads for addend in addends(make(rest), blocks))

    jax.eval_shape(note, rests[0])

    def gaps(tried: list[tuple[str, ...]]) -> np.ndarray:
        """How far the exact rules of some blocks are from each addend at points, the others given."""

        def at(rest: Any, values: Any, T: Any) -> Any:
            pairs = []
            for addend, names in zip(addends(make(rest), blocks), tried, strict=True):
                given = {k: v for k, v in values.items() if k not in names}
                part = Addend(functools.partial(_given, addend, given), names)
                ours = _over(part, blocks, T, dict.fromkeys(names, EXACT))
                pairs.append(jnp.stack([ours, addend.at(values)]))
            return jnp.stack(pairs)

        program = Program(at)
        worst = np.zeros(len(tried))
        for scale, point in zip(SCALES, points, strict=True):
            values, T = ({k: p[i] for k, p in point.items()} for i in (0, 1))
            for rest in rests:
                ours, theirs = np.asarray(program(rest, values, T)).T
                if scale == 1 and not np.isfinite(theirs).all():
                    raise InvalidModel(
                        f"{what} is not finite at a point inside the domain of its blocks; check for "
                        "logarithms or divisions of zero, and for overflow."
                    )
                off = np.abs(ours - theirs) / (1 + np.abs(theirs))
                off = np.where(np.isfinite(off), off, np.inf)
                worst = np.maximum(worst, np.where(np.isfinite(theirs), off, 0.0))
        return worst

    known = {name for name, family in blocks.items() if exact_rule(family) is not None}
    tried = [tuple(name for name in names if name in known) for names in reads]
    worst = gaps(tried)
    plan: list[dict[str, str]] = [dict.fromkeys(names, EXACT) for names in reads]
    for block in blocks:
        doubtful = [
            i
            for i, names in enumerate(reads)
            if block in names and (worst[i] > SAME or len(tried[i]) < len(names))
        ]
        if not doubtful:
            continue
        alone = gaps(
            [(block,) if i in doubtful and block in known else () for i in range(len(reads))]
        )
        for i in doubtful:
            if block not in known or alone[i] > SAME:
                plan[i][block] = _other_rule(blocks[block], block, what)
    return tuple(plan)


def _given(addend: Addend, given: Mapping[str, Any], values: Mapping[str, Any]) -> Any:
    """An addend with the variables of some blocks given."""
    return addend.at({**given, **values})


def _other_rule(family: Family, block: str, what: str) -> str:
    """What takes over where an addend is not linear in a block's statistics."""
    if has_quadrature(family):
        return QUADRATURE
    if has_draws(family):
        return DRAWS
    raise InvalidModel(
        f"{what} is not linear in the statistics {', '.join(family.Stats._fields)} of block '{block}' "
        f"({family!r}), so that its expectation does not follow from their moments; write it in another "
        "variable, or write its expectation yourself (global_term, local_term).",
        block=block,
    )


def _point(family: Family, rng: np.random.Generator, scale: float) -> tuple[np.ndarray, Any]:
    """A value of a block's variable near its own start, or so many times as far, and its statistics.

    What looks quadratic near zero, as one of two far modes does, is not so everywhere.
    """
    base = Normal() if isinstance(family, Tilted) else family.single()
    x = np.asarray(base.sample(base.start(), rng, family.copies), dtype=float)
    if has_scale(family):
        x = scale * x
    T = np.asarray(base.flatten(base.statistics(x))).reshape(*family.batch, family.size)
    return x.reshape(variable_shape(family)), base.unflatten(T)
