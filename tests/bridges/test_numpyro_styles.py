"""NumPyro models as people write them: one normal mean, stated in many ways, has one posterior."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import lrvb

numpyro = pytest.importorskip("numpyro")
dist = pytest.importorskip("numpyro.distributions")
handlers = numpyro.handlers
reparam = pytest.importorskip("numpyro.infer.reparam")

Y = np.random.default_rng(0).normal(size=12)
SHOWN = np.arange(12) < 8


def stated(y=None):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    with numpyro.plate("row", 12):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)


def by_a_factor():
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    numpyro.factor("likelihood", -0.5 * jnp.sum((Y - mu) ** 2))


def of_a_table(table):
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    with numpyro.plate("row", len(table)):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=table["y"].to_numpy())


def masked():
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    with numpyro.plate("row", 12), handlers.mask(mask=SHOWN):
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=np.where(SHOWN, Y, 0.0))


def masked_where_missing():
    mu = numpyro.sample("mu", dist.Normal(0.0, 2.0))
    with numpyro.plate("row", 12):
        numpyro.sample("y", dist.Normal(mu, 1.0).mask(SHOWN), obs=np.where(SHOWN, Y, np.nan))


def scaled():
    affine = dist.transforms.AffineTransform(0.0, 2.0)
    with handlers.reparam(config={"mu": reparam.TransformReparam()}):
        mu = numpyro.sample("mu", dist.TransformedDistribution(dist.Normal(0.0, 1.0), affine))
    numpyro.sample("y", dist.Normal(mu, 1.0), obs=Y)


@pytest.mark.parametrize(
    ("model", "args", "rows"),
    [
        (stated, (Y,), 12),
        (handlers.condition(stated, data={"y": Y}), (), 12),
        (by_a_factor, (), 12),
        (of_a_table, (pd.DataFrame({"y": Y}),), 12),
        (masked, (), 8),
        (masked_where_missing, (), 8),
        (scaled, (), 12),
        (handlers.reparam(stated, config={"mu": reparam.LocScaleReparam(0.0)}), (Y,), 12),
    ],
    ids=["stated", "condition", "factor", "table", "mask", "missing", "transform", "locscale"],
)
def test_one_posterior_in_many_words(model, args, rows):
    """N(Σy/P, 1/P) with P = n + 1/4: log p is quadratic, so that linear response is exact."""
    found = lrvb.from_numpyro(model, *args).infer(check=False)
    P = rows + 0.25
    assert found.mean()["mu"] == pytest.approx(Y[:rows].sum() / P, abs=1e-6)
    assert found.sd()["mu"] == pytest.approx(P**-0.5, rel=1e-5)


def test_nested_plates():
    """Effects of 3 within 4, of variances 1: covariances of a normal, and plates as dimensions."""
    y = np.random.default_rng(1).normal(size=(2, 4, 3))

    def model():
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with numpyro.plate("outer", 3, dim=-1):
            a = numpyro.sample("a", dist.Normal(mu, 1.0))
            with numpyro.plate("inner", 4, dim=-2):
                b = numpyro.sample("b", dist.Normal(a, 1.0))
                with numpyro.plate("row", 2, dim=-3):
                    numpyro.sample("y", dist.Normal(b, 1.0), obs=y)

    posterior = lrvb.from_numpyro(model).infer(check=False)
    # A mean of two rows is b with variance 1/2, so a with 3/2; four of these a with 3/8, μ with 11/8.
    P = 1 + 3 / (11 / 8)
    assert posterior.mean()["mu"] == pytest.approx(y.mean((0, 1)).sum() / (11 / 8) / P, abs=1e-6)
    assert posterior.sd()["mu"] == pytest.approx(P**-0.5, rel=1e-5)
    assert posterior.to_arviz(n=4).posterior["b"].dims == ("chain", "draw", "inner", "outer")


def test_bounds_that_are_another_sites_value():
    """b ~ Uniform(0, a), against sums over a grid of a and b/a."""

    def within():
        a = numpyro.sample("a", dist.Uniform(0.0, 2.0))
        b = numpyro.sample("b", dist.Uniform(0.0, a))
        numpyro.sample("y", dist.Normal(a + b, 1.0), obs=Y)

    found = lrvb.from_numpyro(within).infer().summary()
    grid = (np.arange(400) + 0.5) / 400
    a, share = np.meshgrid(2 * grid, grid)
    log_p = -0.5 * ((Y[:, None, None] - a * (1 + share)) ** 2).sum(axis=0)
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    for name, value in {"a": a, "b": a * share}.items():
        mean = (weight * value).sum()
        sd = np.sqrt((weight * (value - mean) ** 2).sum())
        assert found["verdict"][name] == "trust"
        assert found["mean"][name] == pytest.approx(mean, abs=0.05 * sd)
        assert found["sd"][name] == pytest.approx(sd, rel=0.05)


def test_ordered_cut_points_with_a_flat_prior():
    """The margins are a Dirichlet's: with 15 in each of four categories, of (15, 15, 15, 15)."""

    def model():
        ordered = dist.constraints.ordered_vector
        cut = numpyro.sample("cut", dist.ImproperUniform(ordered, (), (3,)))
        p = numpyro.deterministic("p", jax.nn.sigmoid(cut))
        numpyro.factor("per probability", jnp.log(p * (1 - p)).sum())  # flat in p
        numpyro.factor("to Dirichlet", -jnp.log(jnp.diff(p, prepend=0, append=1)).sum())
        rows = np.repeat(np.arange(4), 15)
        with numpyro.plate("row", 60):
            numpyro.sample("y", dist.OrderedLogistic(np.zeros(60), cut), obs=rows)

    found = lrvb.from_numpyro(model).infer().summary()
    share = np.array([0.25, 0.5, 0.75])
    exact = np.sqrt(share * (1 - share) / 61)
    assert (found["verdict"] == "trust").all()
    np.testing.assert_allclose(found.loc["p[0]":"p[2]", "mean"], share, atol=0.05 * exact[0])
    np.testing.assert_allclose(found.loc["p[0]":"p[2]", "sd"], exact, rtol=0.05)


def columns(table):
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(b * table["y"], 1.0), obs=Y)


def branching():
    if numpyro.sample("a", dist.Normal(0.0, 1.0)) > 0:
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=Y)


def a_constant():
    a = numpyro.sample("a", dist.Delta(1.0))
    numpyro.sample("b", dist.Normal(a, 1.0))


def a_direction():
    numpyro.sample("way", dist.ProjectedNormal(np.array([1.0, 0.0, 0.0])))


def rows_by_numpy():
    mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
    with numpyro.plate("row", 12, subsample_size=5) as rows:
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=Y[rows])


def random():
    a = numpyro.sample("a", dist.Normal(0.0, 1.0))
    numpyro.factor("noise", a * jax.random.normal(numpyro.prng_key()))


def below_zero(x=1.0):
    r = numpyro.sample("r", dist.Gamma(2.0, 1.0))
    numpyro.sample("y", dist.Gamma(r * x, 1.0), obs=np.array([1.0, -2.0]))


def without_a_predictor():
    b = numpyro.sample("b", dist.Normal(0.0, 1.0))
    numpyro.sample("y", dist.Normal(b * np.where(SHOWN, 1.0, np.nan), 1.0), obs=Y)


@pytest.mark.parametrize(
    ("model", "args", "sentence"),
    [
        (stated, (pd.Series(Y),), r"Site 'y' observes a Series.*to_numpy\(\)"),
        (stated, (list(Y),), r"Site 'y' observes a list.*np\.array"),
        (stated, (Y.astype(str),), "Site 'y' observes values of type <U.*factorize"),
        (stated, (Y[:, None],), r"shape \(12, 1\).*each entry would meet every.*\(12, 12\)"),
        (stated, (Y[:5],), r"Site 'y' observes data of shape \(5,\).*shape \(12,\)"),
        (columns, (pd.DataFrame({"y": Y}),), r"after site 'b' raised.*column\.to_numpy\(\)"),
        (branching, (), r"after site 'a' raised.*jax\.numpy\.where takes the place of `if`"),
        (a_constant, (), r"Site 'a' is a Delta.*numpyro\.deterministic"),
        (a_direction, (), r"no coordinates without bounds for site 'way', ProjectedNormal"),
        (rows_by_numpy, (), r"Plate 'row' subsamples 5 of 12 rows"),
        (random, (), r"draws random numbers by itself.*numpyro\.sample"),
        (below_zero, (), r"It is so of 'y\[1\]': either it is outside its support"),
        (without_a_predictor, (), r"It is so of 'y\[8\]'.*depends on is missing"),
    ],
)
def test_what_cannot_be_is_told(model, args, sentence):
    """By site or place, with the remedy."""
    with pytest.raises(lrvb.InvalidModel, match=sentence):
        lrvb.from_numpyro(model, *args).infer()
