"""What is asked of a fitted mixed model beyond its tables, answered from joint draws of all it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...errors import InvalidModel
from ...posterior.intervals import check_probability
from .answers.joint import DRAWS, Drawable, JointDraws, check_draws, generator, labelled
from .answers.marginal import Asked, comparisons, predictions
from .answers.prediction import SCALES, fitted_rows, left_out, tell_of_new_levels
from .answers.simulated import as_new_levels, check_residuals, replicated, residuals
from .design.design import Design, NewRows
from .integral.certificate import MixedCertificate

if TYPE_CHECKING:
    import xarray as xr


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


class AfterTheFit:
    """Questions of a fitted model; `MixedModel` inherits them."""

    _drawn: Drawn
    certificate_: MixedCertificate

    def _design(self) -> Design:
        raise NotImplementedError

    def draws(self, n: int = DRAWS, seed: Any = 0) -> xr.Dataset:
        """n draws from the joint posterior of everything: an `xarray.Dataset` over `draw`.

        Every name of `posterior_` is a variable (draw,): coefficients, sds, correlations, dispersions.
        Every random effect is one over its levels: `draws["1|g"].sel(g="b")`. Hyperparameters are
        drawn in proportion to their weights, and coefficients given them from their exact conditional
        distribution; of a variational fit all come from its Gaussian and its families.
        """
        design = self._design()
        return labelled(design, self._drawn.draw(check_draws(n), seed))

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
        if new_levels:
            rows = as_new_levels(design, rows)
        draws = self._drawn.draw(check_draws(n), seed)
        values = replicated(design, draws, rows, _beside(seed))
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
        rows = fitted_rows(design) if new_data is None else design.apply(new_data)
        if responses and design.formula.trials is not None and rows.trials is None:
            raise InvalidModel(
                "A new observation of a binomial response needs its number of trials: add "
                f"'{design.formula.trials}' to new_data."
            )
        R = [np.where(gone, 0.0, part) for part, gone in zip(rows.R, out, strict=True)]
        kept = {t.factor for t, gone in zip(design.terms, out, strict=True) if not gone.all()}
        tell_of_new_levels(design, rows, kept)
        return rows._replace(R=R)


def _beside(seed: Any) -> np.random.Generator:
    """A stream of its own beside that of the joint draws."""
    if isinstance(seed, int | np.integer):
        return np.random.default_rng([int(seed), 1])
    return generator(seed)
