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


def sd_table(design: Design, response: Response, prob: float) -> pd.DataFrame:
    r"""Mean, sd, mean-field sd and interval of every sd φ = λ^(-½).

    E_q φ = √b Γ(a − ½)/Γ(a), and Var φ = J(Σ̂ − V)Jᵀ + Var_q φ with J = ∂E_q[φ]/∂m: linear response of what
    the sufficient statistics explain of φ, and q's own variance of the rest. Intervals are exp of
    those of log φ = −½ log λ. See: app:function_covariance
    """
    found = spreads(design, response)
    eta = response.fit.eta
    a = np.array([eta[s.log_at] + 1 for s in found])
    b = np.array([-eta[s.at] for s in found])
    mean = np.sqrt(b) * np.exp(gammaln(a - 0.5) - gammaln(a))
    own = b / (a - 1) - mean**2
    slope_a, slope_b = mean * (digamma(a - 0.5) - digamma(a)), mean / (2 * b)
    sd, mfvb_sd = _sds(response, found, slope_a, slope_b, own)
    log_sd, _ = _sds(response, found, polygamma(1, a), -1 / b, polygamma(1, a))
    center = digamma(a) - np.log(b)
    lower, upper = (np.exp(end) for end in normal_ends(-0.5 * center, 0.5 * log_sd, prob))
    names = [s.name for s in found]
    return table(names, mean=mean, sd=sd, mfvb_sd=mfvb_sd, ends=(lower, upper))


def _sds(
    response: Response,
    found: list[Spread],
    slope_a: np.ndarray,
    slope_b: np.ndarray,
    own: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Linear-response and mean-field sds of functions of λ from the slopes of their means in a and b.

    `own` is their variance under q; where q has none (a ≤ 1), what the statistics explain.
    """
    J_eta = np.zeros((len(found), response.alpha.size))
    for k, s in enumerate(found):
        J_eta[k, s.log_at], J_eta[k, s.at] = slope_a[k], -slope_b[k]
    J = in_means(response, J_eta)
    explained = np.einsum("ka,ab,kb->k", J, response.V, J)
    plain = np.where(np.isfinite(own) & (own > explained), own, explained)
    moved = np.einsum("ka,ab,kb->k", J, response.Sigma, J)
    return np.sqrt(moved - explained + plain), np.sqrt(plain)


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
    """The correlations of Λ⁻¹ for every pair, of draws (n, q, q)."""
    Sigma = np.linalg.inv(drawn)
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
