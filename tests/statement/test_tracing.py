"""Compiled programs follow the model: whatever its terms read, a change of it is never missed."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrvb
from lrvb.numerics import program

RATE = 1.0
CONFIG = types.SimpleNamespace(rate=1.0)


class Elsewhere:
    rate = 1.0


class Slots:
    __slots__ = ("rate",)

    def __init__(self) -> None:
        self.rate = 1.0


class Prior(lrvb.Model):
    """Gamma(3, rate), with the rate taken from everywhere: E τ = 3 / rate."""

    global_blocks = {"tau": lrvb.Gamma()}
    shared = 1.0

    def __init__(self) -> None:
        self.listed = [1.0]
        self.slotted = Slots()
        self.called = lambda: 1.0

    def global_term(self, m: Any) -> Any:
        rate = RATE * CONFIG.rate * Elsewhere.rate * self.shared
        rate *= self.listed[0] * self.slotted.rate * self.called()
        return 2 * m.tau.log_x - rate * m.tau.x


def mean(model: lrvb.Model) -> float:
    return lrvb.infer(model).mean("tau").item()


CHANGES = {
    "a global": lambda patch, model: patch.setitem(globals(), "RATE", 2.0),
    "a module's constant": lambda patch, model: patch.setattr(CONFIG, "rate", 2.0),
    "another class": lambda patch, model: patch.setattr(Elsewhere, "rate", 2.0),
    "its own class": lambda patch, model: patch.setattr(Prior, "shared", 2.0),
    "a list": lambda patch, model: patch.setitem(model.__dict__, "listed", [2.0]),
    "a slot": lambda patch, model: patch.setattr(model.slotted, "rate", 2.0),
    "a closure": lambda patch, model: patch.setattr(model, "called", lambda: 2.0),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_refit_sees_every_change(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Prior()
    assert mean(model) == pytest.approx(3.0)
    change(monkeypatch, model)
    assert mean(model) == pytest.approx(3 / 2)
    monkeypatch.undo()
    assert mean(model) == pytest.approx(3.0)


def test_a_reloaded_module_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A helper of a helper, edited and reloaded, with nothing else touched."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    helper = tmp_path / "edited_helper.py"
    helper.write_text("def rate():\n    return 1.0\n")
    edited_helper = importlib.import_module("edited_helper")

    class Helped(lrvb.Model):
        global_blocks = {"tau": lrvb.Gamma()}

        def global_term(self, m: Any) -> Any:
            return 2 * m.tau.log_x - edited_helper.rate() * m.tau.x

    assert mean(Helped()) == pytest.approx(3.0)
    helper.write_text("def rate():\n    return 2.0  # edited\n")
    importlib.reload(edited_helper)
    assert mean(Helped()) == pytest.approx(3 / 2)


def test_a_familys_own_methods_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A(η) of a user's family reads a number: doubled, the family is another one."""

    class Scaled(lrvb.Normal):
        shift = 0.0

        def log_partition(self, eta: Any) -> Any:
            return super().log_partition(eta) + self.shift * eta.x

        def mean(self, eta: Any) -> Any:
            m = super().mean(eta)
            return m._replace(x=m.x + self.shift)

    class Flat(lrvb.Model):
        global_blocks = {"b": Scaled()}

        def global_term(self, m: Any) -> Any:
            return -0.5 * m.b.xx + m.b.x

    first = lrvb.fit(Flat(), None).m
    monkeypatch.setattr(Scaled, "shift", 1.0)
    assert lrvb.fit(Flat(), None).m[0] == pytest.approx(first[0] + 1)


def test_a_rule_of_differentiation_is_seen() -> None:
    """The same value with another derivative is another model."""

    def model(slope: float) -> lrvb.Model:
        @jax.custom_jvp
        def scaled(x: Any) -> Any:
            return x

        scaled.defjvp(lambda x, dx: (x[0], slope * dx[0]))

        class Ruled(lrvb.Model):
            global_blocks = {"tau": lrvb.Gamma()}

            def global_term(self, m: Any) -> Any:
                return 2 * m.tau.log_x - scaled(m.tau.x)

        return Ruled()

    assert mean(model(1.0)) == pytest.approx(3.0)
    assert mean(model(2.0)) == pytest.approx(3 / 2)


class Located(lrvb.Model):
    """y ~ N(μ, 1), with a local z that is not used but answers."""

    global_blocks = {"mu": lrvb.Normal()}
    local_blocks = {"z": lrvb.Normal()}

    def __init__(self) -> None:
        self.scale = [1.0]

    def global_term(self, m: Any) -> Any:
        return -0.5 * m.mu.xx

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        residual = row.y**2 - 2 * row.y * z.x + z.xx
        return -0.5 * residual - 0.5 * self.scale[0] * (z.xx - 2 * z.x * m.mu.x + m.mu.xx)


def test_a_model_changed_after_its_fit_answers_for_the_fit_or_refuses() -> None:
    """What is compiled late comes from the model that was fitted, or not at all."""
    y = np.linspace(-1, 2, 40)
    model, other = Located(), Located()
    posterior = lrvb.infer(model, {"y": y})
    model.scale[0] = 5.0
    with pytest.raises(lrvb.InvalidModel, match="has changed since"):
        posterior.local("z", rows=[0, 1, 2])
    truth = lrvb.infer(other, {"y": y}).local("z", rows=[0, 1, 2])
    model.scale[0] = 1.0
    again = posterior.local("z", rows=[0, 1, 2])
    np.testing.assert_allclose(again["sd"], truth["sd"], rtol=1e-12)


def test_stored_numbers_share_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """A prior of other numbers needs no new compilation, ours or a user's."""

    class Mine(lrvb.models.NormalPoisson):
        pass

    data = {"x": [0.1, -0.5, 1.0], "y": [1, 0, 2]}
    for cls in (lrvb.models.NormalPoisson, Mine):
        lrvb.infer(cls(local="gaussian"), data)
    monkeypatch.setattr(program, "_executable", lambda *args: pytest.fail("compiled again"))
    for cls in (lrvb.models.NormalPoisson, Mine):
        lrvb.infer(cls(beta_var=3.0, tau_shape=2.0, tau_rate=0.5, local="gaussian"), data)


def test_a_row_unpacks_in_the_order_of_the_columns() -> None:
    """`y, x = row` of {"y": y, "x": x}, although JAX sorts the names of its mappings."""

    class Line(lrvb.Model):
        global_blocks = {"b": lrvb.Normal()}

        def local_term(self, m: Any, z: Any, row: Any) -> Any:
            y, x = row
            return -0.5 * (y**2 - 2 * y * x * m.b.x + x**2 * m.b.xx)

    x = np.linspace(-1, 1, 20)
    b = lrvb.infer(Line(), {"y": 2 * x, "x": x}).mean("b").item()
    assert b == pytest.approx(2.0)


def test_a_typo_is_answered_with_the_moments_of_the_row() -> None:
    class Typo(Located):
        def local_term(self, m: Any, z: Any, row: Any) -> Any:
            return row.y * z.xy

    with pytest.raises(lrvb.InvalidModel, match=r"m\.mu\.x, m\.mu\.xx, z\.x, z\.xx"):
        lrvb.infer(Typo(), {"y": [1.0, 2.0]})


def test_jax_itself_is_not_asked_to_forget() -> None:
    """A value that depends on nothing traced is folded in, and seen."""

    class Folded(lrvb.Model):
        global_blocks = {"tau": lrvb.Gamma()}
        table = np.zeros(3000)

        def global_term(self, m: Any) -> Any:
            return 2 * m.tau.log_x - (1 + jnp.asarray(type(self).table)[-1]) * m.tau.x

    assert mean(Folded()) == pytest.approx(3.0)
    Folded.table = np.append(np.zeros(2999), 1.0)
    assert mean(Folded()) == pytest.approx(3 / 2)
