"""What if: tables of prior sensitivity and influence, robust sds, leave-one-out, fragile conclusions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from what_if_cases import Coefficients, Line, line

import lrvb
from lrvb.engine.sensitivity import refit_weighted, settled
from lrvb.posterior.deletion import rows_of, stepped
from mixtures import overlapping


@pytest.fixture(scope="module")
def posterior() -> lrvb.Posterior:
    return lrvb.infer(Line(), line())


def test_the_table_of_priors(posterior):
    table = posterior.prior_sensitivity(["a", "b"], verify=1)
    assert list(table.columns) == [
        *("hyperparameter", "quantity", "value", "d_mean", "d_sd", "step", "change"),
        *("verified", "back", "verified_back"),
    ]
    assert list(posterior.prior_sensitivity(["a", "b"]).columns) == list(table.columns[:7])
    assert len(table) == 4
    assert (table["change"].abs().diff().dropna() <= 0).all()
    sd = posterior.sd(["a", "b"])
    expected = table["d_mean"] * table["step"] / sd[table["quantity"]].to_numpy()
    assert_allclose(table["change"], expected, rtol=1e-12)
    first = table["hyperparameter"][table["verified"].first_valid_index()]
    for column in ("verified", "back", "verified_back"):
        assert table[column].notna().equals(table["hyperparameter"] == first)
    row = table[table["verified"].notna()].iloc[0]
    name, data = row["hyperparameter"], line()
    for step, change in (("step", "verified"), ("back", "verified_back")):
        again = lrvb.infer(Line(**{name: row["value"] + row[step]}), data)
        exact = (again.mean() - posterior.mean())[row["quantity"]] / sd[row["quantity"]]
        assert_allclose(row[change], exact, atol=1e-6)


def test_a_prior_that_matters_is_said():
    """Three rows, and a slope whose prior is as sharp as they are."""
    tight = lrvb.infer(Line(slope_var=0.05), line(12))
    assert "The prior matters: " in repr(tight.prior_sensitivity())


def test_a_line_beneath_the_table_of_priors():
    """Always one: what is foretold, and with `verify` what a fit has; no column of it is left out."""
    weak = repr(lrvb.infer(Line(), line(1000)).prior_sensitivity())
    assert "No plain step of a prior moves a mean by 0.5 sds: at most slope_" in weak
    assert "as foretold from this fit." in weak
    tight = lrvb.infer(Line(slope_var=0.05), line(12))
    table = tight.prior_sensitivity(verify=1)
    assert "sds by a refit (" in repr(table)
    assert "foretold)" in repr(table)
    with pd.option_context("display.width", 60, "display.max_columns", 4):
        assert all(column in repr(table) for column in table.columns)


def test_a_model_without_numbers():
    class Plain(lrvb.Model):
        global_blocks = {"mu": lrvb.Normal()}

        def global_term(self, m):
            return -m.mu.xx / 2

    with pytest.raises(lrvb.InvalidModel, match="holds no number that could be moved"):
        lrvb.infer(Plain()).prior_sensitivity()


def test_influence_is_what_refits_say(posterior):
    """The median row and the ten largest within 5 %, in the quantity's unit and with its labels."""
    data = line()
    table = posterior.influence("b")
    assert list(table.index) == list(data.index)
    exact = pd.Series(
        {
            r: float((lrvb.infer(Line(), data.drop(index=r)).mean() - posterior.mean())["b"])
            for r in data.index[::2]
        }
    )
    error = (table["b"][exact.index] - exact).abs() / exact.abs()
    assert error.median() < 0.05
    largest = table["b"].abs().nlargest(10).index.intersection(exact.index)
    assert error[largest].max() < 0.05
    scaled = posterior.influence("b", scaled=True)
    assert_allclose(scaled["b"] * posterior.sd("b")["b"], table["b"], rtol=1e-12)


def test_a_step_in_natural_parameters_is_enough_for_a_regression():
    """Real patients, ten columns: no refit, and the ten rows that matter most within 1 %.

    A step of means has 11 % there: what a row knows is taken from the precision, not from the mean.
    """
    data = load_diabetes()
    scaled = (data.data - data.data.mean(0)) / data.data.std(0)
    y = (data.target - data.target.mean()) / data.target.std()
    posterior = lrvb.infer(Coefficients(), {"X": scaled, "y": y})
    what_if = posterior._what_if()
    at = np.arange(10)
    found = what_if.influence(at, refits=0).values / what_if.sd[at]
    for row in np.argsort(-np.abs(found).max(1))[:10]:
        exact = what_if.moved_mean(what_if.left_out(np.array([row]))) - what_if.estimate.m
        change = exact[at] / what_if.sd[at]
        most = np.argmax(np.abs(change))
        assert abs(found[row, most] / change[most] - 1) < 0.01


def test_rows_of_a_mixture_are_left_out_in_fits():
    """A row between two components decides more than a step can tell: up to 67 % off for the wines.

    So the largest and those that the second order alters by a twentieth are left out in fits; the median row
    and others are within 5 % of the change, or a hundredth of an sd.
    """
    X = load_wine().data[:, [0, 6, 9]]
    posterior = lrvb.GaussianMixture(3, random_state=0, certify=False).fit(X).posterior_
    table = posterior.influence(scaled=True)
    at, sd = posterior._at(posterior.names), posterior.sd().to_numpy()
    size = table.abs().max(axis=1)
    assert (size[table.attrs["refitted"]] > 0.09).all()
    assert "by fits of their own" in repr(table)
    what_if = posterior._what_if()
    rows = [*size.nlargest(40).index[::4], *size.sort_values().index[[len(X) // 2, 10]]]
    for row in rows:
        weights = np.ones(len(X))
        weights[row] = 0.0
        fit = refit_weighted(what_if.fit, weights)
        exact = (what_if.moved_mean(fit) - what_if.estimate.m)[at] / sd
        most = np.abs(exact).max()
        assert np.abs(table.loc[row].to_numpy() - exact).max() < max(0.05 * most, 0.01)


def test_one_exact_newton_step_from_where_the_second_order_leads():
    """Wines: steps are up to 72 % off; one pass over all rows from there leaves 6 % of the change."""
    X = load_wine().data[:, [0, 6, 9]]
    what_if = lrvb.GaussianMixture(3, random_state=0, certify=False).fit(X).posterior_._what_if()
    at = np.arange(len(what_if.sd))
    size = np.abs(what_if.influence(at).values / what_if.sd).max(1)
    rows = np.argsort(-size)[:10]
    off = []
    for row, eta in zip(rows, stepped(what_if.response, rows_of(rows, None)).etas, strict=True):
        weights = np.ones(len(X))
        weights[row] = 0.0
        exact = refit_weighted(what_if.fit, weights).m
        once = settled(what_if.fit, weights, eta, np.inf)
        assert once is not None
        scaled = what_if.M @ (once - exact) / what_if.sd
        off.append(np.abs(scaled).max() / size[row])
    assert max(off) < 0.07
    assert np.median(off) < 1e-3


def test_steps_of_the_second_order_do_for_a_mixture():
    """Real tumours: without any fit the ten rows that matter most within 1 %, where Newton's step has 6 %."""
    X = load_breast_cancer().data[:, [0, 1]]
    posterior = lrvb.GaussianMixture(2, random_state=0, certify=False).fit(X).posterior_
    what_if, at = posterior._what_if(), posterior._at(posterior.names)
    found = what_if.influence(at, refits=0)
    scaled = found.values / what_if.sd[at]
    assert found.unsure <= 1  # altered by a twentieth
    for row in np.argsort(-np.abs(scaled).max(1))[:10]:
        exact = what_if.moved_mean(what_if.left_out(np.array([row]))) - what_if.estimate.m
        change = exact[at] / what_if.sd[at]
        assert np.abs(scaled[row] - change).max() < 0.01 * np.abs(change).max()


def test_all_of_few_rows_get_a_step(posterior):
    """Without any fit every row's change of every mean is within 1 % of the largest, the small ones too."""
    what_if, at = posterior._what_if(), posterior._at(posterior.names)
    found = what_if.influence(at, refits=0)
    assert found.stepped is not None
    assert found.stepped.all()
    unit = what_if.sd[at]
    assert (np.abs(found.values) / unit).max(1).min() < 0.1  # some would be left at the first order
    for row in range(0, 40, 5):
        exact = what_if.moved_mean(what_if.left_out(np.array([row]))) - what_if.estimate.m
        change = exact[at] / unit
        assert np.abs(found.values[row] / unit - change).max() < 0.01 * np.abs(change).max()


def test_rows_of_a_plate_of_groups_are_known_by_name():
    """A row of `RandomSlope` is a group: of the data's columns those that groups have one value of."""
    rng = np.random.default_rng(1)
    g = np.array(list("pqrstu"))[rng.integers(0, 6, 60)]
    side = np.where(g < "s", "left", "right")
    x = rng.normal(size=60)
    data = {"x": x, "r": rng.normal(size=60), "y": x + 0.5 * rng.normal(size=60), "group": g}
    answer = lrvb.infer(lrvb.models.RandomSlope(), data, certify=False)
    table = answer.influence("beta")
    assert list(table.index) == list("pqrstu")
    assert table.index.name == "group"
    pd.testing.assert_frame_equal(answer.influence("beta", by="group"), table)
    halves = answer.influence("beta", by=side)
    kept = {name: column[side == "left"] for name, column in data.items()}
    again = lrvb.infer(lrvb.models.RandomSlope(), kept, certify=False)
    change = (again.mean("beta") - answer.mean("beta")).iloc[0]
    assert_allclose(halves.loc["right"].iloc[0], change, rtol=1e-6)
    with pytest.raises(lrvb.InvalidData, match="by has more than one value within group 'p'"):
        answer.influence(by=x)


def test_a_column_in_another_order_is_refused(posterior):
    """By place it would be a wrong answer in silence; what has other labels is taken by place."""
    data = line()
    group = pd.Series(np.repeat(["u", "v"], 20), index=data.index)
    table = posterior.influence("b", by=group)
    with pytest.raises(
        lrvb.InvalidData, match="by has the row labels of the data in another order"
    ):
        posterior.influence("b", by=group[::-1])
    pd.testing.assert_frame_equal(posterior.influence("b", by=group.reset_index(drop=True)), table)


def test_one_draw_says_nothing_of_rows():
    table = lrvb.infer(Line(), line(), certify=False).loo(draws=1)
    assert table.attrs["n_bad"] == len(table)


def test_levels_are_left_out_together(posterior):
    data = line()
    group = np.repeat(["u", "v", "w", "x"], 10)
    table = posterior.influence(by=group)
    assert list(table.index) == ["u", "v", "w", "x"]
    exact = lrvb.infer(Line(), data[group != "v"]).mean() - posterior.mean()
    assert_allclose(table.loc["v"], exact, rtol=1e-5, atol=1e-7)
    with pytest.raises(lrvb.InvalidData, match=r"given as values: by=data\['clinic'\]"):
        posterior.influence(by="clinic")
    with pytest.raises(lrvb.InvalidData, match="one value per row"):
        posterior.influence(by=group[:7])


def test_robust_sds_cover_where_the_posterior_does_not():
    """The spread of errors grows with |x|: the slope's sd is too small by half, the sandwich's is not."""
    seen: dict[str, list[float]] = {"lrvb": [], "robust": []}
    means = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=200)
        data = {"x": x, "y": 1 + 0.5 * x + x**2 * rng.normal(size=200)}
        answer = lrvb.infer(Line(), data)
        means.append(answer.mean("b")["b"])
        for method, sds in seen.items():
            sds.append(answer.sd("b", method=method)["b"])
    spread = np.std(means, ddof=1)
    # the sd of 60 means is known to 1/√120 = 9 % (two of those allowed), each robust sd to about 25 %
    assert np.mean(seen["lrvb"]) < 0.6 * spread
    assert abs(np.mean(seen["robust"]) / spread - 1) < 0.2


def test_robust_sds_by_group(posterior):
    """The jackknife of whole groups, (G − 1)/G Σ (m₋g − m̄)², against refits without each.

    Groups are left out by Newton steps, whose relative error is about what a group moves, an eighth, squared.
    """
    data, g = line(), np.repeat(np.arange(8), 5)
    without = pd.DataFrame([lrvb.infer(Line(), data[g != k]).mean(["a", "b"]) for k in range(8)])
    expected = np.sqrt(7 / 8 * ((without - without.mean()) ** 2).sum())
    robust = posterior.sd(["a", "b"], method="robust", by=g)
    assert_allclose(robust, expected, rtol=0.02)
    assert "Of 8 groups: intervals want quantiles of Student's t, 7 degrees." in repr(robust)
    with pytest.raises(lrvb.InvalidModel, match='belongs to method="robust"'):
        posterior.sd(by=g)


def test_robust_sds_beside_the_posteriors_are_told(posterior):
    """A word where they differ by more than 30 %, the furthest first, and only there."""
    assert "All within 30 %" in repr(posterior.sd("a", method="robust"))
    rng = np.random.default_rng(1)
    x = rng.normal(size=300)
    wild = lrvb.infer(Line(), {"x": x, "y": 1 + x + x**2 * rng.normal(size=300)})
    robust, sd = wild.sd(method="robust"), wild.sd()
    assert robust["b"] > 1.3 * sd["b"]
    assert f"b {robust['b']:.3g} beside {sd['b']:.3g}" in repr(robust)
    assert type(robust / sd) is pd.Series


def test_a_component_without_rows_has_a_robust_sd_of_zero():
    """Every row then says the same of it: the sum of squares about the mean loses no digits."""
    X = np.random.default_rng(0).normal(size=(60, 1))
    model = lrvb.GaussianMixture(2, init=np.tile([1.0, 0.0], (60, 1))).fit(X)
    robust = model.posterior_.sd("log(pi)", method="robust")
    assert np.isfinite(robust).all()
    assert robust.min() < 1e-8
    assert model.check().findings[0].what in {f.what for f in model.posterior_.check().findings}


def test_leave_one_out_against_exact_densities():
    """y ~ N(μ, 1), μ ~ N(0, 10²): log p(y_n | y_−n) is known."""

    class Mean(lrvb.Model):
        columns = ("y",)
        global_blocks = {"mu": lrvb.Normal()}

        def global_term(self, m):
            return -m.mu.xx / 200

        def local_term(self, m, z, row):
            return -0.5 * (row.y**2 - 2 * row.y * m.mu.x + m.mu.xx + np.log(2 * np.pi))

    y = np.random.default_rng(3).normal(size=30)
    table = lrvb.infer(Mean(), {"y": y}).loo(draws=4096)
    precision = 0.01 + 29
    centre = (y.sum() - y) / precision
    exact = stats.norm.logpdf(y, centre, np.sqrt(1 + 1 / precision))
    # 4096 draws of weights that vary by a third or so: 1/√4096/3 at most
    assert_allclose(table["elpd"], exact, atol=0.02)
    assert_allclose(table.attrs["elpd_loo"], exact.sum(), atol=0.1)
    assert table.attrs["n_bad"] == 0
    assert "every k_hat is at most 0.7" in repr(table)


def test_densities_of_a_mixture_are_of_the_users_rows():
    """log p(x) = log p(x′) − Σ log scale: below the log likelihood of the same rows by about p_loo."""
    X = overlapping()[0] * [30.0, 0.2] + [5.0, -1.0]
    model = lrvb.GaussianMixture(2, random_state=0).fit(X)
    table = model.loo()
    gap = model.score_samples(X).sum() - table.attrs["elpd_loo"]
    assert 0 < gap < 2 * table.attrs["p_loo"]


def test_a_mixture_answers_too():
    """In the user's units, by the names of its own arguments."""
    X = overlapping()[0] * [3.0, 0.2] + [5.0, -1.0]
    model = lrvb.GaussianMixture(2, random_state=0).fit(X)
    table = model.posterior_.prior_sensitivity()
    known = ["mean_precision_prior", "wishart_dof_prior", "wishart_scale_prior"]
    assert set(table["hyperparameter"]) == {*known, "weight_concentration_prior"}
    influence = model.posterior_.influence()
    assert influence.shape == (300, len(model.posterior_.names))
    assert model.posterior_.loo().attrs["n_bad"] == 0


def test_a_mixture_follows_each_of_its_arguments():
    """d_mean and d_sd against estimators fitted anew at ±0.1 % of each argument, in the user's units.

    A central difference errs by 1e-6 of a third derivative, about as large as the first: 1e-5 of the largest
    d_mean. d_sd is a difference on one side with an error of its own, as in the law of every model: 1e-4.
    """
    X = overlapping()[0] * [3.0, 0.2] + [5.0, -1.0]
    priors = {
        "mean_precision_prior": 0.02,
        "wishart_dof_prior": 5.0,
        "wishart_scale_prior": 0.5,
        "weight_concentration_prior": 4.0,
    }

    def fitted(**changed):
        options = {"init": R, "tol": 1e-11, "certify": False, **priors, **changed}
        return lrvb.GaussianMixture(2, **options).fit(X).posterior_

    R = lrvb.GaussianMixture(2, random_state=0, certify=False).fit(X).predict_proba(X)
    table = fitted().prior_sensitivity()
    assert set(table["hyperparameter"]) == set(priors)
    for name, value in priors.items():
        up, down = (fitted(**{name: value * (1 + s)}) for s in (1e-3, -1e-3))
        ours = table[table["hyperparameter"] == name].set_index("quantity")
        assert (ours["value"] == value).all()
        for column, ends in (
            ("d_mean", (up.mean(), down.mean())),
            ("d_sd", (up.sd(), down.sd())),
        ):
            slope = (ends[0] - ends[1]) / (2e-3 * value)
            error = (ours[column][slope.index] - slope).abs().max() / slope.abs().max()
            assert error < (1e-5 if column == "d_mean" else 1e-4), (name, column, error)


@pytest.mark.parametrize("name", ["mean_precision_prior", "weight_concentration_prior"])
def test_a_flat_prior_of_a_mixture_is_followed_one_way(name):
    """From zero no step leads back: dm/dε by refits at zero and above, (−3f(0) + 4f(h) − f(2h))/2h.

    It errs by h²/3 of a third derivative.
    """
    X, h = overlapping()[0], 1e-3
    R = lrvb.GaussianMixture(2, random_state=0, certify=False).fit(X).predict_proba(X)

    def fitted(value):
        options = {"init": R, "tol": 1e-12, "certify": False, name: value}
        return lrvb.GaussianMixture(2, **options).fit(X).posterior_

    table = fitted(0.0).prior_sensitivity()
    ours = table[table["hyperparameter"] == name].set_index("quantity")
    zero, one, two = (fitted(k * h).mean() for k in range(3))
    slope = (4 * one - 3 * zero - two) / (2 * h)
    assert_allclose(ours["d_mean"][slope.index], slope, atol=1e-5 * slope.abs().max())


def test_a_matrix_of_a_prior_is_followed_by_its_factor():
    """W₀ = 0.4 I as a matrix: d/dε of (1 + ε)W₀ is 0.4 times that of the number 0.4."""
    X = overlapping()[0]
    tables = []
    for scale in (0.4, 0.4 * np.eye(X.shape[1])):
        model = lrvb.GaussianMixture(1, wishart_scale_prior=scale, certify=False).fit(X)
        table = model.posterior_.prior_sensitivity("mu").set_index(["hyperparameter", "quantity"])
        tables.append(table.loc["wishart_scale_prior"])
    number, matrix = tables
    assert_allclose(matrix["d_sd"], 0.4 * number["d_sd"][matrix.index], rtol=1e-6)
    assert (matrix["value"] == 1.0).all()


def test_files_keep_no_derivatives(posterior, tmp_path):
    loaded = lrvb.load(posterior.save(tmp_path / "line"))
    with pytest.raises(lrvb.InvalidModel, match="holds no derivatives of its fit"):
        loaded.influence()
