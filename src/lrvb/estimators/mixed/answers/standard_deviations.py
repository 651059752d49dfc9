r"""Standard deviations of random effects and of the residual, and correlations, from the precisions.

The sd of a coefficient is λ^(-½), where λ is its precision or, in a correlated term, 1/(Λ⁻¹)_ii. In both
cases λ ~ Gamma(a, b) under q: a Gamma's own shape and rate, or a = (ν − q + 1)/2 and b = (W⁻¹)_ii/2 of a
Wishart(ν, W). In natural parameters both are a = η_log + 1 and b = −η_ii.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import digamma, gammaln, polygamma

from ....engine.functions import in_means
from ....engine.response import Response
from ....families import Gamma, Wishart
from ....numerics.double import in_double
from ....posterior.blocks import DerivedBlock, Support
from ....posterior.estimate import Estimate
from ....posterior.intervals import normal_ends
from ....posterior.posterior import Posterior
from ....posterior.table import table
from ..design.design import Design
from ..fit.precision_model import RESIDUAL, block_name

DRAWS = 20_000  # of which correlations are summarised: their sd to half a per cent
SEED = 0


class Spread(NamedTuple):
    """A scalar precision λ: the name of its sd, flat coordinates of η_ii and of η_log."""

    name: str
    at: int
    log_at: int


def spreads(design: Design, response: Response) -> list[Spread]:
    """Every coefficient's precision, term by term, then the residual's."""
    alpha, found = response.alpha, []
    for term in design.terms:
        q = len(term.coefficients)
        block = block_name(term.name, q)
        start, family = alpha.slices[block].start, alpha.blocks[block]
        pairs = family.slots[0].indices() if q > 1 else [(0, 0)]
        for k, (i, j) in enumerate(pairs):
            if i == j:
                name = f"sd[{term.coefficients[i]}|{term.group}]"
                found.append(Spread(name, start + k, start + len(pairs)))
    if RESIDUAL in alpha.blocks:
        start = alpha.slices[RESIDUAL].start
        found.append(Spread("sd[residual]", start, start + 1))
    return found


class Derived(NamedTuple):
    """Functions φ of the precisions: names, means, sds, mean-field sds, and slopes ∂E_q[φ]/∂m (k, a)."""

    names: list[str]
    mean: np.ndarray
    sd: np.ndarray
    mfvb_sd: np.ndarray
    J: np.ndarray


def derived_sds(design: Design, response: Response) -> Derived:
    r"""Every sd φ = λ^(-½).

    E_q φ = √b Γ(a − ½)/Γ(a), and Var φ = J(Σ̂ − V)Jᵀ + Var_q φ with J = ∂E_q[φ]/∂m: linear response of what
    the sufficient statistics explain of φ, and q's own variance of the rest. See: app:function_covariance
    """
    found = spreads(design, response)
    a, b = _shapes(response, found)
    mean = np.sqrt(b) * np.exp(gammaln(a - 0.5) - gammaln(a))
    own = b / (a - 1) - mean**2
    J = _slopes(response, found, mean * (digamma(a - 0.5) - digamma(a)), mean / (2 * b))
    return Derived([s.name for s in found], mean, *_sds(response, J, own), J)


def sd_table(design: Design, response: Response, prob: float) -> pd.DataFrame:
    """`derived_sds` with intervals, which are exp of those of log φ = −½ log λ."""
    sds, found = derived_sds(design, response), spreads(design, response)
    a, b = _shapes(response, found)
    J = _slopes(response, found, polygamma(1, a), -1 / b)
    log_sd, _ = _sds(response, J, polygamma(1, a))
    center = digamma(a) - np.log(b)
    lower, upper = (np.exp(end) for end in normal_ends(-0.5 * center, 0.5 * log_sd, prob))
    return table(sds.names, mean=sds.mean, sd=sds.sd, mfvb_sd=sds.mfvb_sd, ends=(lower, upper))


def _shapes(response: Response, found: list[Spread]) -> tuple[np.ndarray, np.ndarray]:
    """Shapes a and rates b of the precisions under q."""
    eta = response.fit.eta
    return np.array([eta[s.log_at] + 1 for s in found]), np.array([-eta[s.at] for s in found])


def _slopes(
    response: Response, found: list[Spread], slope_a: np.ndarray, slope_b: np.ndarray
) -> np.ndarray:
    """Slopes in m (k, a) of functions of λ from those in a and b."""
    J_eta = np.zeros((len(found), response.alpha.size))
    for k, s in enumerate(found):
        J_eta[k, s.log_at], J_eta[k, s.at] = slope_a[k], -slope_b[k]
    return in_means(response, J_eta)


def _sds(response: Response, J: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Linear-response and mean-field sds of functions of λ with slopes J.

    `own` is their variance under q; where q has none (a ≤ 1), what the statistics explain.
    """
    explained = np.einsum("ka,ab,kb->k", J, response.V, J)
    plain = np.where(np.isfinite(own) & (own > explained), own, explained)
    moved = np.einsum("ka,ab,kb->k", J, response.Sigma, J)
    return np.sqrt(moved - explained + plain), np.sqrt(plain)


def derived_correlations(design: Design, posterior: Posterior) -> Derived:
    """Correlations as `correlation_table` has them; slopes Cov_q(φ, T)V⁻¹ from draws of q."""
    response = posterior.response
    rows = correlation_table(design, posterior, 0.94)
    J = np.zeros((len(rows), response.alpha.size))
    k = 0
    for term in design.terms:
        q = len(term.coefficients)
        if q == 1:
            continue
        block = block_name(term.name, q)
        here, drawn = response.alpha.slices[block], _of_q(response, block)
        i, j = np.triu_indices(q)
        T = np.column_stack([drawn[:, i, j], np.linalg.slogdet(drawn)[1]])
        V = np.cov(T.T)
        for _, _, values in _correlations(drawn):
            slope = (T - T.mean(0)).T @ (values - values.mean()) / (len(T) - 1)
            J[k, here] = np.linalg.solve(V, slope)
            k += 1
    names = [str(name) for name in rows.index]
    mean, sd, mfvb_sd = (rows[c].to_numpy() for c in ("mean", "sd", "mfvb_sd"))
    # what the statistics explain of a bounded function is no more than its sd
    for S, whole in ((response.V, mfvb_sd), (response.Sigma, sd)):
        explained = np.sqrt(np.einsum("ka,ab,kb->k", J, S, J))
        J = J * np.minimum(1.0, whole / np.maximum(explained, 1e-300))[:, None]
    return Derived(names, mean, sd, mfvb_sd, J)


def with_derived(estimate: Estimate, parts: list[Derived]) -> Estimate:
    """The estimate of β and the precisions, the last coordinates, with functions of them beside."""
    parts = [part for part in parts if part.names]
    if not parts:
        return estimate
    size = len(estimate.m)
    J = np.concatenate([part.J for part in parts])
    J = np.hstack([np.zeros((len(J), size - J.shape[1])), J])
    sd, mfvb_sd = (np.concatenate([getattr(part, k) for part in parts]) for k in ("sd", "mfvb_sd"))
    names = [name for part in parts for name in part.names]
    positive = [Support("positive" if name.startswith("sd[") else "real") for name in names]
    return Estimate(
        {**estimate.blocks, **{name: DerivedBlock(()) for name in names}},
        np.concatenate([estimate.m, *(part.mean for part in parts)]),
        _bordered(estimate.V, J, mfvb_sd),
        _bordered(estimate.Sigma, J, sd),
        (*estimate.labels, *names),
        (*estimate.supports, *positive),
    )


def _bordered(S: np.ndarray, J: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """S with JS beside it and JSJᵀ in the corner, whose diagonal is sd²."""
    corner = J @ S @ J.T
    np.fill_diagonal(corner, sd**2)
    return np.block([[S, S @ J.T], [J @ S, corner]])


def correlation_table(design: Design, posterior: Posterior, prob: float) -> pd.DataFrame:
    """Correlations within each correlated term, from draws of Λ with a fixed seed.

    Mean, sd and interval are those of the posterior's draws (`Posterior.draws`, with the
    linear-response covariance), mfvb_sd that of draws of q itself.
    """
    ends = [(1 - prob) / 2, (1 + prob) / 2]
    names, rows = [], []
    correlated = [term for term in design.terms if len(term.coefficients) > 1]
    if correlated:
        drawn = posterior.draws(DRAWS, SEED)
    for term in correlated:
        block = block_name(term.name, len(term.coefficients))
        ours, plain = drawn[block], _of_q(posterior.response, block)
        for (i, j, values), (_, _, alone) in zip(
            _correlations(ours), _correlations(plain), strict=True
        ):
            name = f"corr[{term.name}][{term.coefficients[i]},{term.coefficients[j]}]"
            names.append(name)
            rows.append([values.mean(), values.std(), alone.std(), *np.quantile(values, ends)])
    mean, sd, mfvb_sd, lower, upper = np.reshape(rows, (-1, 5)).T
    return table(names, mean=mean, sd=sd, mfvb_sd=mfvb_sd, ends=(lower, upper))


@in_double
def _of_q(response: Response, block: str) -> np.ndarray:
    """Draws of Λ under q, (n, q, q)."""
    alpha = response.alpha
    family = alpha.blocks[block]
    eta = family.unflatten(response.fit.eta[alpha.slices[block]], natural=True)
    natural = type(eta)(*(np.asarray(part) for part in eta))
    return family.sample(natural, np.random.default_rng(SEED), DRAWS)


def _correlations(drawn: np.ndarray) -> Iterator[tuple[int, int, np.ndarray]]:
    """The correlations of Λ⁻¹ for every pair, of draws (n, q, q).

    They do not depend on the scale of Λ's diagonal. A least eigenvalue below rounding gives the
    correlations of its eigenvector whatever it is, so that no draw is too nearly singular.
    """
    scale = np.sqrt(np.diagonal(drawn, axis1=1, axis2=2))
    eigenvalues, Q = np.linalg.eigh(drawn / (scale[:, :, None] * scale[:, None, :]))
    known = np.maximum(eigenvalues, np.finfo(float).eps)
    Sigma = (Q / known[:, None, :]) @ np.swapaxes(Q, 1, 2)
    sd = np.sqrt(np.diagonal(Sigma, axis1=1, axis2=2))
    for i, j in zip(*np.triu_indices(sd.shape[1], 1), strict=True):
        yield int(i), int(j), Sigma[:, i, j] / (sd[:, i] * sd[:, j])


def inverse_mean(response: Response, block: str) -> np.ndarray:
    """E_q Λ⁻¹ of a block, (q, q): rate/(shape − 1) or W⁻¹/(ν − q − 1); infinite where q has none."""
    alpha = response.alpha
    family = alpha.blocks[block]
    eta = response.fit.eta[alpha.slices[block]]
    if isinstance(family, Gamma):
        matrix, excess = np.array([[-eta[0]]]), eta[1]  # rate, shape − 1
    else:
        assert isinstance(family, Wishart)
        matrix = -np.asarray(family.unflatten(eta, natural=True).x)  # ½W⁻¹
        excess = eta[-1]  # (ν − q − 1)/2
    return matrix / excess if excess > 0 else np.full(matrix.shape, np.inf)
