"""Models that cannot be fitted are refused in a sentence, before anything is compiled."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import lrvb
from lrvb.models import NormalPoisson, RandomSlope
from refusals import (
    COUNTS,
    Measurements,
    N,
    X,
    check_sentence,
    refused,
    stated,
)

# ---- models --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "fragments"),
    [
        (NormalPoisson, ("NormalPoisson is a class", "NormalPoisson()")),
        ("NormalPoisson", ("str", "subclass lrvb.Model")),
        (None, ("NoneType", "subclass lrvb.Model")),
        (COUNTS, ("dict", "subclass lrvb.Model")),
        (stated(global_blocks={}), ("no global_blocks", "lrvb.Normal()")),
        (
            stated(global_blocks=[lrvb.Normal()]),
            ("global_blocks of Stated", "map names to families"),
        ),
        (stated(local_blocks=None), ("local_blocks of Stated is None", "map names")),
        (stated(global_blocks={"mu": lrvb.Normal}), ("Block 'mu'", "must be a family")),
        (stated(global_blocks={"mu": "normal"}), ("Block 'mu' is 'normal'", "must be a family")),
        (stated(global_blocks={1: lrvb.Normal()}), ("key 1", "text")),
        (stated(local_blocks={"mu": lrvb.Normal()}), ("'mu' is both global and local", "rename")),
        (stated(local_blocks={"x": lrvb.Normal()}), ("'x'", "named like its own moment", "rename")),
        (
            stated(global_blocks={"tau": lrvb.Gamma(), "log(tau)": lrvb.Normal()}),
            ("Two blocks have a quantity 'log(tau)'", "rename"),
        ),
        (
            stated(local_blocks={"z": lrvb.Normal()}, local_term=lrvb.Model.local_term),
            ("no local_term", "'z'", "write one"),
        ),
        (stated(local_term=lrvb.Model.local_term), ("no local_term", "the data", "write one")),
    ],
)
def test_a_statement_that_is_none(model: Any, fragments: tuple[str, ...]) -> None:
    with refused(lrvb.InvalidModel, *fragments):
        lrvb.infer(model, {"y": X})


TERMS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "vector": ({"global_term": lambda s, m: m.mu.x * jnp.ones(3)}, ("global_term", "shape (3,)")),
    "local vector": ({"local_term": lambda s, m, z, row: m.mu.x * jnp.ones(3)}, ("local_term",)),
    "complex": ({"global_term": lambda s, m: m.mu.x * 1j}, ("global_term", "complex128", "real")),
    "truth": ({"local_term": lambda s, m, z, row: m.mu.x > 0}, ("local_term", "bool", "real")),
    "None": ({"global_term": lambda s, m: None}, ("global_term returned None", "return missing")),
    "local None": ({"local_term": lambda s, m, z, row: None}, ("local_term returned None",)),
    "text": ({"global_term": lambda s, m: "one"}, ("global_term of Stated",)),
    "if on a moment": (
        {"global_term": lambda s, m: -m.mu.xx if m.mu.x > 0 else 0.0},
        ("global_term of Stated", "value of a moment", "jnp.where in place of if"),
    ),
    "if on a row": (
        {"local_term": lambda s, m, z, row: -m.mu.xx if row.y > 0 else 0.0},
        ("local_term of Stated", "of a row", "jnp.where in place of if"),
    ),
    "numpy": (
        {"global_term": lambda s, m: np.log(m.tau.x)},
        ("global_term of Stated", "jax.numpy in place of numpy"),
    ),
    "float": ({"global_term": lambda s, m: float(m.tau.x)}, ("global_term of Stated",)),
    "no such block": (
        {"global_term": lambda s, m: m.gamma.x},
        ("no block 'gamma'", "mu, tau", "m.tau.log_x"),
    ),
    "no such moment": (
        {"local_term": lambda s, m, z, row: m.tau.logx},
        ("local_term of Stated", "'logx'", "m.tau.log_x"),
    ),
    "no local block": (
        {"local_term": lambda s, m, z, row: z.x},
        ("local_term of Stated", "the blocks are: none"),
    ),
    "arguments": (
        {"local_term": lambda s, m, row: m.mu.x},
        ("local_term of Stated", "positional arguments"),
    ),
    "prepare": ({"prepare": lambda s, data: None}, ("prepare of Stated", "mapping of columns")),
}


@pytest.mark.parametrize("term", TERMS)
def test_a_term_that_is_none(term: str) -> None:
    parts, fragments = TERMS[term]
    with refused(lrvb.InvalidModel, *fragments):
        lrvb.infer(stated(**parts), {"y": X})


def _fails(*args: Any) -> Any:
    raise RuntimeError("my own words")


@pytest.mark.parametrize(
    "part", ["global_term", "local_term", "prepare", "global_blocks", "local_blocks"]
)
def test_the_users_own_error_survives(part: str) -> None:
    with refused(lrvb.InvalidModel, part, "Stated", "RuntimeError: my own words") as caught:
        lrvb.infer(stated(**{part: _fails}), {"y": X})
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_column_that_prepare_does_not_find() -> None:
    with refused(lrvb.InvalidData, "no column 'q'", "'y'"):
        lrvb.infer(stated(prepare=lambda self, data: {"y": data["q"]}), {"y": X})


LOCAL = {"local_blocks": {"z": lrvb.Normal()}}

NUMBERS: dict[str, tuple[dict[str, Any], type[lrvb.LrvbError], tuple[str, ...]]] = {
    "global nan": (
        {"global_term": lambda s, m: m.mu.x * jnp.nan},
        lrvb.InvalidModel,
        ("global_term", "not a number"),
    ),
    "local nan": (
        {"local_term": lambda s, m, z, row: -m.mu.xx - m.tau.x + jnp.log(row.y)},
        lrvb.InvalidModel,
        ("local_term of Stated", f"row {int(np.argmax(X < 0))} (y=-0.", "not a number"),
    ),
    "local inf": (
        {"local_term": lambda s, m, z, row: m.mu.x + jnp.inf},
        lrvb.InvalidModel,
        ("local_term of Stated", "row 0:"),
    ),
    "global sign": (
        {"global_term": lambda s, m: 100 * m.mu.xx - m.tau.x},
        lrvb.InvalidModel,
        ("Block 'mu' has no proper optimum", "signs", "prior"),
    ),
    "global sign of a scale": (
        {"global_term": lambda s, m: -m.mu.xx + 1e3 * m.tau.x},
        lrvb.InvalidModel,
        ("Block 'tau' has no proper optimum",),
    ),
    "local sign": (
        {"local_term": lambda s, m, z, row: m.tau.x * (row.y - m.mu.x) ** 2},
        lrvb.InvalidModel,
        ("no proper optimum", "signs"),
    ),
    "sign of z": (
        {**LOCAL, "local_term": lambda s, m, z, row: z.xx - row.y * z.x - m.mu.xx},
        lrvb.InvalidModel,
        ("local_term of Stated", "over z at row 0", "signs"),
    ),
    "sign of z, not conjugate": (
        {**LOCAL, "local_term": lambda s, m, z, row: jnp.exp(z.x + z.xx) - row.y * m.mu.xx},
        lrvb.InvalidModel,
        ("local_term of Stated", "over z at row 0", "signs"),
    ),
    "curvature": (
        {"global_term": lambda s, m: -m.mu.xx - m.tau.x - jnp.abs(m.mu.x) ** 1.5},
        lrvb.NotAMaximum,
        ("curvature of the ELBO is not finite", "second derivatives"),
    ),
}


# Some of these stop early on their way to the error that is tested.
@pytest.mark.filterwarnings("ignore::lrvb.NotConverged")
@pytest.mark.parametrize("case", NUMBERS)
def test_a_term_without_a_maximum(case: str) -> None:
    """What only numbers can show is said with the block or the row."""
    parts, error, fragments = NUMBERS[case]
    with pytest.raises(error) as caught:
        lrvb.infer(stated(**parts), {"y": X if case != "curvature" else np.zeros(N)})
    check_sentence(caught.value, fragments)


class Switched(Measurements):
    """A stored number that steers an `if` is fixed instead of traced."""

    def __init__(self, flag: float):
        self.flag = flag

    def global_term(self, m):
        return super().global_term(m) * (1.0 if self.flag > 0 else 10.0)


def test_if_on_a_stored_number() -> None:
    on, off = (lrvb.infer(Switched(flag), {"y": X}) for flag in (1.0, -1.0))
    plain = lrvb.infer(Measurements(), {"y": X})
    np.testing.assert_allclose(on.sd(), plain.sd(), rtol=1e-12)
    assert off.sd("tau").item() < on.sd("tau").item()


@pytest.mark.parametrize("value", [-1, 0, np.nan, np.inf, "a", "1", None, [1, 2], 1j, True])
@pytest.mark.parametrize("model", [NormalPoisson, RandomSlope])
def test_hyperparameters(model: Any, value: Any) -> None:
    for name in ("beta_var", "tau_shape", "tau_rate"):
        with refused(lrvb.InvalidModel, f"{name}={value!r}", "positive number"):
            model(**{name: value})


def test_kinds_of_local_approximation() -> None:
    for value in ("laplace", None, ["tilted"]):
        with refused(lrvb.InvalidModel, f"local={value!r}", "'tilted' or 'gaussian'"):
            NormalPoisson(local=value)
