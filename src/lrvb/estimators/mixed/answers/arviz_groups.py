"""A fitted model's joint draws as the groups that ArviZ knows, each an `xarray.Dataset`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import InvalidData
from ....prior import Normal, Wishart
from ..design.design import Design, NewRows
from ..priors.stated import MixedPriors, SpreadPrior
from .joint import JointDraws, labelled, predictors
from .prediction import fitted_rows
from .simulated import given_at, replicated

if TYPE_CHECKING:
    import xarray as xr


def arviz_groups(
    design: Design, priors: MixedPriors, draws: JointDraws, rng: np.random.Generator
) -> dict[str, xr.Dataset]:
    """`posterior`; and where the rows are here what they say: predictive, log likelihood, prior, observed."""
    posterior = labelled(design, draws).expand_dims(chain=[0])
    posterior.attrs.update(inference_library="lrvb", sampling="joint draws")
    groups = {"posterior": posterior}
    try:
        rows = fitted_rows(design)
        n = len(rows.X)
    except InvalidData:  # rows that were never here, or are no longer
        return groups
    coords = {"chain": [0], "draw": np.arange(len(draws)), "row": _labels(rows, n)}
    name = design.formula.response
    dims = ("chain", "draw", "row")

    def dataset(values: np.ndarray) -> xr.Dataset:
        import xarray as xr

        return xr.Dataset({name: (dims, values[None])}, coords=coords)

    import xarray as xr

    groups["posterior_predictive"] = dataset(replicated(design, draws, rows, rng))
    groups["log_likelihood"] = dataset(log_likelihood(design, draws, rows, rng))
    prior = {
        key: (("chain", "draw"), part[None])
        for key, part in log_priors(design, priors, draws).items()
    }
    if prior:
        groups["log_prior"] = xr.Dataset(prior, coords={k: coords[k] for k in ("chain", "draw")})
    groups["observed_data"] = xr.Dataset({name: ("row", design.y)}, coords={"row": coords["row"]})
    return groups


def _labels(rows: NewRows, n: int) -> Any:
    """Row labels, or positions where labels repeat or are tuples."""
    plain = rows.rows.is_unique and rows.rows.nlevels == 1
    return np.asarray(rows.rows) if plain else np.arange(n)


def log_likelihood(
    design: Design, draws: JointDraws, rows: NewRows, rng: np.random.Generator
) -> np.ndarray:
    """log p(y_n | η_n, dispersions) of every row at every draw, (n, N): given the levels' effects."""
    found = np.empty((len(draws), len(rows.X)))
    for here, lot, eta in predictors(design, draws, rows, rng):
        given = given_at(draws, lot.trials)
        found[:, here] = design.family.log_p(design.y[here], eta, given)
    return found


def log_priors(design: Design, priors: MixedPriors, draws: JointDraws) -> dict[str, np.ndarray]:
    """log p of every prior at the draws, (n,): of coefficients, of terms' sds and correlations, of the rest.

    Of sds on their own scale; those of a centred term are sds of the coefficients of (1, x − x̄).
    """
    if not isinstance(priors, MixedPriors):
        return {}
    found: dict[str, np.ndarray] = {}
    for j, name in enumerate(priors.names):
        if np.isfinite(priors.sd[j]):
            z = (draws.beta[:, j] - priors.mean[j]) / priors.sd[j]
            found[name] = -(z**2) / 2 - np.log(priors.sd[j] * np.sqrt(2 * np.pi))
    for term, prior, covariance in zip(design.terms, priors.terms, draws.covariances, strict=True):
        if isinstance(prior, SpreadPrior) and prior.centred and covariance.shape[1] > 1:
            M = _basis(term.R)
            covariance = M @ covariance @ M.T
        sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        correlation = covariance / (sd[:, :, None] * sd[:, None, :])
        if isinstance(prior, Wishart):
            found[term.name] = prior.log_density(sd, correlation)
            continue
        parts = prior.sds if isinstance(prior, SpreadPrior) else (prior,)
        value = sum(part.log_density(sd[:, i]) for i, part in enumerate(parts))
        if isinstance(prior, SpreadPrior) and prior.correlations is not None:
            value = value + prior.correlations.log_density(correlation)
        found[term.name] = np.asarray(value)
    if priors.residual is not None and "residual" in draws.noise:
        found["residual"] = priors.residual.log_density(draws.noise["residual"])
    for name, prior in priors.dispersions:
        if name in draws.noise and hasattr(prior, "log_density") and not isinstance(prior, Normal):
            found[name] = np.asarray(prior.log_density(draws.noise[name]))
    return found


def _basis(R: np.ndarray) -> np.ndarray:
    """M with Mu the coefficients of (1, x − x̄); the identity without an intercept."""
    M = np.eye(R.shape[1])
    constant = np.flatnonzero(np.all(R == 1, axis=0))
    if len(constant):
        M[constant[0]] = R.mean(axis=0)
    return M
