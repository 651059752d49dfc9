"""What the two regression studies share: a task's estimates and truths, side by side in tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...posterior.certificate import Certificate
from ...posterior.inference import infer
from ...posterior.posterior import Posterior
from ...statement.model import Model
from ..reference import ExactPosterior
from .base import Settings, Tables
from .rounding import rounded

DIGITS = 7  # significant digits of the tables: their error is far below that of any estimate
MATCHED = "matched"  # the truth with the priors of the fit
FULL, QUICK = 100, 10  # data sets
PRIMES = (2, 3, 5, 7)


class DataSet(NamedTuple):
    """One simulated data set."""

    columns: dict[str, np.ndarray]
    """What the model sees"""
    drawn: dict[str, float]
    """The parameters it was simulated from"""
    kept: np.ndarray
    """Positions of the local variables that are saved one by one"""


@dataclass(frozen=True)
class Study:
    """A model with its simulation and its exact posterior.

    `models` maps a label to a constructor that takes the fit's priors; those in `refinable` have
    a second order. `exact` takes the columns, the truth's priors and the depth of its tails.
    """

    simulate: Callable[[Settings, int, int], DataSet]
    models: Mapping[str, Callable[..., Model]]
    refinable: frozenset[str]
    exact: Callable[..., ExactPosterior]


def tasks(settings: Settings) -> list[str]:
    """One label per data set, from data-set-001."""
    return [f"data-set-{k:03d}" for k in range(1, settings["data sets"] + 1)]


def design_rng(seed: int) -> np.random.Generator:
    """The stream of what all data sets share."""
    return np.random.default_rng([seed, 0])


def data_rng(seed: int, number: int) -> np.random.Generator:
    """The stream of data set `number`, counted from 1."""
    return np.random.default_rng([seed, number])


def spread(dimensions: int, number: int, seed: int) -> np.ndarray:
    r"""Point `number` of a sequence that fills the unit cube evenly: (u + number · √p_j) mod 1.

    p_j are the first primes and u a uniform start drawn with the seed, so that every point is
    uniform, as independent draws are, but the first few already cover the range as well as all do.
    """
    start = np.random.default_rng([seed, 0, 1]).uniform(size=dimensions)
    return (start + number * np.sqrt(PRIMES[:dimensions])) % 1.0


def between(ends: Sequence[float], fraction: float) -> float:
    """The value at a fraction of the way from one end to the other."""
    return ends[0] + (ends[1] - ends[0]) * float(fraction)


def run(study: Study, task: str, settings: Settings, seed: int) -> Tables:
    """Tables of one data set: for each pair of priors the truth, and beside it every fit.

    `settings["priors"]` maps the name of a comparison to the priors of its `fit` and of its
    `truth`. The tables: `globals`, a row per quantity; `locals`, a row per kept local variable;
    `local_errors`, the errors over all local variables; `times`, seconds.
    """
    number = int(task.rsplit("-", 1)[1])
    data = study.simulate(settings, seed, number)
    drawn = {f"drawn {name}": value for name, value in data.drawn.items()}
    clock = _Clock(number)
    parts: dict[str, list[pd.DataFrame]] = {"globals": [], "locals": [], "local_errors": []}
    for truth, priors in settings["priors"].items():
        known = {**data.columns, **priors["truth"], "depth": settings["depth"]}
        exact = clock.measure(f"exact, {truth}", study.exact, **known)
        for name, build in study.models.items():
            model, what = build(**priors["fit"]), f"{name}, {truth}"
            posterior = clock.measure(
                f"fit, {what}", partial(infer, model, data.columns, certify=False)
            )
            second = certificate = None
            if name in study.refinable:
                second = clock.measure(f"second order, {what}", posterior.refined, exact.names)
                if truth == MATCHED:  # elsewhere the truth is that of other priors
                    certificate = clock.measure(f"certificate, {what}", posterior.certify)
            label = {"data set": number, "model": name, "truth": truth}
            local = posterior.local("z")
            rows = _globals(posterior, second, certificate, exact).assign(**drawn)
            parts["globals"].append(_labelled(label, rows))
            parts["locals"].append(_labelled(label, _locals(local, exact, data.kept)))
            parts["local_errors"].append(_labelled(label, _local_errors(local, exact)))
    tables = {
        name: rounded(pd.concat(rows, ignore_index=True), DIGITS) for name, rows in parts.items()
    }
    return {**tables, "times": clock.table()}


class _Clock:
    """Seconds of each step of one data set."""

    def __init__(self, number: int):
        self.number = number
        self.rows: list[dict[str, Any]] = []

    def measure(self, step: str, action: Callable[..., Any], *args: Any, **options: Any) -> Any:
        start = time.perf_counter()
        result = action(*args, **options)
        seconds = time.perf_counter() - start
        self.rows.append({"data set": self.number, "step": step, "seconds": seconds})
        return result

    def table(self) -> pd.DataFrame:
        return pd.DataFrame(self.rows)


def _globals(
    posterior: Posterior,
    second: pd.DataFrame | None,
    certificate: Certificate | None,
    exact: ExactPosterior,
) -> pd.DataFrame:
    """Means and sds of the global quantities by each method, beside the exact ones."""
    names = exact.names
    missing = pd.Series(np.nan, names)
    certified = None if certificate is None else certificate.summary().loc[names]
    return pd.DataFrame(
        {
            "quantity": names,
            "mean": posterior.mean(names),
            "sd": posterior.sd(names),
            "mfvb_sd": posterior.sd(names, method="mfvb"),
            "second_mean": missing if second is None else second["mean"],
            "second_sd": missing if second is None else second["sd"],
            "certified_mean": missing if certified is None else certified["mean"],
            "certified_sd": missing if certified is None else certified["sd"],
            "verdict": "" if certified is None else certified["verdict"],
            "k_hat": np.nan if certificate is None else certificate.k_hat,
            "true_mean": exact.mean,
            "true_sd": exact.sd,
            "skewness": exact.skewness,
        },
        index=names,
    )


def _locals(local: Any, exact: ExactPosterior, kept: np.ndarray) -> pd.DataFrame:
    """Moments of the kept local variables, and their covariances with the global quantities."""
    columns = {
        "local": np.asarray(exact.z_mean.index)[kept],
        "mean": local["mean"].values[kept],
        "sd": local["sd"].values[kept],
        "mfvb_sd": local["mfvb_sd"].values[kept],
        "true_mean": exact.z_mean.to_numpy()[kept],
        "true_sd": exact.z_sd.to_numpy()[kept],
    }
    for name in exact.names:
        columns[f"cov {name}"] = local["cov"].sel(quantity=name).values[kept]
        columns[f"true_cov {name}"] = exact.z_cov[name].to_numpy()[kept]
    return pd.DataFrame(columns)


def _local_errors(local: Any, exact: ExactPosterior) -> pd.DataFrame:
    r"""Median and worst error over all local variables, of linear response and of mean field.

    Of means |Δ|/sd, of sds |log(sd/exact sd)|, and of covariances with a global quantity θ
    |Δ|/(sd(z) sd(θ)), which is an error of the correlation. Mean field has the means of linear
    response, and covariances of zero.
    """
    sd, truth = exact.z_sd.to_numpy(), exact.z_mean.to_numpy()
    bias = np.abs(local["mean"].values - truth) / sd
    rows = [
        ("mean", bias, bias),
        (
            "sd",
            np.abs(np.log(local["sd"].values / sd)),
            np.abs(np.log(local["mfvb_sd"].values / sd)),
        ),
    ]
    for name in exact.names:
        scale = sd * exact.sd[name]
        known = exact.z_cov[name].to_numpy()
        found = local["cov"].sel(quantity=name).values
        rows.append((f"cov {name}", np.abs(found - known) / scale, np.abs(known) / scale))
    return pd.DataFrame(
        [
            {
                "quantity": quantity,
                "lrvb_median": np.median(lrvb),
                "lrvb_worst": lrvb.max(),
                "mfvb_median": np.median(mfvb),
                "mfvb_worst": mfvb.max(),
            }
            for quantity, lrvb, mfvb in rows
        ]
    )


def _labelled(label: Mapping[str, Any], rows: pd.DataFrame) -> pd.DataFrame:
    """The rows with the same leading columns in each."""
    leading = pd.DataFrame([label] * len(rows), index=rows.index)
    return pd.concat([leading, rows], axis=1)
