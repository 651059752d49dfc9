r"""The Gaussian q = N(m, Q⁻¹) nearest to all coefficients c = (β, z) given u.

It maximises the bound E_q log p(y | c) + E_q log p(c | u) + entropy, where Q = CᵀE_q[W]C + P with the rows'
W = −∂²log p/∂η². m moves by Newton's steps, and with it rows' variances v = diag CQ⁻¹Cᵀ, of which E_q[W] is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..mode import NoMode
from .averages import Averages, average
from .layout import Layout
from .precision import Precision

SWEEPS = 80
GAIN = 1e-4  # of the bound by a step at which the means are settled
CHANGE = 1e-3  # Σ (w·change)² of rows' variances at which they are: the bound is off by half of it
LONGEST = 4.0  # change of an η in one step
LEAST = 1e-8  # weight of a row
STEP = 1e-4  # of differences in u of what is known in closed form


@dataclass(frozen=True, eq=False)
class Gaussian:
    """q at dispersions φ: β's mean, levels' means (K, q), rows' means and variances, levels' covariances."""

    phi: list[float]
    beta: np.ndarray
    z: list[np.ndarray] = field(repr=False)
    eta: np.ndarray = field(repr=False)
    v: np.ndarray = field(repr=False)
    rows: Averages = field(repr=False)
    Q: Precision = field(repr=False)
    covariances: list[np.ndarray] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Fitted(Gaussian):
    """q at u, and the bound with log p(u); gradient (k,) is the bound's in u; sweeps is how many it took.

    noise (P,) is what each probe alone would add to the bound, where its log determinant has probes.
    """

    u: np.ndarray
    bound: float
    gradient: np.ndarray
    sweeps: int
    noise: np.ndarray


@dataclass(frozen=True, eq=False)
class Start:
    """Where a fit begins: β, levels, rows' variances."""

    beta: np.ndarray
    z: list[np.ndarray]
    v: np.ndarray


def cold_start(layout: Layout) -> Start:
    """β and levels at their prior means."""
    rows = layout.rows
    z = [np.zeros((f.levels, f.q)) for f in layout.factors]
    return Start(rows.mean.copy(), z, np.zeros(layout.N))


def fit(layout: Layout, u: np.ndarray, start: Start, tilt: np.ndarray | None = None) -> Fitted:
    """q at u (k,); tilt (p,) adds tiltᵀβ to the log density."""
    rows, phi = layout.rows, layout.phi(u)
    precisions = layout.precisions(u)
    tilt = np.zeros(layout.p) if tilt is None else tilt
    beta, z, v = start.beta, start.z, start.v
    eta = layout.predictor(beta, z)
    damp, last, settled = np.ones(layout.N), np.zeros(layout.N), False
    for sweep in range(SWEEPS):
        at = average(rows.likelihood, rows.columns, phi, eta, v)
        Q = Precision(layout, np.maximum(at.information, LEAST), precisions)
        g_beta = rows.X.T @ at.score - rows.P @ (beta - rows.mean) + tilt
        g = [
            by - levels @ Lambda
            for by, levels, Lambda in zip(layout.by_level(at.score), z, precisions, strict=True)
        ]
        step_beta, step = Q.solve(g_beta, g)
        gain = float(g_beta @ step_beta + sum((a * b).sum() for a, b in zip(g, step, strict=True)))
        if not np.isfinite(gain):
            break
        moved = rows.X @ step_beta + layout.through_levels(step)
        fraction = min(1.0, LONGEST / max(float(np.abs(moved).max()), 1e-300))
        beta = beta + fraction * step_beta
        z = [a + fraction * b for a, b in zip(z, step, strict=True)]
        eta = eta + fraction * moved
        if gain > 1.0 and sweep < 4:
            continue  # weights of a start say little of the variances
        new = Q.row_variances()
        change = new - v
        damp = np.where(change * last < 0, damp / 2, np.minimum(1.0, 1.3 * damp))
        settled = gain < GAIN and float(((Q.w * change) ** 2).sum()) < CHANGE
        if settled or sweep == SWEEPS - 1:
            v = new
            break
        v = v + damp * change
        last = change
    if not settled:
        raise NoMode(
            f"The Gaussian block was not found in {SWEEPS} sweeps at the hyperparameters "
            f"{np.array2string(u, precision=3)}.",
            point=u,
        )
    return _finished(layout, u, precisions, tilt, beta, z, v, Q, sweep + 1)


def stated(
    layout: Layout,
    phi: list[float],
    precisions: list[np.ndarray],
    beta: np.ndarray,
    z: list[np.ndarray],
    v: np.ndarray,
) -> Gaussian:
    """q with these means and rows' variances, where they are known to be the best at each factor's Λ."""
    eta = layout.predictor(beta, z)
    at = average(layout.rows.likelihood, layout.rows.columns, phi, eta, v)
    Q = Precision(layout, np.maximum(at.information, LEAST), precisions)
    return Gaussian(phi, beta, z, eta, v, at, Q, covariances(Q))


def covariances(Q: Precision) -> list[np.ndarray]:
    """Of every factor's levels, (K, q, q) each."""
    return [own + Q.through_beta(f) for f, own in enumerate(Q.blocks())]


def _finished(
    layout: Layout,
    u: np.ndarray,
    precisions: list[np.ndarray],
    tilt: np.ndarray,
    beta: np.ndarray,
    z: list[np.ndarray],
    v: np.ndarray,
    Q: Precision,
    sweeps: int,
) -> Fitted:
    """The bound of N(m, Q⁻¹), and its derivatives in u."""
    rows, phi = layout.rows, layout.phi(u)
    eta = layout.predictor(beta, z)
    at = average(rows.likelihood, rows.columns, phi, eta, v)
    spread = covariances(Q)
    away = beta - rows.mean
    value = float(at.value.sum()) + layout.constant + rows.constant + tilt @ beta
    value += layout.p * np.log(2 * np.pi) / 2 - away @ rows.P @ away / 2
    for levels, Lambda in zip(z, precisions, strict=True):
        value += len(levels) * np.linalg.slogdet(Lambda)[1] / 2
        value -= float(((levels @ Lambda) * levels).sum()) / 2
    logdets = Q.logdet()
    value += float(Q.w @ v) / 2 - logdets.mean() / 2
    squares = [levels.T @ levels + C.sum(0) for levels, C in zip(z, spread, strict=True)]
    value += float(layout.log_prior(u[None])[0])
    return Fitted(
        phi,
        beta,
        z,
        eta,
        v,
        at,
        Q,
        spread,
        u,
        value,
        _gradient(layout, u, squares, eta, v),
        sweeps,
        np.zeros_like(logdets) if Q.exact else (logdets.mean() - logdets) / 2,
    )


def _gradient(
    layout: Layout, u: np.ndarray, squares: list[np.ndarray], eta: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """Of the bound in u at a fixed q: of log p(u) + Σ_f ½K log |Λ| − ½ tr ΛE zzᵀ + Σ_n E log p."""

    def known(point: np.ndarray) -> float:
        total = float(layout.log_prior(point[None])[0])
        for factor, Lambda, S in zip(
            layout.factors, layout.precisions(point), squares, strict=True
        ):
            total += factor.levels * np.linalg.slogdet(Lambda)[1] / 2 - (Lambda * S).sum() / 2
        if len(u) > layout.hyper:
            rows = layout.rows
            total += average(rows.likelihood, rows.columns, layout.phi(point), eta, v).value.sum()
        return total

    moves = STEP * np.eye(len(u))
    return np.array([known(u + move) - known(u - move) for move in moves]) / (2 * STEP)
