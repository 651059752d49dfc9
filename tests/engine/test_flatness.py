"""A direction that nothing determines is refused and named; a weakly determined one is answered."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from lrvb.engine.flatness import flat_direction


class Regression(lrvb.Model):
    """y ~ N(Xb, 1) with independent coordinates in q and prior precision `ridge`."""

    def __init__(self, p: int, ridge: float):
        self.p, self.ridge = p, float(ridge)

    def global_blocks(self, rows):
        return {"b": lrvb.Normal(batch=(self.p,))}

    def global_term(self, m):
        return -0.5 * self.ridge * m.b.xx.sum()

    def local_term(self, m, z, row):
        fitted = row.x @ m.b.x
        spread = jnp.sum(row.x**2 * (m.b.xx - m.b.x**2))
        return -0.5 * ((row.y - fitted) ** 2 + spread)


class Factors(lrvb.Model):
    """x_n ~ N(Wz_n, 1/τ), z_n ~ N(0, I); with `triangular` the first row of W is (w, 0)."""

    def __init__(self, P: int, Q: int, triangular: bool = False):
        self.P, self.Q, self.triangular = P, Q, triangular

    def global_blocks(self, rows):
        blocks = {"W": lrvb.MultivariateNormal(self.Q, batch=(self.P,)), "tau": lrvb.Gamma()}
        if self.triangular:
            blocks = {"w": lrvb.Normal(), **blocks}
            blocks["W"] = lrvb.MultivariateNormal(self.Q, batch=(self.P - 1,))
        return blocks

    def local_blocks(self, rows):
        return {"z": lrvb.MultivariateNormal(self.Q)}

    def global_term(self, m):
        prior = -0.005 * jnp.trace(m.W.xx, axis1=1, axis2=2).sum() + m.tau.log_x - m.tau.x
        return prior - 0.005 * m.w.xx if self.triangular else prior

    def local_term(self, m, z, row):
        x = row.x[1:] if self.triangular else row.x
        square = x @ x - 2 * x @ (m.W.x @ z.x) + jnp.sum(m.W.xx * z.xx[None])
        if self.triangular:
            square += row.x[0] ** 2 - 2 * row.x[0] * m.w.x * z.x[0] + m.w.xx * z.xx[0, 0]
        return 0.5 * (self.P * m.tau.log_x - m.tau.x * square - jnp.trace(z.xx))


def collinear(seed: int):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3))
    X[:, 2] = X[:, 0] + 0.5 * X[:, 1]
    return {"x": X, "y": X[:, 0] + rng.normal(size=40)}


def quiet_fit(model, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lrvb.NotConverged)
        return lrvb.fit(model, data, **options)


@pytest.mark.filterwarnings("ignore::lrvb.LargeCorrection")
@pytest.mark.parametrize("ridge", [1e-2, 1e-4, 1e-6, 1e-7])
def test_a_weak_direction_is_answered(ridge):
    """prop:lrvb_mvn holds along a direction that the prior alone determines, 1e4 times as wide."""
    data = collinear(0)
    posterior = lrvb.infer(Regression(3, ridge), data)
    exact = np.linalg.inv(data["x"].T @ data["x"] + ridge * np.eye(3))
    # B's lowest eigenvalue is about ridge/40 and known to a few ε.
    assert_allclose(posterior.cov(), exact, rtol=100 * 40 * np.finfo(float).eps / ridge)


@pytest.mark.parametrize("seed", range(6))
def test_an_undetermined_combination_is_refused_and_named(seed):
    with pytest.warns(lrvb.NotConverged, match=r"flat along b\[0\] \+ 0.5 b\[1\] − b\[2\]"):
        fit = lrvb.fit(Regression(3, 0.0), collinear(seed))
    assert not fit.converged
    with pytest.raises(lrvb.NotAMaximum, match=r"b\[0\] \+ 0.5 b\[1\] − b\[2\].*drop") as caught:
        lrvb.linearize(fit)
    assert abs(caught.value.eigenvalue) <= caught.value.noise < 1e-6
    assert set(caught.value.direction) == {"b[0]", "b[1]", "b[2]"}


def factor_data():
    rng = np.random.default_rng(3)
    W = np.array([[1.0, 0.0], [0.5, 1.0], [-0.7, 0.4], [0.2, -0.9]])
    return {"x": rng.normal(size=(120, 2)) @ W.T + 0.4 * rng.normal(size=(120, 4))}


@pytest.mark.parametrize("seed", range(4))
def test_a_rotation_is_refused_from_every_start(seed):
    loc = np.random.default_rng(seed).normal(size=(4, 2))
    fit = quiet_fit(Factors(4, 2), factor_data(), init={"W": {"loc": loc, "cov": 0.01 * np.eye(2)}})
    assert not fit.converged
    with pytest.raises(lrvb.NotAMaximum, match=r"coordinates of W.*rotation.*triangular"):
        lrvb.linearize(fit)
    with pytest.raises(lrvb.NotAMaximum, match="coordinates of W"):
        lrvb.linearize(fit, local_sum=lrvb.AutodiffSum())


def test_the_remedy_for_a_rotation_works():
    loc = np.array([[0.5, 1.0], [-0.7, 0.4], [0.2, -0.9]])
    start = {"W": {"loc": loc, "cov": 0.01 * np.eye(2)}, "w": {"loc": 1.0, "scale": 0.1}}
    posterior = lrvb.infer(Factors(4, 2, triangular=True), factor_data(), init=start)
    assert posterior.converged
    assert posterior.sd("W").max() < 0.5


def test_an_ordinary_optimum_costs_no_eigenvalues(monkeypatch):
    def forbidden(*args, **options):
        raise AssertionError("eigenvalues were computed")

    fit = lrvb.fit(Regression(2, 1.0), {"x": collinear(0)["x"][:, :2], "y": np.ones(40)})
    monkeypatch.setattr("scipy.linalg.eigh", forbidden)
    assert flat_direction(fit.curved) is None
