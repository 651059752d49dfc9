"""Random effects as tables over levels, whoever made them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ....errors import InvalidModel
from ....posterior.intervals import check_probability, normal_ends
from ....posterior.locals import some_rows
from ....posterior.posterior import Posterior
from ....posterior.table import table
from ..design.design import Design
from ..design.structures import Structured

if TYPE_CHECKING:
    import pandas as pd
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


def effects_table(
    posterior: Posterior, effects: LevelEffects, term: str | None, prob: float
) -> pd.DataFrame:
    """`mean, sd, mfvb_sd, lower, upper` of every level, of one coefficient or of all."""
    import pandas as pd

    check_probability("prob", prob)
    design = effects.design
    structured: dict[str, Structured] = {part.label: part for part in design.structured}
    known = [*structured, *effects.names]
    if not known:
        raise InvalidModel(
            f"The formula '{design.formula.text}' has no random effects; its coefficients are in summary()."
        )
    if term is not None and not (isinstance(term, str) and term in known):
        raise InvalidModel(f"There is no random effect {term!r}; there are: {', '.join(known)}.")
    tables = {}
    for name in known if term is None else [term]:
        if name in structured:
            whole = posterior.summary(prob).loc[structured[name].names]
            index = pd.Index(structured[name].levels, name="level")
            tables[name] = pd.DataFrame(whole.drop(columns="verdict").set_axis(index))
            continue
        moments = effects.moments(*effects.found[name])
        tables[name] = table(
            pd.Index(effects.levels(name), name="level"),
            mean=moments.mean,
            sd=moments.sd,
            mfvb_sd=moments.mfvb_sd,
            ends=effects.ends(name, prob),
        )
    return tables[term] if term is not None else pd.concat(tables, names=["term", "level"])
