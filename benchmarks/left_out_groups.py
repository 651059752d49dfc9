"""Levels left out of mixed models on real data: what is answered beside fits without each level.

Truth is the mean over `--seeds` fits without the level minus fits of all rows with the same draws; its error
is their spread. Of each factor the ten levels that move a mean most and ten in the middle (all of few):
`python benchmarks/left_out_groups.py CASES --case salamanders_obs --factor site`, where CASES is a folder of
NAME.csv with NAME.json (formula, family, priors). A line each is printed, and added to `--out`.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import lrvb
from lrvb.estimators.mixed.design.subsample import take_rows
from lrvb.estimators.mixed.integral.fit import integrate_model

OWN = 10  # levels of each kind


def prior_of(stated: dict[str, Any]) -> Any:
    """{"Gamma": [1, 2]} as the prior of that name."""
    ((name, numbers),) = stated.items()
    return getattr(lrvb.prior, name)(
        *(np.asarray(x) if isinstance(x, list) else x for x in numbers)
    )


def fitted(folder: Path, case: str) -> lrvb.MixedModel:
    """The model of a stored case."""
    stated = json.loads((folder / f"{case}.json").read_text())
    priors = {name: prior_of(prior) for name, prior in stated["priors"].items()}
    model = lrvb.MixedModel(stated["formula"], stated["family"], priors=priors)
    return model.fit(pd.read_csv(folder / f"{case}.csv"))


def compare(model: lrvb.MixedModel, factor: str, seeds: int) -> pd.DataFrame:
    """Of levels: the change of the mean that each moves most, in sds, and how far answers are off."""
    ours = model.posterior_._what_if()
    codes = next(f.codes for f in model.design_.factors if f.name == factor)
    at, n = np.arange(len(ours.sd)), int(codes.max()) + 1
    began = time.process_time()
    answered = ours.influence(at, codes)
    seconds = time.process_time() - began
    weighed, first = ours._by_weights(at, codes, n), ours.scores(at, codes)
    order = np.argsort(-(np.abs(answered.values) / ours.sd).max(1))
    middle = order[max(OWN, n // 2 - OWN // 2) :][:OWN]
    found, fit = (
        ours.found,
        lambda rows, seed: integrate_model(rows, ours.priors, found.standard, seed=seed),
    )
    whole = np.array([fit(found.design, 1 + s).estimate.m for s in range(seeds)])
    lines = []
    for kind, levels in (("largest", order[:OWN]), ("middle", middle)):
        for b in levels:
            rows = take_rows(found.design, np.flatnonzero(codes != b))
            each = (np.array([fit(rows, 1 + s).estimate.m for s in range(seeds)]) - whole) / ours.sd
            k = int(np.argmax(np.abs(each.mean(0))))
            truth, error = each[:, k].mean(), each[:, k].std(ddof=1) / np.sqrt(seeds)
            said = [part[b, k] / ours.sd[k] for part in (first, weighed.values, answered.values)]
            off = np.abs(np.array(said) - truth) / abs(truth)
            lines.append((kind, int(b), truth, error, *off, bool(answered.refitted[b])))
    names = ["kind", "level", "change", "error", "first", "weights", "answered", "refitted"]
    table = pd.DataFrame(lines, columns=names)
    table.attrs.update(seconds=seconds, refits=int(answered.refitted.sum()), levels=n)
    return table


def main() -> None:
    """Compare one factor of one case, and print both kinds of levels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--case", required=True)
    parser.add_argument("--factor", required=True)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    table = compare(fitted(asked.folder, asked.case), asked.factor, asked.seeds)
    print(asked.case, asked.factor, table.attrs)
    print(table.round(4).to_string(index=False))
    for kind, own in table.groupby("kind"):
        worst, typical = own[["first", "weights", "answered"]].max(), own["answered"].median()
        sds = (own["answered"] * own["change"].abs()).max()
        print(
            f"{kind}: worst {dict(worst.round(3))}, {sds:.3f} sds; median {typical:.3f}; "
            f"error of the truth up to {(own['error'] / own['change'].abs()).max():.3f}"
        )
    if asked.out is not None:
        table.insert(0, "factor", asked.factor)
        table.insert(0, "case", asked.case)
        table.to_csv(asked.out, mode="a", header=not asked.out.exists(), index=False)


if __name__ == "__main__":
    main()
