"""GaussianMixture: a scikit-learn estimator that knows how uncertain its components are."""

from __future__ import annotations

import functools
import numbers
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..charts import affine_program, in_units
from ..curvature import linearize
from ..errors import InvalidData, InvalidModel
from ..fitting import Fit, fit
from ..meanfield import MeanField
from ..models.gaussian_mixture import NormalMixture
from ..models.priors import LOG_2PI
from ..posterior import Posterior
from ..response import respond
from ..tables import Rows
from .mixture_functions import ComponentFunctions
from .mixture_priors import Scaling, standardised_priors
from .mixture_starts import responsibilities, start_from


class GaussianMixture(ComponentFunctions, DensityMixin, BaseEstimator):
    """Mixture of K multivariate normals with full covariances, by linear response variational Bayes.

    Attributes and methods are those of scikit-learn's `BayesianGaussianMixture`; `posterior_`
    adds means, sds and covariances of every μ, Λ, log|Λ| and log π. Linear response is local to one
    labelling of the components: that of `init` when it is an array, otherwise by increasing first
    coordinate of the means.

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
    wishart_scale_prior : float, matrix or None
        Prior scale of Λ (E Λ = dof · scale), a number standing for a multiple of the identity;
        `numpy.inf` is flat; None scales every prior to the data.
    weight_concentration_prior : float
        Dirichlet concentration per component; zero is flat.
    init : {"kmeans", "k-means++", "random", "random_from_data"} or array (N, K)
        How starting responsibilities are found, or the responsibilities.
    n_init : int
        Starts tried; the one with the highest ELBO is kept.
    tol : float
        Longest last Newton step, in linear-response standard deviations.
    max_iter, random_state, verbose, warm_start, chunk_size
        Iterations at most; seed; progress (0 or 1); start from the last fit; rows held at a time.
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

    # ---- fitting --------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> GaussianMixture:
        """Fit the mixture; `sample_weight` counts each row so many times."""
        K = _whole("n_components", self.n_components)
        n_init = _whole("n_init", self.n_init)
        X = validate_data(
            self, X, dtype=np.float64, ensure_min_samples=2, ensure_min_features=1, order="C"
        )
        if len(X) < K:
            raise InvalidData(
                f"X has n_samples={len(X)} rows, fewer than n_components={K}; use fewer components."
            )
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        scaling = _scaling(X, weights)
        Z = (X - scaling.center) / scaling.scale
        priors = standardised_priors(
            scaling,
            self.mean_precision_prior,
            self.wishart_dof_prior,
            self.wishart_scale_prior,
            self.weight_concentration_prior,
        )
        model = NormalMixture(K, *priors)
        rows = Rows({"x": Z}, weights=weights)
        rng = check_random_state(self.random_state)
        best: Fit | None = None
        for _ in range(n_init if isinstance(self.init, str) else 1):
            start: Any
            if self.warm_start and getattr(self, "_inner_fit", None) is not None:
                start = self._warm_start(scaling)
            else:
                R = responsibilities(Z, K, self.init, weights, rng)
                start = start_from(Z, R, weights, priors)
            candidate = fit(
                model,
                rows,
                init=start,
                tol=self.tol,
                max_iter=self.max_iter,
                progress=bool(self.verbose),
                chunk_size=self.chunk_size,
            )
            if best is None or candidate.elbo > best.elbo:
                best = candidate
        assert best is not None
        if isinstance(self.init, str):
            best = self._ordered(best, model, rows)
        total = float(len(Z) if weights is None else weights.sum())
        self._finish(best, scaling, total)
        return self

    def _warm_start(self, scaling: Scaling) -> dict[str, Any]:
        """The last fit's parameters on the new scale."""
        return _parameters_on(self.posterior_.fit.params(), _inverse(scaling))

    def _ordered(self, best: Fit, model: NormalMixture, rows: Rows) -> Fit:
        """The same optimum with components by increasing first coordinate of their means."""
        params = best.params()
        order = np.lexsort(params["mu"]["loc"].T[::-1])
        if (order == np.arange(len(order))).all():
            return best
        moved = {block: {k: v[order] for k, v in p.items()} for block, p in params.items()}
        again = fit(model, rows, init=moved, tol=self.tol, chunk_size=self.chunk_size)
        return replace(again, n_iter=best.n_iter, trace=best.trace)

    def _finish(self, best: Fit, scaling: Scaling, total: float) -> None:
        self._inner_fit, self._scaling = best, scaling
        params = _parameters_on(best.params(), scaling)
        shift = total * np.log(scaling.scale).sum()  # log p(X) = log p(X′) − Σ_n log |∂x/∂x′|
        response, chart = in_units(
            respond(linearize(best)),
            _unit_program(*best.alpha.blocks["mu"].batch, len(scaling.center)),
            (scaling.center, scaling.scale),
            params,
        )
        point = replace(response.fit.point, elbo=best.elbo - shift)
        optimum = replace(response.fit, point=point, trace=best.trace - shift)
        response = replace(response, fit=optimum)
        names = getattr(self, "feature_names_in_", None)
        labels = _named(response.alpha, names)
        self.posterior_ = Posterior(response, labels=labels, chart=chart)
        self.means_ = params["mu"]["loc"]
        self.precisions_ = params["Lambda"]["dof"][:, None, None] * params["Lambda"]["scale"]
        self.covariances_ = np.linalg.inv(self.precisions_)
        self.precisions_cholesky_ = np.linalg.cholesky(self.covariances_)
        self.precisions_cholesky_ = np.linalg.inv(self.precisions_cholesky_).swapaxes(1, 2)
        alpha = params["pi"]["concentration"]
        self.weights_ = alpha / alpha.sum()
        self.weight_concentration_ = alpha
        self.degrees_of_freedom_ = params["Lambda"]["dof"]
        self.lower_bound_, self.n_iter_ = response.fit.elbo, best.n_iter
        self.converged_ = best.converged
        K, P = self.means_.shape
        plain = self.posterior_.sd().to_numpy()[: K * P]
        self.means_sd_ = plain.reshape(K, P)

    @property
    def weights_sd_(self) -> np.ndarray:
        """Linear-response standard deviations of the weights, (K,)."""
        return self.component_weights()["sd"].to_numpy()

    # ---- using a fit ----------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """The most probable component of each row."""
        return self._log_responsibilities(X).argmax(axis=1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each component for each row: q(z) given q(μ), q(Λ), q(π)."""
        return softmax(self._log_responsibilities(X), axis=1)

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        """Fit, then the most probable component of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log density of each row under the mixture with the posterior-mean parameters."""
        X = self._checked(X)
        parts = []
        for k in range(len(self.weights_)):
            root = (X - self.means_[k]) @ self.precisions_cholesky_[k]
            logdet = np.log(np.diag(self.precisions_cholesky_[k])).sum()
            parts.append(
                np.log(self.weights_[k])
                + logdet
                - 0.5 * (root**2).sum(1)
                - 0.5 * X.shape[1] * LOG_2PI
            )
        return logsumexp(np.stack(parts, axis=1), axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of the rows."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Rows and their components, drawn from the mixture with the posterior-mean parameters."""
        check_is_fitted(self)
        n = _whole("n_samples", n_samples)
        rng = check_random_state(self.random_state)
        counts = rng.multinomial(n, self.weights_)
        parts = [
            rng.multivariate_normal(mean, cov, int(count))
            for mean, cov, count in zip(self.means_, self.covariances_, counts, strict=True)
        ]
        return np.concatenate(parts), np.repeat(np.arange(len(counts)), counts)

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False)

    def _log_responsibilities(self, X: Any) -> np.ndarray:
        """E_q[log π_k + log N(x | μ_k, Λ_k)] up to a constant in k, (N, K), without cancellation."""
        X = self._checked(X)
        Z = (X - self._scaling.center) / self._scaling.scale
        m, params = self._inner_fit.moments, self._inner_fit.params()
        result = np.empty((len(Z), len(self.weights_)))
        for k in range(result.shape[1]):
            Lambda = np.asarray(m.Lambda.x[k])
            root = np.linalg.cholesky(Lambda)
            distance = (((Z - params["mu"]["loc"][k]) @ root) ** 2).sum(axis=1)
            spread = np.sum(Lambda * params["mu"]["cov"][k])
            offset = float(m.pi.log_x[k]) + 0.5 * float(m.Lambda.logdet_x[k])
            result[:, k] = offset - 0.5 * (distance + spread)
        return result

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")


# ---- scales --------------------------------------------------------------------------------


def _scaling(X: np.ndarray, weights: np.ndarray | None) -> Scaling:
    """Centre and sd of each column; a constant column keeps its unit."""
    center = np.average(X, axis=0, weights=weights)
    scale = np.sqrt(np.average((X - center) ** 2, axis=0, weights=weights))
    magnitude = np.abs(X).max(axis=0)
    constant = scale <= 1e-12 * magnitude
    return Scaling(center, np.where(constant, np.where(magnitude > 0, magnitude, 1.0), scale))


def _inverse(scaling: Scaling) -> Scaling:
    return Scaling(-scaling.center / scaling.scale, 1 / scaling.scale)


def _parameters_on(
    params: dict[str, dict[str, Any]], scaling: Scaling
) -> dict[str, dict[str, Any]]:
    """Usual parameters of x = center + scale · x′ from those of x′."""
    s = scaling.scale
    outer = np.outer(s, s)
    return {
        "mu": {"loc": scaling.center + s * params["mu"]["loc"], "cov": params["mu"]["cov"] * outer},
        "Lambda": {"dof": params["Lambda"]["dof"], "scale": params["Lambda"]["scale"] / outer},
        "pi": dict(params["pi"]),
    }


@functools.lru_cache(maxsize=64)
def _unit_program(K: int, P: int) -> Any:
    """The statistics of (μ, Λ, π) on the scale x = c + s·x′, as an affine map of those of x′."""
    model = NormalMixture(K, np.zeros(P), np.eye(P), P + 2.0, np.eye(P), 1.0)

    def mapping(m: Any, c: Any, s: Any) -> dict[str, Any]:
        mu, Lambda, pi = m.mu, m.Lambda, m.pi
        x = s * mu.x
        cross = x[:, :, None] * c
        xx = mu.xx * s[:, None] * s + cross + cross.swapaxes(1, 2) + c[:, None] * c
        logdet = Lambda.logdet_x - 2 * jnp.log(s).sum()
        return {
            "mu": type(mu)(c + x, xx),
            "Lambda": type(Lambda)(Lambda.x / (s[:, None] * s), logdet),
            "pi": pi,
        }

    return affine_program(MeanField(model.global_blocks(None)), mapping)


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


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise InvalidModel(f"{name}={value!r} must be a whole number, 1 or more.")
    return int(value)
