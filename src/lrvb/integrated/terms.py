"""Random-effects terms and their covariances, stated by log sds and Fisher's z of correlations.

z_k ~ N(0, Σ) for every level k of a factor. Where one coefficient is an intercept, Σ is stated in
the basis (1, x − x̄): (u₁ + Σ x̄_j u_j, u₂, …) = Mu, in which posteriors are nearly independent. Of q
coefficients θ holds the q log sds there, then atanh of the q(q − 1)/2 canonical partial correlations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..data.standardise import Measures, measure
from ..errors import InvalidModel
from ..prior import LKJ, Exponential, Gamma, HalfNormal, HalfStudentT, Wishart
from .coordinates import CORRELATION, LOG, Kind

SdPrior = Gamma | HalfStudentT | HalfNormal | Exponential

_STEP = 1e-3  # of differences of Σ⁻¹ in its coordinates: second ones to 1e-6
_SLANT = 6.0  # |atanh ρ| beyond which two effects are as good as one
_ONE, _NONE = 100.0, -200.0  # atanh ρ of ±1 to all digits, log sd of nothing: Σ⁻¹ is a number yet
_SHARE = 7.0  # log of what an sd is on the columns, over what is left of it where x has its mean


class Spread(NamedTuple):
    """Σ of n points: sds (n, q) and correlations (n, q, q) as stated, precision (n, q, q), log |Σ|."""

    sd: np.ndarray
    correlation: np.ndarray
    precision: np.ndarray
    logdet: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """Σ, (n, q, q)."""
        return self.correlation * (self.sd[:, :, None] * self.sd[:, None, :])


@dataclass(frozen=True, eq=False)
class Term:
    """One term: the level of each row (N,), its coefficients' columns R (N, q), and its prior.

    sds are the priors of the q sds, with `correlations` LKJ if q > 1; or one Wishart for all. They are
    on the scale of the columns, or of (1, x − x̄) if `centred`. weights (N,) are how often rows count;
    `columns` are measures of R, where its rows stand for others. θ is of Σ on (1, x − x̄), or on the columns
    themselves if `as_they_are`.
    """

    codes: np.ndarray
    R: np.ndarray
    levels: int
    sds: tuple[SdPrior, ...] | Wishart
    correlations: LKJ | None = None
    centred: bool = False
    weights: np.ndarray | None = None
    columns: Measures | None = None
    as_they_are: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.sds, Wishart):
            return
        if len(self.sds) != self.q or (self.correlations is None) != (self.q == 1):
            raise InvalidModel(
                f"A term with {self.q} coefficients needs {self.q} priors of their sds, and LKJ for "
                "the correlations of more than one; or one Wishart."
            )

    def take(self, rows: np.ndarray) -> Term:
        """The same prior and levels of some rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, codes=self.codes[rows], R=self.R[rows], weights=weights)

    @property
    def q(self) -> int:
        """Coefficients a level."""
        return self.R.shape[1]

    @property
    def kinds(self) -> list[Kind]:
        """Kinds of this term's part of θ."""
        return LOG * self.q + CORRELATION * (self.q * (self.q - 1) // 2)

    @property
    def size(self) -> int:
        """Length of this term's part of θ."""
        return self.q * (self.q + 1) // 2

    @cached_property
    def measures(self) -> Measures:
        """Centre and spread of the columns R."""
        return measure(self.R, self.weights) if self.columns is None else self.columns

    @property
    def ones(self) -> np.ndarray:
        """Which columns of R are 1 in every row."""
        return np.flatnonzero((self.measures.low == 1) & (self.measures.high == 1))

    @cached_property
    def basis(self) -> np.ndarray:
        """M with Mu the coefficients of (1, x − x̄), (q, q); or the identity: no intercept, `as_they_are`."""
        M = np.eye(self.q)
        if len(self.ones) and not self.as_they_are:
            M[self.ones[0]] = self.measures.center
        return M

    @property
    def spiked(self) -> bool:
        r"""Whether the density of θ may have no bound, though that of the sds and correlations has.

        As the intercept's sd s goes to zero, (sds, R) → Σ → θ on (1, x − x̄) has the Jacobian s⁻ᵠ|Σ| ∝ s²⁻ᵠ.
        """
        return self.at_zero and self.q > 2

    @property
    def at_zero(self) -> bool:
        """Whether the priors are of an intercept at x = 0, and θ of one at x̄."""
        stated = isinstance(self.sds, tuple) and not self.centred and not self.as_they_are
        return stated and self.q > 1 and len(self.ones) > 0

    def on(self, rows: np.ndarray, codes: np.ndarray | None = None, levels: int = 0) -> Term:
        """The term on some of the rows, with other levels if asked for, and Σ in the same basis."""
        return replace(
            self,
            codes=self.codes[rows] if codes is None else codes,
            R=self.R[rows],
            levels=self.levels if codes is None else levels,
            weights=None if self.weights is None else self.weights[rows],
            columns=self.measures,
        )

    def start(self, scale: float) -> np.ndarray:
        """A first guess (size,): every coefficient moves rows by about `scale`, uncorrelated."""
        size = self.measures.size
        if len(self.ones):  # the columns are 1 and x − x̄
            other = np.arange(self.q) != self.ones[0]
            size = np.where(other, self.measures.spread, 1.0)
        return np.r_[np.log(scale / size), np.zeros(self.size - self.q)]

    def spread(self, theta: np.ndarray) -> Spread:
        """Σ at n points of this term's part of θ (n, size), on the scale of the user's columns."""
        q = self.q
        log_sd = theta[:, :q]
        if q == 1:
            one = np.ones((len(theta), 1, 1))
            return Spread(np.exp(log_sd), one, np.exp(-2 * log_sd)[..., None], 2 * log_sd[:, 0])
        log_diagonal = partial_root(theta[:, q:], q)[1]
        root, _ = partial_root(np.clip(theta[:, q:], -_ONE, _ONE), q)
        L = np.exp(np.maximum(log_sd, _NONE))[:, :, None] * root
        M = self.basis
        inverse = np.linalg.inv(L) @ M
        T = np.linalg.inv(M) @ L
        sd = np.sqrt((T**2).sum(-1))
        unit = T / sd[:, :, None]
        correlation = unit @ unit.swapaxes(1, 2)
        logdet = 2 * (log_sd.sum(-1) + log_diagonal)
        return Spread(sd, correlation, inverse.swapaxes(1, 2) @ inverse, logdet)

    def regular(self, theta: np.ndarray) -> np.ndarray:
        """θ (n, size) with Σ no nearer to a singular one than sums with Σ⁻¹ on the columns bear.

        ρ on (1, x − x̄) is within ±tanh 6, and an sd there no less than e⁻⁷ of that on the columns, of which
        hardly anything may be left where x has its mean. A level moves by half a hundredth of an sd at most.
        """
        if self.q == 1:
            return theta
        found = theta.copy()
        found[:, self.q :] = np.clip(theta[:, self.q :], -_SLANT, _SLANT)
        least = np.log(self.spread(found).sd) - _SHARE
        found[:, : self.q] = np.maximum(found[:, : self.q], least)
        return found

    def log_prior(self, theta: np.ndarray, spread: Spread) -> np.ndarray:
        """log p(θ) of this term's part at n points, (n,), every Jacobian included."""
        q = self.q
        log_sd, fisher = theta[:, :q], theta[:, q:]
        if self.centred and q > 1:
            assert isinstance(self.sds, tuple)
            assert self.correlations is not None
            root, _ = partial_root(fisher, q)
            columns = np.tril_indices(q, -1)[1]
            value = self.correlations.log_density(root @ root.swapaxes(1, 2)) + log_sd.sum(-1)
            value = value + sum(p.log_density(np.exp(log_sd[:, i])) for i, p in enumerate(self.sds))
            return value + (log_one_minus_square(fisher) * ((q - columns) / 2)).sum(-1)
        if isinstance(self.sds, Wishart):
            value = self.sds.log_density_at(spread.sd, spread.precision, spread.logdet)
        else:
            value = sum(
                prior.log_density(spread.sd[:, i]) for i, prior in enumerate(self.sds)
            ) + np.zeros(len(theta))
            if self.correlations is not None:
                value = value + self.correlations.log_density(spread.correlation)
        if q == 1:
            return value + log_sd[:, 0]
        # (sds, R) → Σ → M Σ Mᵀ (volume kept: |M| = 1) → its sds and R → log sds and Fisher's z
        columns = np.tril_indices(q, -1)[1]
        to_fisher = (log_one_minus_square(fisher) * ((q - columns) / 2)).sum(-1)
        return value - q * np.log(spread.sd).sum(-1) + (q + 1) * log_sd.sum(-1) + to_fisher


def partial_root(fisher: np.ndarray, q: int) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factor of R (n, q, q) and Σ log of its diagonal, from n × q(q − 1)/2 Fisher's z.

    L_ij = ρ_ij Π_{k<j} (1 − ρ_ik²)^½ for j < i, and the same product over all k < i for j = i.
    """
    rho, log_rest = np.tanh(fisher), log_one_minus_square(fisher) / 2
    L = np.zeros((len(fisher), q, q))
    L[:, 0, 0] = 1.0
    log_diagonal = np.zeros(len(fisher))
    at = 0
    for i in range(1, q):
        before = np.zeros(len(fisher))
        for j in range(i):
            L[:, i, j] = rho[:, at] * np.exp(before)
            before = before + log_rest[:, at]
            at += 1
        L[:, i, i] = np.exp(before)
        log_diagonal += before
    return L, log_diagonal


def log_one_minus_square(fisher: np.ndarray) -> np.ndarray:
    """log(1 − tanh² z), without cancellation."""
    distance = np.abs(fisher)
    return 2 * (np.log(2) - distance - np.log1p(np.exp(-2 * distance)))


def split_by_size(theta: np.ndarray, terms: Sequence[Term]) -> list[np.ndarray]:
    """Each term's part of the leading columns of θ (n, …)."""
    ends = np.cumsum([term.size for term in terms])
    return [theta[:, end - term.size : end] for term, end in zip(terms, ends, strict=True)]


def spread_derivatives(
    precision_of: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]],
    u: np.ndarray,
    Z: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """First (G, k, K) and second (G, K, k, k) derivatives in u (k,) of log N(z; 0, Σ(u)) at Z (G, K, q).

    precision_of gives Σ⁻¹ (n, q, q) and log |Σ| (n,) at n points of u.
    """
    k, h, q = len(u), _STEP, Z.shape[2]
    E = h * np.eye(k)
    moves = [np.zeros(k), *E, *-E]
    pairs = [(i, j) for i in range(k) for j in range(i)]
    moves += [side * (E[i] + E[j]) for side in (1, -1) for i, j in pairs]
    precision, logdet = precision_of(u + np.array(moves))
    # log N = −½ log |Σ| − ½ Σ Λ_ij z_i z_j: differences of its coefficients
    entries = [(i, j) for i in range(q) for j in range(i + 1)]
    twice = [1.0 if i == j else 2.0 for i, j in entries]
    parts = [count * precision[:, i, j] for count, (i, j) in zip(twice, entries, strict=True)]
    coefficients = -0.5 * np.column_stack([logdet, *parts])
    middle, up, down = coefficients[0], coefficients[1 : k + 1], coefficients[k + 1 : 2 * k + 1]
    above, below = np.split(coefficients[2 * k + 1 :], 2)
    second = np.zeros((k, k, coefficients.shape[1]))
    for i in range(k):
        second[i, i] = up[i] + down[i] - 2 * middle
    for row, (i, j) in enumerate(pairs):
        mixed = above[row] + below[row] - up[i] - down[i] - up[j] - down[j] + 2 * middle
        second[i, j] = second[j, i] = mixed / 2
    features = np.stack(
        [np.ones(Z.shape[:2]), *(Z[..., i] * Z[..., j] for i, j in entries)], axis=-1
    )
    first = np.einsum("gkf,jf->gjk", features, (up - down) / (2 * h))
    return first, np.einsum("gkf,ijf->gkij", features, second / h**2)
