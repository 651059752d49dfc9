"""What an integration asks of the sums inside it, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from .coordinates import Kind

_NOTHING = 1e-15  # of a probability
_CELLS = 2**16  # points × rows × nodes at a time: what fits a processor's cache


class Evaluated(NamedTuple):
    """Of n points: log density (n,), first and second moments of what was summed out, (n, m) each."""

    value: np.ndarray
    first: np.ndarray
    second: np.ndarray


class Effects(NamedTuple):
    """Posterior means and sds of a term's effects, (levels, q) each; Σ_k E zₖzₖᵀ (q, q)."""

    mean: np.ndarray
    sd: np.ndarray
    square: np.ndarray


class Drawn(NamedTuple):
    """One draw of all coefficients given each of n points: β (n, p), every term's (n, levels, q)."""

    beta: np.ndarray
    effects: tuple[np.ndarray, ...]


class Lines(NamedTuple):
    """η of m rows given the points `at` (k,): nodes (k, m, K) with probabilities, and a normal rest.

    extra (k, m) is the variance of levels that are new, or of all that is normal given the point.
    """

    at: np.ndarray
    eta: np.ndarray
    P: np.ndarray
    extra: np.ndarray


def only_new(
    theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: np.ndarray, p: int
) -> Iterator[Lines] | None:
    """η of rows all of whose levels are new, which need no sums: xᵀβ, and the sum of all variances.

    θ = (β, log sds of each factor, …); R (m, factors) has how often a row has each effect. None where
    some level is known.
    """
    if any((code >= 0).any() for code in codes):
        return None
    return _only_new(theta, X, R, p)


def _only_new(theta: np.ndarray, X: np.ndarray, R: np.ndarray, p: int) -> Iterator[Lines]:
    step = max(1, _CELLS // max(1, len(X)))
    for start in range(0, len(theta), step):
        at = np.arange(start, min(start + step, len(theta)))
        eta = (theta[at, :p] @ X.T)[..., None]
        variance = np.exp(2 * theta[at, p : p + R.shape[1]]) @ (R**2).T
        yield Lines(at, eta, np.ones_like(eta), variance)


def with_effects(
    codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
) -> tuple[list[np.ndarray], np.ndarray]:
    """Codes of rows (m,) of factors with one effect each, −1 where a row is without it; R (m, factors)."""
    r = np.column_stack(list(R))
    return [np.where(r[:, f] == 0, -1, code) for f, code in enumerate(codes)], r


def stacked(found: Iterator[Lines]) -> Iterator[Lines]:
    """Lines of several points at a time, without nodes that no row has a part of.

    Where points have fewer nodes than others, those that lack are their first again, with no probability.
    """
    lot: list[Lines] = []
    cells = 0
    for each in found:
        there = each.P.max((0, 1), initial=0.0) > _NOTHING
        lot.append(each._replace(eta=each.eta[..., there], P=each.P[..., there]))
        cells += lot[-1].P.size
        if cells > _CELLS:
            yield _together(lot)
            lot, cells = [], 0
    if lot:
        yield _together(lot)


def _together(lot: list[Lines]) -> Lines:
    K = max(each.P.shape[2] for each in lot)

    def wide(part: np.ndarray, fill: np.ndarray) -> np.ndarray:
        lacking = np.broadcast_to(fill, (*part.shape[:2], K - part.shape[2]))
        return np.concatenate([part, lacking], axis=2)

    return Lines(
        np.concatenate([each.at for each in lot]),
        np.concatenate([wide(each.eta, each.eta[..., :1]) for each in lot]),
        np.concatenate([wide(each.P, np.zeros(1)) for each in lot]),
        np.concatenate([each.extra for each in lot]),
    )


class Summed(Protocol):
    """A log density of β and hyperparameters, levels summed out: θ = (β, u), u of d − p coordinates."""

    p: int

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ."""

    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points."""

    def derivatives(self, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Value, gradient and Hessian at one point."""


class Evaluable(Summed, Protocol):
    """The same, with moments of what was summed out."""

    def evaluate(self, theta: np.ndarray) -> Evaluated:
        """log p(y, θ) at n points, with the moments of what was summed out."""


class Integrand(Evaluable, Protocol):
    """The same, with what it costs, and nodes."""

    @property
    def work(self) -> float:
        """What one point costs, in evaluations of a row's density."""

    def error(self, theta: np.ndarray) -> np.ndarray:
        """Errors of the sums inside at n points, as sums of squares of logarithms, (n,)."""

    def choose_nodes(self, theta: np.ndarray) -> None:
        """The fewest nodes of the sums inside that suffice at n points."""

    @property
    def fewest(self) -> int:
        """Levels of the smallest factor."""


class Inside(Integrand, Protocol):
    """What an integration over θ asks besides, of the levels too."""

    def start(self) -> np.ndarray:
        """A first θ."""

    def unfold(
        self, theta: np.ndarray, weights: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Effects, ...]:
        """Every term's effects from weighted points and the weighted means of `evaluate`'s moments."""

    def expand(self, values: np.ndarray) -> tuple[np.ndarray, ...]:
        """What is known of `evaluate`'s first moments (m, a), of every term's levels (levels, q, a)."""

    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η = Xβ + Σ R_t z_t of m rows, point by point; a level of −1 is new. Terms as in θ."""

    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """One draw of what was summed out, given each of n points and the rows. Terms as in θ.

        A level without rows is drawn from its prior.
        """
