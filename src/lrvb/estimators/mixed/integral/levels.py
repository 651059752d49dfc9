"""Random effects of an integrated model as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from ....errors import InvalidModel
from ....posterior.locals import some_rows
from .fit import IntegratedFit


class IntegratedEffects(Mapping[str, xr.Dataset]):
    """A dataset over levels for each coefficient, `1|g`, `x|g`."""

    def __init__(self, fit: IntegratedFit):
        self.fit = fit
        self.found: dict[str, tuple[int, int]] = {}  # term, coefficient
        for t, term in enumerate(fit.design.terms):
            for j, name in enumerate(term.coefficients):
                self.found[f"{name}|{term.group}"] = (t, j)

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def names(self) -> list[str]:
        """Every coefficient that varies by level."""
        return list(self.found)

    def dataset(self, name: str, rows: Any = None) -> xr.Dataset:
        """One coefficient over its levels, all of them or those at the positions `rows`."""
        if name not in self.found:
            raise InvalidModel(
                f"There is no random effect '{name}'; there are: {', '.join(self.found)}."
            )
        return some_rows(self[name], rows)

    def __getitem__(self, name: str) -> xr.Dataset:
        t, j = self.found[name]
        fit = self.fit
        factor = fit.design.factors[fit.design.terms[t].factor]
        dim, index = factor.name, fit.estimate.index
        variables: dict[str, Any] = {
            "mean": (dim, fit.effects[t].mean[:, j]),
            "sd": (dim, fit.effects[t].sd[:, j]),
            "mfvb_sd": (dim, fit.mfvb_sds[t][:, j]),
            "cov": ((dim, "quantity"), fit.cross[t][:, j][:, list(index.values())]),
        }
        coords = {dim: np.asarray(factor.levels), "quantity": list(index)}
        return xr.Dataset(variables, coords=coords, attrs={"block": name})
