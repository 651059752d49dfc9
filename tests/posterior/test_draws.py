"""Joint draws agree with the posterior: alone a block is drawn from q, together from the table."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from posterior_cases import prior
from scipy.special import digamma

import lrvb
from cases import CASES
from lrvb.engine.second_order import Refined
from lrvb.numerics.scores import inverse_trigamma
from lrvb.posterior.draws import at_noise, unconstrained
from mixed_fits import FORMULAS, fitted, frame
from mixtures import overlapping

SCALE = np.array([[1.0, 0.3], [0.3, 0.5]])
ALONE = {
    "Gamma(0.1)": (lrvb.Gamma(), {"shape": 0.1, "rate": 3.0}),
    "Gamma(0.5)": (lrvb.Gamma(), {"shape": 0.5, "rate": 2.0}),
    "Gamma(2)": (lrvb.Gamma(), {"shape": 2.0, "rate": 0.1}),
    "Gamma(1e6)": (lrvb.Gamma(), {"shape": 1e6, "rate": 1e3}),
    "Beta": (lrvb.Beta(), {"a": 0.4, "b": 2.0}),
    "Dirichlet": (lrvb.Dirichlet(3), {"concentration": np.array([0.3, 0.3, 1.5])}),
    "Wishart": (lrvb.Wishart(2), {"dof": 2.5, "scale": SCALE}),
    "Normal": (lrvb.Normal(), {"loc": 1.0, "scale": 2.0}),
    "MultivariateNormal": (
        lrvb.MultivariateNormal(2),
        {"loc": np.array([1.0, -1.0]), "cov": SCALE},
    ),
}


def without_data(family, params) -> tuple[lrvb.Posterior, np.ndarray]:
    """The posterior of a model with this prior and no rows: the prior."""
    eta = np.asarray(family.flatten(family.from_params(**params), natural=True))

    class Prior(lrvb.Model):
        global_blocks = {"x": family}

        def global_term(self, m):
            return jnp.dot(eta, family.flatten(m["x"]))

    return lrvb.infer(Prior(), init={"x": params}), eta


def assert_mean(values: np.ndarray, expected: np.ndarray) -> None:
    """Within 5 standard errors."""
    error = values.std(axis=0) / np.sqrt(len(values))
    gap = np.abs(values.mean(axis=0) - expected)
    assert (gap <= 5 * error + 1e-12 * (1 + np.abs(expected))).all(), gap / error


@pytest.mark.parametrize("name", ALONE)
def test_a_block_alone_is_drawn_from_q(name):
    """With no data q is the posterior: draws have E T = m and Cov T = V."""
    family, params = ALONE[name]
    posterior, _ = without_data(family, params)
    x = posterior.draws(40_000, seed=1)["x"]
    T = np.asarray(family.flatten(family.Stats(*map(np.asarray, family.statistics(x)))))
    m, V = posterior.estimate.m, posterior.estimate.V
    assert_mean(T, m)
    centred = T - m
    assert_mean(centred[:, :, None] * centred[:, None, :], V)


@pytest.mark.parametrize("name", [name for name in ALONE if name.startswith(("Gamma", "Beta"))])
def test_a_margin_is_the_familys(name):
    """Kolmogorov and Smirnov against the distribution function."""
    family, params = ALONE[name]
    posterior, _ = without_data(family, params)
    exact = (
        scipy.stats.beta(params["a"], params["b"])
        if "a" in params
        else scipy.stats.gamma(params["shape"], scale=1 / params["rate"])
    )
    x = posterior.draws(20_000, seed=2)["x"]
    assert scipy.stats.kstest(x, exact.cdf).pvalue > 1e-4


def named_values(posterior: lrvb.Posterior, n: int) -> dict[str, np.ndarray]:
    """Draws of every named quantity."""
    estimate, draws, found = posterior.estimate, posterior.draws(n, seed=3), {}
    for name in draws:
        block, labels = estimate.blocks[name], estimate.labels[estimate.slices[name]]
        family = getattr(block, "family", None)
        if family is None:
            flat = draws[name].reshape(n, -1)
        else:
            copies = draws[name].reshape(
                n * family.copies, *draws[name].shape[1 + len(family.batch) :]
            )
            T = family.Stats(*map(np.asarray, family.statistics(copies)))
            flat = np.asarray(family.flatten(T)).reshape(n, -1)
        found.update({q: flat[:, i] for i, q in enumerate(labels) if q is not None})
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_draws_agree_with_the_table(case):
    """Mean and sd of every named quantity, within 5 Monte Carlo errors or 3 %.

    Of a gamma τ the mean of τ and the sd of log τ are the table's. The other two follow: E log τ is
    ψ(a) − log a below log E τ, where ψ′(a) is the corrected variance and not q's.
    """
    require_agreement(lrvb.summarize(case.response()))


@pytest.mark.parametrize("name", ["slopes", "counts", "yes"])
@pytest.mark.parametrize("factorization", ["variational", "mean_field"])
def test_draws_agree_with_the_table_of_a_mixed_model(name, factorization):
    """The same with 200 groups; sds that are functions of precisions are in the table only."""
    formula, family = FORMULAS[name]
    model = lrvb.MixedModel(formula, family, factorization=factorization)
    require_agreement(model.fit(frame(groups=200)).posterior_)


@pytest.mark.parametrize("name", ["slopes", "counts", "yes"])
def test_draws_agree_with_the_table_of_an_integrated_model(name):
    """Weighted draws are the answer itself, with as few groups as one likes."""
    require_agreement(fitted(name, "blocked").posterior_)


def test_draws_agree_with_the_table_of_a_mixture():
    """The same in the user's units."""
    X = overlapping()[0] * [3.0, 0.2] + [5.0, -1.0]
    require_agreement(lrvb.GaussianMixture(2, random_state=0).fit(X).posterior_)


def require_agreement(posterior: lrvb.Posterior, n: int = 40_000) -> None:
    """Mean and sd of draws and table."""
    table, draws = posterior.summary(), named_values(posterior, n)
    derived = {name for name in table.index if name.startswith(("sd[", "corr["))}
    assert set(table.index) - derived <= set(draws) <= set(table.index)
    for name, values in draws.items():
        mean, sd = table.loc[name, ["mean", "sd"]]
        if name.startswith("log(") and (inside := name[4:-1]) in table.index:
            shape = inverse_trigamma(sd**2)
            mean = np.log(table.loc[inside, "mean"]) + digamma(shape) - np.log(shape)
        if f"log({name})" in table.index:
            sd = mean / np.sqrt(inverse_trigamma(table.loc[f"log({name})", "sd"] ** 2))
            assert abs(sd / table.loc[name, "sd"] - 1) < 0.1  # one margin cannot have both sds
        within = max(5 * sd / np.sqrt(n), 0.03 * abs(mean))
        assert abs(values.mean() - mean) <= within, name
        assert abs(values.std() / sd - 1) <= max(5 * _relative_error(values), 0.03), name


def _relative_error(values: np.ndarray) -> float:
    """Of the sd of draws, by their fourth moment."""
    z = (values - values.mean()) / values.std()
    return float(np.sqrt((z**4).mean() - 1) / (2 * np.sqrt(len(z))))


def test_a_second_order_that_moves_nothing_leaves_draws_as_they_are():
    """Coordinates that T does not determine (a Wishart's) keep their rest beside a corrected variance."""
    estimate = prior().estimate
    free = unconstrained(estimate)
    assert np.diag(free.R).max() > 0.01
    noise = (
        np.random.default_rng(0).standard_normal((50, len(free.R))) @ free.root(estimate.Sigma).T
    )

    def unmoved(W):
        variance = np.diag(W @ estimate.Sigma @ W.T)
        return Refined(np.zeros(len(W)), variance, variance, 0.0)

    plain, refined = at_noise(estimate, free, noise), at_noise(estimate, free, noise, unmoved)
    for name in set(plain) - {"tau"}:  # a Gamma's E τ is q's only where nothing was refined
        np.testing.assert_allclose(refined[name], plain[name], rtol=1e-9)
