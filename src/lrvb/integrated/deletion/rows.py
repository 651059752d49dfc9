"""Single rows left out, whatever is summed out: from the nodes or the normal law of each row's η.

log p(y_i | y_−i, θ) = −log E[1 / p(y_i | η_i)] over η_i given y and θ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..inside import Inside, Lines
from ..normal import Normal
from ..regression import Regression, lifted
from ..terms import Term
from .blocks import Blocks

_LOG_2PI = float(np.log(2 * np.pi))


def log_rows(rows: Regression, at: np.ndarray, eta: np.ndarray, tail: np.ndarray) -> np.ndarray:
    """log p(y | η, φ) of rows `at` (m,) at η (k, m, K) without offset, and k points' dispersions."""
    columns = tuple(column[at][:, None] for column in rows.columns)
    with np.errstate(over="ignore"):
        phi = lifted(rows.phi(tail), 2)
        found = rows.likelihood.log_p(columns, eta + rows.offset[at][:, None], phi)
    constants = rows.likelihood.constants(tuple(column[at] for column in rows.columns))
    result: np.ndarray = found + constants[:, None]
    return result


def tail_of(inside: Inside, terms: Sequence[Term], theta: np.ndarray) -> np.ndarray:
    """The dispersions' part of θ, (n, k)."""
    return theta[:, inside.p + sum(term.size for term in terms) :]


def without_rows(
    inside: Inside, rows: Regression, terms: Sequence[Term], theta: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """log p(y_i | y_−i, θ) of rows `at` (m,) at n points, (n, m)."""
    value = np.empty((len(theta), len(at)))
    for found in _lines(inside, rows, terms, theta, at):
        log_p = log_rows(rows, at, found.eta, tail_of(inside, terms, theta[found.at]))
        top = np.where(found.P > 0, -log_p, -np.inf).max(2)
        mean = (found.P * np.exp(np.minimum(-log_p - top[..., None], 0.0))).sum(2)
        value[found.at] = -(top + np.log(mean))
    return value


def counted_rows(
    inside: Inside, rows: Regression, terms: Sequence[Term], theta: np.ndarray, at: np.ndarray
) -> np.ndarray:
    """E[log p(y_i | η_i)] over η_i given y and θ, of rows `at` (m,) at n points, (n, m).

    That is the slope of log p(y | θ) in how often the row counts.
    """
    value = np.empty((len(theta), len(at)))
    for found in _lines(inside, rows, terms, theta, at):
        log_p = log_rows(rows, at, found.eta, tail_of(inside, terms, theta[found.at]))
        value[found.at] = (found.P * np.where(found.P > 0, log_p, 0.0)).sum(2)
    return value


def given_levels(
    inside: Normal | Inside,
    rows: Regression,
    terms: Sequence[Term],
    theta: np.ndarray,
    at: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """log p(y_i | η_i, θ) of rows `at` (m,) with one η_i drawn at each of n points, (n, m)."""
    value = np.empty((len(theta), len(at)))
    for found in _lines(inside, rows, terms, theta, at):
        if isinstance(inside, Normal):
            mean = found.eta[..., 0] + rows.offset[at]
            eta = mean + np.sqrt(found.extra) * rng.standard_normal(mean.shape)
            log_sd = theta[found.at, -1:]
            away = (rows.columns[0][at] - eta) * np.exp(-log_sd)
            value[found.at] = -(away**2) / 2 - log_sd - _LOG_2PI / 2
            continue
        below = np.cumsum(found.P, axis=2)
        drawn = (below < rng.uniform(size=below.shape[:2])[..., None] * below[..., -1:]).sum(2)
        eta = np.take_along_axis(found.eta, drawn[..., None], axis=2)
        tail = tail_of(inside, terms, theta[found.at])
        value[found.at] = log_rows(rows, at, eta, tail)[..., 0]
    return value


def _lines(
    inside: Normal | Inside,
    rows: Regression,
    terms: Sequence[Term],
    theta: np.ndarray,
    at: np.ndarray,
) -> Iterator[Lines]:
    codes, R = [term.codes[at] for term in terms], [term.R[at] for term in terms]
    return inside.lines(theta, rows.X[at], codes, R)


def without_normal_rows(
    inside: Normal, theta: np.ndarray, blocks: Blocks, moved: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """log p(y_i | y_−i, θ) of gaussian rows (n, m), and the change of E[β | θ] (n, m, p) if asked for.

    With e the residual, s² the variance of η_i given all rows, and v = σ² − s²: ½ log(v/2πσ⁴) − ½e²/v, and
    −Cov(β, η_i) e/v; of a row that counts w times v = σ²/w − s².
    """
    e, s2, tau, w = _residuals(inside, theta, blocks.rows)
    left = np.maximum(1 / (w * tau) - s2, 1e-300)  # a row that alone knows its own effect
    value = np.log(left * w * tau) / 2 + w * (np.log(tau) - _LOG_2PI) / 2 - e**2 / (2 * left)
    if not moved:
        return value, None
    return value, -_covariances(inside, theta, blocks.rows, s2) * (e / left)[..., None]


def counted_normal_rows(
    inside: Normal, theta: np.ndarray, blocks: Blocks, moved: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """E[log p(y_i | η_i)] of gaussian rows (n, m), and −∂E[β | θ]/∂w (n, m, p) if asked for.

    w (log(τ/2π) − τ(e² + s²))/2, and −Cov(β, η_i) wτe, with the letters of `without_normal_rows`.
    """
    e, s2, tau, w = _residuals(inside, theta, blocks.rows)
    value = w * (np.log(tau) - _LOG_2PI - tau * (e**2 + s2)) / 2
    if not moved:
        return value, None
    return value, -_covariances(inside, theta, blocks.rows, s2) * (w * tau * e)[..., None]


class _Residuals(NamedTuple):
    """Of m rows at n points: y − E η and Var η (n, m), the residual precision (n, 1), and weights (m,)."""

    e: np.ndarray
    s2: np.ndarray
    tau: np.ndarray
    w: np.ndarray


def _residuals(inside: Normal, theta: np.ndarray, at: np.ndarray) -> _Residuals:
    rows = inside.rows
    e, s2 = np.empty((len(theta), len(at))), np.empty((len(theta), len(at)))
    for found in _lines(inside, rows, inside.terms, theta, at):
        e[found.at] = rows.columns[0][at] - rows.offset[at] - found.eta[..., 0]
        s2[found.at] = found.extra
    w = np.ones(len(at)) if rows.weights is None else rows.weights[at]
    return _Residuals(e, s2, np.exp(-2 * theta[:, -1:]), w)


def _covariances(inside: Normal, theta: np.ndarray, at: np.ndarray, s2: np.ndarray) -> np.ndarray:
    """Cov(β, η_i) given θ, (n, m, p), from variances of η_i + β_j."""
    codes, R = [term.codes[at] for term in inside.terms], [term.R[at] for term in inside.terms]
    found = np.empty((*s2.shape, inside.rows.p))
    _, within = inside.beta(theta)
    for j in range(inside.rows.p):
        beside = inside.rows.X[at].copy()
        beside[:, j] += 1.0
        for line in inside.lines(theta, beside, codes, R):
            both = line.extra - s2[line.at] - within[line.at, j, j][:, None]
            found[line.at, :, j] = both / 2
    return found
