"""What a family says at a case and what is known there, each computed once for all laws."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
import pytest
from family_cases import CASES, TYPICAL, FamilyCase

from lrvb.numerics.double import double

DRAWS = 40_000
RTOL = 1e-12  # a few thousand roundings
every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_typical_case = pytest.mark.parametrize("case", TYPICAL, ids=str)
drawable = [case for case in TYPICAL if case.coordinates is not None]
every_drawable_case = pytest.mark.parametrize("case", drawable, ids=str)


def evaluate(family, eta):
    return family.evaluate(eta)


def evaluate_apart(family, eta):
    return family.log_partition(eta), family.mean(eta), family.factor(eta), family.entropy(eta)


def derivatives(family, flat):
    """∇A and ∇²A in flat coordinates."""

    def A(flat):
        return family.log_partition(family.unflatten(flat, natural=True))

    return jax.grad(A)(flat), jax.hessian(A)(flat)


def natural(family, flat):
    """Flat natural parameters of flat moments."""
    return family.flatten(family.natural(family.unflatten(flat)), natural=True)


@functools.cache
def evaluated(case: FamilyCase) -> tuple[float, np.ndarray, np.ndarray, float]:
    """(A, m, C, S) of a case, with m flat."""
    with double():
        A, m, C, S = case.compiled(evaluate, case.eta)
        return float(A), np.asarray(case.family.flatten(m)), np.asarray(C), float(S)


@functools.cache
def referenced(case: FamilyCase) -> tuple[Any, Any, Any]:
    """(A, m, V) of a case to 40 digits."""
    return case.reference(case.eta)


@functools.cache
def drawn(case: FamilyCase) -> tuple[np.ndarray, np.ndarray]:
    """Draws x and their flat statistics T(x)."""
    x = case.family.sample(case.eta, np.random.default_rng(20), DRAWS)
    return x, np.asarray(case.family.flatten(case.family.statistics(x)))


def flat_eta(case: FamilyCase) -> np.ndarray:
    return np.asarray(case.family.flatten(case.eta, natural=True))


def assert_mean(draws: np.ndarray, expected: Any, standard_errors: float = 5.0) -> None:
    """The mean of independent draws (n, ...) is what is expected, given their spread."""
    error = draws.std(axis=0) / np.sqrt(len(draws))
    gap = np.abs(draws.mean(axis=0) - expected)
    assert np.all(gap <= standard_errors * error + 1e-12), (gap / (error + 1e-300)).max()
