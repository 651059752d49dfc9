"""Compiled programs follow the model: whatever it reads, a change of it is never missed."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import lrvb
from lrvb.numerics.fingerprint import class_fingerprint, fingerprint

SCALE = 1.0
SETTINGS = {"scale": [1.0, 2.0]}


@dataclass
class Config:
    scale: Any = 1.0


class Plain:
    def __init__(self, scale: Any):
        self.scale = scale


class Slots:
    __slots__ = ("scale",)


def helper() -> float:
    return SCALE


def reads_a_global(x: Any) -> Any:
    return SCALE * x


def reads_it_inside(x: Any) -> Any:
    return [SETTINGS["scale"][0] * y for y in x]


def reads_it_elsewhere(x: Any) -> Any:
    return helper() * x


def closure(scale: Any) -> Any:
    return lambda x: scale * x


EQUAL = [
    (lambda: 1),
    (lambda: np.nan),
    (lambda: [1, (2.0, "a"), {"b": {3}}]),
    (lambda: np.arange(1000.0)),
    (lambda: jnp.arange(3)),
    (lambda: Config([1.0, 2.0])),
    (lambda: Plain(np.ones(3))),
    (lambda: lrvb.Wishart(2, batch=(3,))),
    (lambda: closure(2.0)),
    (lambda: functools.partial(reads_a_global, 3)),
    (lambda: Plain(1.0).__init__),
    (lambda: reads_a_global),
    (lambda: np.array([1, "a"], dtype=object)),
]

DIFFERENT = [
    (0.0, -0.0),
    (1, True),
    (1, 1.0),
    ([1], (1,)),
    ({"a": 1}, {"a": 2}),
    (np.zeros(3), np.zeros(4)),
    (np.zeros(3), np.zeros(3, dtype=np.float32)),
    (np.arange(1000.0), np.arange(1000.0) + (np.arange(1000) == 999)),
    (Config([1.0]), Config([2.0])),
    (Plain(1.0), Plain(2.0)),
    (lrvb.Wishart(2), lrvb.Wishart(3)),
    (closure(1.0), closure(2.0)),
    (closure([1.0]), closure([2.0])),
    (lambda x: x, lambda x: x + 1),
    (functools.partial(max, 1), functools.partial(max, 2)),
]


@pytest.mark.parametrize("make", EQUAL)
def test_equal_content_has_one_fingerprint(make: Any) -> None:
    first, again = fingerprint(make()), fingerprint(make())
    assert first == again
    assert hash(first) == hash(again)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_content_has_two(one: Any, other: Any) -> None:
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("function", [reads_a_global, reads_it_elsewhere])
def test_globals_are_followed(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(function)
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    assert fingerprint(function) != before
    monkeypatch.undo()
    assert fingerprint(function) == before


def test_contents_of_globals_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint(reads_it_inside)
    monkeypatch.setitem(SETTINGS, "scale", [3.0, 2.0])
    assert fingerprint(reads_it_inside) != before


def test_cycles_end() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert hash(fingerprint(loop)) == hash(fingerprint(loop))
    knot = Plain(None)
    knot.scale = knot
    assert fingerprint(knot) == fingerprint(knot)


def test_what_cannot_be_compared_is_never_reused() -> None:
    class Unhashable(Slots):
        __slots__ = ()
        __hash__ = None  # type: ignore[assignment]

    value = Unhashable()
    assert fingerprint(value) != fingerprint(value)
    assert fingerprint([0.0] * 20_000) == fingerprint([0.0] * 20_000)
    many = [[i] for i in range(20_000)]
    assert fingerprint(many) != fingerprint(many)


def test_methods_belong_to_a_class() -> None:
    class Changing(lrvb.Model):
        factor = 2.0

        def global_term(self, m: Any) -> Any:
            return self.factor * m.x.x

    before = class_fingerprint(Changing, lrvb.Model)
    assert class_fingerprint(Changing, lrvb.Model) == before
    Changing.factor = 3.0
    changed = class_fingerprint(Changing, lrvb.Model)
    assert changed != before
    Changing.global_term = lambda self, m: m.x.xx  # type: ignore[method-assign]
    assert class_fingerprint(Changing, lrvb.Model) not in (before, changed)


# ---- the same through a fit ----------------------------------------------------------------

RATE = 1.0


class Prior(lrvb.Model):
    """Gamma(3, rate), with the rate taken from everywhere: E τ = 3 / rate."""

    global_blocks = {"tau": lrvb.Gamma()}
    shared = 1.0

    def __init__(self) -> None:
        self.listed = [1.0]
        self.config = Config(1.0)

    def global_term(self, m: Any) -> Any:
        rate = RATE * self.shared * self.listed[0] * self.config.scale
        return 2 * m.tau.log_x - rate * m.tau.x


def test_a_refit_sees_every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Prior()

    def mean() -> float:
        return lrvb.infer(model).mean("tau").item()

    assert mean() == pytest.approx(3.0)
    model.listed[0] = 2.0
    assert mean() == pytest.approx(3 / 2)
    model.config.scale = 3.0
    assert mean() == pytest.approx(3 / 6)
    monkeypatch.setattr(Prior, "shared", 5.0)
    assert mean() == pytest.approx(3 / 30)
    monkeypatch.setitem(globals(), "RATE", 7.0)
    assert mean() == pytest.approx(3 / 210)
    monkeypatch.undo()
    assert mean() == pytest.approx(3 / 6)


def test_stored_numbers_share_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prior of other numbers needs no new compilation."""
    from lrvb import compiled
    from lrvb.models import NormalPoisson

    data = {"x": [0.1, -0.5, 1.0], "y": [1, 0, 2]}
    lrvb.infer(NormalPoisson(local="gaussian"), data)
    monkeypatch.setattr(compiled, "_executable", lambda *args: pytest.fail("compiled again"))
    lrvb.infer(NormalPoisson(beta_var=3.0, tau_shape=2.0, tau_rate=0.5, local="gaussian"), data)
