"""ArviZ in both eras: InferenceData before 1.0, xarray's DataTree since, and without ArviZ."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import arviz
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import lrvb
from cases import CASES

BY_NAME = {str(case): case for case in CASES}


def posterior_of(name: str) -> lrvb.Posterior:
    return lrvb.summarize(BY_NAME[name].response())


def fake(version: str, **content: Any) -> ModuleType:
    module = ModuleType("arviz")
    module.__version__ = version  # type: ignore[attr-defined]
    for name, value in content.items():
        setattr(module, name, value)
    return module


@pytest.fixture(params=["installed", "1.0", "none"])
def era(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The ArviZ that is installed, one that takes a DataTree, and none at all."""
    if request.param == "1.0":
        monkeypatch.setitem(sys.modules, "arviz", fake("1.0.0"))
    elif request.param == "none":
        monkeypatch.setitem(sys.modules, "arviz", None)
    return request.param


def test_groups(era: str) -> None:
    posterior = posterior_of("NormalPoisson-tilted")
    data = posterior.to_arviz(n=50, seed=3)
    if era == "installed" and hasattr(arviz, "InferenceData"):
        assert isinstance(data, arviz.InferenceData)
    else:
        assert isinstance(data, xr.DataTree)
    draws = data["posterior"]
    assert draws["beta"].dims == ("chain", "draw")
    assert draws["beta"].shape == (1, 50)
    np.testing.assert_array_equal(draws["tau"].values[0], posterior.draws(50, seed=3)["tau"])
    assert draws.attrs["inference_library"] == "lrvb"
    observed = data["observed_data"]
    for name, column in BY_NAME["NormalPoisson-tilted"].data.items():
        np.testing.assert_array_equal(observed[name].values, column)
    exact = data["linear_response"]
    np.testing.assert_array_equal(exact["sd"].values, posterior.sd())
    np.testing.assert_array_equal(exact["mfvb_sd"].values, posterior.sd(method="mfvb"))
    np.testing.assert_array_equal(exact["cov"].values, posterior.cov())
    assert list(exact["quantity"].values) == posterior.names
    assert exact.attrs["elbo"] == posterior.elbo


def test_blocks_with_axes(era: str) -> None:
    data = posterior_of("NormalMixture").to_arviz(n=5)
    assert data["posterior"]["mu"].shape == (1, 5, 2, 2)
    assert data["posterior"]["Lambda"].dims[2:] == ("Lambda_dim_0", "Lambda_dim_1", "Lambda_dim_2")
    assert data["observed_data"]["x"].shape == (120, 2)


def test_arviz_can_use_it() -> None:
    table = arviz.summary(posterior_of("RandomSlope").to_arviz(n=200), kind="stats")
    assert {"beta[0]", "beta[1]", "tau", "nu"} <= set(table.index)


def test_an_arviz_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "arviz", fake("0.15.1", InferenceData=object))
    with pytest.raises(lrvb.LrvbError, match=r"ArviZ 0\.15\.1 is too old.*install arviz"):
        posterior_of("NormalPoisson-tilted").to_arviz(n=2)


def test_a_posterior_from_a_file_has_no_data(tmp_path: Any) -> None:
    posterior = lrvb.load(posterior_of("NormalPoisson-tilted").save(tmp_path / "posterior"))
    data = posterior.to_arviz(n=2)
    assert "posterior" in data
    assert "observed_data" not in data


class Awkward(lrvb.Model):
    """Names that a DataTree does not take as they are."""

    global_blocks = {"draw": lrvb.Normal(), "a/b": lrvb.Gamma()}

    def global_term(self, m):
        return -m.draw.xx / 2 - m["a/b"].x

    def local_term(self, m, z, row):
        tau = m["a/b"]
        square = row["km/h"] ** 2 - 2 * row["km/h"] * m.draw.x + m.draw.xx
        return (tau.log_x - tau.x * square) / 2 + 0 * row.row * m.draw.x


def test_awkward_names(era: str) -> None:
    frame = pd.DataFrame({"km/h": np.arange(5.0), "row": np.arange(5.0), "text": list("abcde")})
    posterior = lrvb.infer(Awkward(), frame)
    assert posterior.names == ["draw", "a/b", "log(a/b)"]
    data = posterior.to_arviz(n=3)
    assert set(data["posterior"].data_vars) == {"draw_", "a_b"}
    assert set(data["observed_data"].data_vars) == {"km_h", "row_"}


def test_a_mixture_shows_its_data_as_they_were() -> None:
    """The fit standardises X; what was observed is X."""
    X = np.random.default_rng(1).normal(size=(50, 2)) * 30 + 7
    posterior = lrvb.GaussianMixture(1).fit(X).posterior_
    np.testing.assert_array_equal(posterior.to_arviz(n=5)["observed_data"]["x"], X)
