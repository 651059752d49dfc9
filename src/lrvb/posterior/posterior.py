"""Posterior: labelled answers. Means, standard deviations, covariances, intervals, draws, locals."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.files import new_file
from ..engine.convergence import Convergence
from ..engine.fitting import Fit
from ..engine.response import Response
from ..errors import InvalidModel
from ..numerics.double import in_double
from .answering import Judges, PriorQuestions
from .axes import Axes
from .certification import ASK, Certifier, Checked
from .draws import draw
from .estimate import Estimate
from .intervals import check_probability, intervals
from .locals import LocalVariables, NoLocals, row_positions
from .moments import Moments
from .noted import noted
from .predictive import predictive, row_functions
from .questions import WhatIf
from .refining import Refining, SecondOrderOf
from .table import table
from .verdicts import REPAIRED
from .weighted import WeightedDraws

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


class Posterior(WhatIf, Refining, Moments):
    """The linear-response posterior of a fitted model, beside the mean-field one.

    Quantities are addressed by name: `beta`, `beta[1]`, `log(tau)`, `Lambda[0,0,1]`; a block's name
    alone stands for all of its quantities.
    """

    def __init__(
        self,
        estimate: Estimate,
        convergence: Convergence,
        *,
        local_variables: LocalVariables | None = None,
        observed: Mapping[str, Any] | None = None,
        response: Response | None = None,
        origin: str = "made from plain estimates",
        second_order: SecondOrderOf | None = None,
        weighted: WeightedDraws | None = None,
        absent: Mapping[str, str] | None = None,
        certifier: Certifier | Judges | None = None,
        checked: Checked | None = None,
        axes: Axes | None = None,
        sensitivity: PriorQuestions | None = None,
    ):
        """`estimate` is all that is known of the global quantities, `convergence` how it was found.

        `observed` are the data's columns. `response` is the engine's own, in the coordinates of its
        fit; without one `origin` says where the posterior comes from. `second_order` corrects means
        and variances of linear functions of the estimate's statistics, where that can be done;
        `certifier` checks the answer against the exact density, and `checked` is what is known already;
        `sensitivity` says what other priors or fewer rows would do.
        `weighted` are draws of the posterior itself, from which intervals and draws are then made.
        `absent` has a sentence for each name that one may ask for and that has no answer; `axes` are
        the model's own names of dimensions.
        """
        self.estimate, self.convergence = estimate, convergence
        self.local_variables = NoLocals() if local_variables is None else local_variables
        self.observed = observed
        self._response, self._origin, self._second_order = response, origin, second_order
        self.weighted, self.absent = weighted, dict(absent or {})
        self._certifier = certifier
        self.checked = Checked(reason=ASK) if checked is None else checked
        self.axes = Axes() if axes is None else axes
        self._sensitivity = sensitivity
        self._aliases = dict(zip(estimate.plain_names(), estimate.labels, strict=True))

    # ---- labelled tables ------------------------------------------------------------------

    def summary(self, prob: float = 0.94) -> pd.DataFrame:
        """Mean, sd, mean-field sd, central interval and verdict of every named quantity.

        Intervals respect the support: those of positive quantities are made on the log scale. Numbers
        are linear response's, except in rows whose verdict is "repaired": those are the certificate's,
        as all are of a posterior of `lrvb.from_numpyro` and its like. A row whose variance is infinite
        for all that its draws say has no sd, and quantiles of the draws.
        """
        check_probability("prob", prob)
        at = self._at(self.names)
        lower, upper = self._intervals(prob)
        verdicts = list(self.verdicts["verdict"])
        result = table(
            self.names,
            mean=self.mean(),
            sd=self.sd(),
            mfvb_sd=self.sd(method="mfvb"),
            ends=(lower[at], upper[at]),
            verdict=verdicts,
        )
        columns = ["mean", "sd", "lower", "upper"]
        checked = self.checked.certificate
        if checked is not None and checked.polish is not None:
            result[columns] = checked.summary(prob)[columns]
            return result
        rows = result["verdict"] == REPAIRED
        if checked is not None:
            rows |= checked.heavy
        if self.certificate is not None and rows.any():
            result.loc[rows, columns] = self.certificate.summary(prob).loc[
                rows[rows].index, columns
            ]
        note = self._note(verdicts)
        return noted(result, note) if note else result

    def _intervals(self, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central intervals of every flat coordinate."""
        if self.weighted is not None:
            return self.weighted.intervals(prob)
        return intervals(self.estimate, prob)

    # ---- local variables ------------------------------------------------------------------

    @in_double
    def local(self, name: str | Callable[[Any, Any, Any], Any], rows: Any = None) -> xr.Dataset:
        """A local block over rows: `mean`, `sd`, `mfvb_sd`, and `cov` with each global quantity.

        In place of a name, a function f(m, z, row) of the moments of a row, an expectation as in `of`:
        `mean`, `sd` and `mfvb_sd` of it.

        `rows` are positions (a sequence of integers or a slice); all rows by default, in chunks.
        Cov(z, α) = RΣ̂ and Cov(z) = Σ̂_z|α + RΣ̂Rᵀ. See: eq:nuisance_lrvb_est
        """
        if callable(name):
            return self._row_functions(name, rows)
        if not isinstance(name, str):
            known = ", ".join(self.local_variables.names) or "none"
            raise InvalidModel(f"The local quantity {name!r} must be text; there are: {known}.")
        return self.local_variables.dataset(name, rows)

    def _row_functions(self, f: Callable[[Any, Any, Any], Any], rows: Any) -> xr.Dataset:
        import xarray as xr

        response = self.response
        values = row_functions(response, f, rows)
        held = response.fit.problem.rows
        assert held is not None
        labels = np.arange(held.n) if held.labels is None else np.asarray(held.labels)
        positions = row_positions(rows, held.n)
        inside = tuple(f"dim_{i}" for i in range(values.ndim - 2))
        parts = dict(zip(("mean", "sd", "mfvb_sd"), values, strict=True))
        return xr.Dataset(
            {k: ((held.dim, *inside), v) for k, v in parts.items()},
            coords={held.dim: labels if positions is None else labels[positions]},
        )

    @in_double
    def predictive(self, n: int = 100, seed: Any = 0, rows: Any = None) -> np.ndarray:
        """n draws of the rows' data, (n, rows, …), from a model that states how a row is drawn.

        The model's `sample_row(self, t, z, row, rng)` gets raw variables, as `log_row` does: t from
        `draws`, and z given t.
        """
        if self._origin == "inferred from a log density":
            raise InvalidModel(
                "The data of a log density are drawn by the library that states the model: "
                "numpyro.infer.Predictive(model, posterior.draws(n)), or "
                "pymc.sample_posterior_predictive(posterior.to_arviz(n), model=model)."
            )
        return predictive(self.response, self.draws(n, seed), np.random.default_rng(seed), rows)

    # ---- draws, files ---------------------------------------------------------------------

    @in_double
    def draws(self, n: int, seed: Any = 0, *, refined: bool = False) -> dict[str, np.ndarray]:
        """n joint draws of every global block, shape (n, *batch, *shape).

        A Gaussian copula with linear response's correlations; margins are the families' own (gamma
        for τ), with its mean and sd on the unconstrained scale (log τ): every draw is a valid value.
        A posterior that has weighted draws of its own gives those, in proportion to their weights.
        With `refined=True` its means and sds are those of `refined`.
        """
        if isinstance(n, bool) or not isinstance(n, numbers.Integral) or n < 1:
            raise InvalidModel(f"n={n!r} must be a whole number of draws, 1 or more.")
        try:
            rng = np.random.default_rng(seed)
        except (TypeError, ValueError) as error:
            raise InvalidModel(
                f"seed={seed!r} must be a whole number, 0 or more, or a numpy Generator."
            ) from error
        if self.weighted is not None and not refined:
            return self.weighted.draw(self.estimate, int(n), rng)
        return draw(self.estimate, int(n), rng, self._corrected() if refined else None)

    def to_arviz(self, n: int = 1000, seed: Any = 0) -> Any:
        """ArviZ's container with `posterior` and `observed_data`, and the exact moments beside."""
        from ..bridges.arviz import to_arviz

        return to_arviz(self, n, seed)

    def save(self, path: str | Path, *, local: bool = True) -> Path:
        """Write the posterior to one file; `local=False` leaves out the local variables."""
        from .storage import save

        return save(self, new_file(path), local=local)

    # ---- the fit --------------------------------------------------------------------------

    @property
    def fit(self) -> Fit:
        """The engine's optimum, in its own coordinates: those of `response`."""
        return self._require_engine("fit").fit

    @property
    def response(self) -> Response:
        """The engine's linear response, in the coordinates in which the model was fitted.

        After `lrvb.infer` they are the posterior's own. A mixture is fitted in standardised columns,
        and a mixed model's engine sees its precisions alone.
        """
        return self._require_engine("response")

    def _require_engine(self, what: str) -> Response:
        if self._response is None:
            raise InvalidModel(
                f"This posterior was {self._origin}, which holds no {what}; ask the original one, or "
                "fit again with init= this posterior."
            )
        return self._response

    @property
    def elbo(self) -> float:
        """The evidence lower bound at the optimum."""
        return self.convergence.elbo

    @property
    def converged(self) -> bool:
        """Whether the last Newton step was shorter than the tolerance."""
        return self.convergence.converged

    @property
    def n_iter(self) -> int:
        """Iterations of the fit."""
        return self.convergence.n_iter

    def __repr__(self) -> str:
        how = "converged" if self.converged else f"NOT converged ({self.convergence.reason})"
        head = f"<lrvb.Posterior: {how} in {self.convergence.steps}, ELBO {self.elbo:.6g}>"
        shown = self.summary().to_string(max_rows=20, float_format=lambda v: f"{v:.4g}")
        note = getattr(self.summary(), "note", "")
        return "\n".join([head, shown, *([note] if note else [])])
