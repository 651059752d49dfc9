"""Executables: those of last use are kept, and older ones go before a process has too many."""

from __future__ import annotations

import gc
import weakref

import jax.numpy as jnp
import numpy as np
import pytest

from lrvb.numerics import program
from lrvb.numerics.program import Executables, Program, Recent


@pytest.fixture
def recent(monkeypatch: pytest.MonkeyPatch) -> Recent:
    """A memory of its own, which looks at every new executable."""
    found = Recent()
    monkeypatch.setattr(program, "_recent", found)
    monkeypatch.setattr(program, "_EVERY", 1)
    return found


def sizes(program: Program) -> list[int]:
    """Lengths of the vectors for which there are executables."""
    return sorted(shape[0] for _, ((shape, _),) in program._executables)


def test_the_older_half_goes_where_memory_is_crowded(recent, monkeypatch):
    """One used again is among the newer ones, and what has gone is compiled anew, with the same answer."""
    monkeypatch.setattr(program, "crowded", lambda: False)
    square = Program(lambda x: (x**2).sum())
    for n in (1, 2, 3):
        square(jnp.arange(float(n)))
    square(jnp.arange(1.0))
    monkeypatch.setattr(program, "crowded", lambda: True)
    square(jnp.arange(4.0))
    assert sizes(square) == [1, 4]
    assert float(square(jnp.arange(3.0))) == 5.0


def test_executables_end_with_their_program(recent):
    """Nothing that is remembered keeps them alive."""
    square = Program(lambda x: (x**2).sum())
    square(jnp.arange(3.0))
    held = weakref.ref(square._executables)
    assert isinstance(held(), Executables)
    del square
    gc.collect()
    assert held() is None


def test_crowded_is_said_of_the_pieces_that_are_mapped(monkeypatch):
    """Of this process: it has more of them than none of those granted, and fewer than endlessly many."""
    if not program.Path("/proc/self/maps").exists():
        pytest.skip("only Linux says how many pieces of memory are mapped")
    monkeypatch.setattr(program, "_SHARE", 0.0)
    assert program.crowded()
    monkeypatch.setattr(program, "_SHARE", np.inf)
    assert not program.crowded()
