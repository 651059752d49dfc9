"""SEM: the covariance from the Jacobian of the coordinate-ascent map, for several models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ...engine.curvature import linearize
from ...engine.fitting import Fit, fit
from ...engine.objective import Objective
from ...engine.response import respond
from ...models import NormalPoisson, RandomSlope
from ...models.gaussian_mixture import NormalMixture
from ..reference import simulate
from .base import Tables

CASES = {
    "normal": "normal posterior",
    "normal-poisson": "normal–Poisson, 30 rows",
    "random-slope": "random slopes, 8 groups",
    "mixture": "mixture of two normals, 150 rows",
}
STEP = 1e-3  # in mean-field sds; the five-point difference errs by its fourth power
SWEEPS = 300


def stated(case: str, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Model, data and start of a case."""
    from .exactness import GaussianPosterior, random_covariance

    if case == "normal":
        Sigma, mu = random_covariance(rng, 5) + np.eye(5), rng.normal(size=5)
        return GaussianPosterior(np.linalg.inv(Sigma), mu, (3, 2)), None, None
    if case == "normal-poisson":
        data = simulate.normal_poisson(rng, 30, beta=1.0, sd=0.7)
        return NormalPoisson(local="gaussian"), {"x": data["x"], "y": data["y"]}, None
    if case == "random-slope":
        data = simulate.random_slope(rng, groups=8, per_group=6)
        return RandomSlope(), {k: data[k] for k in ("x", "r", "y", "group")}, None
    flat = np.zeros((2, 2))
    model = NormalMixture(2, np.zeros(2), flat, dof=3.0, inverse_scale=flat, concentration=1.0)
    component = np.repeat([0, 1], [65, 85])
    x = component[:, None] * 2.0 + rng.normal(size=(150, 2)) * [[0.8, 1.0]]
    centers = np.array([[0.0, 0.0], [2.0, 2.0]])
    start = {
        "mu": {"loc": centers, "cov": np.tile(0.02 * np.eye(2), (2, 1, 1))},
        "Lambda": {"dof": np.array([65.0, 85.0]), "scale": np.tile(np.eye(2) / 75, (2, 1, 1))},
        "pi": {"concentration": np.array([65.0, 85.0])},
    }
    return model, {"x": x}, start


def compare(case: str, rng: np.random.Generator) -> Tables:
    """SEM beside linear response, entry by entry, and the rate of coordinate ascent."""
    model, data, start = stated(case, rng)
    fitted = fit(model, data, init=start, tol=1e-10)
    response = respond(linearize(fitted))
    DM = ascent_jacobian(fitted)
    supplemented = supplemented_covariance(fitted, DM)
    sd = np.sqrt(np.diag(response.Sigma))
    row, column = np.triu_indices(len(sd))
    units = np.outer(sd, sd)[row, column]
    entries = pd.DataFrame(
        {
            "model": case,
            "row": row,
            "column": column,
            "lrvb": response.Sigma[row, column] / units,
            "sem": supplemented[row, column] / units,
        }
    )
    entries["gap"] = (entries["sem"] - entries["lrvb"]).abs()
    predicted = float(np.abs(np.linalg.eigvals(DM)).max())
    errors = sweeps(fitted, response.Sigma, rng)
    last = int(np.flatnonzero(errors > 1e-7)[-1])
    observed = float((errors[last] / errors[last - 8]) ** (1 / 8))  # even: DM may have a pair ±λ
    rates = pd.DataFrame({"model": [case], "predicted": [predicted], "observed": [observed]})
    path = pd.DataFrame({"model": case, "sweep": np.arange(len(errors)), "error": errors})
    return {"sem": entries, "rates": rates, "sweeps": path}


def ascent_jacobian(fitted: Fit) -> np.ndarray:
    r"""DM = ∂η'/∂η of the coordinate-ascent map η' = ∂L̄/∂m, z at its optimum, by differences.

    Each column is a five-point difference of the update itself along η; no curvature is used. It
    is H̃V, the transpose of ∂M/∂m.
    """
    objective, C = _objective(fitted), fitted.point.C
    directions = np.linalg.inv(C).T  # a step along column i moves the mean by column i of C

    def update(direction: np.ndarray, size: float) -> np.ndarray:
        return objective.at(fitted.eta + size * direction, order=1).gradient

    columns = []
    for direction in directions.T:
        near = update(direction, STEP) - update(direction, -STEP)
        far = update(direction, 2 * STEP) - update(direction, -2 * STEP)
        columns.append((8 * near - far) / (12 * STEP))
    return np.column_stack(columns) @ C.T


def supplemented_covariance(fitted: Fit, DM: np.ndarray) -> np.ndarray:
    r"""V(I − DM)⁻¹: the complete-data covariance V, supplemented for the missing information.

    Paper: app:SEM
    """
    V = fitted.point.C @ fitted.point.C.T
    return np.linalg.solve((np.eye(len(V)) - DM).T, V).T


def sweeps(fitted: Fit, Sigma: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Distance from the optimum, in linear-response sds, after each sweep of coordinate ascent."""
    objective, sd = _objective(fitted), np.sqrt(np.diag(Sigma))
    eta = fitted.eta + 0.1 * np.linalg.inv(fitted.point.C).T @ rng.normal(size=len(sd)) / len(sd)
    errors = []
    for _ in range(SWEEPS):
        point = objective.at(eta, order=1)
        errors.append(np.linalg.norm((point.m - fitted.m) / sd))
        if errors[-1] < 1e-9:
            break
        eta = point.gradient
    return np.array(errors)


def _objective(fitted: Fit) -> Objective:
    """The collapsed objective of a fit."""
    problem = fitted.problem
    assert problem is not None
    if problem.rows is None:
        return Objective(problem, None)
    assert fitted.local_sum is not None
    return Objective(problem, fitted.local_sum.bind(problem, fitted.chunk_size))
