"""Zeros and ones with a group for every row: an sd that data hardly bound, far from the mode's nodes."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, ndtr

import lrvb


def averaged(eta: np.ndarray, sd: float) -> np.ndarray:
    """E[1/(1 + e^−(η + z))] with z ~ N(0, sd²), by sums over z, or over the noise where sd is large."""
    if sd < 5:
        z = np.linspace(-8, 8, 401)
        w = np.exp(-(z**2) / 2)
        return expit(eta[:, None] + sd * z) @ (w / w.sum())
    u = np.linspace(-40, 40, 801)
    w = expit(u) * expit(-u)
    return ndtr((eta[:, None] + u) / sd) @ (w / w.sum())


def on_a_grid(
    model: lrvb.MixedModel, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values of the sd and their weights: sums over a grid of both coefficients at every value."""
    prior = model.priors_
    (half_t,) = prior.terms[0].sds
    sds = np.exp(np.linspace(-4, np.log(3000), 90))
    ratios = np.linspace(-2.5, 2.5, 151)
    cells = np.unique(np.column_stack([x, y]), axis=0, return_counts=True)
    log_weight = np.empty(len(sds))
    for i, sd in enumerate(sds):
        b = ratios * np.hypot(1.0, sd)
        eta = np.linspace(-1, 1, 2001) * np.abs(b).max() * (1 + np.abs(x).max())
        log_p, log_q = (np.log(averaged(side * eta, sd)) for side in (1, -1))
        slope = (b / prior.sd[1]) ** 2 / 2
        total = -(((b - prior.mean[0]) / prior.sd[0]) ** 2)[:, None] / 2 - slope
        for (at, one), count in zip(*cells, strict=True):
            total += count * np.interp(b[:, None] + at * b, eta, log_p if one else log_q)
        top = total.max()
        area = np.log(np.exp(total - top).sum()) + top + 2 * np.log(b[1] - b[0])
        log_weight[i] = area + half_t.log_density(sd) + np.log(sd)
    weight = np.exp(log_weight - log_weight.max())
    return sds, weight / weight.sum()


def check(model: lrvb.MixedModel, x: np.ndarray, y: np.ndarray) -> None:
    """Mean, sd and quantiles of the sd are those of the grid, to four Monte Carlo errors."""
    sds, weight = on_a_grid(model, x, y)
    mean = weight @ sds
    sd = np.sqrt(weight @ sds**2 - mean**2)
    found, certificate = model.summary().loc["sd[1|g]"], model.certificate_
    assert certificate.exact
    assert found["verdict"] == "trust"
    assert abs(found["mean"] - mean) < 4 * certificate.mean_error["sd[1|g]"] * sd
    assert abs(np.log(found["sd"] / sd)) < 4 * certificate.sd_error["sd[1|g]"]
    lower, median, upper = np.interp([0.03, 0.5, 0.97], np.cumsum(weight), sds)
    assert found["lower"] < median < found["upper"]
    # ends of an interval are where 3 % of about 2000 effective draws are: to some 13 % of those
    assert abs(np.log(found["lower"] / lower)) < 0.2
    assert abs(np.log(found["upper"] / upper)) < 0.2


def test_rows_with_three_values_of_a_column():
    y = (np.arange(150) < 60).astype(int)
    x = np.tile([-1.0, 0.0, 1.0], 50)
    model = lrvb.MixedModel("y ~ x + (1|g)", "bernoulli").fit({"y": y, "x": x, "g": np.arange(150)})
    check(model, x, y)


def test_rows_with_a_value_each():
    """Every row's group differs: bent nodes follow sds of a hundred and more."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=40), (rng.random(40) < 0.4).astype(int)
    model = lrvb.MixedModel("y ~ x + (1|g)", "bernoulli").fit({"y": y, "x": x, "g": np.arange(40)})
    check(model, x, y)


def test_an_effect_of_each_zero_and_one_is_summed_whatever_that_takes(monkeypatch):
    """No Gaussian block has what rows leave of its sd, many times what it is at the mode."""
    monkeypatch.setattr("lrvb.integrated.effort.WORK", 1e4)
    monkeypatch.setattr("lrvb.integrated.effort.LONG", 1e4)
    rng = np.random.default_rng(5)
    g, x = np.repeat(np.arange(6), 30), rng.normal(size=180)
    y = (rng.random(180) < expit(0.3 * x + 0.5 * rng.normal(size=6)[g])).astype(int)
    data = {"y": y, "x": x, "g": g, "row": np.arange(180)}
    model = lrvb.MixedModel("y ~ x + (1|g) + (1|row)", "bernoulli").fit(data)
    assert model.certificate_.method == "importance"
    assert model.certificate_.exact
    assert model.summary().loc["sd[1|row]", "upper"] > 10
