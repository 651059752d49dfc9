"""`python -m lrvb.demo`: both models on simulated data, MFVB and LRVB beside the exact posterior."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from . import __version__
from .models import NormalPoisson, RandomSlope
from .posterior import Posterior, infer
from .reference import normal_poisson, random_slope, simulate


def main(arguments: list[str] | None = None) -> int:
    """Fit every data set, compare with the exact posterior, and write tables, figures and a page."""
    parser = argparse.ArgumentParser(prog="lrvb.demo", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results")
    parser.add_argument("--datasets", type=int, default=8, help="data sets per model")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    if options.datasets < 1:
        parser.error(f"--datasets must be 1 or more, not {options.datasets}")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"cannot write to {options.out}: {error.strerror}")
    page = run(options.out, options.datasets, options.seed)
    print(f"\nThe page is at {page.resolve()}")
    return 0


def run(out: Path, datasets: int, seed: int) -> Path:
    """The comparison of both models; returns the page."""
    from .report.html import Section, write_page
    from .report.plots import agreement_figure, sd_ratio_figure

    begin = time.perf_counter()
    poisson, last = _compare("normal-Poisson", _poisson_case, datasets, seed)
    slope, _ = _compare("random slope", _slope_case, datasets, seed)
    tables = [("Poisson counts, normal log rates", poisson), ("Random slopes", slope)]
    for name, table in zip(("normal_poisson", "random_slope"), (poisson, slope), strict=True):
        table.to_csv(out / f"{name}.csv", index=False)
    ratios = sd_ratio_figure(tables, out / "sd_ratios.png")
    locals_ = agreement_figure(_local_panels(*last), out / "locals.png")
    for title, table in tables:
        print(f"\n{title}: median over {datasets} data sets")
        print(_medians(table).to_string(float_format="{:.3f}".format))
    sections = [
        Section(
            "Standard deviations beside the exact ones",
            [
                f"Each dot is one of {datasets} simulated data sets per model, over the ranges of the "
                "paper's study. The exact posterior is computed by deterministic quadrature with the "
                "same priors. Mean field is confident for no reason; linear response is not."
            ],
            ratios,
            "Posterior sd divided by the exact posterior sd; 1 is right.",
        ),
        *(
            Section(f"{title}: medians", table=_medians(table), figure=None)
            for title, table in tables
        ),
        Section(
            "The latent variable of every row",
            [
                "Each row's latent log rate has its own posterior, and its own covariance with the "
                "parameters, which mean field believes to be zero."
            ],
            locals_,
            "The 500 rows of one data set: linear response (blue) and mean field (orange) against exact.",
        ),
    ]
    minutes = time.perf_counter() - begin
    return write_page(
        out / "index.html",
        "Linear response variational Bayes at work",
        "Mean-field variational Bayes finds good posterior means in milliseconds, but its standard "
        "deviations are far too small. One linear solve at its optimum repairs them.",
        [str(section) for section in sections],
        f"lrvb {__version__}, seed {seed}; {minutes:.0f} s in all, most of it for the exact answers.",
    )


Case = tuple[dict[str, Any], Any, Any]


def _poisson_case(rng: np.random.Generator, design: dict[str, Any]) -> Case:
    x = design.setdefault("x", rng.normal(size=500))
    data = simulate.normal_poisson(rng, x=x)
    return data, NormalPoisson(), normal_poisson.exact(data["x"], data["y"])


def _slope_case(rng: np.random.Generator, design: dict[str, Any]) -> Case:
    if not design:
        design.update(simulate.random_slope(rng))
    data = simulate.random_slope(rng, x=design["x"], r=design["r"])
    exact = random_slope.exact(data["x"], data["r"], data["y"], data["group"])
    return data, RandomSlope(), exact


def _compare(
    name: str, case: Callable[[np.random.Generator, dict[str, Any]], Case], datasets: int, seed: int
) -> tuple[pd.DataFrame, tuple[Posterior, Any]]:
    """Ratios of sds to exact, and biases in sds, per data set; and the last posterior with its truth."""
    rng, rows = np.random.default_rng(seed), []
    design: dict[str, Any] = {}
    for i in tqdm(range(datasets), desc=name, unit="data set", file=sys.stderr):
        data, model, exact = case(rng, design)
        start = time.perf_counter()
        posterior = infer(model, data)
        seconds = time.perf_counter() - start
        for quantity in exact.names:
            sd = exact.sd[quantity]
            rows.append(
                {
                    "data set": i,
                    "quantity": quantity,
                    "lrvb": posterior.sd()[quantity] / sd,
                    "mfvb": posterior.sd(method="mfvb")[quantity] / sd,
                    "bias": (posterior.mean()[quantity] - exact.mean[quantity]) / sd,
                    "seconds": seconds,
                }
            )
    return pd.DataFrame(rows), (posterior, exact)


def _medians(table: pd.DataFrame) -> pd.DataFrame:
    medians = table.groupby("quantity", sort=False)[["lrvb", "mfvb", "bias"]].median()
    medians.columns = ["LRVB sd ÷ exact", "MFVB sd ÷ exact", "bias of mean (sds)"]
    medians.index.name = None
    return medians


def _local_panels(posterior: Posterior, exact: Any) -> list[tuple[str, pd.DataFrame]]:
    z = posterior.local("z")
    panels = [
        (
            "sd of z",
            pd.DataFrame({"exact": exact.z_sd.to_numpy(), "lrvb": z["sd"], "mfvb": z["mfvb_sd"]}),
        )
    ]
    for quantity, label in (("beta", "Cov(z, β)"), ("log(tau)", "Cov(z, log τ)")):
        table = {
            "exact": exact.z_cov[quantity].to_numpy(),
            "lrvb": z["cov"].sel(quantity=quantity),
            "mfvb": np.zeros(len(z["sd"])),
        }
        panels.append((label, pd.DataFrame(table)))
    return panels


if __name__ == "__main__":
    raise SystemExit(main())
