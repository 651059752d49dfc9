"""The second order of variational mixed models of counts and of zeros and ones, against the integral.

    python benchmarks/second_order_mixed.py [poisson] [bernoulli] [cost]

y ~ x + (1|g) with 5 to 60 groups of 2 to 20 rows and sds 0.2 to 3, joint and separate factors, one data set
each; the integral under the same priors by `certify()`. Of linear response and of the second order: how far
means of coefficients and of the log precision are off, in the integral's sds, and ratios of sds; whether the
second order was warned of (`LargeCorrection`) or refused. `cost` has its processor seconds in units of one
evaluation of value, gradient and curvature of the fit, the coefficients' best Gaussian found anew: with
groups of ten rows, and with twelve groups, whose precision is not well known.
"""

from __future__ import annotations

import sys
import warnings
from itertools import product

import numpy as np
import pandas as pd
from certificate_speed import alternately

import lrvb
from lrvb.engine.objective import Objective
from lrvb.estimators.mixed.fit.along_lines import AlongLines
from lrvb.estimators.mixed.fit.joint_response import tilted
from lrvb.estimators.mixed.integral.block_gap import BlockGap

GROUPS, ROWS, SDS = (5, 20, 60), (2, 5, 20), (0.2, 0.5, 1.0, 2.0, 3.0)
PRECISION = "log(precision[1|g])"
NAMES = ["Intercept", "x", PRECISION]
SIZES = (1000, 10_000, 100_000)


def simulate(family: str, groups: int, rows: int, sd: float, seed: int) -> pd.DataFrame:
    """Effects N(0, sd²) of groups; a mean count of about one, or about as many ones as zeros."""
    rng = np.random.default_rng(seed)
    g, x = np.repeat(np.arange(groups), rows), rng.normal(size=groups * rows)
    eta = 0.5 * x + sd * rng.normal(size=groups)[g]
    if family == "gaussian":
        y = eta + rng.normal(size=len(eta))
    elif family == "poisson":
        y = rng.poisson(np.exp(eta))
    else:
        y = (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int)
    return pd.DataFrame({"y": y, "x": x, "g": g})


def compare(data: pd.DataFrame, family: str, factorization: str) -> pd.DataFrame | None:
    """Errors of both orders; `warned` where the second was; None without an integral that is sound."""
    model = lrvb.MixedModel("y ~ x + (1|g)", family=family, factorization=factorization)
    posterior = model.fit(data).posterior_
    certificate = posterior.certify()
    if certificate.k_hat > 0.5:
        return None
    exact = certificate.summary().loc[NAMES]
    table = pd.DataFrame(
        {
            "first_mean": (posterior.mean(NAMES) - exact["mean"]) / exact["sd"],
            "first_sd": posterior.sd(NAMES) / exact["sd"],
            "warned": "",
        }
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", lrvb.LargeCorrection)
        try:
            found = posterior.refined(NAMES)
        except lrvb.LrvbError:
            return table.assign(warned="refused", second_mean=np.nan, second_sd=np.nan)
    if any(isinstance(each.message, lrvb.LargeCorrection) for each in caught):
        table["warned"] = "warned"
    table["second_mean"] = (found["mean"] - exact["mean"]) / exact["sd"]
    table["second_sd"] = found["sd"] / exact["sd"]
    return table


def main(families: list[str]) -> None:
    """A line a case, and by family, quantity, sd and warning the medians and largest errors."""
    kept = []
    for seed, case in enumerate(product(families, GROUPS, ROWS, SDS)):
        family, groups, rows, sd = case
        data = simulate(family, groups, rows, sd, seed)
        if data["y"].nunique() < 2:
            continue
        for factorization in ("variational", "mean_field"):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    table = compare(data, family, factorization)
            except lrvb.LrvbError as error:
                print(*case, factorization, str(error)[:90], flush=True)
                continue
            if table is None:
                print(*case, factorization, "no integral", flush=True)
                continue
            kept.append(table.assign(family=family, factors=factorization, sd=sd))
            row = table.loc[PRECISION]
            print(
                *case,
                factorization,
                f"{row.first_mean:+.2f} {row.first_sd:.2f} → {row.second_mean:+.2f} "
                f"{row.second_sd:.2f} {row.warned}",
                flush=True,
            )
    found = pd.concat(kept)
    found["quantity"] = np.where(found.index == PRECISION, "precision", "coefficients")
    for order in ("first", "second"):
        found[f"{order}_sd"] = np.log(found[f"{order}_sd"]).abs()
        found[f"{order}_mean"] = found[f"{order}_mean"].abs()
    columns = ["first_mean", "second_mean", "first_sd", "second_sd"]
    by = found.groupby(["family", "quantity", "sd", "warned"])[columns]
    print(by.agg(["size", "median", "max"]).round(3).to_string())


def cost() -> None:
    """A line for each number of groups and rows, family and factorization."""
    factorizations = "variational", "mean_field"
    for few, *case in product(
        (False, True), SIZES, ("gaussian", "poisson", "bernoulli"), factorizations
    ):
        in_curvatures(12 if few else case[0] // 10, *case)


def in_curvatures(groups: int, rows: int, family: str, factorization: str) -> None:
    """All means of precisions, mean and sd of one quantity, and all that one asks whose density answers."""
    data = simulate(family, groups, rows // groups, 0.7, 0)
    model = lrvb.MixedModel("y ~ x + (1|g)", family=family, factorization=factorization).fit(data)
    joint, (b, none) = model._joint, np.eye(2)[::-1] * [[1], [0]]
    response = joint.precisions
    gap = BlockGap(model.design_, model.priors_, model._standard, response.alpha, response.m)
    second, d = tilted(joint, gap), np.eye(len(response.m))[1]
    objective = Objective(response.fit.problem, response.fit.local_sum)

    def density() -> AlongLines:
        lines = AlongLines(response, gap.evidence, second.shift)
        lines.moments(d)
        return lines

    line = density()._lines[0]
    one, near, means, effect, precision, judged, alone, evidence = alternately(
        lambda: objective.at(response.eta),
        lambda: objective.at(response.eta * 1.001, state=response.fit.point.state),
        lambda: tilted(joint, gap),
        lambda: second.cumulants(b, 0 * d),
        lambda: second.cumulants(none, d),
        lambda: (density(), second.rough_variance(d)),
        density,
        lambda: line._evidence(line.x),
        times=9 if rows < SIZES[-1] else 3,
    )
    print(
        f"{groups} {rows} {family} {factorization}: {one * 1e3:.1f} ms; begun near by {near / one:.2f}, "
        f"means {means / one:.1f}, a fixed effect {effect / one:.1f}, a log precision {precision / one:.1f}, "
        f"by its density {judged / one:.1f}, of that the density {alone / one:.1f}, of which its "
        f"{len(line.x)} integrals {evidence / one:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    asked = sys.argv[1:] or ["poisson", "bernoulli", "cost"]
    if "cost" in asked:
        cost()
    if set(asked) - {"cost"}:
        main([family for family in asked if family != "cost"])
