"""What a user may easily ask for by mistake is answered by one sentence of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import lrvb

RNG = np.random.default_rng(0)
N = 60
DATA = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "g": RNG.integers(0, 6, N),
        "spp": RNG.choice(["DES-L", "DM", "PB"], N),
    }
)
DATA["y"] = DATA.x + RNG.normal(size=N) + DATA.g


@pytest.fixture(scope="module")
def model() -> lrvb.MixedModel:
    return lrvb.MixedModel("y ~ x + spp + (1|g)").fit(DATA)


@pytest.mark.parametrize("path", [None, 3, "", b""])
def test_a_path_names_a_file(path: Any, model: lrvb.MixedModel) -> None:
    with pytest.raises(lrvb.InvalidData, match="must be text that names a file"):
        lrvb.load(path)
    with pytest.raises(lrvb.InvalidData, match="must be text that names a file"):
        model.posterior_.save(path)


@pytest.mark.parametrize("term", [["1|g"], 3, "2|g", {}])
def test_a_random_effect_is_named_by_text(term: Any, model: lrvb.MixedModel) -> None:
    with pytest.raises(lrvb.InvalidModel, match=r"there are: 1\|g"):
        model.ranef(term)


def test_a_lazy_frame_is_collected_by_the_user() -> None:
    pl = pytest.importorskip("polars")
    lazy = pl.LazyFrame({"x": [1.0, 2.0], "y": [1, 2], "g": [0, 1]})
    for action in (
        lambda: lrvb.infer(lrvb.models.NormalPoisson(), lazy),
        lambda: lrvb.MixedModel("y ~ x + (1|g)").fit(lazy),
        lambda: lrvb.GaussianMixture(1).fit(lazy),
    ):
        with pytest.raises(lrvb.InvalidData, match="lazy frame"):
            action()


def test_columns_named_by_numbers() -> None:
    named = DATA.rename(columns={"x": 0})
    model = lrvb.MixedModel("y ~ `0` + (1|g)").fit(named)
    assert model.design_.names == ["Intercept", "0"]
    with pytest.raises(lrvb.InvalidData, match="some by numbers"):
        lrvb.GaussianMixture(1).fit(named[[0, "y"]])


def test_rows_to_predict_are_not_dropped(model: lrvb.MixedModel) -> None:
    new = DATA[:3].copy()
    new.loc[1, "x"] = np.nan
    with pytest.raises(lrvb.InvalidData, match="column 'x', row 1") as caught:
        model.predict(new)
    assert "missing=" not in str(caught.value)


def test_a_reference_level_has_no_coefficient(model: lrvb.MixedModel) -> None:
    with pytest.raises(lrvb.InvalidModel, match=r"'spp\[DES-L\]' is the level with which"):
        model.contrast("spp[DES-L] - spp[DM]")
    with pytest.raises(lrvb.InvalidModel, match=r"no quantity 'spp\[DES-X\]'"):
        model.contrast("spp[DES-X] - spp[DM]")


class Bare(lrvb.Family):
    """A normal, with nothing beyond what a fit needs."""

    Stats: ClassVar[Any] = lrvb.Normal.Stats
    slots = lrvb.Normal().slots

    def log_partition(self, eta: Any) -> Any:
        return -(eta.x**2) / (4 * eta.xx) - 0.5 * jnp.log(-2 * eta.xx)

    def valid(self, eta: Any) -> Any:
        return eta.xx < 0

    def start(self) -> Any:
        return lrvb.Normal().start()


def test_a_method_that_a_family_lacks_is_named(tmp_path: Path) -> None:
    class Plain(lrvb.Model):
        global_blocks = {"b": Bare()}

        def global_term(self, m: Any) -> Any:
            return -0.5 * m.b.xx + m.b.x

    posterior = lrvb.infer(Plain())
    assert posterior.mean("b").item() == pytest.approx(1.0)
    with pytest.raises(lrvb.InvalidModel, match="Bare has no method unconstrained"):
        posterior.draws(3, seed=0)
    with pytest.raises(lrvb.InvalidModel, match="Bare has no method params"):
        posterior.fit.params()


class Axes:
    """What a figure takes for Matplotlib's axes."""

    def axvline(self) -> None: ...


FIGURES: dict[str, str] = {
    "mixture": "GaussianMixture",
    "coefficients": "MixedModel",
    "ranef": "MixedModel",
    "smooth": "MixedModel",
    "fitted": "MixedModel",
    "predictive_check": "MixedModel",
    "residuals": "MixedModel",
    "effect": "MixedModel",
    "comparisons": "comparisons",
    "certificate": "certificate_",
    "prior_sensitivity": r"posterior\.prior_sensitivity\(\)",
    "influence": r"posterior\.influence\(\)",
    "robust": "posterior_",
}


def test_every_figure_has_its_sentence() -> None:
    assert set(FIGURES) == set(lrvb.plot.__all__)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_of_the_wrong_object(figure: str) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    more = ["x"] if figure in ("smooth", "mixture", "effect") else []
    with pytest.raises(lrvb.InvalidModel, match=f"An int was given; .*{FIGURES[figure]}"):
        getattr(lrvb.plot, figure)(3, *more)


def test_axes_of_a_figure(model: lrvb.MixedModel) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    with pytest.raises(lrvb.InvalidModel, match="ax is an int; give one of Matplotlib's axes"):
        lrvb.plot.coefficients(model, ax=3)  # type: ignore[arg-type] - what is tested
    with pytest.raises(lrvb.InvalidModel, match="given by name, ax="):
        lrvb.plot.coefficients(model, Axes())
    with pytest.raises(lrvb.InvalidModel, match="no column 'y'; there are: x, spp, g"):
        lrvb.plot.effect(model, "y")


def test_names_in_the_place_of_a_method(model: lrvb.MixedModel) -> None:
    for ask in (model.posterior_.mean, model.posterior_.sd, model.posterior_.cov):
        with pytest.raises(lrvb.InvalidModel, match=r"method='x' must be .* go into one list"):
            ask("Intercept", "x")
    with pytest.raises(lrvb.InvalidModel, match=r"method='y' must be [^.]*\.$"):
        model.posterior_.cov("x", "y")


def test_a_question_of_the_posterior_says_so(model: lrvb.MixedModel) -> None:
    with pytest.raises(
        AttributeError, match=r"'influence'; its posterior has: posterior_\.influence"
    ):
        model.influence("x")
    with pytest.raises(AttributeError, match=r"no attribute 'sumary'$") as found:
        model.sumary()
    assert (found.value.name, found.value.obj) == ("sumary", model)


def test_files_that_are_folders(tmp_path: Path, model: lrvb.MixedModel) -> None:
    for save in (model.save, model.posterior_.save):
        with pytest.raises(lrvb.InvalidData, match="it is a folder"):
            save(tmp_path)
        with pytest.raises(lrvb.InvalidData, match="there is no such folder"):
            save(tmp_path / "none" / "fit.npz")


@pytest.mark.parametrize("weights", [[1.0, 2.0], ["a"] * N, [np.nan] * N, [-1.0] * N, [{}] * N])
def test_weights_of_a_mixture(weights: Any) -> None:
    with pytest.raises(lrvb.InvalidData, match=r"sample_weight .*each of the 60 rows"):
        lrvb.GaussianMixture(1).fit(DATA[["x"]], sample_weight=weights)


def test_what_is_given_in_another_place(model: lrvb.MixedModel, tmp_path: Path) -> None:
    """A table for a formula, a number for classes, text for a point: none is printed whole."""
    with pytest.raises(
        lrvb.InvalidModel, match=r"formula=.*… must be text.* the data go to fit"
    ) as e:
        lrvb.MixedModel(DATA, "y ~ x")  # type: ignore[arg-type] - what is tested
    assert len(str(e.value)) < 220
    path = model.posterior_.save(tmp_path / "fit.npz")
    with pytest.raises(lrvb.InvalidModel, match=r"families=3 must be a list of classes"):
        lrvb.load(path, families=3)
    mixture = lrvb.GaussianMixture(1, certify=False).fit(DATA[["x", "y"]])
    for point in ("a", ["a", "b"], [1.0], [1.0, np.nan], None):
        with pytest.raises(lrvb.InvalidData, match="x must hold 2 finite numbers"):
            mixture.membership(point)
