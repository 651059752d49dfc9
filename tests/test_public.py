"""The public surface: every name that the documentation promises is there, typed and documented."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

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
    *("certify", "refined", "certificate", "verdicts"),
    *("prior_sensitivity", "influence", "fragility", "loo", "check"),
]
QUESTIONS = {  # each with the arguments that have defaults, and these
    "Posterior.mean": {"names": None, "method": "lrvb"},
    "Posterior.sd": {"names": None, "method": "lrvb", "by": None},
    "Posterior.cov": {"names": None, "method": "lrvb"},
    "Posterior.corr": {"names": None, "method": "lrvb"},
    "Posterior.of": {"g": None},
    "Posterior.local": {"rows": None},
    "Posterior.summary": {"prob": 0.94},
    "Posterior.to_arviz": {"n": 1000, "seed": 0},
    "Posterior.refined": {"names": None},
    "Posterior.certify": {"draws": 1024, "seed": 0, "budget": None, "progress": False},
    "Posterior.prior_sensitivity": {"names": None, "verify": 0},
    "Posterior.influence": {"names": None, "by": None},
    "Certificate.summary": {"prob": 0.94},
    "MixedCertificate.summary": {"prob": 0.94},
    "BlackBox.infer": {"check": True, "functions": None, "seed": 0, "progress": False},
    "MixedModel.predict": {
        **{"new_data": None, "interval": None, "kind": "mean"},
        **{"groups": "all", "scale": "response"},
    },
    "models.NormalPoisson": {
        **{"beta_var": 10.0, "tau_shape": 1.0, "tau_rate": 1.0, "local": "tilted"},
    },
    "models.RandomSlope": {
        **{"beta_var": 10.0, "tau_shape": 2.0, "tau_rate": 2.0, "nu_shape": 2.0, "nu_rate": 2.0},
    },
    "GaussianMixture": {
        **{"n_components": 1, "mean_precision_prior": 0.01, "wishart_dof_prior": None},
        **{"wishart_scale_prior": None, "weight_concentration_prior": 5.0, "init": "kmeans"},
        **{"n_init": 1, "tol": 1e-8, "random_state": None, "verbose": 0, "chunk_size": None},
        **{"certify": "auto"},
    },
    "MixedModel": {
        **{"priors": None, "factorization": "blocked", "functions": None, "weights": None},
        **{"structures": None},
    },
}


@pytest.mark.parametrize("name", [*STAGES, *TYPES, *FAMILIES, *ERRORS, "models", "__version__"])
def test_exported(name: str) -> None:
    assert name in lrvb.__all__
    value = getattr(lrvb, name)
    assert isinstance(value, str) or inspect.getdoc(value)


@pytest.mark.parametrize("name", ANSWERS)
def test_a_posterior_answers(name: str) -> None:
    if name != "response":  # stored, not computed
        assert inspect.getdoc(getattr(lrvb.Posterior, name))


@pytest.mark.parametrize("question", QUESTIONS)
def test_arguments_and_their_defaults(question: str) -> None:
    home: Any = lrvb
    for name in question.split("."):
        home = getattr(home, name)
    parameters = inspect.signature(home).parameters
    found = {name: parameters[name].default for name in QUESTIONS[question]}
    assert found == QUESTIONS[question]


def functions_of(value: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """A function itself; the public methods and properties that a class has from us."""
    if not inspect.isclass(value):
        yield "", value
        return
    for name in dir(value):
        owner = next((c for c in value.__mro__ if name in vars(c)), object)
        if name.startswith("_") or not owner.__module__.startswith("lrvb"):
            continue
        found = vars(owner)[name]
        for inner in ("fget", "__func__", "func"):
            found = getattr(found, inner, found)
        if inspect.isfunction(found):
            yield name, found


def public() -> Iterator[tuple[str, Any]]:
    """Every name of `lrvb.__all__`, and those of its modules."""
    for name in lrvb.__all__:
        value = getattr(lrvb, name)
        yield name, value
        if inspect.ismodule(value):
            yield from ((f"{name}.{inner}", getattr(value, inner)) for inner in value.__all__)


def test_everything_public_is_typed_and_documented() -> None:
    lacking = []
    for name, value in public():
        if not isinstance(value, str) and not inspect.getdoc(value):
            lacking.append(name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        for inner, function in functions_of(value):
            signature = inspect.signature(function)
            kinds = [p.annotation for key, p in signature.parameters.items() if key != "self"]
            typed = inspect.Signature.empty not in [signature.return_annotation, *kinds]
            told = inspect.getdoc(getattr(value, inner) if inner else function)
            if not typed or not told:
                lacking.append(f"{name}.{inner}")
    assert not lacking


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
