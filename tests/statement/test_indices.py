"""An index from the data points at an entry that is there, or is refused before any work."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrvb


class Groups(lrvb.Model):
    """y ~ N(b_g, 1) with four groups."""

    global_blocks = {"b": lrvb.Normal(batch=4)}
    pick: Any = staticmethod(lambda m, row: (m.b.x[row.g], m.b.xx[row.g]))

    def global_term(self, m: Any) -> Any:
        return -0.05 * m.b.xx.sum()

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        x, xx = self.pick(m, row)
        return -0.5 * (row.y**2 - 2 * row.y * x + xx)


def dynamic(m: Any, row: Any) -> Any:
    return jax.lax.dynamic_index_in_dim(m.b.x, row.g, keepdims=False), m.b.xx.sum()


def taken(m: Any, row: Any) -> Any:
    return jnp.take(m.b.x, row.g), m.b.xx.sum()


def many(m: Any, row: Any) -> Any:
    both = jnp.stack([m.b.x, m.b.xx])[:, jnp.stack([row.g, 0])]
    return both[0, 0], both[1, 0]


def scattered(m: Any, row: Any) -> Any:
    chosen = jnp.zeros(4).at[row.g].set(1.0)
    return chosen @ m.b.x, chosen @ m.b.xx


def scanned(m: Any, row: Any) -> Any:
    def step(total: Any, g: Any) -> Any:
        return (total[0] + m.b.x[g], total[1] + m.b.xx[g]), None

    return jax.lax.scan(step, (0.0, 0.0), jnp.stack([row.g, row.g]))[0]


def looped(m: Any, row: Any) -> Any:
    def step(_: Any, total: Any) -> Any:
        return total[0] + m.b.x[row.g], total[1] + m.b.xx[row.g]

    return jax.lax.fori_loop(0, 2, step, (0.0, 0.0))


def branched(m: Any, row: Any) -> Any:
    return jax.lax.cond(
        row.y > -9, lambda: (m.b.x[row.g], m.b.xx[row.g]), lambda: (m.b.x[0], m.b.xx[0])
    )


def from_one(m: Any, row: Any) -> Any:
    return m.b.x[row.g - 1], m.b.xx[row.g - 1]


WAYS = [Groups.pick, dynamic, taken, many, scattered, scanned, looped, branched]
Y = np.linspace(-1, 1, 8)


def model(pick: Any) -> lrvb.Model:
    return type("Picked", (Groups,), {"pick": staticmethod(pick)})()


@pytest.mark.parametrize("pick", WAYS)
@pytest.mark.parametrize(("g", "row"), [([0, 1, 2, 3, 4, 3, 2, 1], 4), ([0, 1, -1, 3] * 2, 2)])
def test_an_index_outside_is_refused(pick: Any, g: list[int], row: int) -> None:
    with pytest.raises(lrvb.InvalidData, match="from 0 to 3") as caught:
        lrvb.infer(model(pick), {"g": g, "y": Y})
    assert (caught.value.column, caught.value.row, caught.value.value) == ("g", row, g[row])


@pytest.mark.parametrize("pick", WAYS)
def test_an_index_inside_is_used(pick: Any) -> None:
    assert np.isfinite(lrvb.fit(model(pick), {"g": [0, 1, 2, 3] * 2, "y": Y}).elbo)


def test_an_index_made_from_a_column_names_the_column() -> None:
    assert lrvb.infer(model(from_one), {"g": [1, 2, 3, 4] * 2, "y": Y}).converged
    with pytest.raises(lrvb.InvalidData, match=r"Column 'g', row 1: the value 5 gives 4, an index"):
        lrvb.infer(model(from_one), {"g": [1, 5, 3, 4] * 2, "y": Y})


def test_parts_are_checked_too() -> None:
    dask = pytest.importorskip("dask.array")
    g = np.array([0, 1, 2, 3, 0, 1, 2, 4])
    columns = {"g": dask.from_array(g, chunks=4), "y": dask.from_array(Y, chunks=4)}
    with pytest.raises(lrvb.InvalidData, match="'g', row 3: the value 4"):
        lrvb.infer(Groups(), columns)


def test_an_index_written_in_the_model_is_checked() -> None:
    class Seventh(lrvb.Model):
        global_blocks = {"b": lrvb.Normal(batch=4)}

        def __init__(self, entry: int):
            self.entry = entry

        def global_term(self, m: Any) -> Any:
            return -0.5 * m.b.xx.sum() + m.b.x[self.entry]

    with pytest.raises(lrvb.InvalidModel, match="entry 7 of 4"):
        lrvb.infer(Seventh(7))
    assert lrvb.infer(Seventh(-1)).mean("b[3]").item() == pytest.approx(1.0)


def test_a_branch_that_is_not_taken_may_point_outside() -> None:
    """`cond` on a column guards its index: the rows on which it would be outside are not asked."""

    def guarded(m: Any, row: Any) -> Any:
        return jax.lax.cond(
            row.g < 4, lambda: (m.b.x[row.g], m.b.xx[row.g]), lambda: (m.b.x[0], m.b.xx[0])
        )

    lrvb.infer(model(guarded), {"y": Y, "g": np.arange(8)})
