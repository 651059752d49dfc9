"""How the time grows with rows and columns: linear response and Gibbs.

See: sec:gmm_scaling, fig:ScalingGraphs
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..figures import scaling as figures
from ..reference import mixture_gibbs, simulate
from . import matched
from .base import Experiment, Figure, Findings, Settings, Tables, Verdict
from .clock import best_of
from .rounding import rounded

EFFECTIVE = 1000  # draws of the slowest parameter, to which Gibbs is rescaled
LARGE_P = 5  # the study's slope in P is that above this

#: Which size grows in each run, and the published slope of linear response in it.
RUNS = {"rows": ("N", 0.94), "columns": ("P", 3.06)}
BUSY = (
    " A check below fails. Times of milliseconds move where the machine has other work: run this "
    "experiment again on a quiet one before concluding anything."
)


def settings(quick: bool) -> Settings:
    """Sizes of the two runs; Gibbs is timed over so many draws and rescaled by their worth."""
    return {
        "rows": {
            "components": 3,
            "columns": 3,
            "sizes": [2500, 20_000, 100_000]
            if quick
            else [2500, 5000, 10_000, 25_000, 50_000, 100_000],
        },
        "columns": {
            "components": 2,
            "rows": 5000,
            "sizes": [2, 6, 22] if quick else [2, 3, 4, 5, 6, 8, 10, 13, 16, 19, 22],
        },
        "repetitions": 5 if quick else 7,
        "draws": 1000 if quick else 5000,
        "burn-in": 50 if quick else 200,
    }


def tasks(settings: Settings) -> list[str]:
    """One task a size: rows-2500, …, columns-22."""
    return [f"{run}-{size}" for run in RUNS for size in settings[run]["sizes"]]


def run(task: str, settings: Settings, seed: int) -> Tables:
    """Time one size: the first fit, the warm fit, linear response alone, Gibbs."""
    growing, _, size = task.partition("-")
    chosen = {**settings[growing], growing: int(size)}
    N, K, P = chosen["rows"], chosen["components"], chosen["columns"]
    data = simulate.scaled_mixture(np.random.default_rng([seed, N, K, P]), N, K, P)
    X, labels, repetitions = data["X"], data["z"], settings["repetitions"]
    first, _ = best_of(1, lambda: matched.fit(X, labels))
    warm, mixture = best_of(repetitions, lambda: matched.fit(X, labels))
    response, _ = best_of(repetitions + 1, lambda: matched.linear_response(mixture))
    draws = mixture_gibbs.sample(
        np.random.default_rng([seed, N, K, P, 1]),
        X,
        labels,
        draws=settings["draws"],
        burn_in=settings["burn-in"],
    )
    place = {"run": growing, "N": N, "K": K, "P": P}
    ess = matched.slowest(draws)
    chains = {
        **place,
        "draws": settings["draws"],
        "sweeps": draws.sweeps,
        "ess": ess,
        "global_coordinates": mixture.posterior_.fit.m.size,
        "iterations": mixture.n_iter_,
    }
    per_sweep = draws.seconds / draws.sweeps
    times = {
        **place,
        "first_fit": first,
        "fit_and_response": warm,
        "response": response,
        "gibbs": per_sweep * settings["draws"] * EFFECTIVE / ess,
        "gibbs_sweep": per_sweep,
    }
    return {"chains": rounded(pd.DataFrame([chains])), "times": pd.DataFrame([times])}


def slope(times: pd.DataFrame, size: str, column: str) -> float:
    """Slope of log seconds over log size, P above 5 only."""
    kept = times[times[size] > LARGE_P] if size == "P" else times
    return float(np.polyfit(np.log(kept[size]), np.log(kept[column]), 1)[0])


def findings(tables: Tables, settings: Settings) -> Findings:
    """Seconds and slopes beside the study's."""
    times = tables["times"]
    rows: list[tuple[Any, ...]] = []
    slopes: dict[str, dict[str, float]] = {}
    for growing, (size, published) in RUNS.items():
        mine = times[times["run"] == growing].sort_values(size)
        known = dict(figures.PUBLISHED[size])
        for place in (0, -1):
            here = mine.iloc[place]
            label = f"seconds of linear response, {size} = {here[size]:,}"
            seconds = (here["response"], here["fit_and_response"], here["gibbs"])
            rows.append((label, known.get(here[size], np.nan), *seconds))
        slopes[size] = {
            column: slope(mine, size, column)
            for column in ("response", "fit_and_response", "gibbs")
        }
        label = f"slope in {size}" + (f" for {size} > {LARGE_P}" if size == "P" else "")
        rows.append((label, published, *slopes[size].values()))
    columns = ("quantity", "published", "ours", "fit and linear response", "Gibbs, 1000 effective")
    numbers = pd.DataFrame(rows, columns=list(columns)).set_index("quantity")
    checks = _checks(times, slopes, settings)
    N, P = slopes["N"]["response"], slopes["P"]["response"]
    gain, first = times["gibbs"] / times["response"], times["first_fit"]
    overhead = " (below one, as a few milliseconds do not depend on N)" if N < 0.95 else ""
    reason = (
        f"Linear response grows as N^{N:.2f}{overhead} and, above P = {LARGE_P}, as P^{P:.2f}; "
        f"published {RUNS['rows'][1]} and {RUNS['columns'][1]}. It is {gain.min():.0f} to "
        f"{gain.max():.0f} times as fast as Gibbs for {EFFECTIVE} effective draws of its slowest "
        f"parameter; the chains timed were worth {tables['chains']['ess'].min():.0f} or more. The first "
        f"fit in a process, which compiles, took up to {first.max():.1f} s and is not in these times."
    )
    verdict: Verdict = "reproduced" if all(checks.values()) else "differs"
    if verdict == "differs":
        reason += BUSY
    return Findings(verdict, reason, numbers, checks)


def _checks(
    times: pd.DataFrame, slopes: dict[str, dict[str, float]], settings: Settings
) -> dict[str, bool]:
    """What the paper says of the growth, as requirements."""
    wanted = {(run, size) for run in RUNS for size in settings[run]["sizes"]}
    found = {
        (run, int(value))
        for run, (size, _) in RUNS.items()
        for value in times.loc[times["run"] == run, size]
    }
    return {
        "linear response grows no faster than the rows: slope in N at most 1.1": bool(
            slopes["N"]["response"] <= 1.1
        ),
        "and about cubically in P, below the worst case of 6: slope at most 4.5": bool(
            slopes["P"]["response"] <= 4.5
        ),
        "linear response is faster than Gibbs at every size": bool(
            (times["response"] < times["gibbs"]).all()
        ),
        "every size was measured": wanted == found,
    }


EXPERIMENT = Experiment(
    name="scaling",
    title="How the time grows with rows and columns",
    claim=(
        "Linear response scales linearly in N and about cubically in P, and is at least as fast as "
        "Gibbs sampling at all sizes, often by orders of magnitude."
    ),
    labels=("sec:gmm_scaling", "fig:ScalingGraphs"),
    settings=settings,
    tasks=tasks,
    run=run,
    figures=(
        Figure(
            "rows",
            "Seconds as N grows (K = 3, P = 3), on logarithmic and linear scales. Gibbs is rescaled to "
            "1000 effective draws of its slowest parameter; the first fit of a process, which compiles, is "
            "shown apart. Dashed: between the study's own times at its smallest and largest N.",
            figures.draw_rows,
        ),
        Figure(
            "columns",
            "Seconds as P grows (K = 2, N = 5000), on logarithmic and linear scales. The first fit of each "
            "P compiles and is shown apart. Dashed: between the study's own times at P = 2 and 22.",
            figures.draw_columns,
        ),
    ),
    findings=findings,
    timed=True,
)
