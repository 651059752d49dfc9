"""The standardised scale of a mixture's fit, and the way back to the units of the data."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ...data.standardise import Measures
from ...errors import CollinearColumns, InvalidData
from ...models.gaussian_mixture import NormalMixture
from ...numerics.lazy import jnp
from ...numerics.program import Program
from ...posterior.units import affine_program
from ...statement.meanfield import MeanField


class Scaling(NamedTuple):
    """x = center + scale · x′, column by column: the fit happens in x′."""

    center: np.ndarray
    scale: np.ndarray

    def inward(self, X: np.ndarray) -> np.ndarray:
        """x′ of rows x."""
        return (X - self.center) / self.scale

    def inverse(self) -> Scaling:
        """The scaling of x′ as seen from x."""
        return Scaling(-self.center / self.scale, 1 / self.scale)


def scaling_of(columns: Measures, names: list[str]) -> Scaling:
    """By centre and spread, unless variances of precisions would leave the range of doubles."""
    scaling = Scaling(columns.center, columns.unit())
    with np.errstate(over="ignore", divide="ignore"):
        # Λ has units of 1/x², and variances of its entries are squares of that
        fine = np.isfinite(scaling.scale**4) & np.isfinite(scaling.scale**-4.0)
    if not fine.all():
        i = int(np.argmin(fine))
        raise InvalidData(
            f"Column '{names[i]}' has a spread of {scaling.scale[i]:.1e}: variances of precisions in "
            "these units leave the range of double precision. Rescale the column.",
            column=names[i],
        )
    return scaling


def check_directions(
    Z: np.ndarray, weights: np.ndarray | None, names: list[str], flat: bool, stacklevel: int
) -> None:
    """Standardised columns vary in every direction; if not, an error under a `flat` Wishart prior.

    Under a proper one it is a warning: the prior alone then says how wide a component is there.
    """
    moment = (Z if weights is None else Z * weights[:, None]).T @ Z
    moment /= len(Z) if weights is None else weights.sum()
    eigenvalues, Q = np.linalg.eigh(moment)
    if eigenvalues[0] > 1e-13 * len(names):
        return
    involved = [names[i] for i in np.flatnonzero(np.abs(Q[:, 0]) > 0.05)]
    columns = ", ".join(f"'{name}'" for name in involved)
    if len(involved) == 1:
        found = f"Column {columns} is constant"
    elif len(Z) <= len(names):
        found = f"{len(Z)} rows cannot span {len(names)} columns"
    else:
        found = f"The columns {columns} are collinear"
    if flat:
        raise InvalidData(
            f"{found}, so with a flat Wishart prior the precision has no upper bound and the ELBO no "
            "maximum. Leave out a column, or give a finite wishart_scale_prior (None is scaled to the "
            "data).",
            columns=involved,
        )
    warnings.warn(
        CollinearColumns(
            f"{found}, so that how wide components are there is the Wishart prior's alone, which may put all "
            "rows into one of them. Leave out a column.",
            columns=involved,
        ),
        stacklevel=stacklevel,
    )


def parameters_on(
    params: Mapping[str, Mapping[str, Any]], scaling: Scaling
) -> dict[str, dict[str, Any]]:
    """Usual parameters of x = center + scale · x′ from those of x′."""
    s = scaling.scale
    outer = np.outer(s, s)
    return {
        "mu": {"loc": scaling.center + s * params["mu"]["loc"], "cov": params["mu"]["cov"] * outer},
        "Lambda": {"dof": params["Lambda"]["dof"], "scale": params["Lambda"]["scale"] / outer},
        "pi": dict(params["pi"]),
    }


@functools.lru_cache(maxsize=64)
def unit_program(K: int, P: int) -> Program:
    """The statistics of (μ, Λ, π) on the scale x = c + s·x′, as an affine map of those of x′."""
    model = NormalMixture(K, np.zeros(P), np.eye(P), P + 2.0, np.eye(P), 1.0)

    def mapping(m: Any, c: Any, s: Any) -> dict[str, Any]:
        mu, Lambda, pi = m.mu, m.Lambda, m.pi
        x = s * mu.x
        cross = x[:, :, None] * c
        xx = mu.xx * s[:, None] * s + cross + cross.swapaxes(1, 2) + c[:, None] * c
        logdet = Lambda.logdet_x - 2 * jnp.log(s).sum()
        return {
            "mu": type(mu)(c + x, xx),
            "Lambda": type(Lambda)(Lambda.x / (s[:, None] * s), logdet),
            "pi": pi,
        }

    return affine_program(MeanField(model.global_blocks(None)), mapping)
