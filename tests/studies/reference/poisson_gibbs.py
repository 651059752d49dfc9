"""A plain sampler for Poisson mixed models, as a check on faster ones."""

import itertools

import numpy as np
from scipy.stats import wishart

FIXED_PRECISION = 1 / 25  # β ~ N(0, 5²)
SHAPE, RATE = 2.0, 1.0  # precisions ~ Gamma(2, 1); a pair's Λ ~ Wishart(4, I/4)


def draw_pair_precision(rng, z):
    """Λ given the effects z (levels, 2) under Wishart(4, I/4)."""
    return wishart.rvs(4 + len(z), np.linalg.inv(4 * np.eye(2) + z.T @ z), random_state=rng)


class PoissonGibbs:
    """Metropolis within Gibbs for counts whose effects are nested in one another.

    β stands above the first term, which stands above the second, and so on. Every term has the
    columns R (N, q) of the intercept alone or of intercept and x. A sweep moves
    each level's z by a random walk, β likewise, then shifts each level of a term against the
    levels nested in it, which leaves the linear predictor as it is and has a Gaussian conditional.
    """

    def __init__(self, rng, y, x, codes, q):
        self.rng, self.y, self.q, self.codes = rng, y, q, codes
        X = np.column_stack([np.ones_like(x), x])
        self.X, self.R = X, X[:, :q]
        self.levels = [code.max() + 1 for code in codes]
        self.beta = np.array([np.log(y.mean()), 0.0])
        self.z = [np.zeros((G, q)) for G in self.levels]
        self.Lambda = [np.eye(q) for _ in codes]
        self.parents = [np.zeros(self.levels[0], int)]
        for above, below in itertools.pairwise(codes):
            parent = np.zeros(below.max() + 1, int)
            parent[below] = above
            self.parents.append(parent)
        weighted = (y + 0.5)[:, None, None] * self.R[:, :, None] * self.R[:, None, :]
        self.steps = []
        for code, G in zip(codes, self.levels, strict=True):
            Q = 3 * np.eye(q) + sum_by(code, weighted, G)
            self.steps.append(2.4 / np.sqrt(q) * np.linalg.cholesky(np.linalg.inv(Q)))
        self.beta_step = 1.5 * np.linalg.cholesky(np.linalg.inv((X * (y + 0.5)[:, None]).T @ X))
        self.eta = X @ self.beta

    def sweep(self):
        """One pass over everything."""
        for k in range(len(self.z)):
            self.walk(k)
            self.shift(k)
            self.draw_precision(k)
        proposal = self.beta + self.beta_step @ self.rng.standard_normal(2)
        eta = self.eta + self.X @ (proposal - self.beta)
        gain = self.rows(eta).sum() - self.rows(self.eta).sum()
        gain -= FIXED_PRECISION * (proposal @ proposal - self.beta @ self.beta) / 2
        if np.log(self.rng.uniform()) < gain:
            self.beta, self.eta = proposal, eta

    def rows(self, eta):
        """Log likelihood of each row."""
        return self.y * eta - np.exp(eta)

    def walk(self, k):
        """A Metropolis step for all levels of a term at once."""
        z, code, G = self.z[k], self.codes[k], self.levels[k]
        move = np.einsum("gij,gj->gi", self.steps[k], self.rng.standard_normal(z.shape))
        eta = self.eta + (self.R * move[code]).sum(1)
        gain = np.bincount(code, self.rows(eta) - self.rows(self.eta), G)
        gain -= ((z + z + move) @ self.Lambda[k] * move).sum(1) / 2
        accept = np.log(self.rng.uniform(size=G)) < gain
        self.z[k] = z + move * accept[:, None]
        self.eta = np.where(accept[code], eta, self.eta)

    def shift(self, k):
        """Add δ to each parent of term k and take it from the children."""
        above = self.beta[None, : self.q] if k == 0 else self.z[k - 1]
        P = FIXED_PRECISION * np.eye(self.q) if k == 0 else self.Lambda[k - 1]
        parent, count = self.parents[k], np.bincount(self.parents[k])
        K = np.linalg.cholesky(count[:, None, None] * self.Lambda[k] + P)
        linear = sum_by(parent, self.z[k], len(count)) @ self.Lambda[k] - above @ P
        half = np.linalg.solve(K, linear[..., None]) + self.rng.standard_normal((*linear.shape, 1))
        delta = np.linalg.solve(np.swapaxes(K, 1, 2), half)[..., 0]
        self.z[k] = self.z[k] - delta[parent]
        if k == 0:
            self.beta = np.r_[self.beta[: self.q] + delta[0], self.beta[self.q :]]
        else:
            self.z[k - 1] = above + delta

    def draw_precision(self, k):
        """Λ from its conjugate conditional."""
        z = self.z[k]
        if self.q == 1:
            shape, rate = SHAPE + len(z) / 2, RATE + (z**2).sum() / 2
            self.Lambda[k] = np.array([[self.rng.gamma(shape) / rate]])
        else:
            self.Lambda[k] = draw_pair_precision(self.rng, z)


def sum_by(code, values, size):
    """Sums of values (N, ...) by code, (size, ...)."""
    flat = values.reshape(len(values), -1)
    sums = np.stack([np.bincount(code, column, size) for column in flat.T], axis=1)
    return sums.reshape(size, *values.shape[1:])
