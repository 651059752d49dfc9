"""Priors by name, their defaults, and that a change of units changes nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import lrvb
from lrvb import prior
from lrvb.errors import InvalidModel
from lrvb.estimators.mixed.design.design import build
from lrvb.estimators.mixed.priors.defaults import residual_scale
from lrvb.estimators.mixed.priors.stated import MixedPriors, resolve

N = 200
FORMULA = "y ~ x + c + (x|g) + (1|h) + (0 + x|h)"


def table() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "y": rng.normal(20, 3, N),
            "x": rng.normal(100, 2, N),
            "c": rng.choice(["a", "b"], N),
            "g": rng.integers(0, 8, N),
            "h": rng.integers(0, 5, N),
            "count": rng.poisson(4, N),
            "yes": rng.random(N) < 0.3,
            "e": rng.uniform(0.5, 2, N),
        }
    )


def resolved(
    priors: dict | None = None, formula: str = FORMULA, family: str = "gaussian", **new
) -> MixedPriors:
    return resolve(priors, build(formula, table().assign(**new), family), of_precisions=True)


def test_stated_priors_arrive_where_they_are_named() -> None:
    stated = resolved(
        {
            "fixed": prior.Normal(1, 10),
            "x": prior.Normal(2, np.inf),
            "g": prior.Wishart(4, 2.0),
            "1|h": prior.Gamma(2, 3),
            "sigma": prior.Gamma(5, 6),
        }
    )
    assert stated.names == ("Intercept", "x", "c[b]")
    assert stated.mean.tolist() == [1, 2, 1]
    assert stated.sd.tolist() == [10, np.inf, 10]
    assert stated.term_names == ("g", "1|h", "x|h")
    assert stated.terms[0] == prior.Wishart(4, 2 * np.eye(2))
    assert stated.terms[1] == prior.Gamma(2, 3)
    assert stated.residual == prior.Gamma(5, 6)
    shown = stated.table()
    assert shown.index.tolist() == ["Intercept", "x", "c[b]", "g", "1|h", "x|h", "residual"]
    assert shown["default"].tolist() == [False, False, False, False, False, True, False]
    assert shown.loc["x", "prior"] == "Normal(mean=2, sd=inf)"
    assert shown.loc["g", "prior"] == "Wishart(dof=4, scale=[[2, 0], [0, 2]])"
    assert shown.loc["residual", "prior"] == "Gamma(shape=5, rate=6)"


def test_a_name_of_two_things_is_told_by_the_kind() -> None:
    formula = "y ~ x + g + (x|g)"
    both = {"g": prior.Wishart(3, 1.0)}
    assert resolved(both, formula).terms[0] == prior.Wishart(3, np.eye(2))
    assert resolved({"g": prior.Normal(0, 7)}, formula).sd[2] == 7
    sigma = resolved({"sigma": prior.Normal(0, 7)}, "y ~ sigma + (1|g)", sigma=table().x)
    assert sigma.sd[1] == 7


def test_only_gaussian_has_a_residual() -> None:
    assert resolved(None, "count ~ x + (1|g)", "poisson").residual is None
    with pytest.raises(InvalidModel, match="The prior 'residual' belongs to nothing"):
        resolved({"residual": prior.Gamma(1, 1)}, "count ~ x + (1|g)", "poisson")


@pytest.mark.parametrize(
    ("priors", "sentence"),
    [
        (
            {"X": prior.Normal(0, 1)},
            r"The prior 'X' belongs to nothing in the model; did you mean 'x'",
        ),
        (
            {"X": prior.Normal(0, 1)},
            r"Valid keys: 'fixed', 'Intercept', 'x', 'c\[b\]', '1\|g', 'x\|g', 'corr\[g\]', 'g', '1\|h', ",
        ),
        ({"1|g": prior.Gamma(1, 1)}, r"give 'g' lrvb.prior.Wishart"),
        ({"1|h": prior.HalfStudentT(3, 1)}, r"give '1\|h' lrvb.prior.Gamma"),
        ({"corr[g]": prior.LKJ(2)}, r"give 'g' lrvb.prior.Wishart"),
        ({"residual": prior.Exponential(1)}, r"give 'residual' lrvb.prior.Gamma"),
        ({"x": prior.Gamma(1, 1)}, r"'x' is a fixed effect, which takes lrvb.prior.Normal"),
        ({"fixed": 3}, r"The prior of 'fixed' is 3, but 'fixed' is a fixed effect"),
        ({"g": prior.Gamma(1, 1)}, r"'g' is a correlated term, which takes lrvb.prior.Wishart"),
        (
            {"1|h": prior.Wishart(3, 1)},
            r"'1\|h' is a standard deviation, which takes lrvb.prior.HalfStudentT",
        ),
        ({"residual": prior.Normal(0, 1)}, r"'residual' is a standard deviation"),
        (
            {"g": prior.Wishart(3, np.eye(3))},
            r"a 3 by 3 scale, but the term has the 2 coefficients 1, x",
        ),
        ({"g": prior.Wishart(1, 1.0)}, r"has dof=1, but 2 coefficients need more than 1"),
        ({"sigma": prior.Gamma(1, 1), "residual": prior.Gamma(1, 1)}, r"given twice"),
        ([1], r"must be a mapping of names to priors"),
    ],
)
def test_priors_that_fit_nothing(priors: dict, sentence: str) -> None:
    with pytest.raises(InvalidModel, match=sentence):
        resolved(priors)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: prior.Normal(0, 0),
            r"Normal\(sd=0\) must be a positive number \(numpy.inf for a flat",
        ),
        (lambda: prior.Normal(np.inf, 1), r"Normal\(mean=inf\) must be a finite number"),
        (lambda: prior.Normal("a", 1), r"Normal\(mean='a'\) must be a finite number"),
        (lambda: prior.Gamma(-1, 1), r"Gamma\(shape=-1\) must be a positive number"),
        (lambda: prior.Gamma(1, np.inf), r"Gamma\(rate=inf\) must be a positive number"),
        (lambda: prior.Gamma(1, True), r"Gamma\(rate=True\)"),
        (lambda: prior.Wishart(0, 1), r"Wishart\(dof=0\)"),
        (lambda: prior.Wishart(3, -1), r"Wishart\(scale=-1\)"),
        (lambda: prior.Wishart(3, [[1, 2], [0, 1]]), r"symmetric matrix of finite numbers"),
        (
            lambda: prior.Wishart(3, [[1, 2], [2, 1]]),
            r"positive definite, but has the eigenvalue -1",
        ),
        (lambda: prior.Wishart(3, [1, 2]), r"symmetric matrix of finite numbers"),
        (lambda: prior.Wishart(3, "a"), r"Wishart\(scale='a'\)"),
    ],
)
def test_priors_that_are_none(make, sentence: str) -> None:
    with pytest.raises(lrvb.InvalidModel, match=sentence):
        make()


def test_priors_are_values() -> None:
    assert prior.Wishart(3, [[2, 0], [0, 2]]) == prior.Wishart(3, 2 * np.eye(2))
    assert hash(prior.Wishart(3, 1.0)) == hash(prior.Wishart(3, 1))
    assert prior.Normal(0, 1) != prior.Normal(0, 2)
    assert repr(prior.Normal(0, 2.5)) == "Normal(mean=0, sd=2.5)"
    with pytest.raises(ValueError, match="read-only"):
        prior.Wishart(3, np.eye(2)).scale[0, 0] = 5


def test_default_slopes_move_the_response_by_ten_sds() -> None:
    found = resolved()
    data = table()
    assert found.sd[1] == pytest.approx(10 * data.y.std(ddof=0) / data.x.std(ddof=0))
    b = data.c == "b"
    assert found.sd[2] == pytest.approx(10 * data.y.std(ddof=0) / b.std(ddof=0))
    counts = resolved(None, "count ~ x + (1|g)", "poisson")
    assert counts.sd[1] == pytest.approx(10 / data.x.std(ddof=0))


def test_default_intercept_is_as_wide_as_the_slopes_make_it() -> None:
    """The intercept at the centre is N(mean, (10 s)²); at zero the slopes add x̄² var(slope)."""
    found = resolved()
    data = table()
    centers = np.array([data.x.mean(), (data.c == "b").mean()])
    variance = (10 * data.y.std(ddof=0)) ** 2 + centers**2 @ found.sd[1:] ** 2
    assert found.sd[0] == pytest.approx(np.sqrt(variance))
    assert found.mean[0] == pytest.approx(data.y.mean())


def test_means_on_the_link() -> None:
    data = table()
    poisson = build("count ~ 1 + offset(log(e))", data, "poisson")
    assert poisson.level == pytest.approx(np.log(data["count"].sum() / data.e.sum()))
    yes = build("yes ~ 1", data, "bernoulli")
    p = data.yes.mean()
    assert yes.level == pytest.approx(np.log(p / (1 - p)))
    share = build("prop(count, 40) ~ 1", data, "binomial")
    p = data["count"].sum() / (40 * N)
    assert share.level == pytest.approx(np.log(p / (1 - p)))


def test_without_an_intercept_the_level_is_within_reach() -> None:
    """y around 1000 sds from zero: the categories' prior has to reach it."""
    found = resolved(None, "y ~ 0 + c + (1|g)", y=table().y + 3000)
    assert (found.sd > 3000).all()
    assert (found.mean == 0).all()


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_default_sds_are_broad(family: str) -> None:
    """The quantiles that the defaults are chosen for, in units of the response's scale."""
    response = {"gaussian": "y", "poisson": "count"}[family]
    design = build(f"{response} ~ x + c + (1|h)", table(), family)
    found = resolve(None, design, of_precisions=True).terms[0]
    scale = residual_scale(design) if family == "gaussian" else 1.0
    sd = (
        1 / np.sqrt(stats.gamma(found.shape, scale=1 / found.rate).ppf([0.975, 0.5, 0.025])) / scale
    )
    np.testing.assert_allclose(sd, [0.104, 0.240, 1.257], rtol=0.01)


def test_default_correlated_margins_and_correlation() -> None:
    """At the centre of x each sd has the single term's prior, and the correlation is uniform."""
    found = resolved().terms[0]
    data = table()
    single = resolved(None, "y ~ x + c + (1|g)").terms[0]
    assert found.dof == 3
    draws = stats.wishart(found.dof, found.scale).rvs(20_000, random_state=np.random.default_rng(0))
    covariance = np.linalg.inv(draws)
    shift = np.array([[1, data.x.mean()], [0, data.x.std(ddof=0)]])  # to the centre, x in sds
    centered = shift @ covariance @ shift.T
    for j in range(2):
        precision = 1 / centered[:, j, j]
        test = stats.kstest(precision, stats.gamma(single.shape, scale=1 / single.rate).cdf)
        assert test.pvalue > 1e-3
    correlation = centered[:, 0, 1] / np.sqrt(centered[:, 0, 0] * centered[:, 1, 1])
    assert stats.kstest(correlation, stats.uniform(-1, 2).cdf).pvalue > 1e-3


def test_a_change_of_units_changes_nothing() -> None:
    """y → 10 y, x → x/5: slopes' sds scale by 50, precisions of slopes by 50⁻², and so on."""
    data = table()
    old, new = resolved(), resolved(None, y=10 * data.y, x=data.x / 5)
    np.testing.assert_allclose(new.sd, old.sd * [10, 50, 10], rtol=1e-9)
    np.testing.assert_allclose(new.mean, old.mean * [10, 50, 10], rtol=1e-9)
    D = np.diag([1 / 10, 1 / 50])
    np.testing.assert_allclose(new.terms[0].scale, D @ old.terms[0].scale @ D, rtol=1e-6)
    assert new.terms[1].rate == pytest.approx(old.terms[1].rate * 10**2)
    assert new.terms[2].rate == pytest.approx(old.terms[2].rate * 50**2)
    assert new.residual.rate == pytest.approx(old.residual.rate * 10**2)


def test_a_shift_of_x_moves_the_correlated_prior_along() -> None:
    """x → x + a: the intercept at the old zero is intercept + a·slope of the new one."""
    a = 50.0
    old, new = resolved().terms[0], resolved(None, x=table().x + a).terms[0]
    A = np.array([[1, -a], [0, 1]])  # new coefficients = A old
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(new.scale, inverse.T @ old.scale @ inverse, rtol=1e-6)


def test_scale_of_what_least_squares_leaves() -> None:
    data = table()
    design = build("y ~ x + c", data, "gaussian")
    left = data.y - design.X @ np.linalg.lstsq(design.X, data.y.to_numpy(), rcond=None)[0]
    assert residual_scale(design) == pytest.approx(np.sqrt(np.mean(left**2)), rel=1e-9)
    exact = build("y ~ x", data.assign(y=3 * data.x), "gaussian")
    assert residual_scale(exact) == pytest.approx(3 * data.x.std(ddof=0))


# ---- priors of sds and correlations -----------------------------------------------------------


def spreads(priors: dict | None = None, formula: str = FORMULA) -> MixedPriors:
    return resolve(priors, build(formula, table(), "gaussian"))


def test_sds_have_half_t_priors_by_default() -> None:
    """HalfStudentT(3, 2.5 s/size) at the centre of the columns; wider at zero, where a part is stated."""
    found = spreads()
    s = residual_scale(build(FORMULA, table(), "gaussian"))
    x = table().x
    both, one, slope = found.terms
    widths = [each.scale for each in both.sds]
    far = np.sqrt(1 + (x.mean() / x.std(ddof=0)) ** 2)
    assert widths == pytest.approx([2.5 * s, 2.5 * s / x.std(ddof=0)])
    assert both.centred
    stated = spreads({"x|g": prior.HalfNormal(1)}).terms[0]
    assert stated.sds[0].scale == pytest.approx(2.5 * s * far)
    assert not stated.centred
    assert both.correlations == prior.LKJ(1)
    assert one.sds[0].scale == pytest.approx(2.5 * s)
    assert slope.sds[0].scale == pytest.approx(2.5 * s / x.std(ddof=0))
    assert found.residual.scale == pytest.approx(2.5 * s)
    assert list(found.table().loc["1|g", ["of", "default"]]) == ["sd at the mean of x", True]
    assert list(found.table().loc["g", ["of", "default"]]) == [
        "correlations at the mean of x",
        True,
    ]


@pytest.mark.parametrize("key", ["1|h", "sd[1|h]"])
def test_priors_of_sds_have_two_names(key: str) -> None:
    found = spreads({key: prior.Exponential(2), "sd[residual]": prior.HalfNormal(3)})
    assert found.terms[1].sds == (prior.Exponential(2),)
    assert found.residual == prior.HalfNormal(3)
    assert not found.table().loc["1|h", "default"]


def test_parts_of_a_correlated_term_are_stated_apart_or_together() -> None:
    stated = {"x|g": prior.HalfNormal(1), "corr[g]": prior.LKJ(2)}
    both = spreads(stated).terms[0]
    assert both.sds[1] == prior.HalfNormal(1)
    assert both.correlations == prior.LKJ(2)
    assert spreads({"g": prior.Wishart(3, 1.0)}).terms[0] == prior.Wishart(3, np.eye(2))
    with pytest.raises(InvalidModel, match=r"Wishart of the whole term, and 'x\|g' has one too"):
        spreads({"g": prior.Wishart(3, 1.0), "x|g": prior.HalfNormal(1)})
    with pytest.raises(InvalidModel, match=r"given twice, as '1\|h' and as 'sd\[1\|h\]'"):
        spreads({"1|h": prior.HalfNormal(1), "sd[1|h]": prior.HalfNormal(1)})


def test_the_table_says_at_which_values_a_default_speaks_of_an_intercept() -> None:
    """A default of correlated effects is of centred columns; a stated prior is of the columns as they are."""
    design = build("y ~ x + (x|g)", table(), "gaussian")
    default = resolve(None, design).table()
    assert list(default.loc[["1|g", "x|g", "g"], "of"]) == [
        "sd at the mean of x",
        "sd",
        "correlations at the mean of x",
    ]
    assert default["default"].all()
    stated = resolve({"1|g": prior.HalfNormal(2)}, design).table()
    assert list(stated.loc[["1|g", "x|g", "g"], "of"]) == ["sd", "sd", "correlations"]
    assert list(stated.loc[["1|g", "x|g", "g"], "default"]) == [False, True, True]
