"""What is asked of a fitted mixed model beyond its tables, answered from joint draws of all it has."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from ...data.files import new_file
from ...errors import InvalidData, InvalidModel
from ...posterior.intervals import check_probability
from .answers.arviz_groups import arviz_groups
from .answers.joint import DRAWS, Drawable, JointDraws, check_draws, generator, labelled
from .answers.marginal import Asked, comparisons, predictions
from .answers.prediction import SCALES, fitted_rows, left_out, tell_of_new_levels
from .answers.simulated import (
    as_new_levels,
    check_residuals,
    replicated,
    residuals,
    with_new_structures,
)
from .answers.variation import coefficients, explained, shares, variances
from .design.columns import close_to
from .design.design import Design, NewRows
from .integral.certificate import MixedCertificate
from .priors.stated import MixedPriors
from .text.updated import update_formula

if TYPE_CHECKING:
    import xarray as xr

    from ...posterior.posterior import Posterior
    from .estimator import MixedModel

MANY = 4000  # draws of tables that have no other: Monte Carlo's error of a mean is 1.6 % of its sd


class Drawn:
    """Joint draws of one fit, of which the last are kept: many questions ask for the same."""

    def __init__(self, source: Drawable):
        self.source = source
        self._last: tuple[tuple[int, int], JointDraws] | None = None

    def draw(self, n: int, seed: Any) -> JointDraws:
        """n joint draws."""
        if not isinstance(seed, int):
            return self.source.draw(n, generator(seed))
        if self._last is None or self._last[0] != (n, seed):
            self._last = (n, seed), self.source.draw(n, generator(seed))
        return self._last[1]

    def outside(self, n: int) -> JointDraws:
        """n draws of all but the levels' effects, which may cost much."""
        if self._last is not None and self._last[0] == (n, 0):
            return self._last[1]
        return self.source.draw(n, generator(0), levels=False)


class AfterTheFit:
    """Questions of a fitted model; `MixedModel` inherits them."""

    _drawn: Drawn
    certificate_: MixedCertificate
    priors_: MixedPriors

    if TYPE_CHECKING:  # of the estimator itself

        def _design(self) -> Design: ...
        def _fitted(self) -> Posterior: ...

    def draws(self, n: int = DRAWS, seed: Any = 0) -> xr.Dataset:
        """n draws from the joint posterior of everything: an `xarray.Dataset` over `draw`.

        Every name of `posterior_` is a variable (draw,): coefficients, sds, correlations, dispersions.
        Every random effect is one over its levels: `draws["1|g"].sel(g="b")`. Hyperparameters are
        drawn in proportion to their weights, and coefficients given them from their exact conditional
        distribution; of a variational fit all come from its Gaussian and its families.
        """
        design = self._design()
        return labelled(design, self._drawn.draw(check_draws(n), seed))

    def update(self, formula: str | None = None, data: Any = None, **changes: Any) -> MixedModel:
        """A copy with some arguments changed, fitted: `update(". ~ . + x")`, `update(family="poisson")`.

        In a formula a dot stands for that side of the old one, as in R; `- x` and `- (1|g)` leave a
        term out. The copy is fitted to `data`, or to those of this fit where they are still there.
        """
        known = [n for n in inspect.signature(type(self).__init__).parameters if n != "self"]
        for name in changes:
            if name not in known:
                raise InvalidModel(f"MixedModel has no argument '{name}'; {close_to(name, known)}")
        said = {name: getattr(self, name) for name in known} | changes
        if formula is not None:
            said["formula"] = update_formula(formula, said["formula"])
        found = self._remembered() if data is None else data
        try:
            return cast("type[MixedModel]", type(self))(**said).fit(found)
        except InvalidData as error:
            there = error.evidence.get("column") in (None, *found)
            if data is not None or there or found is not self._design().frame:
                raise
            raise InvalidData(
                f"{str(error).partition(chr(10))[0]} Only the columns of the old formula are still "
                "here: give the table, as in update(..., data=table).",
                column=error.evidence["column"],
            ) from error

    def _remember(self, data: Any) -> None:
        """Where the data are, without keeping them alive; a mapping of columns is kept."""
        try:
            self._data: Any = weakref.ref(data)
        except TypeError:
            self._data = lambda: data

    def _remembered(self) -> Any:
        """The data of the fit, or of them the columns of the formula."""
        design = self._design()
        data = self._data() if hasattr(self, "_data") else None
        if data is None and not len(design.frame.columns):
            raise InvalidData(
                "The data of the fit are not here; give them, as in update(..., data=table)."
            )
        return design.frame if data is None else data

    def save(self, path: str | Path) -> Path:
        """Write the fitted model to one file, without the rows of its data and without pickle.

        `lrvb.load(path)` gives a model that predicts, with its summary, levels, draws and posterior.
        Its answers come from draws whose means and sds are those of the tables.
        """
        from .storage import save_model

        self._design()
        return save_model(cast("MixedModel", self), new_file(path))

    # ---- responses --------------------------------------------------------------------------

    def posterior_predictive(
        self, new_data: Any = None, n: int = DRAWS, seed: Any = 0, *, groups: Any = "all"
    ) -> xr.DataArray:
        """n new responses of every row, (draw, row): each from one joint draw and the family's noise.

        Rows are those of the fit, or of `new_data`, whose new levels are drawn from their term's
        normal. `groups` is as in `predict`.
        """
        import xarray as xr

        design = self._design()
        rows = self._rows(new_data, groups, responses=True)
        draws, rng = self._drawn.draw(check_draws(n), seed), _beside(seed)
        values = replicated(design, draws, rows, rng)
        coords = {"draw": np.arange(len(values)), "row": np.asarray(rows.rows)}
        return xr.DataArray(
            values, dims=("draw", "row"), coords=coords, name=design.formula.response
        )

    def simulate(self, n: int = 1, seed: Any = 0, *, new_levels: bool = False) -> pd.DataFrame:
        """n replicated data sets: a DataFrame with the rows of the fit and one column a replicate.

        Each is a draw of all parameters and then of the responses. `new_levels=True` draws the
        levels' effects anew from their normal too, as if other groups had been observed.
        """
        design, rows = self._design(), fitted_rows(self._design())
        draws, rng = self._drawn.draw(check_draws(n), seed), _beside(seed)
        if new_levels:
            rows, draws = as_new_levels(design, rows), with_new_structures(design, draws, rng)
        values = replicated(design, draws, rows, rng)
        return pd.DataFrame(
            values.T, index=design.rows, columns=pd.RangeIndex(len(values), name="replicate")
        )

    def residuals(self, kind: str = "quantile", *, n: int = DRAWS, seed: Any = 0) -> pd.Series:
        """How far every row is from what the model expects of it.

        "quantile": the normal score of P(Y ≤ y), averaged over the posterior; of a discrete response
        a uniform draw between P(Y < y) and P(Y ≤ y), so that residuals of a true model are standard
        normal (randomised by `seed`). "pearson": (y − E y)/sd(y). "response": y − E y.
        """
        kind = check_residuals(kind)
        design = self._design()
        draws = self._drawn.draw(check_draws(n), seed)
        return residuals(design, draws, fitted_rows(design), kind, _beside(seed))

    def to_arviz(self, n: int = DRAWS, seed: Any = 0) -> Any:
        """ArviZ's container, for `az.loo`, `az.plot_ppc` and the like.

        Groups `posterior` (one chain of n joint draws), `posterior_predictive`, `log_likelihood` (of
        every row given its levels' effects), `log_prior` and `observed_data`: an InferenceData
        before ArviZ 1.0, an `xarray.DataTree` since. A model without its rows (read from a file, or
        fitted to Dask) has `posterior` alone.
        """
        from ...bridges.arviz import groups_to_arviz

        design = self._design()
        draws = self._drawn.draw(check_draws(n), seed)
        return groups_to_arviz(arviz_groups(design, self.priors_, draws, _beside(seed)))

    # ---- coefficients and variances ---------------------------------------------------------

    def vcov(self) -> pd.DataFrame:
        """The posterior covariance matrix of the fixed effects."""
        return self._fitted().cov(list(self._design().effects))

    def coef(self, group: str | None = None, what: str = "mean", prob: float = 0.94) -> Any:
        """Coefficients of every level, fixed and random effects together, as lme4's `coef`.

        A DataFrame of the levels of `group`, one column a coefficient: `what` is "mean", "sd",
        "lower" or "upper". Where there are several grouping factors and none is named, a mapping.
        """
        check_probability("prob", prob)
        return coefficients(self._design(), self._draws_of(), group, what, prob)

    def var_corr(self, prob: float = 0.94) -> pd.DataFrame:
        """Standard deviations and correlations of the random effects and the residual, as `VarCorr`.

        Columns `group, var1, var2`; `vcov` is the posterior mean of the variance or covariance;
        `sdcor` that of the sd or correlation, with its own `sd, lower, upper`.
        """
        check_probability("prob", prob)
        return variances(self._design(), self._drawn.outside(MANY), prob)

    def r2(self, prob: float = 0.94) -> pd.DataFrame:
        """The share of variance that fixed effects explain ("marginal"), and random ones too ("conditional").

        On the link's scale (Nakagawa, Johnson and Schielzeth 2017), with the family's own variance
        there: σ² of a normal response, π²/3 of a logit, log(1 + Var y/μ²) of a log link.
        """
        check_probability("prob", prob)
        return explained(self._design(), self._drawn.outside(MANY), prob)

    def icc(self, prob: float = 0.94) -> pd.DataFrame:
        """Each grouping factor's share of the variance that fixed effects leave, and that of all.

        The correlation of two rows of one level, on the link's scale as in `r2`.
        """
        check_probability("prob", prob)
        return shares(self._design(), self._drawn.outside(MANY), prob)

    def _draws_of(self, n: int = MANY) -> JointDraws:
        self._design()
        return self._drawn.draw(n, 0)

    def _values(self) -> Mapping[str, np.ndarray]:
        """Draws of every named quantity."""
        return self._drawn.outside(MANY).values

    # ---- marginal effects -------------------------------------------------------------------

    def predictions(
        self,
        new_data: Any = None,
        by: Any = None,
        *,
        groups: Any = "all",
        scale: str = "response",
        prob: float = 0.94,
        n: int = DRAWS,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Expected responses: `mean, sd, lower, upper` of every row, or averaged over rows.

        by=True is the average of all rows, by="arm" (or several columns) one for each group of rows.
        Averages are made draw by draw, so that sds have the rows' covariances: fixed and random
        effects and their hyperparameters. `groups` and `scale` are as in `predict`. Intervals are
        quantiles of the n draws; attrs["mcse"] is Monte Carlo's error of a mean, in sds.
        """
        design = self._design()
        asked = self._asked(groups, scale, prob, n, seed)
        return predictions(design, asked, new_data, by)

    def comparisons(
        self,
        variables: Any,
        by: Any = None,
        *,
        new_data: Any = None,
        comparison: str = "difference",
        groups: Any = "all",
        scale: str = "response",
        prob: float = 0.94,
        n: int = DRAWS,
        seed: int = 0,
    ) -> pd.DataFrame:
        """What changing one column does to the expected response: `term, contrast, mean, sd, lower, upper`.

        `variables` is a column's name, several, or a mapping to what is compared. Of a number: a step
        (1 by default, from x − ½ to x + ½; of a column of zeros and ones, 1 − 0), two values
        `(0, 2)`, "sd", "2sd", "iqr", "minmax". Of labels: "reference" (each with the first, the
        default), "pairwise", "sequential", or two levels. comparison is "difference", "ratio",
        "lnratio" or "lift". Every
        row is compared with itself; `by` averages, as in `predictions` (a ratio is then that of averages).
        """
        design = self._design()
        asked = self._asked(groups, scale, prob, n, seed)
        return comparisons(design, asked, variables, comparison, new_data, by)

    def slopes(
        self,
        variables: Any,
        by: Any = None,
        *,
        new_data: Any = None,
        groups: Any = "all",
        scale: str = "response",
        prob: float = 0.94,
        n: int = DRAWS,
        seed: int = 0,
    ) -> pd.DataFrame:
        """The derivative of the expected response in a column, of every row or averaged: as `comparisons`.

        Of a column of labels it is the difference between levels.
        """
        design = self._design()
        asked = self._asked(groups, scale, prob, n, seed)
        return comparisons(design, asked, variables, "difference", new_data, by, slopes=True)

    def _asked(self, groups: Any, scale: Any, prob: float, n: Any, seed: Any) -> Asked:
        if not isinstance(scale, str) or scale not in SCALES:
            raise InvalidModel(f"scale={scale!r} must be 'response' or 'link'.")
        check_probability("prob", prob)
        design, n = self._design(), check_draws(n)
        draws = self._drawn.draw(n, seed)
        ess = self.certificate_.ess
        own = 1 / ess if ess is not None and np.isfinite(ess) and ess > 0 else 0.0
        error = float(np.sqrt(1 / n + own))
        fresh = int(_beside(seed).integers(2**31))
        return Asked(left_out(design, groups), scale, draws, fresh, prob, error)

    def _rows(self, new_data: Any, groups: Any, responses: bool = False) -> NewRows:
        """The rows of the fit, or new ones, without the effects that `groups` leaves out."""
        design = self._design()
        out = left_out(design, groups)
        spare = out.spare(design)
        rows = fitted_rows(design) if new_data is None else design.apply(new_data, spare)
        if responses and design.formula.trials is not None and rows.trials is None:
            raise InvalidModel(
                "A new observation of a binomial response needs its number of trials: add "
                f"'{design.formula.trials}' to new_data."
            )
        tell_of_new_levels(design, rows, out.kept(design))
        return out.of(rows)


def _beside(seed: Any) -> np.random.Generator:
    """A stream of its own beside that of the joint draws."""
    if isinstance(seed, int | np.integer):
        return np.random.default_rng([int(seed), 1])
    return generator(seed)
