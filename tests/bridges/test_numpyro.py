"""NumPyro models through `lrvb.from_numpyro`, on NumPyro itself."""

from __future__ import annotations

import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import lrvb

numpyro = pytest.importorskip("numpyro")
dist = pytest.importorskip("numpyro.distributions")

SIGMA = np.array([15, 10, 16, 11, 9, 11, 10, 18.0])
Y = np.array([28, 8, -3, 7, -1, 1, 18, 12.0])


def schools(y=None):
    """Eight schools, non-centred."""
    mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
    with numpyro.plate("school", 8):
        z = numpyro.sample("z", dist.Normal(0.0, 1.0))
        theta = numpyro.deterministic("theta", mu + tau * z)
        numpyro.sample("obs", dist.Normal(theta, SIGMA), obs=y)


@pytest.fixture(scope="module")
def eight() -> lrvb.Posterior:
    functions = {"spread": lambda v: v["theta"].max() - v["theta"].min()}
    return lrvb.from_numpyro(schools, y=Y).infer(functions=functions)


def test_eight_schools(eight):
    """posteriordb's reference draws: means within 0.1 sd and sds within 10 %, which is what we promise."""
    summary = eight.summary()
    names = ["mu", "tau", *(f"theta[{i}]" for i in range(8))]
    mean = [4.411, 3.602, 6.151, 4.94, 3.906, 4.796, 3.614, 4.051, 6.317, 4.884]
    sd = [3.309, 3.198, 5.616, 4.646, 5.281, 4.771, 4.615, 4.796, 5.003, 5.318]
    found = summary.loc[names]
    assert (np.abs(found["mean"] - mean) / sd < 0.1).all()
    assert (np.abs(np.log(found["sd"] / sd)) < 0.1).all()
    assert (summary["verdict"] == "trust").mean() > 0.85
    assert eight.names[:3] == ["mu", "tau", "z[0]"]
    assert eight.names[-1] == "spread"
    assert summary.loc["tau", "lower"] > 0


def test_arviz_has_the_plates(eight):
    """Plates are dimensions, with places from 0; data are the observed."""
    tree = eight.to_arviz(n=20)
    assert tree.posterior["theta"].dims == ("chain", "draw", "school")
    assert tree.posterior["school"].values.tolist() == list(range(8))
    np.testing.assert_allclose(tree.observed_data["obs"], Y)


def test_a_centred_hierarchy_is_straightened():
    """The same posterior stated centred, which is a funnel: as near to the reference, τ too, and trusted."""

    def centred(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
        tau = numpyro.sample("tau", dist.HalfCauchy(5.0))
        theta = numpyro.sample("theta", dist.Normal(mu, tau).expand([8]).to_event(1))
        numpyro.sample("obs", dist.Normal(theta, SIGMA), obs=y)

    summary = lrvb.from_numpyro(centred, Y).infer().summary()
    truth = {"mu": (4.411, 3.309), "tau": (3.602, 3.198), "theta[0]": (6.151, 5.616)}
    for name, (mean, sd) in truth.items():
        assert abs(summary.loc[name, "mean"] - mean) < 0.1 * sd
        assert abs(np.log(summary.loc[name, "sd"] / sd)) < 0.1
    assert (summary["verdict"] == "trust").mean() > 0.85


def test_a_funnel_is_not_trusted_where_it_is_wrong():
    """Neal's, whose x have sds of e^(9/4) and tails that no short run finds: nothing of x is trusted."""

    def neal():
        v = numpyro.sample("v", dist.Normal(0.0, 3.0))
        numpyro.sample("x", dist.Normal(0.0, jnp.exp(v / 2)).expand([9]).to_event(1))

    summary = lrvb.from_numpyro(neal).infer().summary()
    assert (summary.filter(like="x", axis=0)["verdict"] != "trust").all()
    assert summary.loc["v", "verdict"] != "trust" or abs(summary.loc["v", "mean"]) < 0.15 * 3


def test_matrices_and_simplices():
    """Names of entries, entries that are constants, and draws inside the support."""

    def model():
        numpyro.sample("w", dist.Dirichlet(jnp.array([2.0, 3.0, 5.0])))
        L = numpyro.sample("L", dist.LKJCholesky(2, 2.0))
        numpyro.deterministic("Omega", L @ L.T)

    posterior = lrvb.from_numpyro(model).infer()
    summary = posterior.summary()
    np.testing.assert_allclose(summary.loc["w[0]":"w[2]", "mean"], [0.2, 0.3, 0.5], atol=0.01)
    assert summary.loc["Omega[0,0]", "sd"] < 1e-12  # it is 1, to rounding
    assert summary.loc["Omega[0,1]", "sd"] == pytest.approx(np.sqrt(1 / 5), rel=0.06)  # Beta(2, 2)
    assert posterior.draws(10)["Omega"].shape == (10, 2, 2)
    np.testing.assert_allclose(posterior.draws(10)["w"].sum(axis=1), 1)


def discrete():
    p = numpyro.sample("p", dist.Beta(1.0, 1.0))
    z = numpyro.sample("z", dist.Bernoulli(p))
    numpyro.sample("obs", dist.Normal(2.0 * z, 1.0), obs=1.3)


def unbounded():
    n = numpyro.sample("n", dist.Poisson(3.0))
    numpyro.sample("a", dist.Normal(n, 1.0))


def raising():
    numpyro.sample("a", dist.Normal(0.0, 1.0))
    raise KeyError("no column x")


def empty():
    numpyro.sample("obs", dist.Normal(0.0, 1.0), obs=1.0)


def flat():
    numpyro.sample("a", dist.ImproperUniform(dist.constraints.real, (), ()))


def with_param():
    numpyro.sample("a", dist.Normal(numpyro.param("m", 0.0), 1.0))


def subsampled():
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", 40, subsample_size=10) as rows:
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=jnp.arange(40.0)[rows])


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (subsampled, "Plate 'row' subsamples 10 of 40 rows"),
        (discrete, "Site 'z' is discrete"),
        (unbounded, "Site 'n' is discrete with unboundedly many values"),
        (raising, "after site .a. raised KeyError"),
        (empty, "no continuous latent site"),
        (flat, "has no finite integral"),
        (with_param, "numpyro.param"),
        (3, "must be a function"),
    ],
)
def test_sentences(model, sentence, monkeypatch):
    monkeypatch.setitem(sys.modules, "funsor", None)  # as if it were not installed
    with pytest.raises(lrvb.InvalidModel, match=sentence):
        lrvb.from_numpyro(model).infer()


def test_enumeration_is_the_sum():
    """With funsor a discrete site is summed out: p's mean as by hand, from weights of the two values."""
    posterior = lrvb.from_numpyro(discrete).infer()
    on, off = np.exp(-0.5 * (1.3 - 2.0) ** 2), np.exp(-0.5 * 1.3**2)
    exact = (on * 2 / 3 + off / 3) / (on + off)  # p is Beta(2, 1) or Beta(1, 2)
    assert posterior.summary().loc["p", "mean"] == pytest.approx(exact, abs=0.01)
    assert posterior.names == ["p"]


def test_a_mixture_with_discrete_sites():
    """Against sums on a grid of w and the lower mean: errors of Monte Carlo alone."""
    rng = np.random.default_rng(0)
    x = np.where(rng.random(40) < 0.35, 3.0, -1.0) + rng.normal(size=40)

    def mixture():
        w = numpyro.sample("w", dist.Beta(2.0, 2.0))
        low = numpyro.sample("low", dist.Normal(-1.0, 1.0))
        with numpyro.plate("rows", len(x)):
            k = numpyro.sample("k", dist.Bernoulli(w))
            numpyro.sample("x", dist.Normal(low + 4.0 * k, 1.0), obs=x)

    summary = lrvb.from_numpyro(mixture).infer().summary()
    w, low = np.meshgrid(np.linspace(0.0025, 0.9975, 200), np.linspace(-3, 1, 201), indexing="ij")
    one, other = (np.exp(-0.5 * (x - low[..., None] - m) ** 2) for m in (4.0, 0.0))
    log_p = np.log(w[..., None] * one + (1 - w[..., None]) * other).sum(-1)
    log_p += np.log(w * (1 - w)) - 0.5 * (low + 1) ** 2
    p = np.exp(log_p - log_p.max())
    for name, values in (("w", w), ("low", low)):
        mean = np.average(values, weights=p)
        sd = np.sqrt(np.average((values - mean) ** 2, weights=p))
        assert summary.loc[name, "mean"] == pytest.approx(mean, abs=0.05 * sd)
        assert summary.loc[name, "sd"] == pytest.approx(sd, rel=0.05)
        assert summary.loc[name, "verdict"] == "trust"
    assert list(summary.index) == ["w", "low"]


def test_nothing_is_imported_without_need():
    """`import lrvb` imports neither NumPyro nor PyMC."""
    code = "import sys, lrvb; print(sorted({'numpyro', 'pymc', 'pytensor', 'funsor'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_powers_of_the_prior_by_sites(eight):
    """Sites that depend on no other; the derivatives of the parts add up to the whole's."""
    table = eight.prior_sensitivity("tau").set_index("hyperparameter")["d_mean"]
    sites = [f"log2 power of {name}'s prior" for name in ("mu", "tau", "z")]
    assert set(sites) < set(table.index)
    np.testing.assert_allclose(table[sites].sum(), table["log2 power of the prior"], rtol=1e-9)


def test_a_prior_that_depends_on_another_is_not_scaled():
    """Centred effects belong to the model, not to its prior."""

    def centred(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
        with numpyro.plate("school", 8):
            theta = numpyro.sample("theta", dist.Normal(mu, 5.0))
            numpyro.sample("obs", dist.Normal(theta, SIGMA), obs=y)

    table = lrvb.from_numpyro(centred, Y).infer(check=False).prior_sensitivity("mu")
    assert set(table["hyperparameter"]) == {
        "log2 power of the prior",
        "log2 power of the likelihood",
    }


def test_missing_values_and_data_without_a_plate_are_told():
    """By name and place; with the remedy."""

    def model(y):
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal(0.0, 1.0)), 1.0), obs=y)

    with pytest.raises(lrvb.InvalidModel, match=r"'y\[2\]' of the data is missing"):
        lrvb.from_numpyro(model, np.array([0.0, 1.0, np.nan])).infer()

    def loose(y):
        z = numpyro.sample("z", dist.Bernoulli(0.3))
        numpyro.sample("y", dist.Normal(numpyro.sample("m", dist.Normal()) + z, 1.0), obs=y)

    pytest.importorskip("funsor")
    with pytest.raises(lrvb.InvalidModel, match=r"must be that of a numpyro\.plate"):
        lrvb.from_numpyro(loose, np.zeros(3)).infer()


def test_data_are_drawn_by_numpyro(eight):
    """From our draws; a sentence says so."""
    with pytest.raises(lrvb.InvalidModel, match=r"numpyro\.infer\.Predictive"):
        eight.predictive(10)
