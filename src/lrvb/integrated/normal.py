"""What is asked of gaussian rows whose coefficients are integrated given θ, however that is done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .coordinates import LOG, Kind
from .inside import Drawn, Lines
from .penalties import add_precisions
from .regression import Regression
from .terms import SdPrior, Spread, Term, split_by_size


class Moments(NamedTuple):
    """Posterior means and sds: of β (p,), and of each term's coefficients (levels, q).

    with_beta and with_values are each term's covariances with β (levels, q, p) and with other values
    at the draws (levels, q, a); squares Σ_k E zₖzₖᵀ (q, q).
    """

    beta: np.ndarray
    beta_sd: np.ndarray
    levels: tuple[np.ndarray, ...]
    levels_sd: tuple[np.ndarray, ...]
    with_beta: tuple[np.ndarray, ...]
    with_values: tuple[np.ndarray, ...]
    squares: tuple[np.ndarray, ...]


class Normal(ABC):
    """y = Xβ + Σ_t R_t z_t + ε of n rows: θ holds each term's covariance and the log residual sd.

    A flat prior of β is allowed. `scale` is the rows' spread.
    """

    scale: float

    def __init__(self, rows: Regression, terms: Sequence[Term], residual: SdPrior):
        self.rows, self.terms, self.residual = rows, tuple(terms), residual
        self.n = rows.n

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of θ: every term's, the log sds of penalties, then the log residual sd."""
        spread = [kind for term in self.terms for kind in term.kinds]
        return spread + LOG * (len(self.rows.penalties) + 1)

    def start(self) -> np.ndarray:
        """A first θ: the residual and each term with an equal share of the rows' spread."""
        k = len(self.rows.penalties)
        scale = self.scale / np.sqrt(1 + len(self.terms) + k)
        own = np.full(k + 1, np.log(scale))
        return np.concatenate([*(term.start(scale) for term in self.terms), own])

    def penalised(self, theta: np.ndarray) -> np.ndarray:
        """The log sds of penalties at n points, (n, k)."""
        k = len(self.rows.penalties)
        return theta[:, theta.shape[1] - 1 - k : -1]

    def spreads(self, theta: np.ndarray) -> list[Spread]:
        """Each term's Σ at n points."""
        parts = split_by_size(theta[:, :-1], self.terms)
        return [term.spread(part) for term, part in zip(self.terms, parts, strict=True)]

    def log_prior(self, theta: np.ndarray, spreads: Sequence[Spread]) -> np.ndarray:
        """log p(θ) at n points."""
        log_sd = theta[:, -1]
        total = self.residual.log_density(np.exp(log_sd)) + log_sd
        parts = split_by_size(theta[:, :-1], self.terms)
        for term, part, spread in zip(self.terms, parts, spreads, strict=True):
            total = total + term.log_prior(part, spread)
        for penalty, own in zip(self.rows.penalties, self.penalised(theta).T, strict=True):
            total = total + penalty.log_prior(own)
        return total

    def prior_precision(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Precision (n, p, p) of β at n points, and the constant of its log prior (n,)."""
        rows, log_sds = self.rows, self.penalised(theta)
        P = np.repeat(rows.P[None], len(theta), axis=0)
        constant = np.full(len(theta), rows.constant)
        if rows.penalties:
            add_precisions(P, rows.penalties, log_sds)
            for penalty, own in zip(rows.penalties, log_sds.T, strict=True):
                constant += penalty.log_constant(own)
        return P, constant

    @abstractmethod
    def log_density(self, theta: np.ndarray) -> np.ndarray:
        """log p(y, θ) at n points (n, d), (n,); −∞ where it is beyond double precision."""

    @abstractmethod
    def beta(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Conditional means (n, p) and covariances (n, p, p) of β at n points."""

    @abstractmethod
    def moments(
        self, theta: np.ndarray, weights: np.ndarray, values: np.ndarray | None = None
    ) -> Moments:
        """The weighted mixture over θ of all coefficients' conditional means and covariances.

        values (n, a) are whatever else is known at the points.
        """

    @abstractmethod
    def lines(
        self, theta: np.ndarray, X: np.ndarray, codes: Sequence[np.ndarray], R: Sequence[np.ndarray]
    ) -> Iterator[Lines]:
        """η of m new rows given n points: normal, with a single node."""

    @abstractmethod
    def sample(self, theta: np.ndarray, rng: np.random.Generator) -> Drawn:
        """One draw of β and all levels given each of n points and the rows."""
