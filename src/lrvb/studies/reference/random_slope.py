"""The exact posterior of the random-slope model."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr

from ...errors import InvalidData
from .posterior import ExactPosterior, Marginal, Mixture, assemble, local_moments
from .quadrature import DEPTH, integrate, step_kernel


class SlopeSums(NamedTuple):
    """SlopeSums over rows that the likelihood needs, in total or within group k."""

    xx: np.ndarray
    """(p, p)"""
    xy: np.ndarray
    """(p,)"""
    yy: float
    xr: np.ndarray
    """(K, p)"""
    rr: np.ndarray
    """(K,)"""
    ry: np.ndarray
    """(K,)"""
    rows: int


class Conditional(NamedTuple):
    """log p(y | ν, τ), and the Gaussian (β, z) given y and G values of (ν, τ)."""

    log_evidence: np.ndarray
    """(G,)"""
    beta_mean: np.ndarray
    """(G, p)"""
    beta_cov: np.ndarray
    """(G, p, p)"""
    z_mean: np.ndarray
    """(G, K)"""
    z_var: np.ndarray
    """(G, K)"""
    z_beta_cov: np.ndarray
    """(G, K, p)"""


def exact(
    x: np.ndarray,
    r: np.ndarray,
    y: np.ndarray,
    group: np.ndarray,
    *,
    beta_var: float = 10.0,
    tau_shape: float = 2.0,
    tau_rate: float = 2.0,
    nu_shape: float = 2.0,
    nu_rate: float = 2.0,
    refine: float = 1.0,
    depth: float = DEPTH,
) -> ExactPosterior:
    r"""Posterior of β, τ, ν and z by quadrature over (log ν, log τ), with (β, z) in closed form.

    The model is y_n ~ N(βᵀx_n + r_n z_k(n), 1/τ), z_k ~ N(0, 1/ν) with β ~ N(0, beta_var · I) and
    Gamma(shape, rate) priors of τ and ν; x has shape (N, p), the others (N,). Quantities beta[j],
    tau, log(tau), nu, log(nu); z is labelled by the sorted values of `group`. `refine` divides the
    step and `depth` says how far down the tails go, in nats; with the defaults the moments are
    good to about 1e-9 and the quantiles to 1e-6 of an sd.

    See: sec:random_effects_model, app:re_details
    """
    sums, labels = summarize_rows(x, r, y, group)

    def log_joint(u: np.ndarray) -> np.ndarray:
        nu, tau = np.exp(u.T)
        return (
            condition(sums, nu, tau, beta_var).log_evidence
            + _log_gamma(u[:, 0], nu_shape, nu_rate)
            + _log_gamma(u[:, 1], tau_shape, tau_rate)
        )

    grid = integrate(log_joint, np.zeros(2), refine=refine, depth=depth)

    (log_nu, log_tau), (nu, tau) = grid.points.T, np.exp(grid.points.T)
    given = condition(sums, nu, tau, beta_var)
    p = len(sums.xy)
    names = [f"beta[{j}]" for j in range(p)] + ["tau", "log(tau)", "nu", "log(nu)"]
    mean = np.column_stack([given.beta_mean, tau, log_tau, nu, log_nu])
    cov = np.zeros((len(nu), p + 4, p + 4))
    cov[:, :p, :p] = given.beta_cov
    z_cov = np.zeros((len(nu), len(labels), p + 4))
    z_cov[:, :, :p] = given.z_beta_cov
    mixture = Mixture(grid.weight, mean, cov)
    marginals = {
        name: Marginal(grid.weight, grid.points[:, k], grid.spacing[k], step_kernel)
        for k, name in enumerate(("log(nu)", "log(tau)"))
    }
    for j in range(p):
        scale = np.sqrt(given.beta_cov[:, j, j])
        marginals[f"beta[{j}]"] = Marginal(grid.weight, given.beta_mean[:, j], scale, ndtr)
    local = local_moments(mixture, given.z_mean, given.z_var, z_cov)
    return assemble(names, mixture, local, labels, grid.log_integral, marginals)


def summarize_rows(
    x: np.ndarray, r: np.ndarray, y: np.ndarray, group: np.ndarray
) -> tuple[SlopeSums, np.ndarray]:
    """The sums over rows, and the K sorted group labels."""
    x, r, y = np.asarray(x, float), np.asarray(r, float), np.asarray(y, float)
    labels, k = np.unique(group, return_inverse=True)
    if x.ndim != 2 or not len(x) or not x.shape[:1] == r.shape == y.shape == k.shape:
        shapes = ", ".join(str(column.shape) for column in (x, r, y, k))
        raise InvalidData(f"x must be (N, p) and r, y, group (N,), not {shapes}.")
    for name, column in (("x", x), ("r", r), ("y", y)):
        wrong = ~np.isfinite(column.reshape(len(x), -1)).all(1)
        if wrong.any():
            row = int(wrong.argmax())
            raise InvalidData(
                f"Column {name}, row {row}: {column[row]} is not finite.", column=name, row=row
            )
    K = len(labels)
    xr = np.stack([np.bincount(k, column * r, K) for column in x.T], axis=1)
    rr, ry = np.bincount(k, r * r, K), np.bincount(k, r * y, K)
    return SlopeSums(x.T @ x, x.T @ y, float(y @ y), xr, rr, ry, len(y)), labels


def condition(sums: SlopeSums, nu: np.ndarray, tau: np.ndarray, beta_var: float) -> Conditional:
    """Eliminate each z_k from the joint Gaussian of (y, β, z), then β."""
    p = len(sums.xy)
    q = tau[:, None] * sums.rr + nu[:, None]  # precision of z_k given β
    ratio = tau[:, None] ** 2 / q
    Q = (
        np.eye(p) / beta_var
        + tau[:, None, None] * sums.xx
        - np.einsum("gk,ki,kj->gij", ratio, sums.xr, sums.xr, optimize=True)
    )
    b = tau[:, None] * sums.xy - ratio @ (sums.xr * sums.ry[:, None])
    beta_cov = np.linalg.inv(Q)
    beta_mean = np.einsum("gij,gj->gi", beta_cov, b)
    square = tau * sums.yy - ratio @ sums.ry**2 - np.sum(b * beta_mean, axis=1)
    log_evidence = 0.5 * (
        sums.rows * np.log(tau / (2 * np.pi))
        + np.sum(np.log(nu)[:, None] - np.log(q), axis=1)
        - p * np.log(beta_var)
        - np.linalg.slogdet(Q)[1]
        - square
    )
    shrink = tau[:, None] / q
    z_beta_cov = -shrink[..., None] * (sums.xr @ beta_cov)
    return Conditional(
        log_evidence=log_evidence,
        beta_mean=beta_mean,
        beta_cov=beta_cov,
        z_mean=shrink * (sums.ry - beta_mean @ sums.xr.T),
        z_var=1 / q - shrink * np.einsum("gki,ki->gk", z_beta_cov, sums.xr),
        z_beta_cov=z_beta_cov,
    )


def _log_gamma(log_x: np.ndarray, shape: float, rate: float) -> np.ndarray:
    """Log density of log x when x ~ Gamma(shape, rate)."""
    return shape * (np.log(rate) + log_x) - rate * np.exp(log_x) - gammaln(shape)
