"""A small experiment for the tests of the runner: a few draws and a fit per task."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd

import lrvb
from lrvb.models import NormalPoisson
from lrvb.studies.experiments.base import Experiment, Figure, Findings
from lrvb.studies.experiments.runner import Plan


def run(task, settings, seed):
    """Draws, their product, and one fit: all that could depend on threads or on the process."""
    if task == settings.get("fails"):
        raise ValueError("the task was told to fail\nsecond line")
    if task == settings.get("dies"):
        os._exit(3)
    rng = np.random.default_rng([seed, int(task)])
    A = rng.normal(size=(300, 300))
    x = rng.normal(size=40)
    posterior = lrvb.infer(NormalPoisson(), {"x": x, "y": rng.poisson(np.exp(x))})
    fit = posterior.summary().reset_index(names="quantity")
    draws = pd.DataFrame({"task": [task], "log_det": [np.linalg.slogdet(A @ A.T)[1]]})
    times = pd.DataFrame({"process": [os.getpid()], "threads": [os.environ["OMP_NUM_THREADS"]]})
    return {"draws": draws, "fit": fit.assign(task=task), "times": times}


def draw(tables, path):
    path.write_bytes(b"\x89PNG")
    return path


def findings(tables, settings):
    numbers = pd.DataFrame({"published": [1.0], "ours": [tables["draws"]["log_det"].mean()]})
    return Findings("reproduced", "It runs. Twice.", numbers, {"it runs": True})


def tiny(tasks=3, **settings):
    """The experiment with so many tasks; `fails` and `dies` name a task that does."""
    return Experiment(
        name="tiny",
        title="A tiny experiment",
        claim="It runs.",
        labels=(),
        settings=lambda quick: {"tasks": tasks, "quick": quick, "pair": (1, 2), **settings},
        tasks=lambda settings: [str(i) for i in range(settings["tasks"])],
        run=run,
        figures=(Figure("dots", "Dots.", draw),),
        findings=findings,
    )


def plan(out, **options):
    """A plan for the tiny experiment alone."""
    return Plan(**{"names": ["tiny"], "quick": True, "seed": 1, "out": out, "jobs": 1} | options)
