"""The functions of a smooth, and what a formula may say of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.estimators.mixed.design.design import build
from lrvb.estimators.mixed.design.smooths import Basis
from mixed_fits import frame


@pytest.fixture(scope="module")
def basis():
    x = np.random.default_rng(0).gamma(2.0, size=200)
    return Basis(x, 8), x


def test_bends_are_orthogonal_to_lines_and_of_unit_size(basis):
    """Σ z = Σ xz = 0 over the rows, and the mean of Σ_j z_j² is one."""
    made, x = basis
    Z = made(x)
    assert Z.shape == (200, 6)
    np.testing.assert_allclose(np.column_stack([np.ones(200), x]).T @ Z, 0, atol=1e-9)
    np.testing.assert_allclose((Z**2).sum(1).mean(), 1.0)


def test_every_bend_is_as_rough_as_another(basis):
    """∫z_i″z_j″ is the same number times δ_ij; second derivatives are lines between knots."""
    made, _ = basis
    t = np.linspace(made.low, made.high, 40001)
    h = t[1] - t[0]
    second = np.diff(made(t), 2, axis=0) / h**2
    S = second.T @ second * h
    np.testing.assert_allclose(S / S[0, 0], np.eye(6), atol=2e-3)  # O(h), at the knots


def test_curves_go_on_as_lines(basis):
    """With the slope that they have at the end."""
    made, _ = basis
    for end, way in ((made.low, -1.0), (made.high, 1.0)):
        Z = made(end + way * np.array([-1e-6, 0.0, 1.0, 2.0]))
        np.testing.assert_allclose(Z[3] - Z[2], Z[2] - Z[1], atol=1e-9)
        np.testing.assert_allclose((Z[1] - Z[0]) / 1e-6, Z[2] - Z[1], atol=1e-4)


def test_columns_of_a_design():
    """A line among the fixed effects, and bends after it; the same for new rows."""
    data = frame()
    design = build("y ~ c + s(x, k=5) + s(w, by=c, k=4)", data, "gaussian")
    assert design.effects == [
        *("Intercept", "c[b]", "c[c]", "s(x)[linear]"),
        *(f"s(w, by=c)[{level}][linear]" for level in "abc"),
    ]
    assert design.bent.sum() == 3 + 3 * 2
    np.testing.assert_allclose(design.apply(data.head(4)).X, design.X[:4], atol=1e-12)
    own = design.smooths[2]
    assert not design.X[(data["c"] != "b").to_numpy()][:, own.places].any()


def test_points_beyond_the_data_are_told():
    data = frame()
    design = build("y ~ s(x)", data, "gaussian")
    with pytest.warns(lrvb.BeyondTheData, match="1 of 2 rows have 'x' beyond .* straight line"):
        design.apply(pd.DataFrame({"x": [0.0, 99.0]}))
    design = build("y ~ s(x, by=c, k=4)", data, "gaussian")
    with pytest.raises(lrvb.LrvbError, match=r"Column 'c', row 0: the value 'z' is a level that"):
        design.apply(pd.DataFrame({"x": [0.0], "c": ["z"]}))


def test_the_basis_by_its_name_is_the_basis():
    """`bs="cr"` is what a smooth has anyway."""
    named, plain = (build(f, frame(), "gaussian") for f in ('y ~ s(x, bs="cr")', "y ~ s(x)"))
    np.testing.assert_array_equal(named.X, plain.X)
    assert named.names == plain.names


@pytest.mark.parametrize(
    ("formula", "sentence"),
    [
        ("y ~ s()", "A column was expected first in a smooth"),
        ("y ~ s(x, k=2)", "k of 3 or more"),
        ("y ~ s(x, bs='tp')", "A smooth takes one column"),
        ("y ~ s(x, bs='re')", r"for bs=.re. write \(1 \| g\)"),
        ("y ~ s(x, w)", "A smooth takes one column"),
        ("y ~ w:s(x)", "A smooth was expected as a term of its own"),
        ("y ~ w - s(x)", "A smooth was expected as a term of its own"),
        ("y ~ s(x) + s(x, k=4)", r"s\(x\) is in the formula twice"),
        ("y ~ s(c3)", "'c3' has 3 different values, fewer than the k=10 functions"),
        ("y ~ s(nothing)", "no column 'nothing'"),
        ("y ~ s(g)", "needs numbers, but column 'g' holds text"),
        ("y ~ s(x, by=w)", r"The column 'w' of s\(x, by=w\) holds numbers that are no levels"),
        ("y ~ x + s(x)", r"is an exact combination of"),
    ],
)
def test_smooths_that_cannot_be(formula, sentence):
    data = frame().assign(c3=lambda d: d["n"] % 3)
    with pytest.raises(lrvb.LrvbError, match=sentence):
        build(formula, data, "gaussian")
