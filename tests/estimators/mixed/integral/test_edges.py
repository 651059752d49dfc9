"""Groups at the edge of what data say: means and sds against sums on a grid, with default priors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaln, ndtr

import lrvb
from lrvb.estimators.mixed.integral import fit

Array = NDArray[np.float64]
SIZES = {"few": [12, 12], "dominating": [120, 2, 2, 2], "single": [1] * 20, "ordinary": [5] * 6}


def log_rows(family: str, y: float, eta: Array) -> Array:
    if family == "poisson":
        return np.asarray(y * eta - np.exp(eta) - gammaln(y + 1))
    return np.asarray(y * eta - np.logaddexp(0, eta))


def summed(family: str, data: dict[str, Array], fit: lrvb.MixedModel) -> dict[str, Array]:
    """Mean and sd of both coefficients and the sd.

    Rows are tabled by η, a level's integral is a trapezoid sum with the normal density, and beyond the
    ends of the table the likelihood is what it is there. The fit only says where the grid lies.
    Sds below the table's step count as the step.
    """
    priors, sd_prior = fit.priors_, fit.priors_.terms[0].sds[0]
    u = np.arange(-40, 30 if family == "bernoulli" else 12, 0.04)
    v, table = np.linspace(-3.4, 3.4, 41), fit.summary()
    b, slope = (
        table.loc[name, "mean"] + 0.8 * table.loc[name, "sd"] * np.sinh(v)
        for name in ("Intercept", "x")
    )
    t = np.linspace(-8, 6, 57)
    s = np.maximum(np.exp(t), 0.04)[:, None]
    ends = [
        stats.norm.logpdf(value, mean, sd) + np.log(np.cosh(v))
        for value, mean, sd in zip((b, slope), priors.mean, priors.sd, strict=True)
    ]
    log_p = ends[0][:, None, None] + (sd_prior.log_density(np.exp(t)) + t)[:, None] + ends[1]
    kernel = np.exp(-(((u - b[:, None, None]) / s) ** 2) / 2) * (0.04 / s / np.sqrt(2 * np.pi))
    kernel[..., 0] += ndtr((u[0] - b[:, None]) / s[:, 0])
    kernel[..., -1] += ndtr((b[:, None] - u[-1]) / s[:, 0])
    for level in np.unique(data["g"]):
        of = data["g"] == level
        rows = sum(
            log_rows(family, y, u[:, None] + slope * x)
            for y, x in zip(data["y"][of], data["x"][of], strict=True)
        )
        top = np.max(rows, axis=0)
        with np.errstate(divide="ignore"):
            log_p = log_p + np.log(kernel @ np.exp(rows - top)) + top
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    found = {}
    for name, value, others in (
        ("Intercept", b, (1, 2)),
        ("sd[1|g]", np.exp(t), (0, 2)),
        ("x", slope, (0, 1)),
    ):
        w = p.sum(axis=others)
        found[name] = np.array([w @ value, np.sqrt(w @ (value - w @ value) ** 2)])
    return found


def simulated(family: str, sizes: list[int], sd: float) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    g = np.repeat(np.arange(len(sizes)), sizes)
    x = rng.normal(size=len(g))
    eta = 0.4 + 0.5 * x + sd * rng.normal(size=len(sizes))[g]
    y = (
        rng.poisson(np.exp(eta))
        if family == "poisson"
        else rng.random(len(g)) < 1 / (1 + np.exp(-eta))
    )
    return {"y": y.astype(float), "x": x, "g": g.astype(float)}


@pytest.mark.parametrize("family", ["poisson", "bernoulli"])
@pytest.mark.parametrize("case", ["few", "dominating", "single", "no sd", "equal", "separated"])
def test_what_is_trusted_is_what_a_grid_says(family, case):
    """Coefficients to 0.1 sd and 5 %, sds to 0.15 sd and 10 %, wherever the verdict is trust."""
    data = simulated(family, SIZES.get(case, SIZES["ordinary"]), 0.0 if case == "no sd" else 0.8)
    if case == "equal":
        data["y"] = np.zeros_like(data["y"])
    if case == "separated":
        data["y"] = np.where(data["x"] > 0, data["y"] + 1 if family == "poisson" else 1.0, 0.0)
    fit = lrvb.MixedModel("y ~ x + (1|g)", family).fit(data)
    table = fit.summary()
    for name, (mean, sd) in summed(family, data, fit).items():
        row, wide = table.loc[name], 2.0 if name.startswith("sd") else 1.0
        assert row["verdict"] in {"trust", "doubtful"}
        if row["verdict"] == "trust":
            assert abs(row["mean"] - mean) < (0.05 + 0.05 * wide) * sd, name
            assert abs(row["sd"] / sd - 1) < 0.05 * wide, name


def test_counts_in_few_crossed_levels():
    """Sums on a grid have these means and sds."""
    rng = np.random.default_rng([2, 1, 99])
    g, h = np.repeat(np.arange(20), 8), np.tile(np.repeat(np.arange(4), 2), 20)
    eta = 0.4 + 0.8 * rng.normal(size=20)[g] + 0.8 * rng.normal(size=4)[h]
    fit = lrvb.MixedModel("y ~ 1 + (1|g) + (1|h)", "poisson")
    table = fit.fit({"y": rng.poisson(np.exp(eta)), "g": g, "h": h}).summary()
    for name, mean, sd in (("Intercept", -0.037, 0.978), ("sd[1|h]", 1.70, 0.90)):
        row = table.loc[name]
        assert abs(row["mean"] - mean) < 0.1 * sd, name
        assert abs(row["sd"] / sd - 1) < 0.05, name


def test_what_is_no_number_far_out_warns_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences of densities beyond all numbers, in whatever sums they are met, stay within the fit."""
    whole = fit._integrated

    def beyond(*given: Any) -> Any:
        assert np.isnan(np.exp(np.float64(1e3)) - np.exp(np.float64(1e3)))
        return whole(*given)

    monkeypatch.setattr(fit, "_integrated", beyond)
    data = {"y": np.arange(12.0) % 4, "g": np.repeat(np.arange(4), 3)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lrvb.MixedModel("y ~ 1 + (1|g)", "poisson").fit(data)
