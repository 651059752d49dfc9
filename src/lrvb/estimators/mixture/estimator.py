"""GaussianMixture: a scikit-learn estimator that knows how uncertain its components are."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin

from ...collapsed.partitions import Partitions
from ...data.standardise import measure
from ...data.tables import Rows, refuse_lazy, refuse_masked
from ...engine.curvature import linearize
from ...engine.fitting import Fit, fit
from ...engine.response import respond
from ...engine.second_order import refine
from ...errors import InvalidData, InvalidModel
from ...models.gaussian_mixture import NormalMixture
from ...models.mixture_sweeps import MixturePriors
from ...posterior.certification import Certifier, check_certify
from ...posterior.estimate import estimate_of
from ...posterior.locals import rows_of
from ...posterior.posterior import Posterior
from ...posterior.sensitivity import Sensitivity
from ...posterior.units import Units, in_units
from ...statement.meanfield import MeanField
from ..unfitted import Unfitted
from .components import failure, in_order, tell
from .functions import ComponentFunctions
from .hyperparameters import prior_numbers
from .matrix import checked_matrix, checked_weights, generator, whole_number
from .partitioned import fit_parts
from .parts import in_parts
from .predictions import MixturePredictions
from .priors import standardised_priors
from .questions import MixtureQuestions
from .responsibilities import responsibilities, start_from
from .scaling import (
    Scaling,
    check_directions,
    parameters_on,
    scaling_of,
    unit_program,
)
from .trials import try_starts


class GaussianMixture(
    Unfitted,
    MixturePredictions,
    MixtureQuestions,
    ComponentFunctions,
    DensityMixin,
    BaseEstimator,
):
    """Mixture of K multivariate normals with full covariances, by linear response variational Bayes.

    Attributes and methods are those of scikit-learn's `BayesianGaussianMixture`; `posterior_`
    adds means, sds and covariances of every μ, Λ, log|Λ| and log π. Linear response is local to one
    labelling of the components: that of `init` when it is an array, otherwise by increasing first
    coordinate of the means (ties by the second, and so on).

    Parameters
    ----------
    n_components : int
        Number of components K.
    mean_precision_prior : float
        Prior precision of the means: around the data's centre and in units of each column's
        variance when `wishart_scale_prior` is None, otherwise around zero and in the data's units.
        Zero is flat.
    wishart_dof_prior : float or None
        Prior degrees of freedom of Λ; None means P + 2.
    wishart_scale_prior : float or matrix or None
        Prior scale of Λ (E Λ = dof · scale), a number standing for a multiple of the identity;
        `numpy.inf` is flat; None scales every prior to the data.
    weight_concentration_prior : float
        Dirichlet concentration per component; zero is flat.
    init : str or array
        How starting responsibilities are found ("kmeans", "k-means++", "random" or
        "random_from_data"), or the responsibilities (N, K). 8 to 48 starts by that name,
        more where the table is small (with "kmeans" all but one are "k-means++" and
        "random_from_data"), are tried by a few sweeps on a tenth of the rows, at least 2000, and
        the best of them is fitted.
    n_init : int
        Fits, each from the best of trials of its own; the one with the highest ELBO is kept.
    tol : float
        Longest last Newton step, in linear-response standard deviations.
    max_iter : int
        Iterations at most, of each start.
    random_state : int or RandomState or None
        Seed of the starts and of `sample`.
    verbose : int
        Progress is shown when it is not zero: scikit-learn's name of `progress`.
    warm_start : bool
        Start from the last fit, when it had as many components and columns.
    chunk_size : int or None
        Rows held at a time.
    certify : bool or "auto"
        Check `posterior_` against draws of the exact posterior; "auto" by many where that takes about a
        second or less than three fits, else by few. It is local to one labelling of the components.

    Attributes
    ----------
    posterior_ : lrvb.Posterior
        The quantities `mu`, `Lambda`, `logdet(Lambda)` and `log(pi)`, on the scale of the data.
    weights_, means_, covariances_, precisions_, precisions_cholesky_ : arrays
        E π, E μ, (E Λ)⁻¹, E Λ and the upper triangular U with UUᵀ = E Λ.
    weights_sd_, means_sd_ : arrays
        Linear-response standard deviations of π and μ.
    weight_concentration_, degrees_of_freedom_ : arrays
        Of q(π) and q(Λ), each (K,).
    n_starts_, n_best_ : int
        Starts tried, and how many of the eight of one fit came within a nat of the best of them;
        where only one or two did, a larger `n_init` may find a better optimum.
    elbo_, n_iter_, converged_
        The ELBO of the data as given, iterations, and whether the fit converged.
    lower_bound_ : float
        scikit-learn's name of `elbo_`.

    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        mean_precision_prior: float = 0.01,
        wishart_dof_prior: float | None = None,
        wishart_scale_prior: Any = None,
        weight_concentration_prior: float = 5.0,
        init: Any = "kmeans",
        n_init: int = 1,
        tol: float = 1e-8,
        max_iter: int = 500,
        random_state: Any = None,
        verbose: int = 0,
        warm_start: bool = False,
        chunk_size: int | None = None,
        certify: Any = "auto",
    ):
        self.n_components = n_components
        self.mean_precision_prior = mean_precision_prior
        self.wishart_dof_prior = wishart_dof_prior
        self.wishart_scale_prior = wishart_scale_prior
        self.weight_concentration_prior = weight_concentration_prior
        self.init = init
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose
        self.warm_start = warm_start
        self.chunk_size = chunk_size
        self.certify = certify

    # ---- fitting --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> GaussianMixture:
        """Fit the mixture; `sample_weight` counts each row so many times."""
        K = whole_number("n_components", self.n_components)
        whole_number("n_init", self.n_init)
        check_certify(self.certify)
        refuse_lazy(X)
        refuse_masked("X", X)
        refuse_masked("sample_weight", sample_weight)
        parts = in_parts(X, sample_weight, whole=not isinstance(self.init, str))
        if parts is not None:
            self._fit_parts(parts, K, sample_weight is not None)
            self.posterior_.settle(self.certify)
            return self
        labels = getattr(X, "index", None) if hasattr(X, "iloc") else None
        _require_distinct(getattr(X, "columns", ()))
        X = checked_matrix(self, X, ensure_min_samples=2, order="C")
        weights, counted = None, X
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X)
            counted = X[weights > 0]
        if len(counted) < K:
            what = "rows" if weights is None else "rows with positive sample_weight"
            raise InvalidData(
                f"X has n_samples={len(counted)} {what}, fewer than n_components={K}; use fewer "
                "components."
            )
        names = _column_names(self)
        counts = None if weights is None else weights[weights > 0]
        scaling = scaling_of(measure(counted, counts), names)
        priors = self._priors(scaling)
        Z = scaling.inward(X)
        check_directions(Z, weights, names, priors.flat_scale, stacklevel=3)
        rows = Rows({"x": Z}, labels=labels, weights=weights)
        best = self._best_fit(NormalMixture(K, *priors), rows, scaling, priors)
        if isinstance(self.init, str):
            best = in_order(best)
        tell(best.params(), priors, stacklevel=2)
        total = float(len(Z) if weights is None else weights.sum())
        self._finish(best, scaling, total, observed={"x": X})
        self.posterior_.settle(self.certify, progress=bool(self.verbose))
        return self

    def _priors(self, scaling: Scaling) -> MixturePriors:
        """The arguments' priors in the coordinates of the fit."""
        return standardised_priors(
            scaling,
            self.mean_precision_prior,
            self.wishart_dof_prior,
            self.wishart_scale_prior,
            self.weight_concentration_prior,
        )

    def _fit_parts(self, parts: Partitions, K: int, weighted: bool) -> None:
        """The same for rows in parts."""
        self.__dict__.pop("feature_names_in_", None)
        best, priors, scaling, total = fit_parts(self, parts, K, weighted)
        tell(best.params(), priors, stacklevel=3)
        self._finish(best, scaling, total)

    def _best_fit(
        self, model: NormalMixture, rows: Rows, scaling: Scaling, priors: MixturePriors
    ) -> Fit:
        """The best of the starts: converged before not, then the highest ELBO."""
        best: Fit | None = None
        told: list[Any] = []
        failures: list[Exception] = []
        self.n_starts_ = self.n_best_ = 0
        for starts in self._starts(rows, scaling, priors):
            for start in starts:  # later ones stand in for those that fail
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    try:
                        candidate = self._fit_from(start, model, rows)
                    except InvalidModel as error:
                        unfinished = getattr(error, "fit", None)
                        named = None if unfinished is None else failure(unfinished, priors)
                        failures.append(named or error)
                        continue
                failed = failure(candidate, priors)
                if failed is not None:
                    failures.append(failed)
                    continue
                if best is None or _rank(candidate) > _rank(best):
                    best, told = candidate, caught
                break
        if best is None:
            raise failures[0]
        for warning in told:
            warnings.warn(warning.message, stacklevel=3)
        return best

    def _fit_from(self, start: Any, model: NormalMixture, rows: Rows) -> Fit:
        return fit(
            model,
            rows,
            init=start,
            tol=self.tol,
            max_iter=self.max_iter,
            progress=bool(self.verbose),
            chunk_size=self.chunk_size,
        )

    def _starts(self, rows: Rows, scaling: Scaling, priors: MixturePriors) -> Iterator[list[Any]]:
        """For each of `n_init` fits, usual parameters to start from, the best of many trials first."""
        Z, weights, K = rows.columns["x"], rows.weights, int(self.n_components)
        last = self.__dict__.get("means_")
        if self.warm_start and last is not None and last.shape == (K, Z.shape[1]):
            self.n_starts_ = self.n_best_ = 1
            params = parameters_on(self.posterior_.fit.params(), self._scaling)
            yield [parameters_on(params, scaling.inverse())]
            return
        rng = generator(self.random_state)
        if not isinstance(self.init, str):
            self.n_starts_ = self.n_best_ = 1
            R = responsibilities(Z, K, self.init, weights, rng)
            yield [start_from(Z, R, weights, priors)]
            return
        for _ in range(self.n_init):
            trials = try_starts(Z, K, self.init, weights, priors, rng)
            self.n_starts_ += trials.n_starts
            self.n_best_ = max(self.n_best_, trials.n_best)
            yield trials.starts

    def _finish(
        self, best: Fit, scaling: Scaling, total: float, observed: dict[str, Any] | None = None
    ) -> None:
        response = respond(linearize(best))
        self._scaling = scaling
        params = parameters_on(best.params(), scaling)
        shift = total * np.log(scaling.scale).sum()  # log p(X) = log p(X′) − Σ_n log |∂x/∂x′|
        K, P = params["mu"]["loc"].shape
        units = Units(*map(np.asarray, unit_program(K, P)(scaling.center, scaling.scale)))
        labels = _named(response.alpha, getattr(self, "feature_names_in_", None))
        estimate = in_units(estimate_of(response), units, labels)
        self.posterior_ = Posterior(
            estimate,
            best.convergence.shifted(-shift),
            local_variables=rows_of(response, estimate.index, units.M),
            observed=observed,
            response=response,
            second_order=functools.partial(refine, response, units=units, shift=-shift),
            certifier=Certifier(response, estimate, units, -shift),
            sensitivity=Sensitivity(
                response,
                estimate,
                units,
                functools.partial(prior_numbers, self, scaling),
                volume=-float(np.log(scaling.scale).sum()),
            ),
        )
        self.means_ = params["mu"]["loc"]
        self.precisions_ = params["Lambda"]["dof"][:, None, None] * params["Lambda"]["scale"]
        self.covariances_ = np.linalg.inv(self.precisions_)
        # as scikit-learn's: upper triangular, from the Cholesky factor of the covariance
        root = np.linalg.cholesky(self.covariances_)
        self.precisions_cholesky_ = np.linalg.inv(root).swapaxes(1, 2)
        alpha = params["pi"]["concentration"]
        self.weights_ = alpha / alpha.sum()
        self.weight_concentration_ = alpha
        self.degrees_of_freedom_ = params["Lambda"]["dof"]
        self.elbo_ = self.lower_bound_ = self.posterior_.elbo
        self.n_iter_ = best.n_iter
        self.converged_ = best.converged
        plain = self.posterior_.sd().to_numpy()[: K * P]
        self.means_sd_ = plain.reshape(K, P)

    @property
    def weights_sd_(self) -> np.ndarray:
        """Linear-response standard deviations of the weights, (K,)."""
        return self.component_weights()["sd"].to_numpy()

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit, then the most probable component of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")


# ---- small helpers -------------------------------------------------------------------------


def _rank(candidate: Fit) -> tuple[bool, float]:
    return candidate.converged, candidate.elbo


def _column_names(estimator: Any) -> list[str]:
    """Names of X's columns, their numbers when it had none."""
    names = getattr(estimator, "feature_names_in_", range(estimator.n_features_in_))
    return [str(name) for name in names]


def _require_distinct(columns: Any) -> None:
    names = [str(name) for name in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidData(
            f"X has more than one column '{repeated[0]}'; rename or drop all but one.",
            column=repeated[0],
        )


def _named(alpha: MeanField, names: Any) -> list[str | None] | None:
    """Labels with column names in place of column numbers, when X had names."""
    if names is None:
        return None
    labels: list[str | None] = []
    for block, family in alpha.blocks.items():
        for copy in np.ndindex(*family.batch):
            for slot in family.slots:
                for index in slot.indices():
                    inner = [str(names[i]) if block in ("mu", "Lambda") else str(i) for i in index]
                    where = ",".join([*map(str, copy), *inner])
                    variable = f"{block}[{where}]"
                    labels.append(slot.label.format(variable) if slot.label else None)
    return labels
