"""What if some rows, or a group, were not there: weights 1/p(y_b | y_−b, θ) of the draws, no refit.

E[q | y_−b] is the mean of q under the draws' weights divided by p(y_b | y_−b, θ), exact up to their number.
Robust sds are the jackknife of whole groups; of single rows they are made of first orders, which are
covariances with the slope of log p(y | θ) in how often a row counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import InvalidModel
from ....integrated.crossed import Crossed
from ....integrated.deletion.drawn import drawn_levels
from ....integrated.fixed import Fixed
from ....integrated.normal import Normal
from ....integrated.smoothed import Smoothed
from ....numerics.pareto import smooth_columns
from ....posterior.answering import REFITTED, Influence
from ....posterior.leave_one_out import left_out_table
from ....posterior.what_if import RELIABLE
from ..design.subsample import take_rows
from ..partitions.design import PartitionedDesign
from ..priors.stated import MixedPriors
from .certificate import IMPORTANCE
from .fit import IntegratedFit, integrate_model
from .left_out import Lot, Sample, lots, lots_given, sample
from .sensitivity import PriorSensitivity

if TYPE_CHECKING:
    import pandas as pd

DOUBTED = 0.5  # of k̂, above which a group that moves a mean is fitted without
NOISY = 0.05  # of a change: a Monte Carlo error above which it is fitted without too
MOVES = 0.1  # posterior sds
QUICK = 20_000  # rows up to which such fits are made
MOST_REFITTED = 30  # of those whose k̂ is above it


@dataclass(frozen=True, eq=False)
class MixedSensitivity(PriorSensitivity):
    """The questions of `posterior.answering.RowQuestions`, from the draws of an integrated model."""

    @property
    def labels(self) -> Any:
        """Of the rows."""
        return self.found.design.rows

    @cached_property
    def weights(self) -> np.ndarray:
        """Of the rows: what is left out is a row as it stands."""
        return np.ones(self.found.design.n)

    @property
    def columns(self) -> Mapping[str, Any]:
        """The formula's columns, and the grouping factors' labels, of every row."""
        design = self.found.design
        factors = {f.name: f.levels[f.codes] for f in design.factors}
        return {name: design.frame[name].to_numpy() for name in design.frame} | factors

    @property
    def clusters(self) -> np.ndarray:
        """Codes of rows that are independent of each other: of the factor that all others lie within."""
        design = self.found.design
        if not design.factors:
            return np.arange(design.n)
        outer = min(design.factors, key=lambda f: len(f.levels))
        for factor in design.factors:
            pairs = np.unique(np.column_stack([outer.codes, factor.codes]), axis=0)
            if len(pairs) > len(factor.levels):
                raise InvalidModel(
                    f"The factors '{outer.name}' and '{factor.name}' are crossed, so that no groups of rows "
                    f"are independent; say which to draw again: by='{outer.name}' or by='{factor.name}'."
                )
        return outer.codes

    def influence(
        self, at: np.ndarray, codes: np.ndarray | None = None, refits: int | None = None
    ) -> Influence:
        """The change (n, k) of the means `at` if a row, or a level of `codes` (N,), is left out.

        By smoothed weights of the draws. The largest few (`refits`) of those whose k̂ is above a half, or
        whose Monte Carlo error is above 5 % of the change, are by an integration without them (the latter by
        both): unless it is given the largest ten, and all whose k̂ is above a half, thirty at most.
        """
        codes, n = self._blocks(codes)
        found = self._by_weights(at, codes, n)
        assert found.k_hat is not None
        assert found.error is not None
        sd = np.where(self.sd[at] > 0, self.sd[at], np.inf)
        scaled, error = np.abs(found.values) / sd, found.error / sd
        noisy = ((error > NOISY * scaled) & (scaled > MOVES)).any(1)
        size = scaled.max(1, initial=0.0)
        doubted = np.flatnonzero((~(found.k_hat <= DOUBTED) & (size > MOVES)) | noisy)
        most = refits
        if most is None:  # the largest ten, and others whose weights no more draws would mend
            doubted = doubted[np.argsort(-size[doubted], kind="stable")]
            useless = ~(found.k_hat[doubted] <= DOUBTED)
            doubted = np.concatenate([doubted[:REFITTED], doubted[REFITTED:][useless[REFITTED:]]])
            most = MOST_REFITTED
        found = self._fitted_without(found, at, codes, doubted, size, most)
        assert found.error is not None
        return found._replace(error=(found.error / sd).max(1, initial=0.0))

    def _by_weights(self, at: np.ndarray, codes: np.ndarray, n: int) -> Influence:
        """The same by smoothed weights of the draws alone, with the error (n, k) of each change."""
        drawn = sample(self.found, codes, n)
        log_w = np.log(drawn.weights)
        T = self.found.weighted.values[drawn.at][:, at]
        center = drawn.weights @ T
        values, error, k_hat = np.empty((n, len(at))), np.empty((n, len(at))), np.empty(n)
        for lot in self._lots(drawn, codes, n, at):
            moved = self._moved(lot, at)
            smoothed, k_hat[lot.blocks] = smooth_columns(log_w[:, None] - lot.out.log_p)
            w = np.exp(smoothed)
            values[lot.blocks] = w.T @ T - center
            if moved is not None:
                values[lot.blocks] += np.einsum("sj,sjk->jk", w, moved)
            error[lot.blocks] = _errors(drawn.weights, w, T, moved)
        return Influence(values, np.zeros(n, dtype=bool), k_hat, error)

    def _fitted_without(
        self,
        found: Influence,
        at: np.ndarray,
        codes: np.ndarray,
        doubted: np.ndarray,
        size: np.ndarray,
        most: int,
    ) -> Influence:
        """The largest `most` of those that are doubted by integrations without them."""
        assert found.error is not None
        values, error = found.values.copy(), found.error.copy()
        refitted, astray = found.refitted.copy(), 0
        which = doubted if self.found.design.n <= QUICK else doubted[:0]
        for b in which[np.argsort(-size[which], kind="stable")][:most]:
            rows = np.flatnonzero(codes == b)
            try:
                again = self.left_out(rows)
                fitted = (self.moved_mean(again) - self.estimate.m)[at]
                values[b], error[b] = self._joined(found, b, fitted, again, at)
            except (
                InvalidModel
            ):  # it has other quantities, or none: the weights stand, and it is told
                astray += 1
                continue
            refitted[b] = True
        return found._replace(values=values, refitted=refitted, error=error, astray=astray)

    def _joined(
        self, found: Influence, b: int, fitted: np.ndarray, again: IntegratedFit, at: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The change (k,) by a fit, `again`, and by weights that can be averaged: each by its precision.

        A fit has draws of its own, and weights of good k̂ may be as near as it is.
        """
        assert found.k_hat is not None
        assert found.error is not None
        own = sum(_mean_variance(fit, at) for fit in (self.found, again))
        if not found.k_hat[b] <= DOUBTED:
            return fitted, np.sqrt(own)
        other = found.error[b] ** 2
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(own + other > 0, other / (own + other), 1.0)
        share = np.where(np.isfinite(share), share, 1.0)
        value = found.values[b] + share * (fitted - found.values[b])
        return value, np.sqrt(share * own)

    def scores(self, at: np.ndarray, codes: np.ndarray | None = None) -> np.ndarray:
        """The change of means to the first order, (n, k), where rows count less or groups are left out.

        Of single rows −∂E[q]/∂w = −Cov(q, E[log p(y_i | η_i) | y, θ]), w being how often a row counts, as in
        `weights=`. A group takes its effects with it: −Cov(q, log p(y_b | y_−b, θ)). What the change of β
        given θ adds on average is in both.
        """
        codes, n = self._blocks(codes)
        single = n == len(codes)
        drawn = sample(self.found, codes, n)
        w = drawn.weights
        T = self.found.weighted.values[drawn.at][:, at]
        away = w[:, None] * (T - w @ T)
        values = np.empty((n, len(at)))
        for lot in self._lots(drawn, codes, n, at, counted=single):
            values[lot.blocks] = -(lot.out.log_p.T @ away)
            moved = self._moved(lot, at)
            if moved is not None:
                values[lot.blocks] += np.tensordot(w, moved, axes=1)
        return values

    def robust(
        self, at: np.ndarray, codes: np.ndarray | None = None, refits: int | None = None
    ) -> np.ndarray:
        """Variances (k,) of means over other groups from where these came from.

        The jackknife (G − 1)/G Σ_g (m₋g − m̄)², each group left out by weights of the draws, or in a fit of
        its own where those are bad (`refits` at most), because few groups have much weight each; of single
        rows the sum of squared scores.
        """
        codes, n = self._blocks(codes)
        self._require_summed(codes)
        if n < 2:
            raise InvalidModel("A robust sd needs two rows, or two levels, at least.")
        single = n == len(codes)
        moved = self.scores(at, codes) if single else self._groups_left_out(at, codes, n, refits)
        centred = moved - moved.mean(axis=0)
        return (centred**2).sum(axis=0) * (n / (n - 1) if single else (n - 1) / n)

    def _groups_left_out(
        self, at: np.ndarray, codes: np.ndarray, n: int, refits: int | None
    ) -> np.ndarray:
        """The change (G, k) without each group."""
        found = self._by_weights(at, codes, n)
        assert found.k_hat is not None
        sd = np.where(self.sd[at] > 0, self.sd[at], np.inf)
        size = (np.abs(found.values) / sd).max(1, initial=0.0)
        bad = ~(found.k_hat <= RELIABLE)
        most = REFITTED if refits is None else refits
        return self._fitted_without(found, at, codes, np.flatnonzero(bad), size, most).values

    def _require_summed(self, codes: np.ndarray) -> None:
        """Refuse groups that take with them several levels whose effects are among the draws.

        Of one that is drawn the effect is summed out. Given several, a group's score is much too small,
        because they have followed the rows already.
        """
        inside = self.found.statement.inside
        if drawn_levels(inside, codes).max(initial=0) < 2:
            return
        inside = inside.inner if isinstance(inside, Smoothed) else inside
        assert isinstance(inside, Crossed)
        named = self.found.design.factors
        drawn, summed = (
            next((f.name for f in named if np.array_equal(f.codes, term.codes)), "a factor")
            for term in (inside.small, inside.large)
        )
        raise InvalidModel(
            f"The effects of '{drawn}' are drawn and not summed out here, so that robust sds by groups that "
            f"hold several of its levels are not known; by='{drawn}' and by='{summed}' are. The changes "
            "without a group are: influence(by=)."
        )

    def left_out(self, rows: np.ndarray) -> IntegratedFit:
        """The integration without these rows, with the same priors."""
        design = self.found.design
        kept = np.setdiff1d(np.arange(design.n), rows, assume_unique=True)
        return integrate_model(take_rows(design, kept), self.priors, self.found.standard)

    def without(self, rows: np.ndarray) -> tuple[MixedSensitivity, np.ndarray]:
        """The same questions of the integration without these rows, and the places of its own."""
        again = self.left_out(rows)
        self.moved_mean(again)  # which has the same quantities
        kept = np.setdiff1d(np.arange(self.found.design.n), rows, assume_unique=True)
        return replace(self, found=again), kept

    def moved_mean(self, other: IntegratedFit) -> np.ndarray:
        """The means (a,) of another integration of the same quantities."""
        if len(other.estimate.m) != len(self.estimate.m):
            raise InvalidModel(
                "Without these rows a value of the response does not occur any more, and the model has fewer "
                "parameters; its means cannot be compared."
            )
        return other.estimate.m

    def loo(
        self, codes: np.ndarray | None, labels: Any, given: bool, what: str = "row"
    ) -> pd.DataFrame:
        """`elpd` and `k_hat` of every row, or level of `codes` (N,). See: `MixedModel.loo`."""
        codes, n = self._blocks(codes)
        drawn = sample(self.found, codes, n)
        parts = lots_given(self.found, drawn) if given else lots(self.found, drawn, codes, n)
        return left_out_table(
            ((lot.blocks, lot.out.log_p) for lot in parts),
            np.log(drawn.weights),
            labels,
            f"{len(drawn.weights):,} draws",
            what=what,
            given_all=given or isinstance(self.found.statement.inside, Fixed),
        )

    def _blocks(self, codes: np.ndarray | None) -> tuple[np.ndarray, int]:
        if codes is None:
            return np.arange(self.found.design.n), self.found.design.n
        return codes, int(codes.max(initial=-1)) + 1

    def _lots(
        self, drawn: Sample, codes: np.ndarray, n: int, at: np.ndarray, counted: bool = False
    ) -> Any:
        asked = isinstance(self.found.statement.inside, Normal) and bool(
            (at < self.found.statement.p).any()
        )
        return lots(self.found, drawn, codes, n, moved=asked, counted=counted)

    def _moved(self, lot: Lot, at: np.ndarray) -> np.ndarray | None:
        """The change of the coordinates `at` given each draw (S, n, k): of β, on the user's scale."""
        if lot.out.moved is None:
            return None
        beta = lot.out.moved @ self.found.standard.T.T
        result = np.zeros((*beta.shape[:2], len(at)))
        here = np.flatnonzero(at < self.found.statement.p)
        result[..., here] = beta[..., at[here]]
        return result


def _mean_variance(found: IntegratedFit, at: np.ndarray) -> np.ndarray:
    """Monte Carlo's variance (k,) of the means `at` of a fit."""
    away = found.weighted.values[:, at] - found.estimate.m[at]
    return found.weights**2 @ away**2


def _errors(
    before: np.ndarray, after: np.ndarray, T: np.ndarray, moved: np.ndarray | None
) -> np.ndarray:
    """Monte Carlo's error (n, k) of changes of means of T (S, k), from weights (S,) to others (S, n).

    Both means are of the same draws: the error of a difference of two ratios, by their linear parts.
    """
    error = np.empty((after.shape[1], T.shape[1]))
    for k, value in enumerate(T.T):
        there = value[:, None] if moved is None else value[:, None] + moved[..., k]
        own = before * (value - before @ value)
        away = after * (there - (after * there).sum(0)) - own[:, None]
        error[:, k] = np.sqrt((away**2).sum(0))
    return error


def sensitivity_of(found: IntegratedFit, priors: MixedPriors) -> PriorSensitivity:
    """What can be asked of a fit: rows too, where they are in memory and levels are summed exactly."""
    if isinstance(found.design, PartitionedDesign):
        elsewhere = (
            "the rows of this model are in parts elsewhere; fit their columns after compute()."
        )
        return PriorSensitivity(found, priors, no_rows=elsewhere)
    if found.certificate.method != IMPORTANCE:
        block = "the effects of this model are a Gaussian block, of which no rows are left out."
        return PriorSensitivity(found, priors, no_rows=block)
    return MixedSensitivity(found, priors)
