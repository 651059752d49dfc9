"""Leaving out rows and groups, against integrals on a grid without them and against refits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

import lrvb
from lrvb.estimators.mixed.integral.fit import integrate_model
from lrvb.estimators.mixed.integral.influence import MixedSensitivity
from lrvb.estimators.mixed.integral.left_out import lots, sample
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.importance import Budget
from lrvb.integrated.levels import Levels
from lrvb.numerics.pareto import smooth

CASES = Path(__file__).resolve().parents[5] / "shared" / "mixed_cases"
G, PER = 8, 4
RNG = np.random.default_rng(5)
CODES = np.repeat(np.arange(G), PER)
EFFECT = 0.6 * RNG.standard_normal(G)[CODES]
DATA = pd.DataFrame(
    {
        "g": np.array(list("abcdefgh"))[CODES],
        "count": RNG.poisson(np.exp(0.7 + EFFECT)),
        "y": 2 + EFFECT + 0.5 * RNG.standard_normal(G * PER),
        "x": RNG.standard_normal(G * PER),
    }
)
DATA.loc[5, "count"] = 13  # a row that matters


@pytest.fixture(scope="module", params=["poisson", "gaussian"])
def model(request):
    """An intercept and a group: θ has two coordinates, which a grid can do."""
    y = "count" if request.param == "poisson" else "y"
    return lrvb.MixedModel(f"{y} ~ 1 + (1|g)", request.param).fit(DATA)


def _grid(model):
    """Points of θ (n, 2) that cover the posterior, and the first and last."""
    theta, w = model._integrated.theta, model._integrated.weights
    center = w @ theta
    sd = np.sqrt(w @ (theta - center) ** 2)
    axes = [np.linspace(c - 7 * s, c + 7 * s, 61) for c, s in zip(center, sd, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)


def _on_grid(model, keep):
    """log Z, E Intercept and E sd[1|g] of the rows kept."""
    statement, theta = model._integrated.statement, _grid(model)
    rows, (term,) = statement.rows, statement.terms
    levels, codes = np.unique(term.codes[keep], return_inverse=True)
    own = term.on(keep, codes, len(levels))
    standard = model._integrated.standard
    if isinstance(statement.inside, Gaussian):
        inside = Gaussian(rows.take(keep), [own], statement.inside.residual)
        log_p, beta = inside.log_density(theta), inside.beta(theta)[0]
    else:
        inside = Levels(rows.take(keep), own)
        log_p, beta = inside.log_density(theta), theta[:, :1]
    w = np.exp(log_p - logsumexp(log_p))
    sd = np.exp(theta[:, 0 if isinstance(inside, Gaussian) else 1])
    return logsumexp(log_p), w @ (beta @ standard.T.T + standard.t)[:, 0], w @ sd


def test_rows_left_out_against_a_grid(model):
    """log p(y_i | y_−i) is a difference of two log evidences."""
    table = model.loo()
    full, *_ = _on_grid(model, np.arange(len(DATA)))
    for i in (0, 5, 17, 31):
        rest, *_ = _on_grid(model, np.delete(np.arange(len(DATA)), i))
        assert abs(table["elpd"][i] - (full - rest)) < 0.03
    assert table.attrs["n_bad"] == 0
    assert model.posterior_.loo().equals(table)
    assert table.attrs["elpd_loo"] == pytest.approx(table["elpd"].sum())


def test_groups_left_out_against_a_grid(model):
    """And E[q | y_−g] is the mean over the grid without the group, to 5 % of the change.

    Beyond that Monte Carlo's error of a mean is let pass, 0.04 sds of some 2,000 weighted draws.
    """
    table = model.loo(by="g")
    influence = model.posterior_.influence(["Intercept", "sd[1|g]"], by="g")
    sd = model.posterior_.sd(["Intercept", "sd[1|g]"]).to_numpy()
    full, *means = _on_grid(model, np.arange(len(DATA)))
    for level in "abg":
        rest, *moved = _on_grid(model, np.flatnonzero(DATA["g"] != level))
        assert abs(table["elpd"][level] - (full - rest)) < 0.05
        change = np.array(moved) - np.array(means)
        assert np.all(np.abs(influence.loc[level] - change) < 0.05 * np.abs(change) + 0.04 * sd)


def test_monte_carlos_error_of_a_change_is_known():
    """Eight integrations with other draws differ by what is told, or by less: draws fill space evenly.

    The sd of eight is known to 1/√14 = 27 %, two and a half of which are let pass.
    """
    model = lrvb.MixedModel("count ~ x + (1|g)", "poisson").fit(DATA)
    ours = model.posterior_._what_if()
    at, found = np.array([0, 1, 2]), []
    for seed in range(8):
        again = integrate_model(ours.found.design, ours.priors, ours.found.standard, seed=seed)
        found.append(MixedSensitivity(again, ours.priors).influence(at, CODES, refits=0))
    values = np.array([part.values for part in found]) / ours.sd[at]
    told = np.mean([part.error for part in found], axis=0)
    spread = values.std(axis=0, ddof=1).max(axis=1)
    assert np.all(spread < (1 + 2.5 * 0.27) * told)
    assert np.median(spread / told) > 0.3


def test_a_group_whose_weights_are_noisy_is_left_out_in_a_fit(monkeypatch):
    """The largest of them, by both with the least variance, or by the fit alone where k̂ is large.

    A line says what errors there are, of fits too.
    """
    model = lrvb.MixedModel("count ~ x + (1|g)", "poisson").fit(DATA)
    monkeypatch.setattr("lrvb.estimators.mixed.integral.influence.NOISY", 1e-4)
    ours, at = model.posterior_._what_if(), np.array([1])
    weighed, found = ours._by_weights(at, CODES, G), ours.influence(at, CODES, refits=2)
    assert found.refitted.sum() == 2
    b = int(np.flatnonzero(found.refitted)[0])
    again = ours.left_out(np.flatnonzero(b == CODES))
    fitted = again.estimate.m[1] - ours.estimate.m[1]
    own = 0.0
    for fit in (ours.found, again):
        own += np.sum((fit.weights * (fit.weighted.values[:, 1] - fit.estimate.m[1])) ** 2)
    precision = np.array([1 / own, 1 / weighed.error[b, 0] ** 2])
    joined = precision @ [fitted, weighed.values[b, 0]] / precision.sum()
    assert_allclose(found.values[b, 0], joined, rtol=1e-9)
    assert_allclose(found.error[b], precision.sum() ** -0.5 / ours.sd[1], rtol=1e-9)
    monkeypatch.setattr("lrvb.estimators.mixed.integral.influence.DOUBTED", -10.0)
    alone = ours.influence(at, CODES, refits=2)
    assert alone.values[b, 0] == fitted
    assert_allclose(alone.error[b], own**0.5 / ours.sd[1], rtol=1e-9)
    assert "with Monte Carlo errors of up to" in repr(model.posterior_.influence("x"))


@pytest.mark.parametrize(("family", "y"), [("poisson", "count"), ("gaussian", "y")])
def test_given_levels_estimate_the_same_sum(monkeypatch, family, y):
    """One draw of the levels for each of θ, of which there are many here: the same target, noisier."""
    for user in ("direct", "integration"):
        monkeypatch.setattr(f"lrvb.integrated.{user}.enough", lambda d, levels: Budget(final=2**14))
    model = lrvb.MixedModel(f"{y} ~ 1 + (1|g)", family).fit(DATA)
    both = [model.loo(levels=levels).attrs["elpd_loo"] for levels in ("integrated", "given")]
    assert abs(both[0] - both[1]) < 1.0


def test_scores_are_derivatives_of_reweighted_means(model):
    """d/dε of Σ w e^{−εℓ} q / Σ w e^{−εℓ} at 0, to the error of a central difference."""
    what_if = model.posterior_._what_if()
    at = np.array([len(what_if.estimate.m) - 1])  # not β, which moves given θ as well
    codes = CODES
    found = what_if.scores(at, codes)[:, 0]
    drawn = sample(what_if.found, codes, G)
    T = what_if.found.weighted.values[drawn.at][:, at[0]]
    (lot,) = lots(what_if.found, drawn, codes, G)
    h = 1e-4
    for b in (0, 3):
        ends = []
        for step in (h, -h):
            log_w = np.log(drawn.weights) - step * lot.out.log_p[:, b]
            ends.append(np.exp(log_w - logsumexp(log_w)) @ T)
        assert_allclose(found[b], (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-9)
    assert smooth(np.log(drawn.weights) - lot.out.log_p[:, 0])[1] < 0.7


def test_robust_sds_are_the_jackknife_of_groups(model):
    """(G − 1)/G Σ (m₋g − m̄)² with every m₋g by a grid; each change is known to 0.04 sds, one of √8 of them.

    A group is left out by weights, or in a fit of its own where those are bad.
    """
    robust = model.posterior_.sd(["Intercept", "sd[1|g]"], method="robust")
    sd = model.posterior_.sd(["Intercept", "sd[1|g]"])
    means = np.array([_on_grid(model, np.flatnonzero(g != CODES))[1:] for g in range(G)])
    exact = np.sqrt((G - 1) / G * ((means - means.mean(0)) ** 2).sum(0))
    assert np.all(np.abs(robust - exact) < 0.04 * sd)
    assert robust.attrs["groups"] == G
    assert f"{G - 1} degrees" in repr(robust)  # its groups are the model's own, and few


def test_robust_sds_are_near_when_the_model_is_right(model):
    """Within what eight groups tell, and by rows too."""
    ratio = model.posterior_.sd("Intercept", method="robust") / model.posterior_.sd("Intercept")
    assert 0.4 < float(ratio.iloc[0]) < 2
    by_rows = model.posterior_.sd("Intercept", method="robust", by=np.arange(len(DATA)))
    assert by_rows.iloc[0] > 0


def test_fragility_is_confirmed_by_a_refit(model):
    """The fewest rows without which the intercept's interval would hold zero."""
    found = model.posterior_.fragility("Intercept")
    assert found.n == len(DATA)
    assert "Intercept" in repr(found)


def test_check_names_groups(model):
    """The page of a mixed model has groups and robust sds."""
    page = model.check()
    assert {"levels", "robust sds", "priors", "convergence"} <= {f.what for f in page.findings}
    assert "level" in repr(page)
    assert repr(model.check(by="g")) == repr(page)


def test_bad_questions_of_leaving_out(model):
    """One sentence each."""
    with pytest.raises(lrvb.InvalidModel, match="levels='x' must be"):
        model.loo(levels="x")
    with pytest.raises(lrvb.InvalidModel, match="takes its levels with it"):
        model.loo(by="g", levels="given")
    with pytest.raises(lrvb.InvalidData, match=r"reads no column 'clinic'; it reads '.*', 'g'"):
        model.loo(by="clinic")


def test_a_variational_fit_has_no_draws():
    """And says so."""
    variational = lrvb.MixedModel("y ~ 1 + (1|g)", factorization="variational").fit(DATA)
    with pytest.raises(lrvb.InvalidModel, match="hyperparameters are integrated"):
        variational.loo()
    with pytest.raises(lrvb.InvalidModel, match=r"another prior or fewer rows .*blocked"):
        variational.posterior_.prior_sensitivity()


def test_levels_in_a_gaussian_block_are_not_left_out():
    """1/p has no mean over a Gaussian that only stands for the levels."""
    data = DATA.assign(h=np.tile(np.arange(PER), G))
    block = lrvb.MixedModel("count ~ 1 + (1 + x|g) + (1|h)", "poisson").fit(data)
    assert block.certificate_.method != "importance"
    with pytest.raises(lrvb.InvalidModel, match="summed exactly given them; not so here"):
        block.loo()


def test_rows_and_groups_of_three_nested_factors_are_left_out():
    """A row effect in halves of groups: a half, against a fit without it, and every row."""
    data = DATA.assign(half=np.arange(G * PER) // 2, row=np.arange(G * PER))
    model = lrvb.MixedModel("count ~ 1 + (1|g) + (1|half) + (1|row)", "poisson").fit(data)
    assert model.loo()["elpd"].idxmin() == 5  # thirteen among numbers below five
    what_if = model.posterior_._what_if()
    table = model.posterior_.influence("Intercept", by="half", refits=0, scaled=True)
    again = what_if.moved_mean(what_if.left_out(np.array([4, 5])))
    exact = (again - what_if.estimate.m)[0] / what_if.sd[0]
    # both have Monte Carlo's error of a mean, some 0.02 sds
    assert abs(table.loc[2].iloc[0] - exact) < 0.05 * abs(exact) + 0.06


def test_crossed_factors_must_be_named():
    """No groups of rows are independent."""
    data = DATA.assign(h=np.tile(list("uvwx"), G))
    model = lrvb.MixedModel("y ~ 1 + (1|g) + (1|h)").fit(data)
    with pytest.raises(lrvb.InvalidModel, match="'h' and 'g' are crossed"):
        model.posterior_.sd("Intercept", method="robust")
    assert model.posterior_.sd("Intercept", method="robust", by="g").iloc[0] > 0
    assert len(model.loo(by="h")) == 4


@pytest.fixture(scope="module")
def crossed():
    """Counts in two crossed factors: the effects of h, the smaller one, are drawn; those of g summed out."""
    rng = np.random.default_rng(8)
    n, h = 96, np.tile(np.arange(6), 16)
    eta = 1 + 0.5 * rng.standard_normal(8)[np.arange(n) // 12] + 0.6 * rng.standard_normal(6)[h]
    data = {
        "g": np.arange(n) // 12,
        "h": np.array(list("uvwxyz"))[h],
        "count": rng.poisson(np.exp(eta)),
    }
    return lrvb.MixedModel("count ~ 1 + (1|g) + (1|h)", "poisson").fit(pd.DataFrame(data))


def test_levels_whose_effects_are_drawn_are_left_out_by_weights(crossed):
    """Their effects are summed out, so that weights are good: to 5 % of the change by fits without them.

    Beyond that both have Monte Carlo's error of a mean, some 0.02 sds each.
    """
    what_if, at = crossed.posterior_._what_if(), np.arange(2)
    codes = next(f.codes for f in crossed.design_.factors if f.name == "h")
    found = what_if.influence(at, codes, refits=0)
    assert not found.refitted.any()
    assert (found.k_hat < 0.7).all()
    exact = np.array([_moved(what_if, codes == b)[at] for b in range(6)])
    assert np.all(np.abs(found.values - exact) < 0.05 * np.abs(exact) + 0.06 * what_if.sd[at])
    robust = crossed.posterior_.sd("Intercept", method="robust", by="h")
    jackknife = np.sqrt(5 / 6 * ((exact - exact.mean(0)) ** 2).sum(0))
    assert abs(robust.iloc[0] - jackknife[0]) < 0.05 * jackknife[0] + 0.06 * what_if.sd[0]


def _moved(what_if, gone):
    return what_if.moved_mean(what_if.left_out(np.flatnonzero(gone))) - what_if.estimate.m


def test_robust_sds_by_groups_of_several_levels_that_are_drawn_are_refused(crossed):
    """Given several drawn effects a group's score is too small; changes without it are answered."""
    pairs = crossed.design_.factors[1].codes // 2
    with pytest.raises(
        lrvb.InvalidModel, match=r"hold several of its levels .* by='h' and by='g' are"
    ):
        crossed.posterior_.sd("Intercept", method="robust", by=pairs)
    assert crossed.posterior_.sd("Intercept", method="robust", by="g").iloc[0] > 0
    assert len(crossed.posterior_.influence("Intercept", by=pairs)) == 3


def test_densities_of_a_lognormal_response_are_of_the_response():
    """log p(y) = log p(log y) − log y, row by row: the same draws serve both."""
    data = DATA.assign(positive=np.exp(DATA["y"]))
    sds = {"residual": lrvb.prior.HalfNormal(1.0), "1|g": lrvb.prior.HalfNormal(1.0)}
    priors = {"fixed": lrvb.prior.Normal(0, 5), **sds}
    of_log = lrvb.MixedModel("y ~ 1 + (1|g)", priors=priors).fit(data)
    of_itself = lrvb.MixedModel("positive ~ 1 + (1|g)", "lognormal", priors=priors).fit(data)
    assert_allclose(of_itself.loo()["elpd"], of_log.loo()["elpd"] - data["y"], atol=1e-6)


def test_replicated_data_tell_of_overdispersion():
    """Counts with a rate of their own in every row, fitted as Poisson ones."""
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"g": np.repeat(np.arange(12), 10)})
    data["y"] = rng.poisson(3 * rng.gamma(0.5, 2.0, 120))
    page = lrvb.MixedModel("y ~ 1 + (1|g)", "poisson").fit(data).check()
    found = {finding.what: finding for finding in page.findings}
    assert found["predictive check"].state == "look"
    assert "does not make data like these" in found["predictive check"].sentence
    assert "(p < 0.005). Compare with family='negbinomial'" in found["predictive check"].sentence


def test_ordered_categories_are_replicated_as_categories():
    """They are numbered from 1: no row is a zero, and the largest is the last category."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"g": np.repeat(np.arange(8), 10)})
    data["y"] = rng.integers(1, 4, 80)
    page = lrvb.MixedModel("y ~ 1 + (1|g)", "cumulative").fit(data).check()
    said = {finding.what: finding.sentence for finding in page.findings}["predictive check"]
    assert "alike in mean category, sd of the categories;" in said


@pytest.mark.skipif(not CASES.exists(), reason="the stored cases are not here")
def test_groups_of_a_stored_case_against_refits():
    """Every batch of dyestuff2: the quantity that moves most, to 5 % of its change by a refit."""
    data = pd.read_csv(CASES / "dyestuff2.csv")
    model = lrvb.MixedModel("Yield ~ 1 + (1|Batch)").fit(data)
    what_if = model.posterior_._what_if()
    at = np.arange(len(what_if.estimate.m))
    codes = model.design_.factors[0].codes
    found = what_if.influence(at, codes, refits=0)
    for b in range(codes.max() + 1):
        again = what_if.moved_mean(what_if.left_out(np.flatnonzero(codes == b)))
        change = again - what_if.estimate.m
        most = np.argmax(np.abs(change) / what_if.sd)
        assert abs(found.values[b, most] - change[most]) < 0.05 * abs(change[most])
