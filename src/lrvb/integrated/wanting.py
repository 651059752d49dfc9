"""What Monte Carlo may leave of a posterior mean and sd, and whether draws leave more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .calibrated import calibrated
from .importance import Refit, Wanting, Weighted, tails_of, tempered
from .proposals import Mixture, Proposal

Values = Callable[[np.ndarray], np.ndarray]  # of points (n, d), (n, q)

MEAN_ERROR, SD_ERROR = 0.05, 0.05  # of a mean in sds, and of an sd, that Monte Carlo may leave
WANTED = 0.02  # of an sd, above which more draws are taken
OUTER = 0.3  # share of the draws from where variances come from
ROUGHLY = 3000  # draws from which on no more are made for rough values alone
TAIL = 0.5  # k̂ of weighted squares, from which the error of an sd is itself not known,
DOUBTED = 0.6  # and from which it is doubted, as k̂ is known to a tenth
_FAR = 300.0  # a logarithm whose square's exponential is a number


def in_variances(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Where the variances of values (n, q) come from: (f − μ)²/σ², averaged over quantities, (n,).

    E f² is best drawn from p f²; under the weights (n,) the mean is 1, or 0 where nothing varies.
    """
    square = (values - weights @ values) ** 2
    variance = weights @ square
    varies = variance > (1e-12 * np.abs(values).max(axis=0)) ** 2  # beyond rounding of a constant
    return (square[:, varies] / variance[varies]).sum(1) / max(int(varies.sum()), 1)


def for_squares(fit: Refit, values: Values) -> Refit:
    """As `fit`, with a share of the draws from where the variances of values (n, q) come from."""

    def both(x: np.ndarray, weights: np.ndarray) -> Proposal:
        keep = weights > 0
        w = weights[keep]
        with np.errstate(divide="ignore"):
            log_w = np.log(w * in_variances(values(x[keep]), w))
        if not np.isfinite(log_w).any():
            return fit(x, weights)
        outer = fit(x[keep], tempered(log_w, 6 * x.shape[1]))
        return Mixture((fit(x, weights), outer), np.array([1 - OUTER, OUTER]))

    return both


def uncertain(
    values: Values, sparing: bool = False, rough: Values | None = None, doubted: bool = False
) -> Wanting:
    """More draws where weights are unreliable, or Monte Carlo's errors of values of x (n, a) too large.

    Errors that are `doubted` are too large to be trusted, not only larger than wanted.
    What is given back has log factors of the weights, whose mean under these is 1.
    Where few draws decide an sd, half of those to come are wanted where its variance is. With `sparing`
    errors are those of calibrated draws, and so it is with every sd that is uncertain: n draws from
    ½p(1 + (f − μ)²/σ²) leave an error of σ/√n or less, however long the tail of f. Of `rough` values
    no smaller errors are asked than verdicts ask, and for them alone hardly more than `ROUGHLY` draws.
    """
    wanted, far = (SD_ERROR, DOUBTED) if doubted else (WANTED, TAIL)

    def wanting(found: Weighted) -> np.ndarray | None:
        v, judged = values(found.x), calibrated(found) if sparing else found
        most = np.full(v.shape[1], wanted)
        if rough is not None and len(v) < ROUGHLY:
            more = rough(found.x)
            v, most = np.column_stack([v, more]), np.r_[most, np.full(more.shape[1], SD_ERROR)]
        square = (v - found.mean(v)) ** 2
        long = tails_of(found.raw, square) >= far
        sd = np.sqrt(np.maximum(judged.sd(v) ** 2, 1e-300))
        unsure = judged.sd_error(v) > most * sd
        if long.any() or (sparing and unsure.any()):
            few = long if long.any() else unsure
            return np.log1p(in_variances(v[:, few], found.weights)) - np.log(2)
        poor = not found.k_hat < 0.7 or (judged.mean_error(v) > MEAN_ERROR * sd).any()
        return np.zeros(len(v)) if poor or unsure.any() else None

    return wanting


def in_sds(theta: np.ndarray, log: np.ndarray) -> np.ndarray:
    """θ with sds instead of their logarithms, which `log` (d,) marks; their squares are numbers too."""
    values = theta.copy()
    values[:, log] = np.exp(np.minimum(theta[:, log], _FAR))
    return values
