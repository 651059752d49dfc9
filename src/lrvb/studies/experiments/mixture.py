"""Mixture of two normals in the plane: sds and covariances against Gibbs on 200 data sets.

See: sec:normal_mixture_model, fig:SimulationStandardDeviations
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..figures import mixture as figures
from ..reference import simulate
from . import matched
from . import mixture_certified as certified
from .base import Experiment, Figure, Findings, Settings, Tables, Verdict
from .clock import best_of
from .rounding import rounded

#: What the study stored: mean over data sets of sd ÷ Gibbs sd, least and greatest of 12 parameters
#: and least and greatest of all; seconds.
PUBLISHED = {
    "LRVB sd ÷ Gibbs sd, lowest mean of a parameter": 0.9987,
    "LRVB sd ÷ Gibbs sd, highest mean of a parameter": 1.0006,
    "LRVB sd ÷ Gibbs sd, lowest of all": 0.963,
    "LRVB sd ÷ Gibbs sd, highest of all": 1.040,
    "MFVB sd ÷ Gibbs sd, lowest mean of a parameter": 0.66,
    "MFVB sd ÷ Gibbs sd, highest mean of a parameter": 0.87,
    "data sets": 198,
    "effective draws of the slowest parameter, at least": 500,
    "seconds, fit and linear response": 2.82,
    "seconds, linear response alone": 0.12,
    "seconds, Gibbs": 444.0,
}


def settings(quick: bool) -> Settings:
    """The study's sizes; Gibbs chains longer than its own, so that averages are known to 0.2 %.

    An sd from e effective draws has a relative error of about 1/√(2e), so the mean ratio over S
    data sets has 1/√(2eS): 0.0011 for the full run. `tolerance` is what that mean may differ from
    one; in the quick run it makes room for four of its Monte Carlo errors of 0.016.
    """
    return {
        "data sets": 4 if quick else 200,
        "rows": 10_000,
        "effective draws": 500 if quick else 2000,
        "draws": 6000 if quick else 24_000,  # about 0.1 effective draws each
        "burn-in": 500,
        "tolerance": 0.075 if quick else 0.01,
    }


def tasks(settings: Settings) -> list[str]:
    """One task a data set."""
    return [f"data-set-{number:03d}" for number in range(1, settings["data sets"] + 1)]


def run(task: str, settings: Settings, seed: int) -> Tables:
    """Simulate, fit from the truth, sample, certify, compare."""
    number = int(task.rpartition("-")[2])
    data = simulate.gaussian_mixture(np.random.default_rng([seed, number]), settings["rows"])
    X, labels = data["X"], data["z"]
    fit_seconds, mixture = best_of(3, lambda: matched.fit(X, labels))  # the first may compile
    response_seconds, _ = best_of(3, lambda: matched.linear_response(mixture))
    draws = matched.chain(
        [seed, number, 1],
        X,
        labels,
        draws=settings["draws"],
        burn_in=settings["burn-in"],
        least=settings["effective draws"],
    )
    certificate_seconds, sound = best_of(
        1, lambda: certified.certify(mixture, matched.parameters(draws.names), number)
    )
    times = {
        "fit_and_response": fit_seconds,
        "response": response_seconds,
        "certificate": certificate_seconds,
        "gibbs": draws.seconds,
        "sweeps": draws.sweeps,
        "ess": matched.slowest(draws),
    }
    tables = {
        "globals": rounded(matched.compare(mixture, draws)),
        figures.CERTIFICATES: rounded(sound),
        "covariances": rounded(matched.covariances(mixture, draws)),
        "times": pd.DataFrame([times]),
    }
    for table in tables.values():
        table.insert(0, "data set", number)
    return tables


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Columns data set, quantity, lrvb, mfvb: sds as multiples of the chain's."""
    return pd.DataFrame(
        {
            "data set": table["data set"],
            "quantity": table["quantity"],
            "lrvb": table["sd"] / table["gibbs_sd"],
            "mfvb": table["mfvb_sd"] / table["gibbs_sd"],
        }
    )


def findings(tables: Tables, settings: Settings) -> Findings:
    """Mean ratios of every parameter beside the study's, and whether they are one."""
    found, times = tables["globals"], tables["times"]
    ratio = ratios(found)
    mean = ratio.groupby("quantity", sort=False)[["lrvb", "mfvb"]].mean()
    counts = found.groupby("quantity")["data set"].nunique()
    ours = [
        mean["lrvb"].min(),
        mean["lrvb"].max(),
        ratio["lrvb"].min(),
        ratio["lrvb"].max(),
        mean["mfvb"].min(),
        mean["mfvb"].max(),
        counts.min(),
        found["ess"].min(),
        times["fit_and_response"].mean(),
        times["response"].mean(),
        times["gibbs"].mean(),
    ]
    numbers = pd.DataFrame({"published": list(PUBLISHED.values()), "ours": ours}, list(PUBLISHED))
    numbers.index.name = "quantity"
    made = figures.CERTIFICATES in tables
    if made:
        numbers.loc[numbers.index[:4], "certified"] = certified.numbers(tables)
    band, least = settings["tolerance"], settings["effective draws"]
    agreement = _agreement(tables)
    checks = {
        f"mean LRVB ÷ Gibbs sd of each of 12 parameters within {1 - band:g}–{1 + band:g}": bool(
            len(mean) == 12 and (mean["lrvb"] - 1).abs().max() <= band
        ),
        "mean MFVB ÷ Gibbs sd of each parameter below 0.95": bool(mean["mfvb"].max() < 0.95),
        f"every parameter of all {settings['data sets']} data sets has {least} effective draws or "
        "more": bool(counts.min() == settings["data sets"] and found["ess"].min() >= least),
        "off-diagonal covariances: correlation of LRVB with Gibbs above 0.98": agreement > 0.98,
        "linear response is faster than Gibbs on every data set": bool(
            (times["fit_and_response"] < times["gibbs"]).all()
        ),
        **(certified.checks(tables) if made else {}),
    }
    worst = (mean["lrvb"] - 1).abs().max()
    reason = (
        f"Over {counts.min()} data sets the mean ratio of LRVB to Gibbs sds is "
        f"{mean['lrvb'].min():.4f}–{mean['lrvb'].max():.4f} (worst {worst:.4f} from one), mean field "
        f"{mean['mfvb'].min():.2f}–{mean['mfvb'].max():.2f}. The slowest parameter of any chain has "
        f"{found['ess'].min():.0f} effective draws. Fit and chain have the same flat priors; the study's "
        "Gibbs sampler had weak ones, which at 10,000 rows makes no difference."
    )
    reason += certified.words(tables) if made else certified.MISSING
    verdict: Verdict = "reproduced" if all(checks.values()) else "differs"
    return Findings(verdict, reason, numbers, checks)


def _agreement(tables: Tables) -> float:
    """Correlation of LRVB's and Gibbs' off-diagonal covariances, each ÷ the two Gibbs sds."""
    pairs = figures.scaled(tables)
    return float(np.corrcoef(pairs["lrvb"], pairs["gibbs"])[0, 1])


EXPERIMENT = Experiment(
    name="mixture",
    title="Mixture of normals: sds and covariances on simulated data",
    claim=(
        "Where components overlap, mean-field sds of μ, Λ and log π are often quite different from "
        "those of a Gibbs sampler; linear response matches them closely, off-diagonal covariances "
        "included, in a small part of the time."
    ),
    labels=("sec:normal_mixture_model", "fig:SimulationStandardDeviations"),
    settings=settings,
    tasks=tasks,
    run=run,
    figures=(
        Figure(
            "sds",
            "Posterior sds of μ, Λ and log π against the Gibbs sampler's, a dot for each parameter "
            "of each data set: mean field, linear response and, where they were made, certified. On "
            "the line they agree.",
            figures.draw_sds,
        ),
        Figure(
            "covariances",
            "Off-diagonal covariances of linear response against Gibbs: as they are, and divided "
            "by the two Gibbs sds so that all pairs can be seen. Mean field has most of them zero.",
            figures.draw_covariances,
        ),
        Figure(
            "ratios",
            "Posterior sd ÷ Gibbs sd by parameter: a dot for each data set, a bar at the mean. The "
            "dots scatter as sds from so many effective draws must (grey: two standard errors of the "
            "chain's); certified sds, a line lower, come from draws of their own and scatter a little more.",
            figures.draw_ratios,
        ),
    ),
    findings=findings,
)
