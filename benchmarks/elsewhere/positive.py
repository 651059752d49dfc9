"""Models of counts, precisions and matrices."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import lrvb
from lrvb import Gamma

from .grid import grid


class ZIP(lrvb.Model):
    """Counts with more zeros than a Poisson has."""

    global_blocks = {"pi": lrvb.Beta(), "lam": Gamma()}
    local_blocks = {"s": lrvb.Categorical(2)}

    def global_term(self, m):
        """log prior."""
        return m.lam.log_x - m.lam.x

    def local_term(self, m, z, row):
        """log density of one row."""
        zero = jnp.where(row.y == 0, 0.0, -60.0)
        return z.x[0] * (m.pi.log_x + zero) + z.x[1] * (
            m.pi.log1m_x + row.y * m.lam.log_x - m.lam.x
        )

    @staticmethod
    def truth(D):
        """Values and weights, or mean and sd, of each quantity."""
        y = D["y"]

        def lp(u):
            p = 1 / (1 + np.exp(-u[:, :1]))
            lam = np.exp(u[:, 1:])
            row = np.logaddexp(
                np.log(p) + np.where(y == 0, 0, -60.0), np.log1p(-p) + y * np.log(lam) - lam
            )
            return row.sum(1) + np.log(p * (1 - p))[:, 0] + 2 * u[:, 1] - lam[:, 0]

        u, w = grid(lp, [(-14, 14), (-9, 5)], 500)
        p = 1 / (1 + np.exp(-u[:, 0]))
        return {
            "pi": (p, w),
            "log(pi)": (np.log(p), w),
            "log(1-pi)": (np.log1p(-p), w),
            "lam": (np.exp(u[:, 1]), w),
            "log(lam)": (u[:, 1], w),
        }


class TwoPoissons(lrvb.Model):
    """A mixture of two Poissons with different priors."""

    global_blocks = {"lam": Gamma(batch=(2,)), "pi": lrvb.Beta()}
    local_blocks = {"s": lrvb.Categorical(2)}

    def global_term(self, m):
        """log prior."""
        return (m.lam.log_x * jnp.array([0.0, 8.0]) - m.lam.x).sum() + m.pi.log_x + m.pi.log1m_x

    def local_term(self, m, z, row):
        """log density of one row."""
        f = row.y * m.lam.log_x - m.lam.x
        return z.x[0] * (m.pi.log_x + f[0]) + z.x[1] * (m.pi.log1m_x + f[1])

    @staticmethod
    def truth(D):
        """Values and weights, or mean and sd, of each quantity."""
        y = D["y"]
        c = np.bincount(y.astype(int))
        v = np.flatnonzero(c)
        c = c[v]

        def lp(u):
            l1, l2 = u[:, :1], u[:, 1:2]
            p = 1 / (1 + np.exp(-u[:, 2:]))
            row = np.logaddexp(np.log(p) + v * l1 - np.exp(l1), np.log1p(-p) + v * l2 - np.exp(l2))
            return (
                (row * c).sum(1)
                + u[:, 0]
                + 9 * u[:, 1]
                - np.exp(u[:, 0])
                - np.exp(u[:, 1])
                + 2 * np.log(p * (1 - p))[:, 0]
            )

        u, w = grid(lp, [(-9, 4), (-3, 4), (-10, 10)], 100)
        p = 1 / (1 + np.exp(-u[:, 2]))
        return {
            "lam[0]": (np.exp(u[:, 0]), w),
            "lam[1]": (np.exp(u[:, 1]), w),
            "log(lam[0])": (u[:, 0], w),
            "log(lam[1])": (u[:, 1], w),
            "pi": (p, w),
        }


class Ridge(lrvb.Model):
    """y ~ N(0, 1/(st)): only the product is known well."""

    global_blocks = {"s": Gamma(), "t": Gamma()}

    def global_term(self, m):
        """log prior."""
        return m.s.log_x - m.s.x + m.t.log_x - m.t.x

    def local_term(self, m, z, row):
        """log density of one row."""
        return (m.s.log_x + m.t.log_x - m.s.x * m.t.x * row.y**2) / 2

    @staticmethod
    def truth(D):
        """Values and weights, or mean and sd, of each quantity."""
        n, q = len(D["y"]), (D["y"] ** 2).sum()

        def lp(u):
            a, b = u.T
            return (2 + n / 2) * (a + b) - np.exp(a) - np.exp(b) - np.exp(a + b) * q / 2

        u, w = grid(lp, [(-12, 6), (-12, 6)], 500)
        return {
            "s": (np.exp(u[:, 0]), w),
            "t": (np.exp(u[:, 1]), w),
            "log(s)": (u[:, 0], w),
            "log(t)": (u[:, 1], w),
        }


class NormWish(lrvb.Model):
    """A normal sample in the plane with unknown mean and precision matrix."""

    global_blocks = {"mu": lrvb.MultivariateNormal(2), "L": lrvb.Wishart(2)}

    def global_term(self, m):
        """log prior."""
        return 0.5 * (5 - 3) * m.L.logdet_x - 0.5 * jnp.trace(m.L.x) - 0.0005 * jnp.trace(m.mu.xx)

    def local_term(self, m, z, row):
        """log density of one row."""
        S = jnp.outer(row.y, row.y) - jnp.outer(row.y, m.mu.x) - jnp.outer(m.mu.x, row.y) + m.mu.xx
        return 0.5 * m.L.logdet_x - 0.5 * jnp.sum(m.L.x * S)

    @staticmethod
    def truth(D):  # integrate Lambda: Wishart given mu; grid on mu
        """Values and weights, or mean and sd, of each quantity."""
        Y = D["y"]
        n = len(Y)
        nu = 5 + n

        def lp(u):
            R = Y[None] - u[:, None]
            S = np.eye(2) + np.einsum("kni,knj->kij", R, R)
            return -0.0005 * (u**2).sum(1) - nu / 2 * np.linalg.slogdet(S)[1]

        u, w = grid(lp, [(-60, 60), (-60, 60)], 400)
        R = Y[None] - u[:, None]
        S = np.eye(2) + np.einsum("kni,knj->kij", R, R)
        V = np.linalg.inv(S)
        out = {"mu[0]": (u[:, 0], w), "mu[1]": (u[:, 1], w)}
        for i, j in ((0, 0), (0, 1), (1, 1)):
            m1 = nu * V[:, i, j]
            var = nu * (V[:, i, j] ** 2 + V[:, i, i] * V[:, j, j])
            m = w @ m1
            out[f"L[{i},{j}]"] = (m, np.sqrt(w @ (var + m1**2) - m**2))
        return out
