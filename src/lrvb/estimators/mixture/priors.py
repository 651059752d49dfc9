"""Priors of a mixture, from the estimator's arguments to the standardised scale of the fit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InvalidModel
from ...models.mixture_sweeps import MixturePriors
from .scaling import Scaling


def standardised_priors(
    scaling: Scaling,
    mean_precision_prior: float,
    wishart_dof_prior: float | None,
    wishart_scale_prior: Any,
    weight_concentration_prior: float,
) -> MixturePriors:
    """The priors in the fit's coordinates.

    Without a `wishart_scale_prior` every prior speaks of the standardised columns, so that a
    change of units changes nothing: μ′ ~ N(0, I/mean_precision), Λ′ ~ Wishart(dof, I). With one,
    the priors are in the units of the data: μ ~ N(0, I/mean_precision), Λ ~ Wishart(dof, scale).
    """
    P = len(scaling.center)
    precision = _number("mean_precision_prior", mean_precision_prior, least=0.0)
    concentration = _number("weight_concentration_prior", weight_concentration_prior, least=0.0)
    dof = P + 2.0 if wishart_dof_prior is None else _number("wishart_dof_prior", wishart_dof_prior)
    if not dof > 0:
        raise InvalidModel(f"wishart_dof_prior={wishart_dof_prior!r} must be positive.")
    identity = np.eye(P)
    if wishart_scale_prior is None:
        return MixturePriors(np.zeros(P), precision * identity, dof, identity, concentration)
    inverse = _inverse_scale(wishart_scale_prior, P)
    s = scaling.scale
    # Λ′ = SΛS ~ Wishart(dof, SWS), and its inverse scale is S⁻¹W⁻¹S⁻¹
    return MixturePriors(
        mean=-scaling.center / s,
        precision=precision * np.diag(s**2),
        dof=dof,
        inverse_scale=inverse / np.outer(s, s),
        concentration=concentration,
    )


def _inverse_scale(scale: Any, P: int) -> np.ndarray:
    """W₀⁻¹ from a scalar (times the identity), a matrix, or infinity (flat: zero)."""
    try:
        W = np.asarray(scale, dtype=float)
    except (TypeError, ValueError):
        raise InvalidModel(
            f"wishart_scale_prior={scale!r} must be a positive number, a matrix or None."
        ) from None
    if W.ndim == 0:
        if not W > 0:
            raise InvalidModel(f"wishart_scale_prior={scale!r} must be positive.")
        return np.eye(P) / W if np.isfinite(W) else np.zeros((P, P))
    if W.shape != (P, P):
        raise InvalidModel(
            f"wishart_scale_prior has shape {W.shape}, but X has {P} columns; give a number or a "
            f"({P}, {P}) matrix."
        )
    if not (np.isfinite(W).all() and np.allclose(W, W.T) and np.linalg.eigvalsh(W)[0] > 0):
        raise InvalidModel("wishart_scale_prior must be symmetric and positive definite.")
    return np.linalg.inv(W)


def _number(name: str, value: Any, least: float | None = None) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number) or (least is not None and number < least):
        bound = "" if least is None else f", {least:g} or more"
        raise InvalidModel(f"{name}={value!r} must be a number{bound}.")
    return number
