"""What a formula may have beyond columns and bars is kept in a file of the model."""

from __future__ import annotations

import numpy as np
import pytest

import lrvb
from mixed_fits import frame


@pytest.mark.parametrize(
    ("formula", "structures"),
    [
        ("y ~ s(w, by=c, k=4)", None),
        ("y ~ ns(x, df=3) + (1|h)", None),
        ("y ~ .", None),
        ("y ~ x + (1|h)", {"h": np.eye(5) + 0.2}),
    ],
)
def test_smooths_splines_dots_and_structures_are_kept(formula, structures, tmp_path):
    """New rows are predicted as by the fit, by its knots and matrices."""
    data = frame()[["y", "x", "w", "c", "h"]]
    model = lrvb.MixedModel(formula, structures=structures).fit(data)
    again = lrvb.load(model.save(tmp_path / "model.npz"))
    new = frame(seed=4)[["x", "w", "c", "h"]]
    new = new[new["x"].between(data["x"].min(), data["x"].max())]
    new = new[new["w"].between(data["w"].min(), data["w"].max())].head(20)
    one, other = model.predict(new), again.predict(new)
    np.testing.assert_allclose((one["mean"] - other["mean"]) / one["sd"], 0, atol=0.1)
    np.testing.assert_allclose(other["sd"], one["sd"], rtol=0.2)
