"""What a posterior answers: labelled tables and functions of moments."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from posterior_cases import BY_NAME, COUNTS, every_case, posterior_of

import lrvb
from lrvb.models import NormalPoisson
from lrvb.numerics.double import double

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
    ends = summary[["lower", "upper"]]
    np.testing.assert_allclose(np.log(ends.loc["tau"]), ends.loc["log(tau)"])


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
    with pytest.raises(
        lrvb.InvalidModel, match="method='both' must be 'lrvb', 'mfvb' or 'certified'"
    ):
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
