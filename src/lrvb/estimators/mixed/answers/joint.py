"""Joint draws of everything a mixed model has: coefficients, sds, dispersions and levels' effects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ....errors import InvalidModel
from ..design.design import Design, NewRows

if TYPE_CHECKING:
    import xarray as xr

CELLS = 2**22  # draws × rows at a time
DRAWS = 1000  # by default: Monte Carlo's error of a mean is then 3 % of its sd


@dataclass(frozen=True, eq=False)
class JointDraws:
    """n draws from the joint posterior, in random order.

    beta (n, p) are the fixed effects on the user's scale; effects (n, levels, q) and covariances
    (n, q, q) are each term's, in the design's order; noise (n,) the response's own parameters by name;
    values (n,) every named quantity.
    """

    beta: np.ndarray
    effects: list[np.ndarray] = field(repr=False)
    covariances: list[np.ndarray] = field(repr=False)
    noise: dict[str, np.ndarray] = field(repr=False)
    values: dict[str, np.ndarray] = field(repr=False)

    def __len__(self) -> int:
        return len(self.beta)

    def some(self, at: slice | np.ndarray) -> JointDraws:
        """Some of the draws."""
        return JointDraws(
            self.beta[at],
            [part[at] for part in self.effects],
            [part[at] for part in self.covariances],
            {name: part[at] for name, part in self.noise.items()},
            {name: part[at] for name, part in self.values.items()},
        )


class Drawable(Protocol):
    """A fit that joint draws can be taken from."""

    def draw(self, n: int, rng: np.random.Generator, levels: bool = True) -> JointDraws:
        """n joint draws; without `levels` their effects may be left out, and all else is the same."""


class Fresh(NamedTuple):
    """Effects of levels that the fit has not seen, each term's (n, levels, q), and rows' places there."""

    effects: list[np.ndarray]
    codes: list[np.ndarray]


def fresh_levels(
    design: Design, draws: JointDraws, rows: NewRows, rng: np.random.Generator
) -> Fresh:
    """One draw of every new level from its term's normal; rows of one label share it.

    A row without a label of its own, such as a new one's (1|obs), is a level by itself.
    """
    places: list[np.ndarray] = []
    counts: list[int] = []
    for codes, labels in zip(rows.codes, rows.labels, strict=True):
        new = np.flatnonzero(codes < 0)
        place = np.full(len(codes), -1)
        place[new] = np.arange(len(new))
        if len(labels) == len(codes) and len(new):
            _, place[new] = np.unique(labels[new].astype(str), return_inverse=True)
        places.append(place)
        counts.append(int(place.max(initial=-1)) + 1)
    effects = []
    for term, covariance in zip(design.terms, draws.covariances, strict=True):
        root = np.linalg.cholesky(covariance)
        noise = rng.standard_normal((len(draws), counts[term.factor], covariance.shape[1]))
        effects.append(noise @ root.swapaxes(1, 2))
    return Fresh(effects, places)


def linear_predictor(
    design: Design, draws: JointDraws, rows: NewRows, rng: np.random.Generator
) -> np.ndarray:
    """η of m rows at every draw, (n, m): all their random effects included, new levels drawn."""
    return _predictor(design, draws, rows, fresh_levels(design, draws, rows, rng))


def predictors(
    design: Design, draws: JointDraws, rows: NewRows, rng: np.random.Generator
) -> Iterator[tuple[slice, NewRows, np.ndarray]]:
    """`linear_predictor` of so many rows at a time that draws × rows stay small: where, which, η.

    A new level is drawn once for all of its rows.
    """
    fresh = fresh_levels(design, draws, rows, rng)
    step = max(1, CELLS // len(draws))
    for start in range(0, len(rows.X), step):
        here = slice(start, start + step)
        lot = some_rows(rows, here)
        own = fresh._replace(codes=[codes[here] for codes in fresh.codes])
        yield here, lot, _predictor(design, draws, lot, own)


def _predictor(design: Design, draws: JointDraws, rows: NewRows, fresh: Fresh) -> np.ndarray:
    eta = draws.beta @ rows.X.T
    if rows.offset is not None:
        eta = eta + rows.offset
    for t, term in enumerate(design.terms):
        codes, R = rows.codes[term.factor], rows.R[t]
        if not R.any():
            continue
        known, new = np.flatnonzero(codes >= 0), np.flatnonzero(codes < 0)
        for j in range(R.shape[1]):
            eta[:, known] += draws.effects[t][:, codes[known], j] * R[known, j]
            if len(new):
                place = fresh.codes[term.factor][new]
                eta[:, new] += fresh.effects[t][:, place, j] * R[new, j]
    return eta


def some_rows(new: NewRows, here: slice | np.ndarray) -> NewRows:
    """Some of the rows, in the order asked for."""
    return new._replace(
        X=new.X[here],
        offset=None if new.offset is None else new.offset[here],
        R=[R[here] for R in new.R],
        codes=[codes[here] for codes in new.codes],
        labels=[labels[here] if len(labels) else labels for labels in new.labels],
        trials=None if new.trials is None else new.trials[here],
        rows=new.rows[here],
    )


def labelled(design: Design, draws: JointDraws) -> xr.Dataset:
    """Every quantity (draw,) by its name, and every effect (draw, level), `1|g`, over its factor's levels."""
    import xarray as xr

    variables: dict[str, Any] = {name: ("draw", part) for name, part in draws.values.items()}
    coords: dict[str, Any] = {"draw": np.arange(len(draws))}
    for term, effects in zip(design.terms, draws.effects, strict=True):
        factor = design.factors[term.factor]
        dim = factor.name
        if dim in draws.values or dim == "draw":  # a coefficient has that name
            dim = f"{dim}_level"
        coords[dim] = np.asarray(factor.levels)
        for j, name in enumerate(term.coefficients):
            variables[f"{name}|{term.group}"] = (("draw", dim), effects[:, :, j])
    return xr.Dataset(variables, coords=coords)


def generator(seed: Any) -> np.random.Generator:
    """A generator of a seed or a generator."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError) as error:
        raise InvalidModel(
            f"seed={seed!r} must be a whole number, 0 or more, or a numpy Generator."
        ) from error


def check_draws(n: Any) -> int:
    """A number of draws."""
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise InvalidModel(f"n={n!r} must be a whole number of draws, 1 or more.")
    return int(n)
