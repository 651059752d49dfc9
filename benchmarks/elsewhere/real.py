"""Models of real responses: groups, collinear columns, a nonlinear mean, t noise, products."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import lrvb
from lrvb import Gamma, Normal

from .grid import grid


class Hier(lrvb.Model):
    """Group means z ~ N(μ, 1/τ) of a few rows each, with noise of precision λ."""

    global_blocks = {"mu": Normal(), "tau": Gamma(), "lam": Gamma()}
    local_blocks = {"z": Normal()}

    def global_term(self, m):
        """log prior."""
        return -m.mu.xx / 200 + m.tau.log_x - m.tau.x + m.lam.log_x - m.lam.x

    def local_term(self, m, z, row):
        """log density of one row."""
        own = (m.tau.log_x - m.tau.x * (z.xx - 2 * z.x * m.mu.x + m.mu.xx)) / 2
        return (
            own + (row.n * m.lam.log_x - m.lam.x * (row.s2 - 2 * row.s1 * z.x + row.n * z.xx)) / 2
        )

    @staticmethod
    def truth(D):
        """Values and weights, or mean and sd, of each quantity."""

        def lp(u):
            mu, lt, ll = u.T
            t, lam = np.exp(lt), np.exp(ll)
            out = -(mu**2) / 200 + 2 * lt - t + 2 * ll - lam
            for n, s1, s2 in zip(D["n"], D["s1"], D["s2"], strict=True):
                Q = t + n * lam
                b = t * mu + lam * s1
                out += (
                    lt / 2
                    + n * ll / 2
                    - np.log(Q) / 2
                    + b * b / (2 * Q)
                    - t * mu**2 / 2
                    - lam * s2 / 2
                )
            return out

        u, w = grid(lp, [(-40, 40), (-9, 6), (-9, 6)], 90)
        return {
            "mu": (u[:, 0], w),
            "tau": (np.exp(u[:, 1]), w),
            "log(tau)": (u[:, 1], w),
            "lam": (np.exp(u[:, 2]), w),
            "log(lam)": (u[:, 2], w),
        }


class Collinear(lrvb.Model):
    """y ~ N(a x + b w, 1/τ), the two columns nearly the same."""

    global_blocks = {"a": Normal(), "b": Normal(), "tau": Gamma()}

    def global_term(self, m):
        """log prior."""
        return -(m.a.xx + m.b.xx) / 20 + m.tau.log_x - m.tau.x

    def local_term(self, m, z, row):
        """log density of one row."""
        sq = (
            row.y**2
            - 2 * row.y * (row.x * m.a.x + row.w * m.b.x)
            + row.x**2 * m.a.xx
            + row.w**2 * m.b.xx
            + 2 * row.x * row.w * m.a.x * m.b.x
        )
        return (m.tau.log_x - m.tau.x * sq) / 2

    @staticmethod
    def truth(D):
        """Values and weights, or mean and sd, of each quantity."""
        X = np.c_[D["x"], D["w"]]
        y = D["y"]
        lt = np.linspace(-8, 6, 4000)
        W = []
        M = []
        S = []
        for log_t in lt:
            t = np.exp(log_t)
            Q = t * X.T @ X + np.eye(2) / 10
            b = t * X.T @ y
            m = np.linalg.solve(Q, b)
            W.append(
                2 * log_t
                - t
                + len(y) * log_t / 2
                - t * y @ y / 2
                - np.linalg.slogdet(Q)[1] / 2
                + b @ m / 2
            )
            M.append(m)
            S.append(np.diag(np.linalg.inv(Q)))
        w = np.exp(np.array(W) - max(W))
        w /= w.sum()
        M = np.array(M)
        S = np.array(S)
        mean = w @ M
        sd = np.sqrt(w @ (S + M**2) - mean**2)
        return {
            "a": (mean[0], sd[0]),
            "b": (mean[1], sd[1]),
            "tau": (np.exp(lt), w),
            "log(tau)": (lt, w),
        }


class Decay(lrvb.Model):
    """y ~ N(exp(a + b t), 1/p): a nonlinear mean."""

    global_blocks = {"a": Normal(), "b": Normal()}

    def global_term(self, m):
        """log prior."""
        return -(m.a.xx + m.b.xx) / 8

    def local_term(self, m, z, row):
        """log density of one row."""
        va, vb = m.a.xx - m.a.x**2, m.b.xx - m.b.x**2
        e = m.a.x + m.b.x * row.t
        v = va + vb * row.t**2
        return row.p * (row.y * jnp.exp(e + v / 2) - jnp.exp(2 * e + 2 * v) / 2)

    @staticmethod
    def truth(D):
        """Values and weights, or mean and sd, of each quantity."""

        def lp(u):
            f = np.exp(u[:, :1] + u[:, 1:] * D["t"])
            return -(u**2).sum(1) / 8 + (D["p"] * (D["y"] * f - f * f / 2)).sum(1)

        u, w = grid(lp, [(-12, 8), (-12, 8)], 500)
        return {"a": (u[:, 0], w), "b": (u[:, 1], w)}


class Cauchy(lrvb.Model):
    """The location of a t with known scale: two clusters of rows are two modes."""

    global_blocks = {"mu": Normal()}
    local_blocks = {"w": Gamma()}

    def __init__(self, df):
        self.df = float(df)

    def global_term(self, m):
        """log prior."""
        return -m.mu.xx / 2000

    def local_term(self, m, z, row):
        """log density of one row."""
        return (
            (self.df / 2 - 1) * z.log_x
            - self.df / 2 * z.x
            + z.log_x / 2
            - z.x * (row.y**2 - 2 * row.y * m.mu.x + m.mu.xx) / 2
        )

    def truth(self, D):
        """Values and weights, or mean and sd, of each quantity."""

        def lp(u):
            return -(u[:, 0] ** 2) / 2000 - (self.df + 1) / 2 * np.log1p(
                (D["y"] - u) ** 2 / self.df
            ).sum(1)

        u, w = grid(lp, [(-100, 100)], 20001)
        return {"mu": (u[:, 0], w)}


class TScale(lrvb.Model):
    """Location and precision of a t."""

    global_blocks = {"mu": Normal(), "tau": Gamma()}
    local_blocks = {"w": Gamma()}

    def __init__(self, df):
        self.df = float(df)

    def global_term(self, m):
        """log prior."""
        return -m.mu.xx / 200 + m.tau.log_x - m.tau.x

    def local_term(self, m, z, row):
        """log density of one row."""
        return (
            (self.df / 2 - 1) * z.log_x
            - self.df / 2 * z.x
            + (z.log_x + m.tau.log_x) / 2
            - m.tau.x * z.x * (row.y**2 - 2 * row.y * m.mu.x + m.mu.xx) / 2
        )

    def truth(self, D):
        """Values and weights, or mean and sd, of each quantity."""
        n = len(D["y"])

        def lp(u):
            t = np.exp(u[:, 1])
            return (
                -(u[:, 0] ** 2) / 200
                + 2 * u[:, 1]
                - t
                + n * u[:, 1] / 2
                - (self.df + 1)
                / 2
                * np.log1p(t[:, None] * (D["y"] - u[:, :1]) ** 2 / self.df).sum(1)
            )

        u, w = grid(lp, [(-40, 40), (-10, 6)], 600)
        return {"mu": (u[:, 0], w), "tau": (np.exp(u[:, 1]), w), "log(tau)": (u[:, 1], w)}


class Product(lrvb.Model):
    """y ~ N(ab, 1): signs are not known."""

    global_blocks = {"a": Normal(), "b": Normal()}

    def global_term(self, m):
        """log prior."""
        return -(m.a.xx + m.b.xx) / 8

    def local_term(self, m, z, row):
        """log density of one row."""
        return row.y * m.a.x * m.b.x - m.a.xx * m.b.xx / 2

    @staticmethod
    def truth(D):
        """Values and weights, or mean and sd, of each quantity."""

        def lp(u):
            f = u[:, 0] * u[:, 1]
            return -(u**2).sum(1) / 8 + f * D["y"].sum() - len(D["y"]) * f * f / 2

        u, w = grid(lp, [(-12, 12), (-12, 12)], 700)
        return {"a": (u[:, 0], w), "b": (u[:, 1], w)}
