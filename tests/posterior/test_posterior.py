"""What a posterior answers: labelled tables, functions, local variables and draws."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import digamma

import lrvb
from cases import CASES
from lrvb.models import NormalPoisson
from lrvb.numerics.double import double
from lrvb.numerics.scores import inverse_trigamma

BY_NAME = {str(case): case for case in CASES}
COUNTS, SLOPE, MIXTURE = (
    BY_NAME[n] for n in ("NormalPoisson-tilted", "RandomSlope", "NormalMixture")
)


@cache
def posterior_of(name: str) -> lrvb.Posterior:
    return lrvb.summarize(BY_NAME[name].response())


every_case = pytest.mark.parametrize("name", list(BY_NAME))


@pytest.fixture
def counts() -> lrvb.Posterior:
    return posterior_of(str(COUNTS))


@pytest.fixture
def mixture() -> lrvb.Posterior:
    return posterior_of(str(MIXTURE))


# ---- tables --------------------------------------------------------------------------------


def test_names(counts: lrvb.Posterior, mixture: lrvb.Posterior) -> None:
    assert counts.names == ["beta", "tau", "log(tau)"]
    assert posterior_of("RandomSlope").names == [
        *("beta[0]", "beta[1]", "tau", "log(tau)", "nu", "log(nu)")
    ]
    assert mixture.names[:4] == ["mu[0,0]", "mu[0,1]", "mu[1,0]", "mu[1,1]"]
    assert {"Lambda[0,0,1]", "logdet(Lambda[1])", "log(pi[0])"} < set(mixture.names)
    assert "Lambda[0,1,0]" not in mixture.names


@every_case
def test_tables_are_labelled_and_agree(name: str) -> None:
    posterior = posterior_of(name)
    names = posterior.names
    for method in ("lrvb", "mfvb"):
        mean, sd = posterior.mean(), posterior.sd(method=method)
        cov, corr = posterior.cov(method=method), posterior.corr(method=method)
        assert isinstance(sd, pd.Series)
        assert list(mean.index) == list(sd.index) == names
        assert (
            list(cov.index) == list(cov.columns) == list(corr.index) == list(corr.columns) == names
        )
        np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd, rtol=1e-12)
        np.testing.assert_array_equal(np.diag(corr), 1.0)
        assert (np.abs(corr.to_numpy()) <= 1 + 1e-12).all()
        np.testing.assert_array_equal(cov, cov.T)


def A(family: lrvb.Family) -> Any:
    """The log partition as a function of flat natural parameters."""
    return lambda flat: family.log_partition(family.unflatten(flat, natural=True))


@every_case
def test_tables_are_of_the_quantities_they_name(name: str) -> None:
    """cov[a, b] is (I − VH)⁻¹V (eq:spec_lrvb) or V = ∇²A at the coordinates that a and b name.

    V and H come by another way: ∇²A by autodiff of the log partition, H summed row by row. Between
    blocks the mean-field covariance is zero, and the linear-response one is not.
    """
    posterior, fit = posterior_of(name), BY_NAME[name].small_fit()
    V = np.zeros((fit.alpha.size, fit.alpha.size))
    with double():
        hessians = {b: jax.jit(jax.hessian(A(f))) for b, f in fit.alpha.blocks.items()}
        for block, _, here in fit.alpha.parts():
            V[here, here] = np.asarray(hessians[block](fit.eta[here]))
    H = lrvb.linearize(fit, local_sum=lrvb.AutodiffSum()).H
    at = [i for i, label in enumerate(fit.alpha.names()) if label is not None]
    labels = [fit.alpha.names()[i] for i in at]
    for method, expected in {"mfvb": V, "lrvb": np.linalg.solve(np.eye(len(V)) - V @ H, V)}.items():
        cov, sd = posterior.cov(method=method), np.sqrt(np.diag(expected)[at])
        error = cov.loc[labels, labels] - expected[np.ix_(at, at)]
        np.testing.assert_allclose(error / np.outer(sd, sd), 0, atol=1e-8)
    blocks = {label: fit.alpha.block_of(i) for i, label in enumerate(fit.alpha.names())}
    apart = np.array([[blocks[a] != blocks[b] for b in posterior.names] for a in posterior.names])
    assert not posterior.cov(method="mfvb").to_numpy()[apart].any()
    assert (np.abs(posterior.corr().to_numpy()[apart]) > 1e-6).any() == apart.any()


def test_a_block_stands_for_its_quantities(counts: Any, mixture: Any) -> None:
    assert list(mixture.sd("mu").index) == mixture.names[:4]
    assert list(mixture.sd("Lambda[0,0,1]").index) == ["Lambda[0,0,1]"]
    assert list(mixture.sd("logdet(Lambda)").index) == ["logdet(Lambda[0])", "logdet(Lambda[1])"]
    assert list(mixture.mean("log(pi)").index) == ["log(pi[0])", "log(pi[1])"]
    assert list(mixture.mean("pi").index) == ["log(pi[0])", "log(pi[1])"]
    assert mixture.cov(["mu", "log(pi)"]).shape == (6, 6)
    assert list(counts.sd(["tau", "beta"]).index) == ["tau", "beta"]
    assert list(counts.sd("tau").index) == ["tau"]


@every_case
def test_summary(name: str) -> None:
    posterior = posterior_of(name)
    summary = posterior.summary()
    assert list(summary.columns) == ["mean", "sd", "mfvb_sd", "lower", "upper", "verdict"]
    assert list(summary.index) == posterior.names
    assert (summary["lower"] < summary["mean"]).all()
    assert (summary["mean"] < summary["upper"]).all()
    wider = posterior.summary(prob=0.99)
    assert (wider["lower"] < summary["lower"]).all()
    assert (wider["upper"] > summary["upper"]).all()
    positive = [n for n in ("tau", "nu", "rate", "Lambda[0,0,0]") if n in summary.index]
    assert (wider.loc[positive, "lower"] > 0).all()


def test_intervals_of_a_normal_quantity(counts: lrvb.Posterior) -> None:
    summary = counts.summary(prob=0.95)
    half = (summary["upper"] - summary["lower"]) / 2
    np.testing.assert_allclose(half["beta"], 1.959964 * summary["sd"]["beta"], rtol=1e-6)
    np.testing.assert_allclose(
        np.log(summary.loc["tau", ["lower", "upper"]]), summary.loc["log(tau)", ["lower", "upper"]]
    )


def test_probabilities_of_intervals(counts: lrvb.Posterior) -> None:
    for prob in (0, 1, -1, 2, np.nan, "a", None, [0.5], True):
        with pytest.raises(lrvb.InvalidModel, match=r"prob=.* between 0 and 1, such as 0\.94\.$"):
            counts.summary(prob)


def test_the_fit_is_reported(counts: lrvb.Posterior) -> None:
    assert counts.converged is True
    assert counts.n_iter == counts.fit.n_iter > 0
    assert counts.elbo == counts.fit.elbo == max(counts.fit.trace)
    assert counts.response.fit is counts.fit
    assert "converged in" in repr(counts)
    assert "log(tau)" in repr(counts)


def test_names_that_are_not_there(counts: lrvb.Posterior) -> None:
    with pytest.raises(
        lrvb.InvalidModel, match=r"no quantity 'bta'\. Did you mean beta.* log\(tau\)\.$"
    ):
        counts.sd("bta")
    with pytest.raises(lrvb.InvalidModel, match=r"no quantity 'zzz'\. There are: beta"):
        counts.cov(["beta", "zzz"])
    with pytest.raises(lrvb.InvalidModel, match="names=0 must be a name or a list of names"):
        counts.mean(0)  # type: ignore[arg-type]
    with pytest.raises(lrvb.InvalidModel, match="method='both' must be 'lrvb' or 'mfvb'"):
        counts.sd(method="both")


# ---- functions -----------------------------------------------------------------------------


def test_functions_of_moments(counts: lrvb.Posterior) -> None:
    cov = counts.cov()
    assert isinstance(counts.of(lambda m: m.beta.x), float)
    np.testing.assert_allclose(counts.of(lambda m: 2 * m.beta.x), 4 * cov.loc["beta", "beta"])
    pair = counts.of(lambda m: jnp.stack([m.beta.x, m.tau.x]))
    np.testing.assert_allclose(pair, cov.loc[["beta", "tau"], ["beta", "tau"]])
    crossed = counts.of(lambda m: [m.beta.x, m.tau.x], lambda m: [m.tau.log_x, m.beta.x, m.tau.x])
    np.testing.assert_allclose(crossed, cov.loc[["beta", "tau"], ["log(tau)", "beta", "tau"]])
    assert counts.of(lambda m: m.tau.x, lambda m: [m.beta.x, m.tau.x]).shape == (2,)
    np.testing.assert_allclose(
        counts.of(lambda m: m.beta.x, method="mfvb"), counts.sd("beta", method="mfvb").item() ** 2
    )


def test_matrices_of_moments(mixture: lrvb.Posterior) -> None:
    assert mixture.of(lambda m: m.mu.x).shape == (2, 2, 2, 2)
    trace = mixture.of(lambda m: jnp.trace(m.Lambda.x[0]))
    block = mixture.cov(["Lambda[0,0,0]", "Lambda[0,1,1]"]).to_numpy()
    np.testing.assert_allclose(trace, block.sum(), rtol=1e-12)
    np.testing.assert_allclose(
        mixture.of(lambda m: m.Lambda.x[0, 0, 1], lambda m: m.Lambda.x[0, 1, 0]),
        mixture.cov("Lambda[0,0,1]").iloc[0, 0],
    )


FUNCTIONS: dict[str, tuple[Any, str]] = {
    "numpy": (lambda m: np.log(m.tau.x), "jax.numpy"),
    "float": (lambda m: float(m.tau.x), "jax.numpy"),
    "no block": (lambda m: m.gamma.x, "no block 'gamma'; the blocks are: beta, tau"),
    "text": (lambda m: "one", "return a number or an array"),
    "None": (lambda m: None, "return a number or an array"),
    "mapping": (lambda m: {"a": m.tau.x}, "return a number or an array"),
    "moments": (lambda m: m, "return a number or an array"),
    "complex": (lambda m: m.tau.x * 1j, "complex128"),
    "truth": (lambda m: m.tau.x > 0, "bool"),
    "nan": (lambda m: jnp.log(-m.tau.x), "not finite"),
    "kink": (lambda m: jnp.sqrt(0 * m.tau.x), "not finite"),
    "own error": (lambda m: [][0], "IndexError: list index out of range"),
    "no argument": (lambda: 1.0, "positional argument"),
    "not a function": ("tau", "not callable"),
}


@pytest.mark.parametrize("kind", FUNCTIONS)
def test_functions_that_are_none(kind: str, counts: lrvb.Posterior) -> None:
    f, words = FUNCTIONS[kind]
    with pytest.raises(lrvb.InvalidModel) as caught:
        counts.of(f)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


# ---- local variables -----------------------------------------------------------------------


@every_case
def test_local_variables(name: str) -> None:
    posterior, case = posterior_of(name), BY_NAME[name]
    block = next(iter(posterior.fit.problem.local.blocks))
    local = posterior.local(block)
    assert isinstance(local, xr.Dataset)
    assert set(local.data_vars) == {"mean", "sd", "mfvb_sd", "cov"}
    dim = "group" if name == "RandomSlope" else "row"
    n = 12 if name == "RandomSlope" else len(next(iter(case.data.values())))
    assert local.sizes[dim] == n
    assert local["cov"].dims[0] == dim
    assert local["cov"].dims[-1] == "quantity"
    assert list(local["quantity"].values) == posterior.names
    assert (local["sd"] >= 0).all()
    some = posterior.local(block, rows=[4, 1, -1])
    for variable in local.data_vars:
        whole = local[variable].isel({dim: [4, 1, n - 1]})
        np.testing.assert_allclose(some[variable], whole, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(some[dim], local[dim][[4, 1, n - 1]])


def test_ways_to_ask_for_rows(counts: lrvb.Posterior) -> None:
    expected = counts.local("z")["mean"].values
    mask = np.zeros(40, dtype=bool)
    mask[[2, 3]] = True
    for rows, at in [
        (slice(0, 2), [0, 1]),
        (slice(None, None, -20), [39, 19]),
        (mask, [2, 3]),
        (range(2), [0, 1]),
        (pd.Series([1, 2]), [1, 2]),
        ((5, 5), [5, 5]),
        (np.int64(7), [7]),
        (7, [7]),
    ]:
        np.testing.assert_allclose(counts.local("z", rows=rows)["mean"], expected[at], rtol=1e-9)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([40], "Row 40 does not exist; there are 40 rows, from 0."),
        ([0, -41], "Row -41 does not exist"),
        ([1.5], "rows=[1.5] must be row positions: whole numbers, a slice"),
        ("a", "rows='a' must be row positions"),
        ([[0, 1]], "must be row positions"),
        ([None], "must be row positions"),
        ({1, 2}, "must be row positions"),
        (np.ones(39, dtype=bool), "one True or False for each of the 40 rows"),
        ([], "asks for no rows"),
    ],
)
def test_rows_that_are_not_there(rows: Any, words: str, counts: lrvb.Posterior) -> None:
    with pytest.raises(lrvb.InvalidData) as caught:
        counts.local("z", rows=rows)
    assert words in str(caught.value)


def test_local_names_that_are_not_there(counts: lrvb.Posterior) -> None:
    with pytest.raises(
        lrvb.InvalidModel, match="no local quantity 'q'; the local quantities are: z"
    ):
        counts.local("q")
    assert set(posterior_of("GammaPoisson").local("log(lam)").data_vars) == {
        *("mean", "sd", "mfvb_sd", "cov")
    }


class Prior(lrvb.Model):
    """Blocks of every shape under their priors: no rows."""

    global_blocks = {
        "x": lrvb.Normal(),
        "b": lrvb.Beta(batch=(3,)),
        "mu": lrvb.MultivariateNormal(2, batch=(2,)),
        "Lambda": lrvb.Wishart(2, batch=(2, 1)),
        "pi": lrvb.Dirichlet(3),
        "tau": lrvb.Gamma(),
    }

    def global_term(self, m):
        normal = -0.5 * (m.x.xx - 2 * m.x.x) - 0.5 * jnp.sum(m.mu.xx * jnp.eye(2)) * m.tau.x
        beta = jnp.sum(2 * m.b.log_x + 3 * m.b.log1m_x)
        wishart = jnp.sum(3 * m.Lambda.logdet_x) - jnp.sum(m.Lambda.x * jnp.eye(2))
        return normal + beta + wishart + 4 * m.pi.log_x.sum() + 5 * m.tau.log_x - 2 * m.tau.x


@cache
def prior() -> lrvb.Posterior:
    return lrvb.infer(Prior())


def test_a_model_without_rows() -> None:
    posterior = prior()
    assert posterior.converged
    with pytest.raises(lrvb.InvalidModel, match="no local blocks, so there is no local 'z'"):
        posterior.local("z")


def test_rows_keep_the_labels_of_a_data_frame() -> None:
    labels = [f"r{i}" for i in range(40)]
    frame = pd.DataFrame(dict(COUNTS.data), index=labels)
    local = lrvb.infer(COUNTS.model, frame).local("z")
    assert list(local["row"].values) == labels
    np.testing.assert_allclose(
        local["mean"].sel(row="r3"), posterior_of(str(COUNTS)).local("z")["mean"][3], rtol=1e-6
    )


# ---- draws ---------------------------------------------------------------------------------

SHAPES = {"x": (), "b": (3,), "mu": (2, 2), "Lambda": (2, 1, 2, 2), "pi": (3,), "tau": ()}


def test_draws_have_the_shapes_of_their_blocks() -> None:
    draws = prior().draws(11, seed=1)
    assert {name: values.shape[1:] for name, values in draws.items()} == SHAPES
    assert all(len(values) == 11 for values in draws.values())


def test_draws_are_valid_values() -> None:
    draws = prior().draws(500, seed=2)
    assert (np.linalg.eigvalsh(draws["Lambda"]) > 0).all()
    np.testing.assert_array_equal(draws["Lambda"], np.swapaxes(draws["Lambda"], -1, -2))
    np.testing.assert_allclose(draws["pi"].sum(axis=-1), 1.0, rtol=1e-12)
    assert (draws["pi"] > 0).all()
    assert ((draws["b"] > 0) & (draws["b"] < 1)).all()
    assert (draws["tau"] > 0).all()


def test_draws_repeat_by_seed() -> None:
    first, again, other = (prior().draws(5, seed=s) for s in (3, 3, 4))
    for name, values in first.items():
        np.testing.assert_array_equal(values, again[name])
        assert not np.array_equal(values, other[name])
    rng = np.random.default_rng(3)
    np.testing.assert_array_equal(prior().draws(5, seed=rng)["x"], first["x"])
    assert not np.array_equal(prior().draws(5, seed=rng)["x"], first["x"])


@every_case
def test_draws_have_the_linear_response_covariance(name: str) -> None:
    """Means and covariances of statistics that are coordinates: x, log τ. Within 5 MC errors.

    E τ is the table's, so that E log τ lies ψ(a) − log a below log E τ, with ψ′(a) = Var(log τ).
    """
    posterior, n = posterior_of(name), 40_000
    draws = posterior.draws(n, seed=5)
    coordinates = {}
    for quantity in posterior.names:
        block = next(b for b in draws if b in quantity)
        index = quantity[quantity.find("[") + 1 : quantity.find("]")] if "[" in quantity else ""
        values = draws[block][(slice(None), *map(int, index.split(","))) if index else ()]
        if quantity.startswith("log("):
            coordinates[quantity] = np.log(values) if block != "pi" else None
        elif f"log({quantity})" not in posterior.names and block != "Lambda":
            coordinates[quantity] = values if not quantity.startswith("logdet") else None
    found = {q: v for q, v in coordinates.items() if v is not None}
    names, u = list(found), np.stack(list(found.values()))
    cov, sd = posterior.cov(names).to_numpy(), posterior.sd(names).to_numpy()
    assert len(names) >= 1
    means = posterior.mean(names)
    for quantity in names:
        if quantity.startswith("log(") and (inside := quantity[4:-1]) in posterior.names:
            a = inverse_trigamma(posterior.sd(quantity).item() ** 2)
            means[quantity] = np.log(posterior.mean(inside).item()) + digamma(a) - np.log(a)
    np.testing.assert_allclose((u.mean(1) - means) / sd, 0, atol=5 / np.sqrt(n))
    error = (np.cov(u) - cov) / np.outer(sd, sd)
    np.testing.assert_allclose(error, 0, atol=5 * np.sqrt(2 / n))


def test_draws_of_matrices_and_probabilities(mixture: lrvb.Posterior) -> None:
    """log |Λ| and log ratios of π are linear in both the statistics and the coordinates."""
    n = 40_000
    draws = mixture.draws(n, seed=6)
    expected = mixture.of(
        lambda m: [*m.Lambda.logdet_x, m.pi.log_x[0] - m.pi.log_x[1], m.mu.x[0, 0]]
    )
    u = np.stack(
        [
            *np.linalg.slogdet(draws["Lambda"])[1].T,
            np.log(draws["pi"][:, 0] / draws["pi"][:, 1]),
            draws["mu"][:, 0, 0],
        ]
    )
    sd = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(
        (np.cov(u) - expected) / np.outer(sd, sd), 0, atol=5 * np.sqrt(2 / n)
    )
    # E A_jj² is q's, so that E log|Λ| falls by half of what its variance gains, to second order
    names = ["logdet(Lambda[0])", "logdet(Lambda[1])"]
    gained = mixture.sd(names) ** 2 - mixture.sd(names, method="mfvb") ** 2
    means = mixture.mean(names) - gained / 2
    np.testing.assert_allclose((u[:2].mean(1) - means) / sd[:2], 0, atol=5 / np.sqrt(n))


@pytest.mark.parametrize("n", [0, -1, 2.5, np.nan, "a", None, True])
def test_numbers_of_draws(n: Any, counts: lrvb.Posterior) -> None:
    with pytest.raises(
        lrvb.InvalidModel, match=r"n=.* must be a whole number of draws, 1 or more\.$"
    ):
        counts.draws(n)


@pytest.mark.parametrize("seed", [-1, "a", 1.5])
def test_seeds(seed: Any, counts: lrvb.Posterior) -> None:
    with pytest.raises(lrvb.InvalidModel, match=r"seed=.* must be a whole number"):
        counts.draws(1, seed=seed)


# ---- one thing at a time, and two ----------------------------------------------------------


def test_stages_are_public() -> None:
    fit = lrvb.fit(COUNTS.model, COUNTS.data, tol=1e-9)
    curvature = lrvb.linearize(fit)
    response = lrvb.respond(curvature)
    posterior = lrvb.summarize(response)
    np.testing.assert_allclose(curvature.V, posterior.response.V)
    pd.testing.assert_frame_equal(
        posterior.cov(), lrvb.infer(COUNTS.model, COUNTS.data, tol=1e-9).cov()
    )


def test_two_threads_give_what_one_gives() -> None:
    from concurrent.futures import ThreadPoolExecutor

    models = [NormalPoisson(beta_var=v, local="gaussian") for v in (1.0, 2.0, 3.0, 4.0)]
    alone = [lrvb.infer(m, COUNTS.data).cov() for m in models[:2]]
    with ThreadPoolExecutor(2) as pool:
        together = list(pool.map(lambda m: lrvb.infer(m, COUNTS.data).cov(), models))
    for one, other in zip(alone, together, strict=False):
        pd.testing.assert_frame_equal(one, other)
