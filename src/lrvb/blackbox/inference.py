"""From a log density to a posterior: modes, Gaussians, linear response, HMC, and their verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from tqdm import tqdm

from ..engine.convergence import Convergence
from ..errors import InvalidModel, NotAMaximum
from ..numerics.double import in_double
from ..numerics.pareto import smooth
from ..posterior.axes import Axes
from ..posterior.blocks import RealBlock
from ..posterior.certificate import Certificate, require_whole
from ..posterior.certification import Checked
from ..posterior.estimate import Estimate
from ..posterior.polish import Polish
from ..posterior.posterior import Posterior
from ..posterior.tails import far_indices
from ..posterior.weighted import WeightedDraws
from .axes_response import optimum_along_axes, respond_along_axes
from .density import Density
from .gaussian import (
    ATTEMPTS,
    FullRank,
    FullRankObjective,
    MeanField,
    fit_full_rank,
    fit_mean_field,
    normal_draws,
)
from .kernel import Kernel, Values
from .linear_response import (
    Responded,
    coordinate_covariance,
    finite_values,
    mean_field_curvature,
    optimum_with_curvature,
    respond_full_rank,
    respond_mean_field,
)
from .modes import FEW, Modes, find_modes
from .polish import CHAINS, Polished, polish
from .power import PowerSensitivity
from .propriety import require_proper

MOST = 3000  # named values, whose covariances are one matrix
LARGEST = 1000  # dimensions that have been measured
RANKED = 256  # dimensions to which the Gaussian has a full rank: eight of its draws each
FROM = 3  # modes from which mean field is tried
WITHIN = 30.0  # of the best one's log evidence
RIDGES = 6  # directions of the least curvature along which log p must fall
BROKEN = 0.005  # share of draws of q at which log p is not a number that nothing is built upon


class Fitted(NamedTuple):
    """The Gaussian fits, q of full rank or none beyond `RANKED` dimensions, and what they respond."""

    mean_field: MeanField
    full_rank: FullRank | None
    answer: Responded
    V: np.ndarray
    mean: np.ndarray
    root: np.ndarray  # of a covariance of x, to whiten with
    spread: np.ndarray  # a root of linear response's covariance of x

    @property
    def converged(self) -> bool:
        """Whether the fit that answers is an optimum."""
        best = self.mean_field if self.full_rank is None else self.full_rank
        return best.converged

    @property
    def convergence(self) -> Convergence:
        """The same as every posterior has it."""
        best = self.mean_field if self.full_rank is None else self.full_rank
        reason = "the gradient is zero" if best.converged else "the steps no longer raise the ELBO"
        residual = np.nan if self.full_rank is None else self.full_rank.residual
        return Convergence(
            float(best.elbo),
            np.array([*self.mean_field.trace, *(self.full_rank.trace if self.full_rank else ())]),
            len(self.mean_field.trace) + (self.full_rank.steps if self.full_rank else 0),
            bool(best.converged),
            reason,
            float(residual),
        )


@in_double
def infer(
    density: Density,
    *,
    check: bool = True,
    functions: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Posterior:
    """The posterior of a log density; with `check` HMC polishes it and every quantity has a verdict."""
    require_whole("seed", seed, 0)
    for name, value in {"check": check, "progress": progress}.items():
        if not isinstance(value, bool | np.bool_):
            raise InvalidModel(f"{name}={value!r} must be True or False.")
    begun = time.perf_counter()
    density, absent = _within_reason(density.with_functions(functions))
    kernel, values = Kernel(density), Values(density)
    with tqdm(total=None, desc="lrvb", unit="stage", disable=not progress) as bar:
        modes = find_modes(density, kernel, seed)
        bar.update()
        fitted = _fit(density, kernel, values, modes)
        bar.update()
        x, log_weights = _weights(kernel, fitted)
        estimate = _estimate(values, fitted)
        if not check:
            if fitted.answer.Sigma is None:
                raise NotAMaximum(_NO_RESPONSE)
            x = _response_draws(fitted, seed)
            drawn = WeightedDraws(values(x), *_equal(4096))
            return _posterior(density, estimate, fitted, drawn, x, absent)
        found = polish(kernel, values, fitted.mean, fitted.root, np.random.default_rng(seed), bar)
        if not fitted.converged:
            fitted = _fit_from_draws(kernel, values, fitted, found)
            estimate = _estimate(values, fitted)
            bar.update()
    concern, severe = _concern(kernel, fitted, found)
    details = Polish(
        found.r_hat,
        found.ess,
        found.mean_error,
        found.sd_error,
        modes.differences,
        found.rounds,
        kernel.gradients,
        time.perf_counter() - begun,
        concern,
        severe,
    )
    far = far_indices(lambda x: kernel(x)[0], values, found.x.mean(axis=0), found.x.std(axis=0))
    k_hat = smooth(log_weights)[1]
    log_evidence = float(logsumexp(log_weights) - np.log(len(log_weights)))
    certificate = Certificate(
        estimate,
        found.values,
        found.weights,
        method="hmc",
        exact=True,
        k_hat=k_hat,
        ess=float(found.ess.min(initial=np.inf)),
        log_evidence=log_evidence,
        log_evidence_error=float(np.exp(log_weights - log_weights.max()).std() / np.sqrt(len(x))),
        chains=CHAINS,
        others=_unseen(modes, log_evidence, found),
        polish=details,
        far=far[list(estimate.index.values())],
    )
    drawn = WeightedDraws(found.values, *_equal(len(found.values)))
    return _posterior(density, estimate, fitted, drawn, found.x, absent, certificate)


_NO_RESPONSE = (
    "Linear response does not exist here: the Gaussian fit is not a strict maximum of the ELBO, as on "
    "funnels and ridges. Ask with check=True for HMC's answer, or restate the model (non-centred)."
)


def _fit(density: Density, kernel: Kernel, values: Values, modes: Modes) -> Fitted:
    """Mean field from every good mode, the one of the highest ELBO; full rank from its response."""
    D = kernel.size
    tries = []
    for mode in modes.found[:FROM]:
        if mode.log_evidence > modes.found[0].log_evidence - WITHIN:
            root = np.linalg.cholesky(np.linalg.inv(mode.precision))
            tries.append(fit_mean_field(kernel, mode.x, root))
    scale = np.full(D, 0.1) if not modes.found else modes.found[0].scale
    attempts = 0 if modes.found else ATTEMPTS
    tries.append(fit_mean_field(kernel, modes.slope, np.diag(scale), attempts=attempts))
    q = max(tries, key=lambda found: found.elbo + (1e-3 if found.converged else 0.0))
    require_proper(density, kernel, q.mean, np.diag(q.sd))
    if not np.isfinite(q.elbo):
        raise InvalidModel(
            f"No Gaussian fits {density.source}: near every mode some of its draws have no density. Give "
            "the log density in coordinates without bounds."
        )
    K = mean_field_curvature(kernel, q)
    require_proper(density, kernel, q.mean, np.linalg.eigh(K[:D, :D])[1].T[:RIDGES] * q.sd)
    S = coordinate_covariance(K, np.diag(q.sd))
    root = np.diag(q.sd) if S is None else _root(S)
    return _answered(kernel, values, q, K, q.mean, root)


def _fit_from_draws(kernel: Kernel, values: Values, fitted: Fitted, found: Polished) -> Fitted:
    """The fits begun anew where HMC has been, for those that found no optimum by themselves."""
    mean, root = found.x.mean(axis=0), _root(np.cov(found.x.T).reshape(kernel.size, -1))
    q = fit_mean_field(kernel, mean, root)
    again = _answered(kernel, values, q, mean_field_curvature(kernel, q), mean, root)
    return again if again.converged else fitted


def _answered(
    kernel: Kernel,
    values: Values,
    q: MeanField,
    K: np.ndarray,
    mean: np.ndarray,
    root: np.ndarray,
) -> Fitted:
    """Mean field q with its curvature K, full rank from N(mean, root rootᵀ), and what they respond."""
    D = kernel.size
    V = np.cov(finite_values(values, q.mean + q.sd * normal_draws(2048, D, seed=7)).T)
    V = V.reshape(len(values.names), -1)
    if D > RANKED:
        return Fitted(q, None, respond_mean_field(q, K, values), V, q.mean, root, root)
    objective = FullRankObjective(kernel)
    best = fit_full_rank(objective, mean, root)
    if D <= FEW:
        best, K = optimum_with_curvature(kernel, objective, best)
        answer = respond_full_rank(best, K, values)
    else:
        best, K = optimum_along_axes(kernel, objective, best)
        answer = respond_along_axes(best, K, values)
    S = coordinate_covariance(K, best.L)
    spread = best.L if S is None else _root(S)
    return Fitted(q, best, answer, V, best.mean, best.L, spread)


def _root(S: np.ndarray) -> np.ndarray:
    sd = np.sqrt(np.diag(S))
    return sd[:, None] * np.linalg.cholesky(S / np.outer(sd, sd) + 1e-10 * np.eye(len(S)))


def _weights(kernel: Kernel, fitted: Fitted) -> tuple[np.ndarray, np.ndarray]:
    """Draws of N(mean, root rootᵀ) and their log importance weights."""
    D = kernel.size
    z = normal_draws(1024, D, seed=11)
    value, _ = kernel(fitted.mean + z @ fitted.root.T, watch=True)
    log_q = -0.5 * (z**2).sum(axis=1) - 0.5 * D * np.log(2 * np.pi)
    log_q -= float(np.linalg.slogdet(fitted.root)[1])
    return z, np.maximum(value - log_q, -1e300)


def _response_draws(fitted: Fitted, seed: int) -> np.ndarray:
    """Draws of x, normal with the fit's mean and linear response's covariance."""
    rng = np.random.default_rng(seed)
    return fitted.mean + rng.standard_normal((4096, len(fitted.mean))) @ fitted.spread.T


def _equal(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Equal weights, and nothing that is normal given a draw."""
    return np.full(n, 1 / n), np.zeros((n, 0, 0))


def _estimate(values: Values, fitted: Fitted) -> Estimate:
    blocks = {name: RealBlock(shape) for name, shape in values.shapes.items()}
    answer = fitted.answer
    Sigma = answer.V if answer.Sigma is None else answer.Sigma
    return Estimate.of_blocks(blocks, answer.mean, fitted.V, Sigma)


def _concern(kernel: Kernel, fitted: Fitted, found: Polished) -> tuple[str, bool]:
    """A sentence that withholds trust from everything, and whether it is a "no"."""
    share = kernel.broken / max(kernel.watched, 1)
    if share > BROKEN:
        return (
            f"The log density or its gradient is not a number at {100 * share:.1f} % of the points of "
            "the Gaussian fit.",
            True,
        )
    if fitted.answer.Sigma is None:
        return "Linear response does not exist here, so that nothing stands beside HMC.", False
    if not found.sound:
        return (
            "Averages that should be zero are not, as where a density ends at an edge or has kinks; give "
            "the model in coordinates without bounds.",
            False,
        )
    if not fitted.converged:
        return "The Gaussian fit did not converge.", False
    return "", False


def _unseen(modes: Modes, log_evidence: float, found: Polished) -> float:
    """The share of the evidence that modes have where no draw has been; log_evidence is the draws'."""
    mean, D = found.x.mean(axis=0), found.x.shape[1]
    inverse = np.linalg.pinv(np.cov(found.x.T).reshape(D, D), hermitian=True)
    unseen = [
        mode.log_evidence
        for mode in modes.found
        if (mode.x - mean) @ inverse @ (mode.x - mean) > (np.sqrt(D) + 3) ** 2
    ]
    return float(np.exp(logsumexp(unseen) - logsumexp([log_evidence, *unseen]))) if unseen else 0.0


def _within_reason(density: Density) -> tuple[Density, dict[str, str]]:
    """The density without the largest named arrays, where all together are too many."""
    shapes = density.shapes()
    sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in shapes.items()}
    if density.size > LARGEST:
        raise InvalidModel(
            f"{density.source} has {density.size} unconstrained coordinates; this method is measured to "
            f"{LARGEST}. State its rows as local variables of an lrvb.Model, or use MixedModel."
        )
    absent: dict[str, str] = {}
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if sum(sizes.values()) <= MOST:
            break
        absent[name] = (
            f"'{name}' has {sizes.pop(name)} entries, more than a covariance matrix of {MOST} holds; ask "
            "for some of them with functions={...}."
        )
    if not sizes or 0 in sizes.values():
        empty = next((name for name in sizes if not sizes[name]), None)
        raise InvalidModel(
            f"'{empty}' is empty." if empty else f"{density.source} has no continuous variables."
        )

    def values(x: Any) -> dict[str, Any]:
        found = density.values(x)
        return {name: found[name] for name in sizes_in_order}

    sizes_in_order = [name for name in shapes if name in sizes]
    return replace(density, values=values), absent


def _posterior(
    density: Density,
    estimate: Estimate,
    fitted: Fitted,
    drawn: WeightedDraws,
    x: np.ndarray,
    absent: Mapping[str, str],
    certificate: Certificate | None = None,
) -> Posterior:
    return Posterior(
        estimate,
        fitted.convergence,
        observed=density.observed,
        origin="inferred from a log density",
        weighted=drawn,
        absent=absent,
        checked=Checked(
            certificate, reason="it was asked for with check=False; infer(check=True) checks it"
        ),
        axes=Axes(density.dims, density.coords),
        sensitivity=PowerSensitivity(density, x, drawn.values),
    )
