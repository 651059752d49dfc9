"""Posterior: labelled answers. Means, standard deviations, covariances, intervals, draws, locals."""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..data.files import file_path
from ..engine.convergence import Convergence
from ..engine.curvature import linearize
from ..engine.fitting import Fit, fit
from ..engine.response import Response, respond
from ..engine.second_order import Refined, refine
from ..errors import InvalidModel
from ..numerics.double import in_double
from .axes import Axes
from .certificate import Certificate
from .certification import ASK, Certifier, Checked, check_certify
from .correction import warn_large_correction, warn_large_second_order
from .draws import draw
from .estimate import Estimate, estimate_of
from .intervals import check_probability, intervals, normal_ends, support_ends
from .locals import LocalVariables, NoLocals, row_positions, rows_of
from .noted import noted
from .predictive import predictive, row_functions
from .questions import WhatIf
from .sensitivity import PriorQuestions, Sensitivity
from .table import require_finite, table
from .verdicts import NOT_CHECKED, REPAIRED
from .weighted import WeightedDraws
from .what_if import grouped, robust_sds
from .wide import WidePosterior

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


INTEGRATED = "Integrated by draws of the exact posterior already: there is no order beyond."
SecondOrderOf = Callable[[np.ndarray | Callable[[Any], Any]], Refined]


class Posterior(WhatIf):
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
        certifier: Certifier | None = None,
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

    @property
    def names(self) -> list[str]:
        """Every named scalar quantity."""
        return list(self.estimate.index)

    def mean(self, names: str | Iterable[str] | None = None, method: str = "lrvb") -> pd.Series:
        """Posterior means; `method="certified"` for those of the certificate."""
        import pandas as pd

        chosen = self._choose(names)
        known = isinstance(method, str) and method in ("lrvb", "mfvb", "certified")
        if not known:
            raise InvalidModel(f"method={method!r} must be 'lrvb', 'mfvb' or 'certified'.")
        m = self._certified().mean if method == "certified" else self.estimate.m
        values = m[self._at(chosen)]
        require_finite("mean", values, chosen)
        return pd.Series(values, index=chosen, name="mean")

    def sd(
        self, names: str | Iterable[str] | None = None, method: str = "lrvb", *, by: Any = None
    ) -> pd.Series:
        """Posterior standard deviations; `method="mfvb"` for the uncorrected, "certified" for exact.

        `method="robust"` is the sandwich: the sd of the mean over other rows from where these came
        from, whether or not the model is right; with `by` (a column, or one value a row) whole levels
        are taken, for rows that are alike within them.
        """
        import pandas as pd

        chosen = self._choose(names)
        if isinstance(method, str) and method == "robust":
            what_if = self._what_if()
            codes, _ = grouped(what_if, by, self.observed)
            return robust_sds(what_if, chosen, self._at(chosen), codes)
        if by is not None:
            raise InvalidModel('by= belongs to method="robust": other sds have no groups of rows.')
        values = np.sqrt(np.diag(self._covariance(method))[self._at(chosen)])
        require_finite("sd", values, chosen)
        return pd.Series(values, index=chosen, name="sd")

    def cov(self, names: str | Iterable[str] | None = None, method: str = "lrvb") -> pd.DataFrame:
        """Posterior covariance matrix."""
        import pandas as pd

        chosen = self._choose(names)
        at = self._at(chosen)
        values = self._covariance(method)[np.ix_(at, at)]
        require_finite("covariance", np.abs(values).max(axis=1, initial=0.0), chosen)
        return pd.DataFrame(values, index=chosen, columns=chosen)

    def corr(self, names: str | Iterable[str] | None = None, method: str = "lrvb") -> pd.DataFrame:
        """Posterior correlation matrix; zero with what is known exactly, which varies with nothing."""
        import pandas as pd

        cov = self.cov(names, method)
        sd = np.sqrt(np.diag(cov))
        scale = np.where(sd > 0, sd, 1.0)
        corr = cov.to_numpy() / np.outer(scale, scale)
        np.fill_diagonal(corr, 1.0)
        return pd.DataFrame(corr, index=cov.index, columns=cov.columns)

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
        if self.certificate is not None and self.certificate.polish is not None:
            result[columns] = self.certificate.summary(prob)[columns]
            return result
        if self.certificate is not None:
            rows = (result["verdict"] == REPAIRED) | self.certificate.heavy
            result.loc[rows, columns] = self.certificate.summary(prob).loc[rows, columns]
        note = self._note(verdicts)
        return noted(result, note) if note else result

    @property
    def certificate(self) -> Certificate | None:
        """The certificate, where there is one."""
        return self.checked.certificate

    @property
    def verdicts(self) -> pd.DataFrame:
        """`verdict` and `why` of every named quantity: the certificate's, or those known without draws."""
        import pandas as pd

        found = list(self.checked.quick)
        if self.certificate is not None:
            found = self.certificate.verdicts
        elif self.weighted is not None and self.weighted.verdicts:
            found = [(verdict, "") for verdict in self.weighted.verdicts]
        elif not found:
            found = [(NOT_CHECKED, f"Not checked: {self.checked.reason}.")] * len(self.names)
        return pd.DataFrame(found, index=pd.Index(self.names), columns=["verdict", "why"])

    def _note(self, verdicts: list[str]) -> str:
        """The line under the summary: where verdicts come from, or why there are none."""
        notes = []
        if REPAIRED in verdicts:
            notes.append('Rows marked "repaired" show the certified numbers.')
        if self.certificate is not None and self.certificate.heavy.any():
            notes.append(
                "Rows without an sd have heavy tails: use lower and upper, their quantiles."
            )
        if notes:
            return " ".join(notes)
        if self.certificate is None and self.checked.quick:
            return "Verdicts by the size of the second order, without draws; posterior.certify() draws."
        return self.verdicts["why"].iloc[0] if NOT_CHECKED in verdicts else ""

    def _covariance(self, method: str) -> np.ndarray:
        if isinstance(method, str) and method == "certified":
            return self._certified().cov
        return self.estimate.covariance(method)

    def _certified(self) -> Certificate:
        if self.certificate is None:
            raise InvalidModel(
                'This posterior has no certificate, which method="certified" needs; call '
                "posterior.certify() first."
            )
        return self.certificate

    # ---- trust ----------------------------------------------------------------------------

    def certify(
        self,
        draws: int = 1024,
        seed: int = 0,
        *,
        budget: float | None = None,
        passes: int | None = None,
        progress: bool = False,
    ) -> Certificate:
        """Check every named quantity against draws of the exact posterior, and keep the result.

        Importance sampling of the density with all rows' variables integrated out, from linear
        response's normal; where its weights are poor, HMC. Fits from other starts look for other
        modes. No round is begun that would not end within `budget` seconds or `passes` over all rows (a
        gradient counts three, a fit from another start sixty); what is then not known is "doubtful".
        Afterwards `certificate` is set and `summary` has its verdicts.
        """
        if self._certifier is None and self.certificate is not None and self.certificate.polish:
            raise InvalidModel(
                "This posterior was checked when it was made; for other draws call infer again with "
                "another seed."
            )
        if self._certifier is None and self.weighted is not None and self.weighted.verdicts:
            raise InvalidModel(
                "This posterior consists of draws of the exact posterior already; its verdicts are in "
                "summary()."
            )
        if self._certifier is None and self._response is None and self.checked.reason:
            raise InvalidModel(
                f"This posterior was {self._origin} and cannot be checked any more: "
                f"{self.checked.reason}."
            )
        if self._certifier is None:
            self._require_engine("density to check it against")
            raise InvalidModel(
                "This posterior's density with all local variables integrated out is not known here, "
                "so that it cannot be certified; it can for lrvb.infer and GaussianMixture."
            )
        found = self._certifier.certify(
            draws, seed, budget=budget, passes=passes, progress=progress
        )
        self.checked = Checked(certificate=found)
        return found

    def settle(self, certify: str | bool, *, progress: bool = False) -> None:
        """Certify or not, as `certify` says: True, False, or "auto" where it costs about a second.

        Where that would cost more, "auto" gives verdicts without draws, if they cost less than the fit.
        """
        if certify is True:
            self.certify(progress=progress)
        elif certify == "auto" and self._certifier is not None:
            self.checked = self._certifier.automatic(progress=progress)
        elif certify is False:
            self.checked = Checked(reason=f"certify=False was given; {ASK}")

    def _intervals(self, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the central intervals of every flat coordinate."""
        if self.weighted is not None:
            return self.weighted.intervals(prob)
        return intervals(self.estimate, prob)

    # ---- functions ------------------------------------------------------------------------

    def of(
        self,
        f: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
        g: Callable[[Any], Any] | None = None,
        method: str = "lrvb",
        *,
        prob: float = 0.94,
    ) -> Any:
        """Covariance of quantities with E_q[φ] = f(m) and E_q[γ] = g(m); see `Response.of`.

        With names, `{"ratio": lambda m: ...}`, it is a table of numbers: `mean, sd, mfvb_sd, lower, upper`.
        """
        if not isinstance(f, Mapping):
            return self.estimate.of(f, g, method)
        check_probability("prob", prob)
        if g is not None or method != "lrvb" or not f:
            raise InvalidModel(
                "With names, of takes functions alone: of({'name': f}); ask for a covariance with of(f, g)."
            )
        return self._table_of(f, prob)

    @in_double
    def _table_of(self, functions: Mapping[str, Callable[[Any], Any]], prob: float) -> pd.DataFrame:
        means, sds, alone = [], [], []
        for name, f in functions.items():
            variance = self.estimate.of(f)
            if np.ndim(variance):
                raise InvalidModel(f"The function '{name}' gives an array; give one number a name.")
            means.append(float(self.estimate.flat(f)(self.estimate.m)[0]))
            sds.append(np.sqrt(variance))
            alone.append(np.sqrt(self.estimate.of(f, method="mfvb")))
        ends = normal_ends(np.array(means), np.array(sds), prob)
        return table(list(functions), mean=means, sd=sds, mfvb_sd=alone, ends=ends)

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

    @in_double
    def refined(
        self,
        names: str | Iterable[str] | Callable[[Any], Any] | None = None,
        prob: float = 0.94,
    ) -> pd.DataFrame:
        """`mean, sd, lower, upper` one order beyond linear response.

        They correct the bias that the factorisation leaves in means, which is largest where a
        posterior is skewed; `attrs["log_evidence"]` is the evidence to the same order. In place of
        names a function of named moments may be given, as to `of`: E φ = f(m) of one or several φ. It
        costs two curvatures of all rows a quantity. A mean that moves by more than half an sd, or a
        variance that changes by more than half, is a warning (`LargeCorrection`), not an answer. A
        posterior that was integrated is exact already, and answers with its own numbers.
        """
        check_probability("prob", prob)
        if self.weighted is not None and self._second_order is None and not callable(names):
            columns = ["mean", "sd", "lower", "upper"]
            return noted(self.summary(prob).loc[self._choose(names), columns], INTEGRATED)
        second_order = self._corrected()
        if callable(names):
            f = names
            flat = self.estimate.flat(f)
            value = np.asarray(flat(self.estimate.m))
            second = second_order(flat)
            mean, sd = value + second.shift, np.sqrt(second.variance)
            index: Any = range(len(value))
            ends = normal_ends(mean, sd, prob)
        else:
            index = self._choose(names)
            at = self._at(index)
            second = second_order(np.eye(len(self.estimate.m))[at])
            mean, sd = self.estimate.m[at] + second.shift, np.sqrt(second.variance)
            ends = support_ends(self.estimate, at, mean, sd, prob)
        warn_large_second_order(second, index)
        result = table(index, mean=mean, sd=sd, ends=ends)
        result.attrs["log_evidence"] = second.log_evidence
        return result

    def _corrected(self) -> SecondOrderOf:
        if self._second_order is not None:
            return self._second_order
        self._require_engine("fit to refine")
        raise InvalidModel(
            "The second order is available only for a posterior in the coordinates of its fit, such "
            "as that of lrvb.infer."
        )

    def to_arviz(self, n: int = 1000, seed: Any = 0) -> Any:
        """ArviZ's container with `posterior` and `observed_data`, and the exact moments beside."""
        from ..bridges.arviz import to_arviz

        return to_arviz(self, n, seed)

    def save(self, path: str | Path, *, local: bool = True) -> Path:
        """Write the posterior to one file; `local=False` leaves out the local variables."""
        from .storage import save

        return save(self, file_path(path), local=local)

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
        head = f"<lrvb.Posterior: {how} in {self.n_iter} iterations, ELBO {self.elbo:.6g}>"
        shown = self.summary().to_string(max_rows=20, float_format=lambda v: f"{v:.4g}")
        note = getattr(self.summary(), "note", "")
        return "\n".join([head, shown, *([note] if note else [])])

    def _choose(self, names: str | Iterable[str] | None) -> list[str]:
        """The names asked for, a block's name standing for all of its quantities."""
        if names is None:
            return self.names
        chosen: list[str] = []
        index = self.estimate.index
        if not isinstance(names, Iterable):
            raise InvalidModel(f"names={names!r} must be a name or a list of names.")
        for name in [names] if isinstance(names, str) else names:
            name = name if name in index else self._aliases.get(name) or name
            if name in index:
                chosen.append(name)
                continue
            inside = [k for k in self.names if _stem(k) == name] or self._of_block(name)
            if not inside:
                if name in self.absent:
                    raise InvalidModel(self.absent[name])
                close = difflib.get_close_matches(str(name), self.names, n=3)
                hint = f" Did you mean {', '.join(close)}?" if close else ""
                shown = ", ".join(self.names[:12]) + (", …" if len(self.names) > 12 else "")
                raise InvalidModel(f"There is no quantity '{name}'.{hint} There are: {shown}.")
            chosen.extend(inside)
        return chosen

    def _of_block(self, name: str) -> list[str]:
        """The quantities of a block, in whatever form they are named."""
        slices = self.estimate.slices
        own = self.estimate.labels[slices[name]] if name in slices else ()
        return [label for label in own if label is not None]

    def _at(self, names: Iterable[str]) -> np.ndarray:
        return np.array([self.estimate.index[name] for name in names], dtype=int)


def _stem(name: str) -> str:
    """`mu[0,1]` → `mu`, `log(pi[0])` → `log(pi)`."""
    head, bracket, tail = name.partition("[")
    return head + tail.partition("]")[2] if bracket else name


def summarize(response: Response) -> Posterior:
    """The posterior with labelled answers."""
    warn_large_correction(response)
    estimate = estimate_of(response)
    certifier = Certifier(response, estimate)
    return Posterior(
        estimate,
        response.fit.convergence,
        local_variables=rows_of(response, estimate.index),
        observed=response.fit.problem.data,
        response=response,
        second_order=partial(refine, response),
        certifier=certifier,
        sensitivity=Sensitivity(response, estimate),
    )


def infer(
    model: Any,
    data: Any = None,
    *,
    init: Any = None,
    tol: float = 1e-8,
    max_iter: int = 200,
    progress: bool = False,
    chunk_size: int | None = None,
    certify: str | bool = "auto",
) -> Posterior:
    """Fit a model and correct its covariances: fit → linearize → respond → summarize.

    `data` is a mapping of equally long columns or a DataFrame, None when the model has no rows.
    `tol` is in linear-response standard deviations; see `fit` for the other arguments. `certify` is
    True, False, or "auto": check the answer against the exact posterior where the rows are few enough
    for that to take about a second, and otherwise by the size of the second order.

    Beyond 3000 global coordinates no matrix of all of them is formed, and the result is a
    `WidePosterior`, which solves for the sds and covariances that are asked for.
    """
    check_certify(certify)
    optimum = fit(
        model,
        data,
        init=init,
        tol=tol,
        max_iter=max_iter,
        progress=progress,
        chunk_size=chunk_size,
    )
    if optimum.wide:
        wide = WidePosterior(optimum)
        if certify is True:
            wide.certify()
        return cast(Posterior, wide)
    posterior = summarize(respond(linearize(optimum)))
    posterior.settle(certify, progress=progress)
    return posterior
