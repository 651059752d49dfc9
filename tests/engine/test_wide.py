"""Without matrices the answers are those with them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES
from lrvb.engine import wide
from lrvb.engine.objective import Objective
from lrvb.engine.wide import Products
from lrvb.numerics.double import double

BY_NAME = {case.name: case for case in CASES}


class Crossed(lrvb.Model):
    """y ~ N(a_i + b_j, 1/τ), two crossed factors of standard normal effects."""

    global_blocks = {"a": lrvb.Normal(batch=5), "b": lrvb.Normal(batch=4), "tau": lrvb.Gamma()}

    def global_term(self, m):
        return -(jnp.sum(m.a.xx) + jnp.sum(m.b.xx)) / 2 + m.tau.log_x - m.tau.x

    def local_term(self, m, z, row):
        a, b = m.a.x[row.i], m.b.x[row.j]
        square = row.y**2 - 2 * row.y * (a + b) + m.a.xx[row.i] + m.b.xx[row.j] + 2 * a * b
        return (m.tau.log_x - m.tau.x * square) / 2


def test_a_wide_posterior_is_that_of_matrices(monkeypatch, tmp_path):
    """Optimum, sds, mean-field sds and covariances; a block's name stands for all of it."""
    data = crossed()
    narrow = lrvb.infer(Crossed(), data, certify=False)
    monkeypatch.setattr(wide, "WIDE_GLOBAL", 10)
    ours = lrvb.infer(Crossed(), data)
    assert isinstance(ours, lrvb.WidePosterior)
    with pytest.raises(AttributeError, match="no 'influence', because no matrix of its"):
        ours.influence()
    assert ours.converged
    names = ["a", "b[1]", "tau", "log(tau)"]
    assert list(ours.mean(names).index) == [f"a[{k}]" for k in range(5)] + names[1:]
    assert_allclose(ours.elbo, narrow.elbo, rtol=1e-12)
    assert_allclose(ours.mean(), narrow.mean(), rtol=1e-7, atol=1e-9)
    assert_allclose(ours.cov(names), narrow.cov(names), rtol=1e-7, atol=1e-10)
    assert_allclose(ours.sd(names, "mfvb"), narrow.sd(names, "mfvb"), rtol=1e-9)
    assert_allclose(ours.summary()["sd"], narrow.sd(), rtol=1e-7)
    with pytest.raises(lrvb.InvalidModel, match="no quantity 'c'"):
        ours.sd("c")
    assert ours.certificate is None
    assert set(ours.summary()["verdict"]) == set(ours.verdicts["verdict"]) == {"not checked"}
    assert "thousands of coordinates" in repr(ours.summary("tau"))
    with pytest.raises(lrvb.InvalidModel, match="global coordinates"):
        lrvb.infer(Crossed(), data, certify=True)
    some = ours.narrow(["a[3]", "b[1]", "tau"])
    chosen = ["a[3]", "b[1]", "tau", "log(tau)"]
    assert some.names == chosen
    assert_allclose(some.cov(), narrow.cov(chosen), rtol=1e-7, atol=1e-10)
    few, all_of_them = some.summary().loc[chosen], narrow.summary().loc[chosen]
    numbers = ["mean", "sd", "mfvb_sd", "lower", "upper"]
    assert_allclose(few[numbers], all_of_them[numbers], rtol=1e-6, atol=1e-9)
    draws = some.draws(4000, seed=0)
    assert (draws["tau"] > 0).all()
    corr = np.corrcoef(draws["a[3]"], draws["b[1]"])[0, 1]
    assert corr == pytest.approx(narrow.corr(["a[3]", "b[1]"]).iloc[0, 1], abs=5 / np.sqrt(4000))
    some.save(tmp_path / "some.npz")
    assert_allclose(lrvb.load(tmp_path / "some.npz").cov(), some.cov())
    with pytest.raises(lrvb.InvalidModel, match="too many for matrices"):
        lrvb.linearize(ours.fit)


def crossed() -> dict[str, np.ndarray]:
    """Sixty rows of five and four levels."""
    rng = np.random.default_rng(0)
    i, j = rng.integers(5, size=60), rng.integers(4, size=60)
    y = rng.normal(size=5)[i] + rng.normal(size=4)[j] + rng.normal(size=60)
    return {"i": i, "j": j, "y": y}


def test_what_is_not_solved_is_said(monkeypatch):
    """Two steps are too few: a warning names the quantity, and what is left is that of the equation."""
    monkeypatch.setattr(wide, "WIDE_GLOBAL", 10)
    posterior = lrvb.infer(Crossed(), crossed())
    objective = Objective(posterior.fit.problem, lrvb.AutodiffSum().bind(posterior.fit.problem))
    products = Products(objective, posterior.fit.point)
    r = np.eye(len(posterior.fit.m))[[0, -1]]
    exact = posterior.sd(["a[0]", "tau"])
    monkeypatch.setattr(wide, "MOST", 2)
    with double():
        found = products.solve(r)
        rest = r - found.x + products.H(products.V(found.x))
        lengths = [np.sqrt(np.einsum("ka,ka->k", v, products.V(v))) for v in (rest, r)]
    assert_allclose(found.left, lengths[0] / lengths[1], rtol=1e-8)
    with pytest.warns(lrvb.NotConverged, match=r"the equation for 'a\[0\]' unsolved"):
        few = posterior.sd("a[0]")
    assert few["a[0]"] < exact["a[0]"]
    with pytest.warns(lrvb.NotConverged, match="2 steps of conjugate gradients leave"):
        assert not lrvb.infer(Crossed(), crossed()).converged


@pytest.mark.parametrize("name", ["NormalPoisson-tilted", "NormalPoisson-gaussian"])
def test_products_are_those_of_the_curvature(name):
    """H̃v with every row's z following m, conjugate or not. See: eq:nuisance_lrvb_est."""
    fit = BY_NAME[name].small_fit()
    objective = Objective(fit.problem, lrvb.AutodiffSum().bind(fit.problem))
    curvature = lrvb.linearize(fit)
    with double():
        products = Products(objective, fit.point)
        identity = np.eye(len(fit.m))
        H, V = products.H(identity), products.V(identity)
    assert_allclose(H, curvature.H, rtol=1e-8, atol=1e-8 * np.abs(curvature.H).max())
    assert_allclose(V, curvature.V, rtol=1e-12, atol=1e-14)


class Scaled(Crossed):
    """The same with precisions of its effects, at whose start the ELBO is not concave."""

    global_blocks = Crossed.global_blocks | {"alpha": lrvb.Gamma(), "beta": lrvb.Gamma()}

    def global_term(self, m):
        a = 2.5 * m.alpha.log_x - m.alpha.x * (1 + jnp.sum(m.a.xx) / 2)
        b = 2 * m.beta.log_x - m.beta.x * (1 + jnp.sum(m.b.xx) / 2)
        return a + b + m.tau.log_x - m.tau.x


def test_where_newton_has_no_step_to_begin_with(monkeypatch):
    """A direction in which I − HV is not positive is left to coordinate ascent; the optimum is the same."""
    rng = np.random.default_rng(1)
    i, j = rng.integers(5, size=60), rng.integers(4, size=60)
    y = 0.3 * rng.normal(size=5)[i] + rng.normal(size=4)[j] + rng.normal(size=60)
    data, names = {"i": i, "j": j, "y": y}, ["a[0]", "b[3]", "alpha", "log(beta)", "tau"]
    narrow = lrvb.infer(Scaled(), data, certify=False)
    monkeypatch.setattr(wide, "WIDE_GLOBAL", 10)
    for spread in (0.1, 1.0, 10.0):
        init = {"alpha": {"shape": 1.0, "rate": spread}, "beta": {"shape": 1.0, "rate": spread}}
        ours = lrvb.infer(Scaled(), data, init=init)
        assert ours.converged
        assert_allclose(ours.cov(names), narrow.cov(names), rtol=1e-6, atol=1e-9)
