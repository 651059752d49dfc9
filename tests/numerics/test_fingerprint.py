"""Equal content has one fingerprint; a traced function is known by what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrvb
from lrvb.numerics.fingerprint import Digest, fingerprint, is_plain


@dataclass
class Config:
    scale: Any = 1.0


class Slots:
    __slots__ = ("scale",)

    def __init__(self, scale: Any):
        self.scale = scale


EQUAL = [
    (lambda: 1),
    (lambda: np.nan),
    (lambda: [1, (2.0, "a"), {"b": {3}}]),
    (lambda: np.arange(1000.0)),
    (lambda: jnp.arange(3)),
    (lambda: Config([1.0, 2.0])),
    (lambda: Slots(np.ones(3))),
    (lambda: lrvb.Wishart(2, batch=(3,))),
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
    (Slots(1.0), Slots(2.0)),
    (lrvb.Wishart(2), lrvb.Wishart(3)),
]


@pytest.mark.parametrize("make", EQUAL)
def test_equal_content_has_one_fingerprint(make: Any) -> None:
    first, again = fingerprint(make()), fingerprint(make())
    assert first == again
    assert hash(first) == hash(again)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_content_has_two(one: Any, other: Any) -> None:
    assert fingerprint(one) != fingerprint(other)


def test_only_numbers_text_and_our_own_are_plain() -> None:
    for value in (1.0, "a", {"b": [np.ones(2)]}, lrvb.Gamma(batch=3), lrvb.Gamma):
        assert is_plain(value)
    for value in (
        Config(1.0),
        Slots(1.0),
        lambda x: x,
        [Config],
        lrvb.Tilted(lambda z: -jnp.exp(z)),
    ):
        assert not is_plain(value)


def digest(function: Any, *args: Any) -> str:
    found = Digest()
    found.add(jax.make_jaxpr(function)(*args))
    return found.hexdigest()


def looped(scale: float) -> Any:
    return lambda x: jax.lax.fori_loop(0, 3, lambda i, y: y * scale, x)


def constant(last: float) -> Any:
    table = np.append(np.zeros(2000), last)
    return lambda x: jax.jit(lambda x: x * jnp.asarray(table).sum())(x)


@pytest.mark.parametrize("make", [lambda c: lambda x: c * x, looped, constant])
def test_a_digest_sees_every_constant(make: Any) -> None:
    """In the function itself, in a loop's body, and in an array that would be printed cut."""
    assert digest(make(2.0), 1.0) == digest(make(2.0), 1.0)
    assert digest(make(2.0), 1.0) != digest(make(3.0), 1.0)


def test_a_call_into_python_is_never_reused() -> None:
    def called(x: Any) -> Any:
        return jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct((), np.float32), x)

    assert digest(called, np.float32(1)) != digest(called, np.float32(1))


def test_rules_of_differentiation_are_looked_into_unless_they_are_jaxs() -> None:
    """slogdet and logsumexp have JAX's own; what `defjvp` and `defjvps` are given is anybody's."""

    def custom(function: Any) -> bool:
        found = Digest()
        found.add(jax.make_jaxpr(function)(np.eye(2)))
        return found.custom

    def total(x: Any) -> Any:
        return jnp.sum(x)

    ruled, partly = jax.custom_jvp(total), jax.custom_jvp(total)
    ruled.defjvp(lambda x, dx: (jnp.sum(x[0]), 2 * jnp.sum(dx[0])))
    partly.defjvps(lambda dx, value, x: 2 * jnp.sum(dx))
    assert not custom(lambda x: jnp.linalg.slogdet(x)[1])
    assert custom(ruled)
    assert custom(partly)
