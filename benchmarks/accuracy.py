"""How close to the exact posterior? The paper's two simulation studies, against quadrature.

Prints the table of docs/accuracy.md: |log(sd / exact sd)| of linear response and of mean field, and
the bias of the mean in exact sds; the median over data sets, and the worst in brackets. Thirty data
sets of each study take a few minutes.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

import lrvb
from lrvb import reference


def normal_poisson(datasets: int) -> Iterator[tuple[dict[str, Any], Any]]:
    """Both row factors and the exact posterior of the normal–Poisson study, x held fixed."""
    rng, x = np.random.default_rng(0), None
    for _ in range(datasets):
        drawn = reference.simulate.normal_poisson(rng, x=x)
        x, y = drawn["x"], drawn["y"]
        posteriors = {
            f"normal–Poisson, {local}": lrvb.infer(
                lrvb.models.NormalPoisson(local=local), {"x": x, "y": y}
            )
            for local in ("tilted", "gaussian")
        }
        yield posteriors, reference.normal_poisson.exact(x, y)


def random_slope(datasets: int) -> Iterator[tuple[dict[str, Any], Any]]:
    """Linear-response and exact posteriors of the random-slope study, x and r held fixed."""
    rng, x, r = np.random.default_rng(0), None, None
    for _ in range(datasets):
        drawn = reference.simulate.random_slope(rng, x=x, r=r)
        x, r = drawn["x"], drawn["r"]
        data = {name: drawn[name] for name in ("x", "r", "y", "group")}
        posterior = lrvb.infer(lrvb.models.RandomSlope(), data)
        yield {"random slope": posterior}, reference.random_slope.exact(**data)


def compare(posterior: Any, exact: Any) -> pd.DataFrame:
    """One data set: errors of both sds and of the mean, for every quantity and for all z."""
    z = posterior.local("z")
    columns = {
        "linear response": (np.log(posterior.sd() / exact.sd), np.log(z["sd"] / exact.z_sd)),
        "mean field": (
            np.log(posterior.sd(method="mfvb") / exact.sd),
            np.log(z["mfvb_sd"] / exact.z_sd),
        ),
        "bias": (
            (posterior.mean() - exact.mean) / exact.sd,
            (z["mean"].to_series() - exact.z_mean) / exact.z_sd,
        ),
    }
    names = [*exact.names, *["z"] * z["sd"].size]
    return pd.DataFrame(
        {
            column: np.abs(np.concatenate([glob[exact.names], np.asarray(loc)]))
            for column, (glob, loc) in columns.items()
        },
        index=names,
    )


def main() -> None:
    """Run the studies and print one Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--datasets", type=int, default=30)
    n = parser.parse_args().datasets
    errors: dict[str, list[pd.DataFrame]] = {}
    pairs = itertools.chain(normal_poisson(n), random_slope(n))
    for posteriors, exact in tqdm(pairs, total=2 * n, unit="data set"):
        for model, posterior in posteriors.items():
            errors.setdefault(model, []).append(compare(posterior, exact))
    print("| Model | Quantity | Linear response | Mean field | Bias of the mean |")
    print("| --- | --- | --- | --- | --- |")
    for model, tables in errors.items():
        joined = pd.concat(tables)
        grouped = joined.groupby(joined.index, sort=False)
        median, worst = grouped.median(), grouped.max()
        for name in median.index:
            cells = [f"{median.loc[name, c]:.3f} ({worst.loc[name, c]:.3f})" for c in joined]
            print(f"| {model} | {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
