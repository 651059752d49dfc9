"""Predictions of a mixed model against brute force, refits and simulation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.integrate
import scipy.linalg
import scipy.stats
from numpy.testing import assert_allclose
from scipy.special import expit

import lrvb
from differences import central
from lrvb.engine.curvature import linearize
from lrvb.engine.fitting import fit
from lrvb.engine.response import respond
from lrvb.estimators.mixed.answers import prediction
from lrvb.estimators.mixed.answers.predictor import of_fitted_rows, of_new_rows
from lrvb.estimators.mixed.design.design import build
from lrvb.estimators.mixed.design.standardised import fixed_prior, standardisation
from lrvb.estimators.mixed.fit.arrangement import arrange
from lrvb.estimators.mixed.fit.joint_response import join
from lrvb.estimators.mixed.fit.precision_model import PrecisionModel
from lrvb.estimators.mixed.fit.start import start
from lrvb.likelihoods import BINOMIAL, LOGIT, POISSON
from lrvb.statement.problem import state_problem
from mixed_fits import fitted, frame, mean_of_inverse

# ---- against dense matrices ----------------------------------------------------------------


def dense(model, R, codes, X):
    """The rows of C on the user's own scale: X, then every term's levels."""
    pieces = [X]
    for t, term in enumerate(model.design_.terms):
        levels = len(model.design_.factors[term.factor].levels)
        level = codes[term.factor]
        one_hot = (level[:, None] == np.arange(levels)).astype(float)
        pieces.append(np.einsum("ng,ni->ngi", one_hot, R[t]).reshape(len(X), -1))
    return np.hstack(pieces)


def conditional(model, C, m):
    """Mean and covariance of w given the expected precisions at m, by one dense solve."""
    moments = model._joint.precisions.alpha.moments(m)
    priors = model.priors_
    tau = float(moments["precision[residual]"].x)
    blocks = [np.diag(priors.sd**-2.0)]
    for term in model.design_.terms:
        q = len(term.coefficients)
        name = f"precision[{term.name}]" if q == 1 else f"Lambda[{term.name}]"
        levels = len(model.design_.factors[term.factor].levels)
        E = np.asarray(moments[name].x).reshape(q, q)
        blocks.append(np.kron(np.eye(levels), E))
    P = scipy.linalg.block_diag(*blocks)
    Q = tau * C.T @ C + P
    center = np.concatenate([priors.mean, np.zeros(len(P) - len(priors.mean))])
    offset = 0.0 if model.design_.offset is None else model.design_.offset
    return np.linalg.solve(Q, tau * C.T @ (model.design_.y - offset) + P @ center), np.linalg.inv(Q)


@pytest.mark.parametrize("name", ["slopes", "crossed"])
def test_gaussian_prediction_is_the_dense_formula(name):
    """η̄ = c'μ and Var η = c'Q⁻¹c + (c'R)Σ̂(c'R)ᵀ, R by differences of dense solves."""
    model = fitted(name, "mean_field")  # "variational" also averages Q⁻¹ over the precisions
    design, inner = model.design_, model._joint.precisions
    C = dense(model, [t.R for t in design.terms], [f.codes for f in design.factors], design.X)
    m = np.asarray(inner.fit.m)
    mu, Sigma = conditional(model, C, m)
    R = []
    for a in range(len(m)):
        unit = np.eye(len(m))[a] * max(abs(m[a]), 1.0)
        by = central(lambda t, u=unit: conditional(model, C, m + t * u)[0], 1e-4)
        R.append(by / unit[a])
    R = np.stack(R, axis=1)
    cov = Sigma + R @ inner.Sigma @ R.T

    data = frame(seed=4).assign(x=lambda d: d.x + 1.0)
    data.loc["row0", "g"] = "nobody"
    new = design.apply(data)
    c = dense(model, new.R, new.codes, new.X)
    variance = np.einsum("ni,ij,nj->n", c, cov, c)
    for t, term in enumerate(design.terms):
        if term.group == "g":
            q = len(term.coefficients)
            block = f"precision[{term.name}]" if q == 1 else f"Lambda[{term.name}]"
            variance[0] += new.R[t][0] @ mean_of_inverse(inner, block) @ new.R[t][0]
    ours = model.predict(data, interval=0.9)
    assert_allclose(ours["mean"], c @ mu, atol=1e-8)
    assert_allclose(ours["sd"], np.sqrt(variance), rtol=1e-6)
    assert_allclose(ours["upper"], c @ mu + 1.6448536269514722 * np.sqrt(variance), rtol=1e-6)
    noise = model.predict(data, kind="response")["sd"] ** 2 - ours["sd"] ** 2
    # a difference of variances: the rounding of the larger
    assert_allclose(noise, mean_of_inverse(inner, "precision[residual]")[0, 0], rtol=1e-9)


@pytest.mark.parametrize("name", ["slopes", "crossed", "counts", "yes", "shares"])
def test_rows_of_the_fit_are_like_new_rows(name):
    for kind in ("mean", "response"):
        ours, new = (fitted(name).predict(data, 0.8, kind) for data in (None, frame()))
        assert list(ours.index) == list(frame().index)
        assert_allclose(ours, new, rtol=1e-9, atol=1e-12)


# ---- against refits ------------------------------------------------------------------------


def predictor(formula, family, factorization, y):
    """The linear predictor of the fitted rows for any response, whole numbers or not."""
    design = dataclasses.replace(build(formula, frame(), family), y=y)
    priors = fitted("rows" if "obs" in formula else "counts", factorization).priors_
    problem = state_problem(PrecisionModel(priors, design), None)
    where = standardisation(design)
    arrangement = arrange(design, problem.alpha, where, fixed_prior(priors, where), factorization)
    optimum = fit(problem, init=start(design), local_sum=arrangement.block)
    joint = join(arrangement.block, respond(linearize(optimum)), where)
    return of_fitted_rows(design, where, arrangement, joint)


@pytest.mark.parametrize("name", ["counts", "rows"])
@pytest.mark.parametrize("factorization", ["variational", "mean_field"])
def test_variance_is_the_derivative_of_the_mean(name, factorization):
    """eq:lrvb_derivative_defn: tilting by tη_n adds t to the count y_n, and nothing else."""
    model = fitted(name, factorization)
    formula, y = model.formula, model.design_.y.astype(float)
    found = predictor(formula, "poisson", factorization, y)
    n = int(np.flatnonzero(y > 0)[0])
    one = (np.arange(len(y)) == n).astype(float)
    by = central(lambda t: predictor(formula, "poisson", factorization, y + t * one).mean[n], 0.02)
    # `conditional_blocks` leaves out what one level's variances do to another's: below one per cent.
    assert_allclose(found.variance[n], by, rtol=0.01)


def test_a_level_alone_is_its_random_effect():
    """Without fixed effects η of a row is z of its level."""
    model = lrvb.MixedModel("y ~ 0 + (1|g)", factorization="variational").fit(frame())
    levels = frame().g
    effects = model.ranef("1|g").loc[levels]
    assert_allclose(model.predict()[["mean", "sd"]], effects[["mean", "sd"]], rtol=1e-9)


# ---- responses -----------------------------------------------------------------------------


def brute_quantile(law, mean, sd, prob):
    """The smallest k whose averaged distribution function, by fine quadrature, reaches prob."""
    x = np.linspace(-8, 8, 20_001)
    w = scipy.stats.norm.pdf(x)
    w /= w.sum()
    k = 0
    while w @ law(mean + sd * x).cdf(k) < prob:
        k += 1
    return k


@pytest.mark.parametrize("mean", [-3.0, 0.1, 2.5])
@pytest.mark.parametrize("sd", [1e-6, 0.3, 1.5])
def test_quantiles_of_counts(mean, sd):
    for prob in (0.03, 0.5, 0.97):
        here = np.array([mean]), np.array([sd**2])
        poisson = brute_quantile(lambda e: scipy.stats.poisson(np.exp(e)), mean, sd, prob)
        assert POISSON.averaged_quantile(*here, prob) == poisson
        for n in (1, 7, 60):
            share = brute_quantile(lambda e, n=n: scipy.stats.binom(n, expit(e)), mean, sd, prob)
            assert (
                BINOMIAL.averaged_quantile(*here, prob, {"trials": np.array([float(n)])}) == share
            )


def test_quantiles_of_large_counts():
    """Where a count's own noise is far below that of its rate, the quantile is that of the rate."""
    mean, sd = np.array([12.0, 25.0, 60.0, 1000.0]), np.full(4, 0.5)
    with np.errstate(over="ignore", invalid="ignore"):
        found = POISSON.averaged_quantile(mean, sd**2, 0.95)
    expected = np.log(found[:3]) - mean[:3]
    assert_allclose(expected, 1.6448536 * 0.5, atol=0.02 * 0.5)
    assert found[3] == np.inf


def test_averages_of_the_logistic_curve():
    """E σ and E σ² over η, with an effect of the row averaged inside, by adaptive quadrature."""
    for eta, root, own in ((0.4, 0.7, 0.0), (-2.0, 1.8, 0.9)):
        law, effect = scipy.stats.norm(eta, root), np.linspace(-9, 9, 401) * np.sqrt(own)
        weights = np.exp(-(np.linspace(-9, 9, 401) ** 2) / 2)
        weights /= weights.sum()

        def curve(u, effect=effect, weights=weights):
            return weights @ expit(u + effect)

        mean, sd = LOGIT.moments(np.array([eta]), np.array([root**2]), np.array([own]))
        ours = mean, sd**2 + mean**2
        u = np.linspace(eta - 9 * root, eta + 9 * root, 801)
        values = np.array([curve(one) for one in u])
        for power in (1, 2):
            value = scipy.integrate.trapezoid(values**power * law.pdf(u), u)
            assert_allclose(ours[power - 1], value, rtol=1e-6)
        assert_allclose(LOGIT.averaged(np.array([eta]), np.array([own])), curve(eta), rtol=1e-6)


def test_moments_of_new_counts_are_those_of_draws():
    """mean and sd of kind="response", and the average of kind="mean", by simulation of η and y."""
    model = fitted("rows")
    data = frame().iloc[:3].assign(g=["g00", "g01", "someone"])
    mean, new = model.predict(data), model.predict(data, kind="response")
    assert_allclose(mean["mean"], new["mean"])
    log = np.log1p((mean["sd"] / mean["mean"]) ** 2)  # Var η of the known part
    own = float(mean_of_inverse(model._joint.precisions, "precision[1|obs]")[0, 0])
    eta = np.log(mean["mean"]) - (log + own) / 2
    rng = np.random.default_rng(0)
    drawn = rng.normal(eta, np.sqrt(log + own), size=(200_000, 3))
    y = rng.poisson(np.exp(drawn))
    error = y.std(axis=0) / np.sqrt(len(y))
    np.testing.assert_array_less(np.abs(y.mean(axis=0) - new["mean"]), 5 * error)
    assert_allclose(y.std(axis=0), new["sd"], rtol=0.03)


@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial"])
def test_new_observations_fall_into_their_intervals(family):
    """90 % intervals of 4000 new rows, half of them in groups that the fit has not seen."""
    rng = np.random.default_rng(7)
    groups, per_group = 120, 8
    z = rng.normal(size=(2 * groups, 2)) * [0.6, 0.3]

    def rows(g):
        x = rng.normal(size=len(g))
        eta = 1.5 + 0.5 * x + z[g, 0] + z[g, 1] * x
        n = rng.integers(20, 60, size=len(g))
        y = {
            "gaussian": lambda: eta + rng.normal(size=len(g)),
            "poisson": lambda: rng.poisson(np.exp(eta + 1)),
            "binomial": lambda: rng.binomial(n, expit(eta)),
        }[family]()
        mean = {"gaussian": eta, "poisson": np.exp(eta + 1), "binomial": expit(eta)}[family]
        return {"y": y, "x": x, "g": g, "n": n, "mean": mean}

    response = "prop(y, n)" if family == "binomial" else "y"
    seen = rows(np.repeat(np.arange(groups), per_group))
    model = lrvb.MixedModel(f"{response} ~ x + (1 + x | g)", family, None, "variational").fit(seen)
    new = rows(rng.integers(2 * groups, size=4000))
    ours = model.predict(new, interval=0.9, kind="response")
    inside = (new["y"] >= ours["lower"]) & (new["y"] <= ours["upper"])
    means = model.predict(new, interval=0.9)
    held = (new["mean"] >= means["lower"]) & (new["mean"] <= means["upper"])
    for part in (new["g"] < groups, new["g"] >= groups):
        assert 0.87 < inside[part].mean() < (0.93 if family == "gaussian" else 0.95)
        assert 0.86 < held[part].mean() < 0.94  # rows of a group share its error: 120 groups


def test_offsets_multiply_rates():
    model, data = fitted("counts"), frame()
    plain = model.predict(data)
    longer = model.predict(data.assign(exposure=3 * data.exposure))
    assert_allclose(longer, 3 * plain, rtol=1e-10)


def test_row_effects_are_new_in_new_rows():
    """The column of (1|obs) is not needed, and changes nothing when it is there."""
    model, data = fitted("rows"), frame()
    assert_allclose(model.predict(data.drop(columns="obs"), 0.9), model.predict(data, 0.9))
    with pytest.raises(lrvb.InvalidData, match="no column 'g'"):
        model.predict(data.drop(columns=["obs", "g"]))


def test_chunks_do_not_matter(monkeypatch):
    whole = fitted("shares").predict(frame(), 0.9, "response")
    monkeypatch.setattr(prediction, "CHUNK", 7)
    assert_allclose(fitted("shares").predict(frame(), 0.9, "response"), whole, rtol=1e-12)


# ---- what is refused -----------------------------------------------------------------------


def test_bad_requests():
    model, data = fitted("shares"), frame()
    with pytest.raises(lrvb.InvalidModel, match="kind='link' must be"):
        model.predict(data, kind="link")
    for interval in (90, 0, True, "wide"):
        with pytest.raises(lrvb.InvalidModel, match="interval="):
            model.predict(data, interval=interval)
    assert len(model.predict(data.drop(columns="n"))) == 72
    with pytest.raises(lrvb.InvalidData, match="needs its number of trials: add 'n'"):
        model.predict(data.drop(columns="n"), kind="response")
    with pytest.raises(lrvb.InvalidData, match="'g'"):
        model.predict(data.drop(columns="g"))
    with pytest.raises(lrvb.InvalidData, match="c"):
        fitted("slopes").predict(data.assign(c="d"))
    with pytest.raises(lrvb.InvalidModel, match="call fit"):
        lrvb.MixedModel("y ~ (1|g)").predict(data)


def test_a_variance_without_expectation_is_named():
    """Where q's shape is 1 or less, E 1/λ does not exist, and a new level has no variance."""
    model = fitted("crossed")
    inner = model._joint.precisions
    eta = np.array(inner.fit.eta)
    eta[inner.alpha.slices["precision[1|h]"].start + 1] = -0.2  # shape 0.8
    point = dataclasses.replace(inner.fit.point, eta=eta)
    weak = dataclasses.replace(inner, fit=dataclasses.replace(inner.fit, point=point))
    joint = model._joint._replace(precisions=weak)
    parts = model.design_, model._standard, model._arrangement, joint
    known, new = frame().iloc[:2], frame().iloc[:2].assign(h="elsewhere")
    assert len(of_new_rows(*parts, model.design_.apply(known)).mean) == 2
    with pytest.raises(lrvb.InvalidModel, match="new level of 'h' has no finite expectation"):
        of_new_rows(*parts, model.design_.apply(new))
