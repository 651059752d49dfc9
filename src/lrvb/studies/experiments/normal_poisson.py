"""Poisson counts with normal log rates: sds of β and τ, and covariances with z, beside exact ones.

See: sec:normal_poisson_model, fig:PN_SimulationResults
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...models import NormalPoisson
from ..figures import normal_poisson as figures
from ..reference import normal_poisson, simulate
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
    stated = {"beta_var": 10.0, "tau_shape": 1.0, "tau_rate": 1.0}
    return {
        "data sets": QUICK if quick else FULL,
        "rows": 500,
        "beta": [0.0, 3.0],
        "sd": [0.3, 1.0],
        "priors": {
            "matched": {"fit": stated, "truth": stated},
            "as published": {
                "fit": {**stated, "tau_shape": 2.0},  # its update of q(τ) adds 1 to the shape
                "truth": {"beta_var": 10.0, "tau_shape": 0.5, "tau_rate": 0.5},
            },
        },
        "kept rows": 10,
        "depth": 20.0,  # nats: moments within 1e-6 of an sd
    }


def make_data(settings: Settings, seed: int, number: int) -> DataSet:
    """Data set `number`: x and the rows kept are the same in all."""
    shared = design_rng(seed)
    x = shared.standard_normal((settings["rows"],))
    kept = np.sort(shared.choice(settings["rows"], settings["kept rows"], replace=False))
    u = spread(2, number, seed)
    beta, sd = between(settings["beta"], u[0]), between(settings["sd"], u[1])
    data = simulate.normal_poisson(data_rng(seed, number), beta=beta, sd=sd, x=x)
    return DataSet({"x": x, "y": data["y"]}, {"beta": beta, "tau": data["tau"]}, kept)


STUDY = Study(
    simulate=make_data,
    models={
        "gaussian": partial(NormalPoisson, local="gaussian"),
        "tilted": partial(NormalPoisson, local="tilted"),
    },
    refinable=frozenset({"tilted"}),
    exact=normal_poisson.exact,
)


COMPARISON = Comparison(
    published=(
        Published("LRVB", "beta", 0.016, 0.058),
        Published("LRVB", "tau", 0.038, 0.57),
        Published("LRVB", "log(tau)", 0.036, 0.26),
        Published("MFVB", "beta", 0.51),
        Published("MFVB", "tau", 0.80),
        Published("MFVB", "log(tau)", 0.80),
    ),
    columns={
        "ours": ("gaussian", "as published"),
        "Gaussian q(z), matched": ("gaussian", "matched"),
        "optimal q(z), matched": ("tilted", "matched"),
    },
    judged="tilted",
    limits={"beta": 0.01, "log(tau)": 0.01, "tau": 0.04},
    doubted="tau",
    statistic="worst",
)


def findings(tables: Tables, settings: Settings) -> Findings:
    """The verdict on the study, from its tables."""
    return judge(
        tables,
        COMPARISON,
        "The study's sampler had the prior Gamma(0.5, 0.5) on τ where its fit had Gamma(1, 1), and its "
        "update of q(τ) added 1 to the shape, so that the two had different posteriors; where τ is large "
        "the data say little about it and the priors show.",
    )


RATIOS = (
    "Posterior sd ÷ exact sd of β, τ and log τ, a dot per data set and a bar at the median; 1 is right. "
    "Left the study's own comparison, then the same priors for fit and truth."
)
CAPTIONS = {
    "sds": (
        "Sds of β, τ and log τ against exact, {priors}. Above: q(z) restricted to a Gaussian, as in the "
        "paper. Below: the optimal q(z)."
    ),
    "means": "Means of β, τ and log τ against exact, {priors}, with their bias in exact sds.",
    "locals": (
        "The latent log rates z of some rows of each data set, {priors}: their sds, and their covariances "
        "with β, τ and log τ, divided by the exact sds of both. Mean field has covariances of zero."
    ),
}

EXPERIMENT = Experiment(
    name="normal-poisson",
    title="Poisson counts with normal log rates",
    claim=(
        "Mean field's sds of β and τ are far too small, most of all where τ is large. Linear response "
        "agrees with MCMC on β everywhere, and on τ except where τ is largest: there mean field's mean "
        "of τ is biased, and the sd of linear response begins to be off. The covariances of z with β, τ "
        "and log τ come out fairly well; mean field has none."
    ),
    labels=("sec:normal_poisson_model", "fig:PN_SimulationResults"),
    settings=settings,
    tasks=tasks,
    run=partial(run, STUDY),
    figures=tuple(list_figures(figures, RATIOS, CAPTIONS)),
    findings=findings,
)
