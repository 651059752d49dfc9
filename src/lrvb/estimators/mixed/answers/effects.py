"""Random effects as tables over levels, whoever made them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....errors import InvalidModel
from ....posterior.intervals import normal_ends
from ....posterior.locals import some_rows
from ..design.design import Design

if TYPE_CHECKING:
    import xarray as xr


class LevelMoments(NamedTuple):
    """Of one coefficient at every level: mean, sd, mean-field sd (G,), covariance (G, quantities)."""

    mean: np.ndarray
    sd: np.ndarray
    mfvb_sd: np.ndarray
    cov: np.ndarray


class LevelEffects(Mapping[str, Any], ABC):
    """A dataset over levels for each coefficient, `1|g`, `x|g`, made when it is asked for."""

    def __init__(self, design: Design, quantities: list[str]):
        """`quantities` are the posterior's names."""
        self.design, self.quantities = design, quantities
        self.found: dict[str, tuple[int, int]] = {}  # term, coefficient
        for t, term in enumerate(design.terms):
            for j, name in enumerate(term.coefficients):
                self.found[f"{name}|{term.group}"] = (t, j)

    @abstractmethod
    def moments(self, t: int, j: int) -> LevelMoments:
        """Of the j-th coefficient of term t."""

    def ends(self, name: str, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends (G,) of central intervals of one coefficient, here those of a normal."""
        moments = self.moments(*self.found[name])
        return normal_ends(moments.mean, moments.sd, prob)

    def __iter__(self) -> Iterator[str]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def names(self) -> list[str]:
        """Every coefficient that varies by level."""
        return list(self.found)

    def levels(self, name: str) -> np.ndarray:
        """The labels of a coefficient's levels, (G,)."""
        return np.asarray(self._factor(name).levels)

    def dataset(self, name: str, rows: Any = None) -> xr.Dataset:
        """One coefficient over its levels, all of them or those at the positions `rows`."""
        if name not in self.found:
            raise InvalidModel(
                f"There is no random effect '{name}'; there are: {', '.join(self.found)}."
            )
        return some_rows(self[name], rows)

    def __getitem__(self, name: str) -> xr.Dataset:
        import xarray as xr

        moments = self.moments(*self.found[name])
        dim = self._factor(name).name
        variables: dict[str, Any] = {
            "mean": (dim, moments.mean),
            "sd": (dim, moments.sd),
            "mfvb_sd": (dim, moments.mfvb_sd),
            "cov": ((dim, "quantity"), moments.cov),
        }
        coords = {dim: self.levels(name), "quantity": self.quantities}
        return xr.Dataset(variables, coords=coords, attrs={"block": name})

    def _factor(self, name: str) -> Any:
        return self.design.factors[self.design.terms[self.found[name][0]].factor]
