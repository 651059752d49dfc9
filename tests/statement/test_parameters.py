"""Where a fit starts: every form of `init` reaches the same optimum, and bad ones are refused."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import lrvb
from cases import CASES
from lrvb.numerics.double import double
from lrvb.statement.meanfield import MeanField
from lrvb.statement.parameters import initial, usual_parameters

BY_NAME = {str(case): case for case in CASES}
COUNTS = BY_NAME["NormalPoisson-tilted"]


@cache
def posterior() -> lrvb.Posterior:
    return lrvb.summarize(COUNTS.response())


STARTS: dict[str, Any] = {
    "nothing": lambda: {},
    "parameters": lambda: {"tau": {"shape": 2, "rate": 1.0}, "beta": {"loc": 1.0, "scale": 2.0}},
    "one block": lambda: {"tau": {"shape": 2.0, "rate": 1.0}},
    "moments": lambda: {"beta": {"x": 1.0, "xx": 5.0}},
    "moments by Newton": lambda: {"tau": {"x": 2.0, "log_x": 0.5}},
    "named moments": lambda: posterior().fit.moments,
    "one block's moments": lambda: {"beta": posterior().fit.moments.beta},
    "usual parameters": lambda: posterior().fit.params(),
    "fit": lambda: posterior().fit,
    "posterior": lambda: posterior(),
    "response": lambda: posterior().response,
}


@pytest.mark.parametrize("form", STARTS)
def test_every_start_reaches_the_optimum(form: str) -> None:
    again = lrvb.infer(COUNTS.model, COUNTS.data, init=STARTS[form](), tol=1e-9)
    assert again.converged
    np.testing.assert_allclose(again.cov(), posterior().cov(), rtol=1e-6)
    if form in ("named moments", "usual parameters", "fit", "posterior", "response"):
        assert again.n_iter <= 2


REFUSED: dict[str, tuple[Any, tuple[str, ...]]] = {
    "a number": (3, ("init is an int", "give a posterior, a fit, or a mapping")),
    "a list": ([], ("init is a list", "{'tau': {'shape': 2.0, 'rate': 1.0}}")),
    "a model": (COUNTS.model, ("init is a NormalPoisson",)),
    "no such block": ({"gamma": {"loc": 1.0}}, ("'gamma'", "global blocks are: beta, tau")),
    "a local block": ({"z": {"loc": 1.0, "scale": 1.0}}, ("'z'", "global blocks are: beta, tau")),
    "a block's number": ({"beta": 3}, ("'beta' is 3", "'loc', 'scale'")),
    "half": ({"beta": {"loc": 1.0}}, ("'beta' has ['loc']", "['x', 'xx']", "['loc', 'scale']")),
    "mixed": ({"beta": {"loc": 1.0, "xx": 1.0}}, ("['loc', 'xx']",)),
    "text": ({"beta": {"loc": "a", "scale": 1.0}}, ("'beta' has loc='a'", "finite real numbers")),
    "nan": ({"beta": {"loc": np.nan, "scale": 1.0}}, ("loc=nan", "finite real numbers")),
    "None": ({"beta": {"x": None, "xx": 1.0}}, ("x=None", "finite real numbers")),
    "complex": ({"tau": {"x": 2 + 1j, "log_x": 0.5}}, ("x=(2+1j)", "finite real numbers")),
    "shape": ({"beta": {"loc": [1, 2], "scale": 1.0}}, ("loc of shape (2,)", "must be ()")),
    "negative scale": ({"beta": {"loc": 1.0, "scale": -2.0}}, ("'beta'", "outside the domain")),
    "zero scale": ({"beta": {"loc": 1.0, "scale": 0.0}}, ("'beta'", "outside the domain")),
    "negative rate": ({"tau": {"shape": 2.0, "rate": -1.0}}, ("'tau'", "outside the domain")),
    "negative variance": ({"beta": {"x": 1.0, "xx": 0.5}}, ("'beta'", "outside the domain")),
    "against Jensen": ({"tau": {"x": 2.0, "log_x": 5.0}}, ("'tau'", "outside the domain")),
    "overflow": ({"beta": {"loc": 1e300, "scale": 1e-10}}, ("'beta'", "outside the domain")),
}


@pytest.mark.parametrize("form", REFUSED)
def test_starts_that_are_none(form: str, recwarn: pytest.WarningsRecorder) -> None:
    init, words = REFUSED[form]
    with pytest.raises(lrvb.InvalidModel) as caught:
        lrvb.infer(COUNTS.model, COUNTS.data, init=init)
    for word in words:
        assert word in str(caught.value)
    assert not recwarn.list


def test_a_fit_of_another_model() -> None:
    other = BY_NAME["GammaPoisson"].small_fit()
    with pytest.raises(lrvb.InvalidModel, match="start from a fit of the same model"):
        lrvb.infer(COUNTS.model, COUNTS.data, init=other)


def test_parameters_of_many_copies() -> None:
    """Shared or one per copy; and back again."""
    alpha = MeanField(
        {
            "mu": lrvb.MultivariateNormal(2, batch=(3,)),
            "Lambda": lrvb.Wishart(2, batch=(3,)),
            "b": lrvb.Beta(batch=(2, 2)),
            "x": lrvb.Normal(),
        }
    )
    loc = np.arange(6.0).reshape(3, 2)
    given = {
        "mu": {"loc": loc, "cov": 2 * np.eye(2)},
        "Lambda": {"dof": 5.0, "scale": np.stack([np.eye(2), 2 * np.eye(2), 3 * np.eye(2)])},
        "b": {"a": np.full((2, 2), 3.0), "b": 2.0},
    }
    with double():
        back = usual_parameters(alpha, initial(alpha, given))
    np.testing.assert_allclose(back["mu"]["loc"], loc)
    np.testing.assert_allclose(back["mu"]["cov"], np.broadcast_to(2 * np.eye(2), (3, 2, 2)))
    np.testing.assert_allclose(back["Lambda"]["dof"], [5.0, 5.0, 5.0])
    np.testing.assert_allclose(back["Lambda"]["scale"], given["Lambda"]["scale"])
    np.testing.assert_allclose(back["b"]["a"], np.full((2, 2), 3.0))
    assert back["x"]["loc"].shape == ()
    with pytest.raises(
        lrvb.InvalidModel, match=r"loc of shape \(4, 2\); its shape must be \(3, 2\)"
    ):
        initial(alpha, {"mu": {"loc": np.zeros((4, 2)), "cov": np.eye(2)}})
    with pytest.raises(lrvb.InvalidModel, match="'mu' lies outside the domain"):
        initial(alpha, {"mu": {"loc": loc, "cov": np.array([[1.0, 0.5], [0.0, 1.0]])}})


def test_parameters_of_every_fit() -> None:
    for case in CASES[:1] + CASES[2:]:
        fit = case.small_fit()
        params = fit.params()
        assert set(params) == set(fit.alpha.blocks)
        eta = initial(fit.alpha, params)
        np.testing.assert_allclose(eta, fit.eta, rtol=1e-8, atol=1e-10)
