r"""The Gaussian q = N(m, Q⁻¹) nearest to all coefficients c = (β, z) given u.

It maximises the bound E_q log p(y | c) + E_q log p(c | u) + entropy, where Q = CᵀE_q[W]C + P with the rows'
W = −∂²log p/∂η². m moves by Newton's steps, and with it rows' variances v = diag CQ⁻¹Cᵀ, of which E_q[W] is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..mode import NoMode
from .layout import Layout
from .precision import Precision, Variances
from .rows import Rows, RowsHere

SWEEPS = 80
GAIN = 1e-4  # of the bound by a step at which the means are settled
CHANGE = 1e-3  # Σ (w·change)² of rows' variances at which they are: the bound is off by half of it
LONGEST = 4.0  # change of an η in one step
STEP = 1e-4  # of differences in u of what is known in closed form


@dataclass(frozen=True, eq=False)
class Gaussian:
    """q at dispersions φ: means of β and levels (K, q), the rows under q, levels' covariances (K, q, q)."""

    phi: list[float]
    beta: np.ndarray
    z: list[np.ndarray] = field(repr=False)
    rows: Rows = field(repr=False)
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
    """Where a fit begins: β, levels, rows' variances or what they hang on; they are zero without it."""

    beta: np.ndarray
    z: list[np.ndarray]
    variances: np.ndarray | Variances | None = None


def cold_start(layout: Layout) -> Start:
    """β and levels at their prior means."""
    z = [np.zeros((f.levels, f.q)) for f in layout.factors]
    return Start(layout.rows.mean.copy(), z)


def fit(layout: Layout, u: np.ndarray, start: Start, tilt: np.ndarray | None = None) -> Fitted:
    """q at u (k,); tilt (p,) adds tiltᵀβ to the log density."""
    prior, phi = layout.rows, layout.phi(u)
    precisions = layout.precisions(u)
    tilt = np.zeros(layout.p) if tilt is None else tilt
    beta, z = start.beta, start.z
    rows = layout.begin(beta, z, start.variances)
    widest, settled = rows.widest(), False
    for sweep in range(SWEEPS):
        weighed = rows.weigh(phi, widest)
        Q = Precision(layout, weighed.sums, precisions, rows)
        g_beta = weighed.beta - prior.P @ (beta - prior.mean) + tilt
        g = [
            by - levels @ Lambda
            for by, levels, Lambda in zip(weighed.levels, z, precisions, strict=True)
        ]
        step_beta, step = Q.solve(g_beta, g)
        gain = float(g_beta @ step_beta + sum((a * b).sum() for a, b in zip(g, step, strict=True)))
        if not np.isfinite(gain):
            break
        early = gain > 1.0 and sweep < 4  # weights of a start say little of the variances
        moved = rows.step(step_beta, step, None if early else Q.variances)
        fraction = min(1.0, LONGEST / max(moved.longest, 1e-300))
        beta = beta + fraction * step_beta
        z = [a + fraction * b for a, b in zip(z, step, strict=True)]
        rows.take(fraction)
        if early:
            continue
        settled = gain < GAIN and moved.change < CHANGE
        rows.follow(settled)
        widest = moved.last if settled else moved.next
        if settled:
            break
    if not settled:
        raise NoMode(
            f"The Gaussian block was not found in {SWEEPS} sweeps at the hyperparameters "
            f"{np.array2string(u, precision=3)}.",
            point=u,
        )
    return _finished(layout, u, precisions, tilt, beta, z, rows, widest, Q, sweep + 1)


def stated(
    layout: Layout,
    phi: list[float],
    precisions: list[np.ndarray],
    beta: np.ndarray,
    z: list[np.ndarray],
    v: np.ndarray,
) -> Gaussian:
    """q with these means and rows' variances, where they are known to be the best at each factor's Λ."""
    rows = RowsHere(layout, layout.predictor(beta, z), v)
    Q = Precision(layout, rows.weigh(phi, rows.widest()).sums, precisions, rows)
    return Gaussian(phi, beta, z, rows, Q, covariances(Q))


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
    rows: Rows,
    widest: float,
    Q: Precision,
    sweeps: int,
) -> Fitted:
    """The bound of N(m, Q⁻¹), and its derivatives in u."""
    prior, phi = layout.rows, layout.phi(u)
    moves = STEP * np.eye(len(u))
    of_rows = range(layout.hyper, len(u))
    others = [layout.phi(u + side * moves[j]) for j in of_rows for side in (1, -1)]
    at = rows.finish(phi, widest, others)
    spread = covariances(Q)
    away = beta - prior.mean
    value = at.value + layout.constant + prior.constant + tilt @ beta
    value += layout.p * np.log(2 * np.pi) / 2 - away @ prior.P @ away / 2
    for levels, Lambda in zip(z, precisions, strict=True):
        value += len(levels) * np.linalg.slogdet(Lambda)[1] / 2
        value -= float(((levels @ Lambda) * levels).sum()) / 2
    logdets = Q.logdet()
    value += at.spent / 2 - logdets.mean() / 2
    squares = [levels.T @ levels + C.sum(0) for levels, C in zip(z, spread, strict=True)]
    value += float(layout.log_prior(u[None])[0])
    gradient = _gradient(layout, u, squares)
    up, down = at.others.reshape(-1, 2).T
    gradient[layout.hyper :] += (up - down) / (2 * STEP)
    noise = np.zeros_like(logdets) if Q.exact else (logdets.mean() - logdets) / 2
    return Fitted(phi, beta, z, rows, Q, spread, u, value, gradient, sweeps, noise)


def _gradient(layout: Layout, u: np.ndarray, squares: list[np.ndarray]) -> np.ndarray:
    """Of the bound in u at a fixed q, but for its rows: of log p(u) + Σ_f ½K log |Λ| − ½ tr ΛE zzᵀ."""

    def known(point: np.ndarray) -> float:
        total = float(layout.log_prior(point[None])[0])
        for factor, Lambda, S in zip(
            layout.factors, layout.precisions(point), squares, strict=True
        ):
            total += factor.levels * np.linalg.slogdet(Lambda)[1] / 2 - (Lambda * S).sum() / 2
        return total

    moves = STEP * np.eye(len(u))
    return np.array([known(u + move) - known(u - move) for move in moves]) / (2 * STEP)
