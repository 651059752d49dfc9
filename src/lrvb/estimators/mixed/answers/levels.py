"""Random effects as tables: every level's mean, sd, mean-field sd and covariance with the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from ....collapsed.gaussian.incidence import Vector
from ....collapsed.gaussian.row_terms import Joint
from ....errors import InvalidModel
from ....posterior.locals import some_rows
from ..design.design import Design
from ..design.standardised import Coordinates
from ..fit.assembly import Joined
from ..fit.working import Working


class LevelMoments(NamedTuple):
    """Of one coefficient at every level: mean, sd, mean-field sd (G,), covariance (G, p + a)."""

    mean: np.ndarray
    sd: np.ndarray
    mfvb_sd: np.ndarray
    cov: np.ndarray


class RowEffects(NamedTuple):
    """Of each row's own effect (N,): mean a, ∂a/∂ζ̄, ∂a/∂s, variance given ζ, and variance under q."""

    mean: np.ndarray
    follow: np.ndarray
    scale: np.ndarray
    noise: np.ndarray
    plain: np.ndarray


class Effects(Mapping[str, xr.Dataset]):
    """A dataset over levels for each coefficient, `1|g`, `x|g`, made when it is asked for."""

    def __init__(
        self,
        design: Design,
        where: Coordinates,
        work: Working,
        joined: Joined,
        quantities: list[str],
        columns: np.ndarray,
    ):
        """`quantities` are the posterior's names, at the flat coordinates `columns`."""
        self.design, self.where, self.work, self.joined = design, where, work, joined
        self.quantities, self.columns = quantities, columns
        self.found: dict[str, tuple[int, int]] = {}  # term, coefficient
        for t, term in enumerate(design.terms):
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
        term = self.design.terms[t]
        factor = self.design.factors[term.factor]
        own = self.work.places[t].factor < 0
        moments = self._of_rows(factor.codes) if own else self._of_term(t, j)
        dim = factor.name
        variables: dict[str, Any] = {
            "mean": (dim, moments.mean),
            "sd": (dim, moments.sd),
            "mfvb_sd": (dim, moments.mfvb_sd),
            "cov": ((dim, "quantity"), moments.cov[:, self.columns]),
        }
        coords = {dim: np.asarray(factor.levels), "quantity": self.quantities}
        return xr.Dataset(variables, coords=coords, attrs={"block": name})

    def _of_term(self, t: int, j: int) -> LevelMoments:
        """A coefficient z_k of a grouping factor."""
        block, joined = self.work.block, self.joined
        found = block.collapse(joined.inner.fit.m)
        at = self._place(t)
        precisions = block.precisions

        def pick(w: Vector) -> np.ndarray:
            return precisions.means(at, w)[:, j]

        R = np.stack([pick(r) for r in joined.R], axis=1)
        tilts = np.stack([pick(w) for w in joined.tilts], axis=1) if joined.tilts else None
        given = precisions.covariances(at, joined.given)[:, j, j]
        plain = precisions.covariances(at, found.blocks)[:, j, j]
        return self._moments(pick(found.mu), given, plain, R, tilts)

    def row_effects(self) -> RowEffects:
        """What is known of the effect e_n of each row, rows in working order."""
        block, joined = self.work.block, self.joined
        state = block.collapse(joined.inner.fit.m).inner
        s = block.precisions.s(joined.inner.fit.m)
        terms = state.terms
        mean = terms.e / s  # ℓ_η = sa
        follow = terms.ee / s  # ∂a/∂ζ̄
        scale = (terms.es - mean) / s
        if isinstance(getattr(block.setting, "rows", None), Joint):
            f = -2 * terms.v / s
            noise = (1 - f) / s
            return RowEffects(mean, follow, scale, noise, f**2 * state.v + noise)
        noise = np.maximum((1 + terms.ee / s) / s, 0.0)  # Var u = (ℓ_ηη + s)/s²
        return RowEffects(mean, follow, scale, noise, noise + state.v)  # e = u − η, both apart

    def _of_rows(self, codes: np.ndarray) -> LevelMoments:
        """The effect e_n of each row: e = a − f(ζ − ζ̄) + noise of variance E, a following ζ̄."""
        block, joined = self.work.block, self.joined
        layout, own = block.layout, self.row_effects()
        R = np.stack([own.follow * layout.forward(r) for r in joined.R], axis=1)
        R[:, block.precisions.scale] += own.scale
        tilts = None
        if joined.tilts:
            tilts = np.stack([own.follow * layout.forward(w) for w in joined.tilts], axis=1)
        given = own.follow**2 * layout.quadratic(*joined.given) + own.noise
        moments = self._moments(own.mean, given, own.plain, R, tilts)
        position = np.empty(len(codes), dtype=int)
        position[codes[self.work.order]] = np.arange(len(codes))  # level → row in working order
        return LevelMoments(*(part[position] for part in moments))

    def _moments(
        self,
        mean: np.ndarray,
        given: np.ndarray,
        plain: np.ndarray,
        R: np.ndarray,
        tilts: np.ndarray | None,
    ) -> LevelMoments:
        inner, p = self.joined.inner, self.work.block.layout.p
        cross = R @ inner.Sigma
        sd = np.sqrt(given + np.einsum("ga,ga->g", cross, R))
        cov = cross
        if tilts is not None:
            R_b = np.stack([r.rest[:p] for r in self.joined.R], axis=1)
            cov = np.hstack([(tilts + cross @ R_b.T) @ self.where.T.T, cross])
        return LevelMoments(mean, sd, np.sqrt(plain), cov)

    def _place(self, t: int) -> int:
        """The number of a design's term among those of the block, which leave the rows' own out."""
        return sum(place.factor >= 0 for place in self.work.places[:t])
