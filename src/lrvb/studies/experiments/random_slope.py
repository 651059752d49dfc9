"""A random slope per group: sds of β, ν and τ beside exact ones.

See: sec:random_effects_model, fig:RE_SimulationResults
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...models import RandomSlope
from ..figures import random_slope as figures
from ..reference import random_slope, simulate
from .base import Experiment, Findings, Settings, Tables
from .regression import (
    FULL,
    QUICK,
    DataSet,
    Study,
    between,
    data_rng,
    design_rng,
    run,
    spread,
    tasks,
)
from .regression_figures import list_figures
from .regression_findings import Comparison, Published, judge


def settings(quick: bool) -> dict[str, Any]:
    """The study's numbers; a quick run makes the first few of the same data sets."""
    stated = _priors(beta_var=10.0, shape=2.0, rate=2.0)
    return {
        "data sets": QUICK if quick else FULL,
        "groups": 30,
        "rows per group": 10,
        "beta": [0.0, 3.0],
        "nu": [0.5, 4.0],
        "tau": [0.2, 1.0],
        "priors": {
            "matched": {"fit": stated, "truth": stated},
            "as published": {"fit": stated, "truth": _priors(beta_var=0.1, shape=1.0, rate=0.5)},
        },
        "kept groups": 10,
        "depth": 32.0,  # nats
    }


def _priors(beta_var: float, shape: float, rate: float) -> dict[str, float]:
    """One Gamma prior for both precisions."""
    gamma = {"tau_shape": shape, "tau_rate": rate, "nu_shape": shape, "nu_rate": rate}
    return {"beta_var": beta_var, **gamma}


def make_data(settings: Settings, seed: int, number: int) -> DataSet:
    """Data set `number`: x, r and the groups kept are the same in all."""
    groups, per_group = settings["groups"], settings["rows per group"]
    shared = design_rng(seed)
    design = simulate.random_slope(shared, groups, per_group)
    kept = np.sort(shared.choice(groups, settings["kept groups"], replace=False))
    u = spread(4, number, seed)
    beta = [between(settings["beta"], fraction) for fraction in u[:2]]
    nu, tau = between(settings["nu"], u[2]), between(settings["tau"], u[3])
    data = simulate.random_slope(
        data_rng(seed, number),
        groups,
        per_group,
        beta=np.array(beta),
        nu=nu,
        tau=tau,
        x=design["x"],
        r=design["r"],
    )
    columns = {name: data[name] for name in ("x", "r", "y", "group")}
    drawn = {"beta[0]": beta[0], "beta[1]": beta[1], "nu": nu, "tau": tau}
    return DataSet(columns, drawn, kept)


STUDY = Study(
    simulate=make_data,
    models={"conjugate": RandomSlope},
    refinable=frozenset({"conjugate"}),
    exact=random_slope.exact,
)


COMPARISON = Comparison(
    published=(
        Published("LRVB", "beta[0]", 0.093, 0.21),
        Published("LRVB", "beta[1]", 0.018, 0.07),
        Published("LRVB", "nu", 0.38, 1.08),
        Published("LRVB", "log(nu)", 0.16, 0.38),
        Published("LRVB", "tau", 0.012),
        Published("LRVB", "log(tau)", 0.018),
        Published("LRVB", "z", 0.026, 0.27),
        Published("MFVB", "beta[0]", 0.49),
        Published("MFVB", "nu", 0.61),
        Published("MFVB", "log(nu)", 0.37),
    ),
    columns={"ours": ("conjugate", "as published"), "matched": ("conjugate", "matched")},
    judged="conjugate",
    limits={"beta[0]": 0.02, "beta[1]": 0.01, "tau": 0.02, "log(nu)": 0.02, "nu": 0.04},
    doubted="nu",
    statistic="median",
)


def findings(tables: Tables, settings: Settings) -> Findings:
    """The verdict on the study, from its tables."""
    return judge(
        tables,
        COMPARISON,
        "The study's sampler had the priors β ~ N(0, 0.1 I) and Gamma(1, 0.5) of both precisions, where "
        "its fit had N(0, 10 I) and Gamma(2, 2): two different posteriors were compared, and with 30 "
        "groups the prior of ν matters most.",
    )


RATIOS = (
    "Posterior sd ÷ exact sd of every parameter, a dot per data set and a bar at the median; 1 is right. "
    "Left the study's own comparison, right the same priors for fit and truth."
)
CAPTIONS = {
    "sds": "Sds of all parameters against exact, {priors}.",
    "means": "Means of all parameters against exact, {priors}, with their bias in exact sds.",
    "locals": (
        "The random slopes z of some groups of each data set, {priors}: their sds, and their covariances "
        "with the parameters, divided by the exact sds of both. Mean field has covariances of zero."
    ),
}

EXPERIMENT = Experiment(
    name="random-slope",
    title="A random slope for each group",
    claim=(
        "r is correlated with x₁ but not with x₂, so mean field's sd is too small for β₁ and right for β₂, "
        "and linear response repairs it. For ν mean field itself is poor on many data sets; the sds of "
        "linear response are then off as well, though less."
    ),
    labels=("sec:random_effects_model", "fig:RE_SimulationResults"),
    settings=settings,
    tasks=tasks,
    run=partial(run, STUDY),
    figures=tuple(list_figures(figures, RATIOS, CAPTIONS)),
    findings=findings,
)
