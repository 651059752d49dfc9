"""Rows' log densities summed within levels, at the nodes of the levels' effects."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple, Protocol

import numpy as np

from ..errors import InvalidModel
from .groups import Groups
from .regression import Regression, lifted

LARGEST = 200.0  # |η| up to which exponentials and products of two are far from overflow


class Plane(NamedTuple):
    """A product grid of pairs of effects: z₁ = first, z₂ = across + along, evenly spaced.

    first and across (n, G, Q) belong to the first axis, along (n, G, Q) to the second.
    """

    first: np.ndarray
    across: np.ndarray
    along: np.ndarray


class RowSums(Protocol):
    """Σ log p(y | η + Rz, φ) over the rows of each of G groups, at n points."""

    def take(self, points: np.ndarray) -> RowSums:
        """At some of the points."""

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""

    def plane(self, plane: Plane) -> np.ndarray:
        """On product grids of two effects, (n, G, Q, Q)."""

    def height(self, z: np.ndarray) -> np.ndarray:
        """At effects (n, G, q), (n, G)."""

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, q) and information (n, G, q, q) at effects (n, G, q)."""


class OneEffect(ABC):
    """Sums that are known along lines only, of one effect a level. See: RowSums."""

    @abstractmethod
    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""

    def plane(self, plane: Plane) -> np.ndarray:
        """Refused: these levels have one effect."""
        raise InvalidModel("Sums along lines were asked for those of two effects a level.")

    def height(self, z: np.ndarray) -> np.ndarray:
        """At effects (n, G, 1), (n, G)."""
        return self.line(z)[..., 0]


class Directly:
    """Any likelihood, row by row. See: RowSums."""

    def __init__(self, rows: Regression, groups: Groups, R: np.ndarray, theta: np.ndarray, k: int):
        """Points θ (n, d) = (β, k coordinates of the effects' covariance, dispersions)."""
        self.rows, self.groups, self.R, self.theta, self.k = rows, groups, R, theta, k
        self.eta = rows.predictor(theta[:, : rows.p])
        self.phi = rows.phi(theta[:, rows.p + k :])
        self.ones = bool(np.all(R == 1))

    def take(self, points: np.ndarray) -> Directly:
        """At some of the points."""
        return Directly(self.rows, self.groups, self.R, self.theta[points], self.k)

    def line(self, Z: np.ndarray) -> np.ndarray:
        """At nodes (n, G, Q) of one effect, (n, G, Q)."""
        # rows last, (n, Q, N): what belongs to rows is then read in long runs
        z, ask = np.ascontiguousarray(Z.swapaxes(1, 2)), self.rows.likelihood
        linear = ask.linear(self.rows.columns) if self.ones else None
        if linear is not None and largest(self.eta) + largest(z) < LARGEST:
            # exp(η + z) = exp(η) exp(z), and what is linear in η + z is known for each group
            e = np.take(np.exp(z), self.groups.of, axis=2)
            e *= np.exp(self.eta)[:, None, :]
            found = ask.rest(self.rows.columns, e, lifted(self.phi, 2))
            result = self.groups.sum(found, axis=2)
            result += self.groups.sum(linear, axis=0) * z
            result += self.groups.sum(linear * self.eta)[:, None, :]
            return np.ascontiguousarray(result.swapaxes(1, 2))
        eta = np.take(z, self.groups.of, axis=2)
        if not self.ones:
            eta *= self.R[:, 0]
        eta += self.eta[:, None, :]
        found = ask.log_p(self.rows.columns, eta, lifted(self.phi, 2))
        return np.ascontiguousarray(self.groups.sum(found, axis=2).swapaxes(1, 2))

    def plane(self, plane: Plane) -> np.ndarray:
        """On product grids of two effects, (n, G, Q, Q)."""
        of, R = self.groups.of, self.R
        first, across, along = plane
        by_first = self.eta[..., None] + R[:, [0]] * first[:, of] + R[:, [1]] * across[:, of]
        eta = by_first[..., None] + (R[:, [1]] * along[:, of])[:, :, None, :]
        tall = tuple(column[:, None, None] for column in self.rows.columns)
        return self.groups.sum(self.rows.likelihood.log_p(tall, eta, lifted(self.phi, 3)))

    def height(self, z: np.ndarray) -> np.ndarray:
        """At effects (n, G, q), (n, G)."""
        eta, phi = self._moved(z), lifted(self.phi, 1)
        return self.groups.sum(self.rows.likelihood.log_p(self.rows.columns, eta, phi))

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient (n, G, q) and information (n, G, q, q) at effects (n, G, q)."""
        eta, phi, R = self._moved(z), lifted(self.phi, 1), self.R
        score, information = self.rows.likelihood.derivatives(self.rows.columns, eta, phi)
        q = R.shape[1]
        gradient = np.stack([self.groups.sum(R[:, i] * score) for i in range(q)], axis=-1)
        H = np.empty((*gradient.shape, q))
        for i in range(q):
            for j in range(i + 1):
                H[..., i, j] = H[..., j, i] = self.groups.sum(R[:, i] * R[:, j] * information)
        return gradient, H

    def _moved(self, z: np.ndarray) -> np.ndarray:
        eta = self.eta
        for i in range(self.R.shape[1]):
            eta = eta + self.R[:, i] * z[:, self.groups.of, i]
        return eta


def largest(x: np.ndarray) -> float:
    """The largest |x|."""
    return float(max(x.max(initial=0.0), -x.min(initial=0.0)))
