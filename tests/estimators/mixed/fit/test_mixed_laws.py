"""Linear response of a mixed model: tilt the log joint by a quantity, refit, difference."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import lrvb
from differences import slope
from lrvb.collapsed.gaussian.best_gaussian import NoOptimum
from lrvb.engine.curvature import linearize
from lrvb.engine.response import respond
from lrvb.estimators.mixed.design.design import Design, build
from lrvb.estimators.mixed.design.standardised import fixed_prior, standardisation
from lrvb.estimators.mixed.fit.joint_response import join
from lrvb.estimators.mixed.fit.optimum import find_optimum
from lrvb.estimators.mixed.fit.precision_model import PrecisionModel
from lrvb.estimators.mixed.priors.stated import resolve
from lrvb.prior import Gamma, Normal, Wishart
from lrvb.statement.problem import state_problem

PRIORS = {
    "fixed": Normal(0.2, 1.5),
    "1|g": Gamma(3.0, 2.0),
    "1|h": Gamma(3.0, 2.0),
    "1|obs": Gamma(4.0, 1.0),
    "g": Wishart(5.0, 0.3),
    "residual": Gamma(2.0, 2.0),
}
CASES = {
    "gaussian": ("gaussian", "y ~ x + (1|g)"),
    "gaussian, crossed": ("gaussian", "y ~ x + (1|g) + (1|h)"),
    "gaussian, correlated": ("gaussian", "y ~ x + (1 + x|g)"),
    "poisson": ("poisson", "n ~ x + (1|g)"),
    "poisson, crossed": ("poisson", "n ~ x + (1|g) + (1|h)"),
    "poisson, correlated": ("poisson", "n ~ x + (1 + x|g)"),
    "poisson, rows": ("poisson", "n ~ x + (1|g) + (1|obs)"),
    "bernoulli": ("bernoulli", "b ~ x + (1|g)"),
    "bernoulli, crossed": ("bernoulli", "b ~ x + (1|g) + (1|h)"),
}


@functools.cache
def table() -> pd.DataFrame:
    """60 rows in 8 groups and 4 crossed ones."""
    rng = np.random.default_rng(41)
    n = 60
    g = np.concatenate([np.arange(8), rng.integers(0, 8, n - 8)])
    h = rng.permutation(np.arange(n) % 4)
    x = rng.normal(size=n)
    eta = 0.4 + 0.6 * x + rng.normal(size=8)[g] * 0.7 + rng.normal(size=4)[h] * 0.5
    return pd.DataFrame(
        {
            "y": eta + rng.normal(size=n),
            "n": rng.poisson(np.exp(eta)),
            "b": rng.binomial(1, 1 / (1 + np.exp(-eta))),
            "x": x,
            "g": [f"g{k}" for k in g],
            "h": h,
            "obs": np.arange(n),
        }
    )


def fitted(family: str, formula: str, factorization: str, **changed: Any) -> lrvb.MixedModel:
    """A fit with stated priors; covariances as linear response gives them, not averaged."""
    priors = {**PRIORS, **changed}
    known = {"fixed"} | ({"residual"} if family == "gaussian" else set())
    known |= {name for name in ("1|g", "1|h", "1|obs") if f"({name})" in formula}
    known |= {"g"} if "(1 + x|g)" in formula else set()
    known |= set(changed)
    kept = {name: prior for name, prior in priors.items() if name in known}
    model = lrvb.MixedModel(formula, family, kept, factorization)
    return fitted_design(model, build(formula, table(), family))


def fitted_design(model: lrvb.MixedModel, design: Design) -> lrvb.MixedModel:
    """The model at the optimum of a design, without averaging."""
    stated, where = resolve(model.priors, design, of_precisions=True), standardisation(design)
    problem = state_problem(PrecisionModel(stated, design), None)
    options = {"tol": 1e-11, "max_iter": 200}
    fixed = fixed_prior(stated, where)
    optimum, arrangement = find_optimum(
        design, problem, where, fixed, model.factorization, **options
    )
    plain = join(arrangement.block, respond(linearize(optimum)), where)
    model._keep_variational(design, stated, where, arrangement, plain, derived=False)
    return model


def means(model: lrvb.MixedModel) -> np.ndarray:
    """All quantities, then all random effects."""
    return np.concatenate([model.posterior_.mean(), model.ranef()["mean"]])


def covariances(model: lrvb.MixedModel, name: str) -> np.ndarray:
    """Cov(·, name) of the same."""
    cov = [model.posterior_.cov()[name]]
    cov += [model._effects[effect]["cov"].sel(quantity=name) for effect in model._effects]
    return np.concatenate(cov)


def sds(model: lrvb.MixedModel) -> np.ndarray:
    return np.concatenate([model.posterior_.sd(), model.ranef()["sd"]])


@functools.cache
def base(case: str, factorization: str) -> lrvb.MixedModel:
    return fitted(*CASES[case], factorization)


every_case = pytest.mark.parametrize("case", CASES)
both = [(case, "variational") for case in CASES]
both += [(case, "mean_field") for case in ("gaussian", "poisson, crossed", "poisson, rows")]
both_ways = pytest.mark.parametrize(("case", "factorization"), both)


def assert_covariances(
    model: lrvb.MixedModel, name: str, expected: np.ndarray, atol: float
) -> None:
    """Against derivatives, in units of sds.

    In a joint factor the effect of a row follows its linear predictor's mean, and the little by
    which it follows the variance as well is left out.
    """
    scale = sds(model) * float(model.posterior_.sd(name).iloc[0])
    gap = np.abs(covariances(model, name) - expected) / scale
    joint_rows = model.factorization == "variational" and "1|obs" in model._effects
    rows = model.n_rows_ if joint_rows else 0
    assert gap[: len(gap) - rows].max() < atol
    assert gap.max() < (1e-2 if joint_rows else atol)


@both_ways
def test_covariance_with_a_fixed_effect(case, factorization):
    """A prior mean moved by h·sd² tilts the log joint by h·β: d E[θ]/dh = Cov(θ, β)."""
    family, formula = CASES[case]
    model = base(case, factorization)
    prior = PRIORS["fixed"]

    def refitted(h):
        moved = Normal(prior.mean + h * prior.sd**2, prior.sd)
        return means(fitted(family, formula, factorization, x=moved))

    unit = float(model.posterior_.sd("x").iloc[0])
    # a tilt by a tenth of an sd: its fourth power, times derivatives of order one
    assert_covariances(model, "x", slope(refitted, 0.1 / unit), atol=2e-5)


@pytest.mark.parametrize(("case", "factorization"), [c for c in both if "correlated" not in c[0]])
def test_covariance_with_a_precision(case, factorization):
    """A Gamma prior's rate lowered by h tilts by h·λ: d E[θ]/dh = Cov(θ, λ)."""
    family, formula = CASES[case]
    model = base(case, factorization)
    key = "1|obs" if "rows" in case else "residual" if case == "gaussian" else "1|g"
    name, prior = f"precision[{key}]", PRIORS[key]

    def refitted(h):
        moved = {key: Gamma(prior.shape, prior.rate - h)}
        return means(fitted(family, formula, factorization, **moved))

    unit = float(model.posterior_.sd(name).iloc[0])
    assert_covariances(model, name, slope(refitted, 0.03 / unit), atol=1e-4)


@pytest.mark.parametrize(
    ("case", "factorization"),
    [("gaussian, correlated", "mean_field"), ("poisson, correlated", "variational")],
)
def test_covariance_with_a_precision_matrix(case, factorization):
    """A Wishart prior's inverse scale lowered by 2hE tilts by h·tr(EΛ)."""
    family, formula = CASES[case]
    model = base(case, factorization)
    inverse = np.eye(2) / 0.3
    for i, j in ((0, 0), (0, 1)):
        name = f"Lambda[g][{['1', 'x'][i]},{['1', 'x'][j]}]"
        E = np.zeros((2, 2))
        E[i, j] += 0.5
        E[j, i] += 0.5

        def refitted(h, E=E):
            scale = np.linalg.inv(inverse - 2 * h * E)
            return means(fitted(family, formula, factorization, g=Wishart(5.0, scale)))

        unit = float(model.posterior_.sd(name).iloc[0])
        assert_covariances(model, name, slope(refitted, 0.03 / unit), atol=1e-4)


@pytest.mark.parametrize("factorization", ["variational", "mean_field"])
def test_variance_of_a_random_effect(factorization):
    """A row of rate e⁻⁴⁰ with "count" h tilts by h(β₀ + z_k): its derivative less Cov(z, β₀) is Var z."""
    data = table()[["n", "x", "g"]].assign(o=0.0)
    data.loc[len(data)] = {"n": 0, "x": 0.0, "g": "g2", "o": -40.0}
    formula, priors = "n ~ x + (1|g) + offset(o)", {k: PRIORS[k] for k in ("fixed", "1|g")}
    design = build(formula, data, "poisson")

    def refitted(h):
        y = design.y.copy()
        y[-1] = h
        model = lrvb.MixedModel(formula, "poisson", priors, factorization)
        return fitted_design(model, replace(design, y=y))

    effect = refitted(0.0)._effects["1|g"].sel(g="g2")
    both = slope(lambda h: refitted(h).ranef("1|g").loc["g2", "mean"], 0.1)
    variance = both - float(effect["cov"].sel(quantity="Intercept"))
    # exact but for what passes between the variances of different levels
    assert_allclose(float(effect["sd"]), np.sqrt(variance), rtol=5e-3)


@every_case
def test_blocked_has_the_higher_bound_and_the_wider_sds_of_q(case):
    """The product of factors is a special case of the one factor, except for tilted rows."""
    blocked, plain = base(case, "variational"), base(case, "mean_field")
    if "rows" not in case:
        assert blocked.elbo_ > plain.elbo_
    fixed = ["Intercept", "x"]
    assert np.all(blocked.posterior_.sd(fixed, "mfvb") > plain.posterior_.sd(fixed, "mfvb"))


@every_case
def test_averaging_is_nothing_where_precisions_are_known(case):
    """E[Var(w | λ)] is Var(w | E λ) but for the variance of log λ, 1e-8."""
    family, formula = CASES[case]
    sure = {
        name: Gamma(1e8, 1e8)
        for name in ("1|g", "1|h", "1|obs", "residual")
        if name in formula or (name == "residual" and family == "gaussian")
    }
    if "correlated" in case:
        sure["g"] = Wishart(1e8, 1e-8)
    priors = {"fixed": PRIORS["fixed"], **sure}
    model = lrvb.MixedModel(formula, family, priors, "variational").fit(table())
    plain = join(model._arrangement.block, model._joint.precisions, model._standard)
    Sigma = model._joint.estimate.Sigma
    assert_allclose(Sigma, plain.estimate.Sigma, rtol=0, atol=1e-7 * Sigma[0, 0])


def test_without_an_average_linear_response_is_left_and_said(monkeypatch):
    """A point of the average that has no best Gaussian: a warning, and the sds at the expected precisions."""
    model = lrvb.MixedModel("n ~ x + (1|g)", "poisson", factorization="variational").fit(table())
    block, precisions = model._arrangement.block, model._joint.precisions
    collapse = type(block).collapse

    def nearby(self, m, state=None):
        if not np.array_equal(m, precisions.fit.m):
            raise NoOptimum
        return collapse(self, m, state)

    plain = join(block, precisions, model._standard)
    monkeypatch.setattr(type(block), "collapse", nearby)
    with pytest.warns(lrvb.NotAveraged, match=r"precision\[1\|g\] at .* times its mean"):
        found = join(block, precisions, model._standard, averaged=True)
    assert model._joint.averaged
    assert not found.averaged
    assert_allclose(found.estimate.Sigma, plain.estimate.Sigma, rtol=1e-12)
