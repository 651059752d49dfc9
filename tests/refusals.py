"""Small data, a model as a user would state it, and how a refusal must read."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lrvb
from lrvb.models import NormalPoisson, RandomSlope
from lrvb.numerics import program as compiled

N = 20
RNG = np.random.default_rng(0)
X = RNG.normal(size=N)
Y = RNG.poisson(np.exp(X))
DESIGN = np.column_stack([np.ones(N), X])
COUNTS = {"x": X, "y": Y}
GROUPED = {
    "x": DESIGN,
    "r": RNG.normal(size=N),
    "y": DESIGN @ [1.0, 2.0] + RNG.normal(size=N),
    "group": np.repeat(np.arange(5), 4),
}
TILTED, GAUSSIAN, SLOPE = NormalPoisson(), NormalPoisson(local="gaussian"), RandomSlope()


class Measurements(lrvb.Model):
    """y_n ~ N(μ, 1/τ), as a user would state it."""

    global_blocks = {"mu": lrvb.Normal(), "tau": lrvb.Gamma()}

    def global_term(self, m):
        return -m.mu.xx / 20 - m.tau.x

    def local_term(self, m, z, row):
        return (m.tau.log_x - m.tau.x * (row.y**2 - 2 * row.y * m.mu.x + m.mu.xx)) / 2


def stated(**parts: Any) -> lrvb.Model:
    """`Measurements` with some of its parts replaced."""
    return type("Stated", (Measurements,), parts)()


@contextlib.contextmanager
def refused(error: type[Exception], *fragments: str) -> Iterator[Any]:
    """The block raises `error` with one sentence or two that contain the fragments, uncompiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "_executable", _must_not_compile)
        with pytest.raises(error) as caught:
            yield caught
    check_sentence(caught.value, fragments)


def _must_not_compile(*args: Any) -> None:
    raise AssertionError("compiled before the input was refused")


def check_sentence(error: BaseException, fragments: tuple[str, ...]) -> None:
    """One sentence or two of ours, short, with the fragments."""
    text = str(error)
    assert isinstance(error, lrvb.LrvbError)
    assert "\n" not in text
    assert len(text) < 500
    assert text.endswith((".", "?"))
    for fragment in fragments:
        assert fragment in text


def put(column: np.ndarray, where: Any, value: Any, dtype: Any = None) -> np.ndarray:
    """A copy of a column with one value replaced."""
    column = np.array(column, dtype=dtype)
    column[where] = value
    return column
