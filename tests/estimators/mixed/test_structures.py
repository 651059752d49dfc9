"""Known precision matrices of levels: `structures={"g": Q}`."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import lrvb
from mixed_fits import frame

LEVELS = [f"g{k:02d}" for k in range(12)]
D = np.diff(np.eye(12), axis=0)
CHAIN = D.T @ D + 0.1 * np.eye(12)  # neighbours in a row


@functools.cache
def fitted(formula, family, kind):
    """With levels that are independent, or neighbours; labelled in another order."""
    Q = {"identity": np.eye(12), "chain": CHAIN}[kind]
    table = pd.DataFrame(Q, LEVELS, LEVELS)
    shuffled = np.random.default_rng(0).permutation(LEVELS)
    return lrvb.MixedModel(formula, family, structures={"g": table.loc[shuffled]}).fit(frame())


@pytest.mark.parametrize(
    ("formula", "family"), [("y ~ x + (1|g)", "gaussian"), ("count ~ x + (1|g)", "poisson")]
)
def test_the_identity_is_no_structure(formula, family):
    """Independent levels, summed out or among the coefficients: one posterior, to Monte Carlo's error."""
    one = fitted(formula, family, "identity")
    other = lrvb.MixedModel(formula, family).fit(frame())
    a, b = one.summary(), other.summary().loc[one.summary().index]
    np.testing.assert_allclose((a["mean"] - b["mean"]) / b["sd"], 0, atol=0.1)
    np.testing.assert_allclose(a["sd"], b["sd"], rtol=0.1)
    assert abs(one.log_evidence_ - other.log_evidence_) < 0.1
    effects = one.ranef("1|g").loc[LEVELS]
    np.testing.assert_allclose(
        (effects["mean"] - other.ranef("1|g")["mean"]) / effects["sd"], 0, atol=0.1
    )


def test_levels_agree_with_dense_algebra():
    """Posterior means of levels are the mixture over draws of (ZᵀZ/σ² + Q/sd²)⁻¹Zᵀ(y − Xβ)/σ²."""
    model = fitted("y ~ x + (1|g)", "gaussian", "chain")
    data, found = frame(), model._integrated
    Z = (data["g"].to_numpy()[:, None] == np.array(LEVELS)).astype(float)
    X = np.column_stack([np.ones(len(data)), data["x"]])
    C = np.column_stack([X, Z])
    prior = np.diag(np.r_[model.priors_.sd[:2] ** -2.0, np.zeros(12)])
    CC, Cy, b = C.T @ C, C.T @ data["y"].to_numpy(), np.r_[model.priors_.mean[:2], np.zeros(12)]
    mean = np.zeros(14)
    for w, (sd, sigma) in zip(found.weights, np.exp(found.theta), strict=True):
        P = prior.copy()
        P[2:, 2:] = CHAIN / sd**2
        mean += w * np.linalg.solve(CC / sigma**2 + P, Cy / sigma**2 + P @ b)
    np.testing.assert_allclose(model.ranef("1|g").loc[LEVELS, "mean"], mean[2:], atol=1e-8)
    np.testing.assert_allclose(model.summary()["mean"].iloc[:2], mean[:2], atol=1e-8)


def test_levels_without_rows_are_known_by_their_neighbours():
    """A labelled matrix may have more levels than the rows; a sparse one has those of the rows."""
    data = frame()
    some = data[data["g"] != "g05"]
    table = pd.DataFrame(CHAIN, LEVELS, LEVELS)
    model = lrvb.MixedModel("y ~ x + (1|g)", structures={"g": table}).fit(some)
    effects = model.ranef("1|g")["mean"]
    between = sorted([effects["g04"], effects["g06"]])
    assert between[0] - 0.05 < effects["g05"] < between[1] + 0.05
    new = pd.DataFrame({"x": [0.0], "g": ["g05"]})
    expected = effects["g05"] + model.posterior_.mean()["Intercept"]
    np.testing.assert_allclose(model.predict(new)["mean"], expected, rtol=1e-6)
    sparse = lrvb.MixedModel("y ~ x + (1|g)", structures={"g": sp.csr_array(CHAIN)}).fit(data)
    whole = fitted("y ~ x + (1|g)", "gaussian", "chain")
    np.testing.assert_allclose(sparse.log_evidence_, whole.log_evidence_, atol=1e-6)


@pytest.mark.parametrize(
    ("structures", "sentence"),
    [
        ({"h": np.eye(5)}, "structures has 'h', which is no group of the formula; there are: g"),
        (np.eye(12), "structures=ndarray must map groups to precision matrices"),
        ({"g": np.eye(5)}, r"has shape \(5, 5\), but the group has 12 levels"),
        ({"g": np.triu(np.ones((12, 12)))}, "is not symmetric: 'g00', 'g01' has 1 and"),
        ({"g": D.T @ D}, "is not positive definite: its smallest eigenvalue"),
        ({"g": np.eye(500)}, "has 500 levels; up to 400 can be summed out exactly"),
        ({"g": pd.DataFrame(np.eye(3), list("abc"), list("abc"))}, "is not among the levels of"),
        ({"g": pd.DataFrame(np.eye(2), list("ab"), list("bc"))}, "the same labels, each once"),
        ({"g": np.full((12, 12), np.nan)}, "has an entry that is not finite"),
    ],
)
def test_what_is_no_structure(structures, sentence):
    with pytest.raises(lrvb.LrvbError, match=sentence):
        lrvb.MixedModel("y ~ x + (1|g)", structures=structures).fit(frame())


def test_where_structures_are_not():
    """Correlated slopes and variational fits."""
    given = {"g": pd.DataFrame(CHAIN, LEVELS, LEVELS)}
    with pytest.raises(lrvb.LrvbError, match="a structure is for one"):
        lrvb.MixedModel("y ~ (x|g)", structures=given).fit(frame())
    with pytest.raises(lrvb.LrvbError, match="has no variational fit"):
        lrvb.MixedModel("y ~ (1|g)", "gaussian", None, "mean_field", structures=given).fit(frame())


@pytest.mark.parametrize(
    ("formula", "family"), [("y ~ x + (1|g)", "gaussian"), ("count ~ x + (1|g)", "poisson")]
)
def test_levels_with_a_structure_are_random_effects_after_the_fit(formula, family):
    """With Q = I every answer is that of plain levels, to Monte Carlo's error of 4000 draws each."""
    one, other = fitted(formula, family, "identity"), lrvb.MixedModel(formula, family).fit(frame())
    for ask in ("r2", "icc", "var_corr"):
        a, b = (getattr(m, ask)().select_dtypes("number") for m in (one, other))
        assert a.shape == b.shape
        mean = "sdcor" if ask == "var_corr" else "mean"
        np.testing.assert_allclose((a[mean] - b[mean]) / b["sd"], 0, atol=0.15)
    a, b = one.coef().loc[LEVELS], other.coef().loc[LEVELS]
    assert list(a) == list(b) == ["Intercept", "x"]
    np.testing.assert_allclose((a - b) / other.coef(what="sd").loc[LEVELS], 0, atol=0.15)
    assert list(one.vcov()) == ["Intercept", "x"]
    without = frame()[["x"]].head(5)
    for groups in ("none", ["1|g"]):
        rows = without if groups == "none" else frame().head(5)
        x, y = (m.predict(rows, groups=groups, scale="link") for m in (one, other))
        np.testing.assert_allclose((x["mean"] - y["mean"]) / y["sd"], 0, atol=0.1)
        np.testing.assert_allclose(x["sd"], y["sd"], rtol=0.1)


def test_new_levels_of_a_structure_are_drawn_from_it():
    """Replicates with other levels: on the link's scale Var of a level's mean is sd² (Q⁻¹)_kk + noise."""
    model = fitted("y ~ x + (1|g)", "gaussian", "chain")
    data = frame()
    means = model.simulate(4000, new_levels=True).groupby(data["g"]).mean().loc[LEVELS]
    draws = model.draws(4000)
    sd, beta = draws["sd[1|g]"].to_numpy(), draws[["Intercept", "x"]].to_array().to_numpy()
    rows = data.groupby("g")
    x = np.column_stack([np.ones(12), rows["x"].mean().loc[LEVELS]])
    noise = (draws["sd[residual]"].to_numpy() ** 2).mean() / rows.size().loc[LEVELS]
    spread = (sd**2).mean() * np.diag(np.linalg.inv(CHAIN)) + noise + (x @ beta).var(1)
    # a variance of 4000 draws with heavy tails of sd²
    np.testing.assert_allclose(means.var(axis=1), spread, rtol=0.2)
