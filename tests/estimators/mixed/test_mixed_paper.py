"""The paper's two regression models written as formulas, and exact posteriors where they are known."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import scipy.special
import scipy.stats
from numpy.testing import assert_allclose

import lrvb
from lrvb.prior import Gamma, Normal
from lrvb.studies.reference import random_slope

BETA_VAR, SHAPE, RATE = 10.0, 2.0, 2.0


@functools.cache
def slopes(n: int = 120, groups: int = 12) -> pd.DataFrame:
    """Rows of the random-slope model."""
    rng = np.random.default_rng(31)
    g = np.concatenate([np.arange(groups), rng.integers(0, groups, n - groups)])
    x1, x2, r = rng.normal(size=(3, n))
    z = rng.normal(size=groups)
    y = 0.7 * x1 - 0.4 * x2 + r * z[g] + rng.normal(size=n)
    return pd.DataFrame({"y": y, "x1": x1, "x2": x2, "r": r, "g": g})


@functools.cache
def counts(n: int = 80) -> pd.DataFrame:
    """Rows of the normal-Poisson model."""
    rng = np.random.default_rng(32)
    x = rng.normal(size=n)
    z = 0.6 * x + rng.normal(size=n) * 0.8
    return pd.DataFrame({"y": rng.poisson(np.exp(z)), "x": x, "obs": np.arange(n)})


@functools.cache
def slope_model(factorization: str) -> lrvb.MixedModel:
    priors = {"fixed": Normal(0, BETA_VAR**0.5), "r|g": Gamma(SHAPE, RATE), "residual": Gamma(2, 2)}
    formula = "y ~ 0 + x1 + x2 + (0 + r | g)"
    return lrvb.MixedModel(formula, "gaussian", priors, factorization, tol=1e-10).fit(slopes())


SLOPE_NAMES = {
    "beta[0]": "x1",
    "beta[1]": "x2",
    "tau": "precision[residual]",
    "log(tau)": "log(precision[residual])",
    "nu": "precision[r|g]",
    "log(nu)": "log(precision[r|g])",
}


def test_random_slope_is_a_formula():
    """Mean field: means, sds, covariances, the bound and every group's z."""
    data = slopes()
    columns = {"x": data[["x1", "x2"]].to_numpy(), "group": data.g, "r": data.r, "y": data.y}
    paper = lrvb.infer(lrvb.models.RandomSlope(), columns, tol=1e-10)
    ours = slope_model("mean_field").posterior_
    theirs, mine = list(SLOPE_NAMES), list(SLOPE_NAMES.values())
    unit = paper.sd(theirs).to_numpy()
    assert_allclose(ours.mean(mine) / unit, paper.mean(theirs) / unit, atol=1e-6)
    for method in ("lrvb", "mfvb"):
        scale = np.outer(unit, unit)
        assert_allclose(
            ours.cov(mine, method) / scale, paper.cov(theirs, method) / scale, atol=1e-6
        )
    assert_allclose(ours.elbo, paper.elbo, rtol=1e-9)
    z, effect = paper.local("z"), ours.local("r|g")
    for name in ("mean", "sd", "mfvb_sd"):
        assert_allclose(effect[name], z[name], rtol=1e-6, atol=1e-9)
    cov = effect["cov"].sel(quantity=mine).to_numpy()
    scale = z["sd"].to_numpy()[:, None] * unit
    assert_allclose(cov / scale, z["cov"].sel(quantity=theirs).to_numpy() / scale, atol=1e-6)


def test_normal_poisson_is_a_formula():
    """Q(β) q(τ) Π q(u_n) with the optimal q(u_n): the same bound, so the same answers."""
    data = counts()
    paper = lrvb.infer(lrvb.models.NormalPoisson(), {"x": data.x, "y": data.y}, tol=1e-10)
    priors = {"x": Normal(0, BETA_VAR**0.5), "1|obs": Gamma(1, 1)}
    model = lrvb.MixedModel("y ~ 0 + x + (1|obs)", "poisson", priors, "mean_field", tol=1e-10)
    ours = model.fit(data).posterior_
    theirs = ["beta", "tau", "log(tau)"]
    mine = ["x", "precision[1|obs]", "log(precision[1|obs])"]
    unit = paper.sd(theirs).to_numpy()
    assert_allclose(ours.mean(mine) / unit, paper.mean(theirs) / unit, atol=1e-6)
    for method in ("lrvb", "mfvb"):
        scale = np.outer(unit, unit)
        assert_allclose(
            ours.cov(mine, method) / scale, paper.cov(theirs, method) / scale, atol=1e-6
        )
    assert_allclose(ours.elbo, paper.elbo, rtol=1e-9)
    # z_n = βx_n + e_n: means add, and so do covariances with any quantity
    z, effect = paper.local("z"), ours.local("1|obs")
    x, beta = data.x.to_numpy(), float(ours.mean("x").iloc[0])
    assert_allclose(effect["mean"] + beta * x, z["mean"], rtol=1e-6, atol=1e-7)
    cov = effect["cov"].sel(quantity=mine).to_numpy() + np.outer(x, ours.cov(mine).loc["x"])
    assert_allclose(cov, z["cov"].sel(quantity=theirs), rtol=1e-5, atol=1e-7)
    with_beta = effect["cov"].sel(quantity="x").to_numpy()
    variance = effect["sd"].to_numpy() ** 2 + 2 * x * with_beta + x**2 * ours.cov().loc["x", "x"]
    assert_allclose(np.sqrt(variance), z["sd"], rtol=1e-6)


def test_one_gaussian_factor_for_rows_is_above_the_papers():
    """Blocked joins β and e_n in one Gaussian; `local="gaussian"` keeps them apart: a lower bound."""
    data = counts()
    gaussian = lrvb.infer(lrvb.models.NormalPoisson(local="gaussian"), {"x": data.x, "y": data.y})
    priors = {"x": Normal(0, BETA_VAR**0.5), "1|obs": Gamma(1, 1)}
    blocked = lrvb.MixedModel("y ~ 0 + x + (1|obs)", "poisson", priors, "variational").fit(data)
    assert blocked.elbo_ > gaussian.elbo
    assert blocked.elbo_ < gaussian.elbo + 1.0


# ---- exact posteriors ------------------------------------------------------------------------


@functools.cache
def exact():
    data = slopes()
    return random_slope.exact(data[["x1", "x2"]].to_numpy(), data.r, data.y, data.g)


def gamma_of(model: lrvb.MixedModel, name: str):
    """q of a precision, by its mean and its sd under q."""
    shape_root = (
        model.posterior_.mean(name).item() / model.posterior_.sd(name, method="mfvb").item()
    )
    return scipy.stats.gamma(
        shape_root**2, scale=model.posterior_.mean(name).item() / shape_root**2
    )


def test_the_bound_is_below_the_exact_evidence():
    """log p(y) − E = KL(q‖p) = E_q[log q(τ)q(ν) − log p(τ, ν | y) + KL(q(w)‖p(w | τ, ν, y))].

    By dense algebra at the nodes of a Gauss-Laguerre rule of q(τ)q(ν); mean field's bound is lower.
    """
    evidence, model, data = exact().log_evidence, slope_model("variational"), slopes()
    groups = data.g.nunique()
    Z = (data.g.to_numpy()[:, None] == np.arange(groups)) * data[["r"]].to_numpy()
    C = np.hstack([data[["x1", "x2"]], Z])
    prior = scipy.stats.gamma(SHAPE, scale=1 / RATE)
    q_tau, q_nu = gamma_of(model, "precision[residual]"), gamma_of(model, "precision[r|g]")

    def given(tau, nu):
        """Mean and precision of w, and log p(y | τ, ν), which is p(y, w)/p(w | y) at w = 0."""
        P = np.diag(np.concatenate([np.full(2, 1 / BETA_VAR), np.full(groups, nu)]))
        Q = tau * C.T @ C + P
        mean = np.linalg.solve(Q, tau * C.T @ data.y)
        log_det = [np.linalg.slogdet(M)[1] for M in (P, Q)]
        fit = len(data) * np.log(tau / (2 * np.pi)) - tau * data.y @ data.y + mean @ Q @ mean
        return mean, Q, (fit + log_det[0] - log_det[1]) / 2

    mu, Q_q, _ = given(q_tau.mean(), q_nu.mean())
    gap = 0.0
    for tau, at_tau in zip(*nodes(q_tau), strict=True):
        for nu, at_nu in zip(*nodes(q_nu), strict=True):
            mean, Q, likelihood = given(tau, nu)
            apart = np.trace(np.linalg.solve(Q_q, Q)) + (mu - mean) @ Q @ (mu - mean) - len(mu)
            inner = (apart + np.linalg.slogdet(Q_q)[1] - np.linalg.slogdet(Q)[1]) / 2
            posterior = likelihood + prior.logpdf(tau) + prior.logpdf(nu) - evidence
            gap += at_tau * at_nu * (q_tau.logpdf(tau) + q_nu.logpdf(nu) - posterior + inner)
    assert gap > 0
    assert_allclose(evidence - model.elbo_, gap, rtol=1e-6)  # exact to the quadratures' ten digits
    assert slope_model("mean_field").elbo_ < model.elbo_


def nodes(law, n=24):
    """Points and weights of a rule that is exact for polynomials of degree 2n − 1 under a gamma law."""
    shape, scale = law.args[0], law.kwds["scale"]
    x, w = scipy.special.roots_genlaguerre(n, shape - 1)
    return x * scale, w / w.sum()


def test_blocked_sds_are_those_of_the_exact_posterior():
    """Fixed effects, log precisions and every level's slope within 5 %, means within 0.2 sd."""
    truth, ours = exact(), slope_model("variational").posterior_
    for theirs, mine in SLOPE_NAMES.items():
        if mine.startswith("precision"):
            continue
        sd = truth.sd[theirs]
        assert 0.95 < float(ours.sd(mine).iloc[0]) / sd < 1.05, mine
        assert abs(float(ours.mean(mine).iloc[0]) - truth.mean[theirs]) < 0.2 * sd, mine
    effect = ours.local("r|g")
    ratio = effect["sd"].to_numpy() / truth.z_sd.to_numpy()
    assert np.all((ratio > 0.95) & (ratio < 1.05)), ratio
    assert np.all(np.abs(effect["mean"].to_numpy() - truth.z_mean) < 0.2 * truth.z_sd)


def test_known_precisions_make_the_posterior_exact():
    """Gamma priors of sd 1e-4: β and every z by dense algebra."""
    data = slopes()
    sure = 1e8
    priors = {
        "fixed": Normal(0.5, 2.0),
        "1|g": Gamma(sure, sure / 1.5),
        "r|g": Gamma(sure, sure / 0.8),
        "residual": Gamma(sure, sure / 1.2),
    }
    formula = "y ~ x1 + x2 + (1 + r || g)"
    model = lrvb.MixedModel(formula, "gaussian", priors, "variational", tol=1e-10).fit(data)
    n, groups = len(data), data.g.nunique()
    X = np.column_stack([np.ones(n), data.x1, data.x2])
    Z = np.zeros((n, groups, 2))
    Z[np.arange(n), data.g, 0], Z[np.arange(n), data.g, 1] = 1.0, data.r
    C = np.hstack([X, Z.reshape(n, -1)])
    P = np.diag(np.concatenate([np.full(3, 0.25), np.tile([1.5, 0.8], groups)]))
    Q = 1.2 * C.T @ C + P
    mean = np.linalg.solve(Q, 1.2 * C.T @ data.y + P[:, :3] @ np.full(3, 0.5))
    sd = np.sqrt(np.diag(np.linalg.inv(Q)))
    names = ["Intercept", "x1", "x2"]
    assert_allclose(model.posterior_.mean(names), mean[:3], rtol=1e-6, atol=1e-6)
    assert_allclose(model.posterior_.sd(names), sd[:3], rtol=1e-6)
    for j, name in enumerate(("1|g", "r|g")):
        table = model.ranef(name)
        assert_allclose(table["mean"], mean[3 + j :: 2], atol=1e-6)
        assert_allclose(table["sd"], sd[3 + j :: 2], rtol=1e-6)
