"""The stored NUTS runs of the mixed models against samplers and quadratures that share none of it."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from exactness import batch_errors
from poisson_gibbs import FIXED_PRECISION, RATE, SHAPE, PoissonGibbs, draw_pair_precision
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import approx_fprime, minimize
from scipy.special import logsumexp

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "benchmarks"))

from mixed_cases import CASES  # noqa: E402


@pytest.fixture(scope="module")
def truth():
    """The stored table, indexed by case and quantity."""
    return pd.read_csv(ROOT / "results" / "mixed_truth.csv").set_index(["case", "quantity"])


def test_chains_are_long_and_mixed(truth):
    """All cases are there, with at least 4000 effective draws of every quantity."""
    assert set(truth.index.unique("case")) == set(CASES)
    assert not truth.isna().any().any()
    assert truth["ess"].min() > 4000
    assert truth["rhat"].max() < 1.01


def test_priors_are_those_of_this_file():
    """The checks have the priors written in, so that nothing is shared but the data."""
    for make in CASES.values():
        priors = dict(make().priors)
        assert priors.pop("fixed") == ("Normal", 0.0, 5.0)
        for name, prior in priors.items():
            pair = ("Wishart", 4.0, [[0.25, 0.0], [0.0, 0.25]])
            assert prior == (pair if name == "g" else ("Gamma", SHAPE, RATE))


def assert_agrees(stored, mean, sd, mean_error=0.0, sd_error=0.0):
    """Every stored mean and sd within both Monte Carlo errors; `sd_error` is relative to the sd."""
    mean, sd = pd.Series(mean), pd.Series(sd)
    assert set(mean.index) == set(stored.index)
    stored = stored.loc[mean.index]
    centre = (mean - stored["mean"]) / np.hypot(stored["sd"] / stored["ess"] ** 0.5, mean_error)
    spread = (sd / stored["sd"] - 1) / np.hypot(stored["sd_error"], sd_error)
    scores = pd.concat([centre, spread], keys=["mean", "sd"])
    assert scores.abs().max() < 5, scores[scores.abs() > 4]
    assert np.sqrt(np.mean(scores**2)) < 1.6  # and typically within one standard error


def assert_chain_agrees(stored, names, draws):
    """The same for a chain of draws (S, q)."""
    mean, mean_error = batch_errors(draws)
    variance, variance_error = batch_errors((draws - mean) ** 2)
    assert_agrees(
        stored,
        pd.Series(mean, names),
        pd.Series(np.sqrt(variance), names),
        pd.Series(mean_error, names),
        pd.Series(variance_error / (2 * variance), names),
    )


# ---- quadrature over three dimensions ------------------------------------------------------


def lattice(log_density, start, step=0.75, radius=7.5):
    """Points (G, 3) and weights of the trapezoid rule, whitened at the mode."""

    def cost(u):
        return -log_density(u[None])[0]

    def gradient(u):
        return approx_fprime(u, cost, 1e-5)

    mode = minimize(cost, start, method="BFGS", options={"gtol": 1e-3}).x
    Q = np.stack([(gradient(mode + e) - gradient(mode - e)) / 0.02 for e in 0.01 * np.eye(3)])
    L = np.linalg.cholesky(np.linalg.inv((Q + Q.T) / 2))
    axis = np.arange(-radius, radius + step, step)
    t = np.stack(np.meshgrid(axis, axis, axis), axis=-1).reshape(-1, 3)
    t = t[(t**2).sum(1) < radius**2]
    points = mode + t @ L.T
    values = log_density(points)
    weight, distance = np.exp(values - logsumexp(values)), (t**2).sum(1)
    outermost = distance > (radius - step) ** 2
    assert weight[outermost] @ distance[outermost] < 1e-3  # of variances that are about one
    kept = weight > 1e-10
    return points[kept], weight[kept] / weight[kept].sum()


def log_gamma_prior(log_precision):
    """Log density of log precision under Gamma(2, 1), up to a constant."""
    return SHAPE * log_precision - RATE * np.exp(log_precision)


def moments(weight, mean, second):
    """Mean and sd over lattice points of quantities with conditional first and second moments."""
    centre = weight @ mean
    return centre, np.sqrt(weight @ second - centre**2)


def precision_columns(bar, log_precision):
    """A precision's three quantities by name."""
    precision = np.exp(log_precision)
    return {
        f"precision[{bar}]": precision,
        f"log(precision[{bar}])": log_precision,
        f"sd[{bar}]": precision**-0.5,
    }


@pytest.mark.parametrize("name", ["bernoulli_small", "binomial"])
def test_logit_cases_by_quadrature(truth, name):
    """β and log precision on a lattice, each group's z integrated by the trapezoid rule."""
    data = CASES[name]().data
    x, (levels, code) = data["x"].to_numpy(), np.unique(data["g"], return_inverse=True)
    successes = data["s" if name == "binomial" else "y"].to_numpy()
    trials = data["n"].to_numpy() if name == "binomial" else np.ones(len(x))
    t = np.arange(-6.9, 6.91, 0.3)  # z in units of its prior sd
    first = np.flatnonzero(np.r_[True, np.diff(code) > 0])

    def joint(u):
        """Log joint of each group at each node, (levels, nodes), and z at the nodes."""
        z = t * np.exp(-u[2] / 2)
        eta = (u[0] + u[1] * x)[:, None] + z
        rows = successes[:, None] * eta - trials[:, None] * np.logaddexp(0, eta)
        return np.add.reduceat(rows, first) - t**2 / 2, z

    def log_density(points):
        prior = log_gamma_prior(points[:, 2]) - FIXED_PRECISION * (points[:, :2] ** 2).sum(1) / 2
        return prior + [logsumexp(joint(u)[0], axis=1).sum() for u in points]

    points, weight = lattice(log_density, np.array([0.0, 0.5, 0.5]))
    columns = {"Intercept": points[:, 0], "x": points[:, 1]}
    values = pd.DataFrame(columns | precision_columns("1|g", points[:, 2]))
    mean, sd = moments(weight, values.to_numpy(), values.to_numpy() ** 2)
    local = np.empty((2, len(points), 5))
    for i, u in enumerate(points):
        log_joint, z = joint(u)
        log_joint = log_joint[:5]
        node = np.exp(log_joint - logsumexp(log_joint, axis=1, keepdims=True))
        local[:, i] = node @ z, node @ z**2
    local_mean, local_sd = moments(weight, *local)
    names = [*values, *[f"1|g[{level}]" for level in levels[:5]]]
    assert_agrees(
        truth.loc[name],
        pd.Series(np.concatenate([mean, local_mean]), names),
        pd.Series(np.concatenate([sd, local_sd]), names),
    )


def test_crossed_by_quadrature(truth):
    """Three log precisions on a lattice, with the exact Gaussian of all coefficients at each."""
    data = CASES["gaussian_crossed"]().data
    y, x = data["y"].to_numpy(), data["x"].to_numpy()
    (a_levels, a), (b_levels, b) = (np.unique(data[k], return_inverse=True) for k in "ab")
    A, B = a[:, None] == np.arange(len(a_levels)), b[:, None] == np.arange(len(b_levels))
    C = np.column_stack([np.ones_like(x), x, A, B])
    sizes = np.array([len(a_levels), len(b_levels)])

    def condition(points):
        """Log evidence, and mean and variance of the coefficients, at points (G, 3)."""
        precision = np.exp(points)
        P = np.repeat(precision[:, :2], sizes, axis=1)
        P = np.column_stack([np.full((len(points), 2), FIXED_PRECISION), P])
        tau = precision[:, 2]
        Q = tau[:, None, None] * (C.T @ C) + P[:, :, None] * np.eye(C.shape[1])
        cov = np.linalg.inv(Q)
        mean = tau[:, None] * (cov @ (C.T @ y))
        square = tau * (y @ y - mean @ (C.T @ y))
        log_det = np.log(P).sum(1) - np.linalg.slogdet(Q)[1]
        evidence = (len(y) * points[:, 2] + log_det - square) / 2
        return evidence, mean, np.diagonal(cov, axis1=1, axis2=2)

    def log_density(points):
        return condition(points)[0] + log_gamma_prior(points).sum(1)

    points, weight = lattice(log_density, np.zeros(3), radius=6.5)
    _, mean, var = condition(points)
    values = pd.concat(
        [
            pd.DataFrame(precision_columns(bar, points[:, k]))
            for k, bar in enumerate(["1|a", "1|b", "residual"])
        ],
        axis=1,
    )
    kept = [0, 1, *range(2, 7), *range(2 + sizes[0], 7 + sizes[0])]
    names = ["Intercept", "x", *[f"1|a[{k}]" for k in a_levels[:5]]]
    names += [f"1|b[{k}]" for k in b_levels[:5]]
    one = moments(weight, values.to_numpy(), values.to_numpy() ** 2)
    two = moments(weight, mean[:, kept], (var + mean**2)[:, kept])
    centre, spread = (np.concatenate(pair) for pair in zip(one, two, strict=True))
    names = [*values, *names]
    assert_agrees(truth.loc["gaussian_crossed"], pd.Series(centre, names), pd.Series(spread, names))


# ---- Gibbs sampling ------------------------------------------------------------------------

PAIR_NAMES = [
    "Lambda[g][1,1]",
    "Lambda[g][1,x]",
    "Lambda[g][x,x]",
    "logdet(Lambda[g])",
    "sd[1|g]",
    "sd[x|g]",
    "corr[g][1,x]",
]


def pair_quantities(Lambda):
    """Quantities of a correlated term's precision matrix, in the order of PAIR_NAMES."""
    (p, r), (_, s) = Lambda
    det = p * s - r * r
    return p, r, s, np.log(det), np.sqrt(s / det), np.sqrt(p / det), -r / np.sqrt(p * s)


def test_slopes_by_gibbs(truth):
    """Conjugate draws of all coefficients together, of Λ and of the residual precision."""
    rng = np.random.default_rng(1)
    data = CASES["gaussian_slopes"]().data
    y, x = data["y"].to_numpy(), data["x"].to_numpy()
    levels, g = np.unique(data["g"], return_inverse=True)
    G = len(levels)
    X = np.column_stack([np.ones_like(x), x])
    Z = ((g[:, None] == np.arange(G))[:, :, None] * X[:, None, :]).reshape(len(y), -1)
    C = np.hstack([X, Z])
    CC, Cy = C.T @ C, C.T @ y
    tau, Lambda, P = 1.0, np.eye(2), FIXED_PRECISION * np.eye(len(CC))
    draws = []
    for sweep in range(5000):
        P[2:, 2:] = np.kron(np.eye(G), Lambda)
        K = cholesky(tau * CC + P, lower=True, check_finite=False)
        half = solve_triangular(K, tau * Cy, lower=True) + rng.standard_normal(len(CC))
        theta = solve_triangular(K, half, lower=True, trans=1)
        residual, z = y - C @ theta, theta[2:].reshape(G, 2)
        tau = rng.gamma(SHAPE + len(y) / 2) / (RATE + residual @ residual / 2)
        Lambda = draw_pair_precision(rng, z)
        if sweep >= 200:
            scalars = tau, np.log(tau), tau**-0.5
            draws.append([*theta[:2], *pair_quantities(Lambda), *scalars, *z[:5].T.ravel()])
    names = ["Intercept", "x", *PAIR_NAMES]
    names += [f"{kind}precision[residual]{end}" for kind, end in (("", ""), ("log(", ")"))]
    names += ["sd[residual]", *[f"{c}|g[{k}]" for c in "1x" for k in levels[:5]]]
    assert_chain_agrees(truth.loc["gaussian_slopes"], names, np.array(draws))


def test_poisson_slopes_by_gibbs(truth):
    data = CASES["poisson_slopes"]().data
    levels, g = np.unique(data["g"], return_inverse=True)
    rng = np.random.default_rng(2)
    chain = PoissonGibbs(rng, data["y"].to_numpy(), data["x"].to_numpy(), [g], q=2)
    draws = []
    for sweep in range(8000):
        chain.sweep()
        if sweep >= 500:
            quantities = pair_quantities(chain.Lambda[0])
            draws.append([*chain.beta, *quantities, *chain.z[0][:5].T.ravel()])
    names = ["Intercept", "x", *PAIR_NAMES, *[f"{c}|g[{k}]" for c in "1x" for k in levels[:5]]]
    assert_chain_agrees(truth.loc["poisson_slopes"], names, np.array(draws))


def test_poisson_nested_by_gibbs(truth):
    data = CASES["poisson_nested"]().data
    groups = {"a": data["a"], "a:b": data["a"] + ":" + data["b"], "obs": data["obs"]}
    levels, codes = zip(*[np.unique(g, return_inverse=True) for g in groups.values()], strict=True)
    rng = np.random.default_rng(3)
    chain = PoissonGibbs(rng, data["y"].to_numpy(), data["x"].to_numpy(), codes, q=1)
    draws = []
    for sweep in range(8000):
        chain.sweep()
        if sweep >= 500:
            log_precision = np.log([Lambda[0, 0] for Lambda in chain.Lambda])
            z = np.concatenate([z[:5, 0] for z in chain.z])
            draws.append([*chain.beta, *log_precision, *z])
    draws = np.array(draws)
    values = {"Intercept": draws[:, 0], "x": draws[:, 1]}
    for k, group in enumerate(groups):
        values |= precision_columns(f"1|{group}", draws[:, 2 + k])
    labels = [f"1|{g}[{k}]" for g, of in zip(groups, levels, strict=True) for k in of[:5]]
    values |= dict(zip(labels, draws[:, 5:].T, strict=True))
    chain_draws = np.column_stack(list(values.values()))
    assert_chain_agrees(truth.loc["poisson_nested"], list(values), chain_draws)
