"""The public surface: every name that the documentation promises is there, typed and documented."""

from __future__ import annotations

import inspect

import pytest

import lrvb

STAGES = ["infer", "fit", "linearize", "respond", "summarize", "load"]
TYPES = ["Model", "Fit", "Curvature", "Response", "Posterior", "Certificate", "Rows"]
FAMILIES = [
    *("Normal", "MultivariateNormal", "Gamma", "Beta", "Wishart"),
    *("Dirichlet", "Categorical", "Tilted", "Family"),
]
ERRORS = ["LrvbError", "InvalidData", "InvalidModel", "NotConverged", "NotAMaximum"]
ANSWERS = [
    *("names", "mean", "sd", "cov", "corr", "of", "local", "summary", "draws", "to_arviz"),
    *("elbo", "converged", "n_iter", "fit", "response", "save"),
    *("certify", "refined"),
]


@pytest.mark.parametrize("name", [*STAGES, *TYPES, *FAMILIES, *ERRORS, "models", "__version__"])
def test_exported(name: str) -> None:
    assert name in lrvb.__all__
    value = getattr(lrvb, name)
    assert isinstance(value, str) or inspect.getdoc(value)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_posterior_answers(name: str) -> None:
    if name != "response":  # stored, not computed
        assert inspect.getdoc(getattr(lrvb.Posterior, name))


@pytest.mark.parametrize("name", STAGES)
def test_stages_are_typed(name: str) -> None:
    signature = inspect.signature(getattr(lrvb, name))
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty


def test_arguments_of_infer() -> None:
    parameters = inspect.signature(lrvb.infer).parameters
    assert list(parameters) == [
        *("model", "data", "init", "tol", "max_iter", "progress", "chunk_size", "certify")
    ]
    keywords = [p for p in parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    assert len(keywords) == 6


def test_everything_exported_exists() -> None:
    assert sorted(lrvb.__all__) == list(lrvb.__all__)
    for name in lrvb.__all__:
        getattr(lrvb, name)


@pytest.mark.parametrize("name", ERRORS)
def test_errors_carry_their_evidence(name: str) -> None:
    error = getattr(lrvb, name)("A sentence.", column="x", row=3)
    assert isinstance(error, lrvb.LrvbError)
    assert str(error) == "A sentence."
    assert (error.column, error.row) == ("x", 3)


def test_kinds_of_errors() -> None:
    assert issubclass(lrvb.InvalidData, ValueError)
    assert issubclass(lrvb.InvalidModel, ValueError)
    assert issubclass(lrvb.NotConverged, UserWarning)
    assert issubclass(lrvb.NotAMaximum, ArithmeticError)
