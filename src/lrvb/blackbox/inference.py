"""From a log density to a posterior: modes, Gaussians, linear response, HMC, and their verdict."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from tqdm import tqdm

from ..errors import InvalidModel, NotAMaximum
from ..numerics.double import in_double
from ..numerics.pareto import smooth
from ..posterior.arguments import require_flag, require_whole
from ..posterior.axes import Axes
from ..posterior.blocks import RealBlock
from ..posterior.certificate import Certificate
from ..posterior.certification import Checked
from ..posterior.estimate import Estimate
from ..posterior.polish import FAR, Polish
from ..posterior.posterior import Posterior
from ..posterior.tails import ends, far_indices, tail_index
from ..posterior.weighted import WeightedDraws
from .density import Density
from .endless import find_endless
from .far_ridges import ridge_tails
from .fits import Fitted, fit, fit_from_draws
from .funnels import Sampled, sample
from .gaussian import normal_draws
from .kernel import Kernel, Values
from .modes import Modes, find_modes
from .necks import off_the_marginal
from .polish import Polished, apart, together
from .power import PowerSensitivity
from .shelves import missed_on_slopes

MOST = 3000  # named values, whose covariances are one matrix
LARGEST = 1000  # dimensions that have been measured
BROKEN = 0.005  # share of draws of q at which log p is not a number that nothing is built upon


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
        require_flag(name, value)
    begun = time.perf_counter()
    density, absent = _within_reason(density.with_functions(functions))
    kernel, values = Kernel(density), Values(density)
    with tqdm(total=None, desc="lrvb", unit="stage", disable=not progress) as bar:
        modes = find_modes(density, kernel, seed)
        bar.update()
        fitted = fit(density, kernel, values, modes)
        bar.update()
        if not check:
            if fitted.answer.Sigma is None:
                raise NotAMaximum(_NO_RESPONSE)
            x = _response_draws(fitted, seed)
            drawn = WeightedDraws(values(x), *_equal(4096))
            return _posterior(density, _estimate(values, fitted), fitted, drawn, x, absent)
        sampled = sample(kernel, values, fitted, np.random.default_rng(seed), bar)
        found = sampled.found
        if not sampled.fitted.converged:
            again = fit_from_draws(kernel, values, found.x)
            if again.converged:
                sampled = sampled._replace(fitted=again, kernel=kernel, values=values)
            bar.update()
    fitted = sampled.fitted
    estimate = _estimate(sampled.values, fitted)
    far = find_endless(kernel, found.x)
    endless = "" if far is None else far.told(density)
    certificate = _certificate(kernel, values, sampled, modes, estimate, found, endless, None)
    if certificate.asks_again:
        run = sampled.chains.again()
        second = apart(found, run.found)
        if (second <= FAR).all():
            found = sampled.brought_back(together(sampled.chains, run))
        certificate = _certificate(kernel, values, sampled, modes, estimate, found, endless, second)
    certificate = _with_tails(certificate, kernel, values, found)
    neck = off_the_marginal(kernel, values, found.x, found.values)
    certificate = certificate.after(neck, kernel.count.gradients, time.perf_counter() - begun)
    drawn = WeightedDraws(found.values, *_equal(len(found.values)))
    return _posterior(density, estimate, fitted, drawn, found.x, absent, certificate)


_NO_RESPONSE = (
    "Linear response does not exist here: the Gaussian fit is not a strict maximum of the ELBO, as on "
    "funnels and ridges. Ask with check=True for HMC's answer, or restate the model (non-centred)."
)


def _certificate(
    kernel: Kernel,
    values: Values,
    sampled: Sampled,
    modes: Modes,
    estimate: Estimate,
    found: Polished,
    endless: str,
    second: np.ndarray | None,
) -> Certificate:
    """What the draws found say of every quantity, and a second run beside them."""
    fitted = sampled.fitted
    concern, severe = _concern(kernel, fitted, found, endless)
    center, sd, spread = found.x.mean(axis=0), found.x.std(axis=0), found.values.std(axis=0)
    ended, shares = ends(values, center, sd, spread), _equal(len(found.values))[0]
    tail = np.array(
        [tail_index(v, shares, end) for v, end in zip(found.values.T, ended, strict=True)]
    )
    details = Polish(
        found.r_hat,
        found.ess,
        found.mean_error,
        found.sd_error,
        modes.differences,
        found.rounds,
        0,
        0.0,
        concern,
        severe,
        second,
        found.slowest,
        bool(concern) and concern == _unanswered(fitted),
        tail=tail[list(estimate.index.values())],
    )
    log_weights = _log_weights(sampled.kernel, fitted)
    far = far_indices(lambda x: kernel(x)[0], values, center, sd, spread)
    log_evidence = float(logsumexp(log_weights) - np.log(len(log_weights)))
    return Certificate(
        estimate,
        found.values,
        found.weights,
        method="hmc",
        exact=True,
        k_hat=smooth(log_weights)[1],
        ess=float(found.ess.min(initial=np.inf)),
        log_evidence=log_evidence,
        log_evidence_error=float(
            np.exp(log_weights - log_weights.max()).std() / np.sqrt(len(log_weights))
        ),
        chains=found.chains,
        others=_unseen(modes, log_evidence, found),
        polish=details,
        far=far[list(estimate.index.values())],
    )


def _with_tails(
    certificate: Certificate, kernel: Kernel, values: Values, found: Polished
) -> Certificate:
    """The same with the tails of marginals, and what draws lack of their squares among the errors of sds."""
    assert certificate.polish is not None
    assert certificate.far is not None
    spread = found.values.std(axis=0)
    tails = ridge_tails(kernel, values, found.x, spread)
    missed = missed_on_slopes(kernel, values, found.x, found.values)
    unseen = np.maximum(tails.unseen(found.values), missed)
    unseen = 0.5 * np.minimum(unseen, 1.0) * spread
    polish = replace(certificate.polish, sd_error=np.maximum(found.sd_error, unseen))
    at = list(certificate.estimate.index.values())
    return replace(certificate, polish=polish, far=np.maximum(certificate.far, tails.indices[at]))


def _log_weights(kernel: Kernel, fitted: Fitted) -> np.ndarray:
    """Log importance weights of draws of N(mean, root rootᵀ)."""
    D = kernel.size
    z = normal_draws(1024, D, seed=11)
    value, _ = kernel(fitted.mean + z @ fitted.root.T, watch=True)
    log_q = -0.5 * (z**2).sum(axis=1) - 0.5 * D * np.log(2 * np.pi)
    log_q -= float(np.linalg.slogdet(fitted.root)[1])
    return np.maximum(value - log_q, -1e300)


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


def _concern(kernel: Kernel, fitted: Fitted, found: Polished, endless: str) -> tuple[str, bool]:
    """A sentence that withholds trust from everything, and whether it is a "no".

    `endless` is the sentence on a posterior without a finite integral.
    """
    if endless:
        return endless, True
    share = kernel.count.broken / max(kernel.count.watched, 1)
    if share > BROKEN:
        return (
            f"The log density or its gradient is not a number at {100 * share:.1f} % of the points of "
            "the Gaussian fit.",
            True,
        )
    if not found.sound:
        return (
            "Averages that should be zero are not, as where a density ends at an edge or has kinks; give "
            "the model in coordinates without bounds.",
            False,
        )
    return _unanswered(fitted), False


def _unanswered(fitted: Fitted) -> str:
    """A sentence where linear response has no answer."""
    if fitted.answer.Sigma is None:
        return "Linear response does not exist here, so that nothing stands beside HMC."
    return "" if fitted.converged else "The Gaussian fit did not converge."


def _unseen(modes: Modes, log_evidence: float, found: Polished) -> float:
    """The share of the evidence that modes have where no draw has been; log_evidence is the draws'.

    Laplace's method may miss most of it, of a mirrored mode as of the draws' own: what it misses of the mode
    nearest to the draws it is taken to miss of the others.
    """
    if not modes.found:
        return 0.0
    mean, D = found.x.mean(axis=0), found.x.shape[1]
    inverse = np.linalg.pinv(np.cov(found.x.T).reshape(D, D), hermitian=True)
    away = np.array([(mode.x - mean) @ inverse @ (mode.x - mean) for mode in modes.found])
    known = np.array([mode.log_evidence for mode in modes.found])
    own = int(np.argmin(away))
    missed = np.where(np.arange(len(known)) == own, 0.0, max(log_evidence - known[own], 0.0))
    unseen = (known + missed)[away > (np.sqrt(D) + 3) ** 2]
    return (
        float(np.exp(logsumexp(unseen) - logsumexp([log_evidence, *unseen])))
        if len(unseen)
        else 0.0
    )


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
