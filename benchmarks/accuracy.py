"""How close to the exact posterior? The paper's two simulation studies, against quadrature.

Prints the table of docs/accuracy.md: |log(sd / exact sd)| of linear response and of mean field, and
the bias of the mean in exact sds; the median over data sets, and the worst in brackets. A hundred
data sets take ten minutes: python benchmarks/accuracy.py --datasets 100
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

import lrvb
from lrvb import reference


def normal_poisson(datasets: int, local: str) -> Iterator[tuple[Any, Any]]:
    """Linear-response and exact posteriors of the normal–Poisson study, x held fixed."""
    rng, x = np.random.default_rng(0), None
    for _ in range(datasets):
        drawn = reference.simulate.normal_poisson(rng, x=x)
        x, y = drawn["x"], drawn["y"]
        posterior = lrvb.infer(lrvb.models.NormalPoisson(local=local), {"x": x, "y": y})
        yield posterior, reference.normal_poisson.exact(x, y)


def random_slope(datasets: int) -> Iterator[tuple[Any, Any]]:
    """Linear-response and exact posteriors of the random-slope study, x and r held fixed."""
    rng, x, r = np.random.default_rng(0), None, None
    for _ in range(datasets):
        drawn = reference.simulate.random_slope(rng, x=x, r=r)
        x, r = drawn["x"], drawn["r"]
        data = {name: drawn[name] for name in ("x", "r", "y", "group")}
        yield lrvb.infer(lrvb.models.RandomSlope(), data), reference.random_slope.exact(**data)


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
    parser.add_argument("--datasets", type=int, default=10)
    n = parser.parse_args().datasets
    studies = {
        'normal–Poisson, `"tilted"`': normal_poisson(n, "tilted"),
        'normal–Poisson, `"gaussian"`': normal_poisson(n, "gaussian"),
        "random slope": random_slope(n),
    }
    print("| Model | Quantity | Linear response | Mean field | Bias of the mean |")
    print("| --- | --- | --- | --- | --- |")
    for study, pairs in studies.items():
        errors = pd.concat(compare(*pair) for pair in tqdm(pairs, total=n, desc=study))
        grouped = errors.groupby(errors.index, sort=False)
        median, worst = grouped.median(), grouped.max()
        for name in median.index:
            cells = [f"{median.loc[name, c]:.3f} ({worst.loc[name, c]:.3f})" for c in errors]
            print(f"| {study} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
