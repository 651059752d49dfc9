"""Verdicts against the truth: one row a quantity and a way of checking it, and the table of them all.

Linear response's numbers, or a certificate's, are wrong where a mean is off by more than 0.2 sd or an sd by
more than 15 %. The ways are certificates that were asked for, what `certify="auto"` gives unasked, the 128
draws and more that "auto" makes of many rows, and the verdicts without draws.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

import lrvb
from lrvb.posterior.costs import BRIEF

MEAN, SD = 0.2, np.log(1.15)
Truth = Mapping[str, tuple[float, float]]


def wrong(found: tuple[float, float], exact: tuple[float, float]) -> bool:
    """Whether mean and sd are too far from the exact ones; no number is wrong too."""
    (mean, sd), (true_mean, true_sd) = found, exact
    return not (abs(mean - true_mean) <= MEAN * true_sd and abs(np.log(sd / true_sd)) <= SD)


def judged(posterior: lrvb.Posterior, truth: Truth, seed: int) -> pd.DataFrame:
    """All ways of checking a posterior that was inferred with `certify=False`."""
    certifier = posterior._certifier
    unasked = certifier.automatic().certificate
    few = certifier.certify(BRIEF, seed, brief=True, thorough=False)
    asked = posterior.certify(seed=seed)
    parts = [compared("asked for", asked, truth)]
    if unasked is not None:
        parts.append(compared("unasked", unasked, truth))
    parts.append(compared("few draws", few, truth))
    without = parts[0].assign(way="without draws", shown_wrong=False)
    words = dict(zip(posterior.names, certifier.quick().quick, strict=False))
    without["verdict"] = [words.get(name, ("not checked",))[0] for name in without["quantity"]]
    return pd.concat([*parts, without], ignore_index=True)


def compared(way: str, certificate: Any, truth: Truth) -> pd.DataFrame:
    """One row a quantity whose truth is known: the verdict, and which numbers are wrong."""
    rows = []
    for quantity, row in certificate.summary().iterrows():
        if quantity in truth:
            exact = truth[quantity]
            rows.append(
                {
                    "way": way,
                    "quantity": quantity,
                    "verdict": row["verdict"],
                    "wrong": wrong((row["lrvb_mean"], row["lrvb_sd"]), exact),
                    "shown_wrong": wrong((row["mean"], row["sd"]), exact),
                    "shift": (row["lrvb_mean"] - exact[0]) / exact[1],
                    "ratio": row["lrvb_sd"] / exact[1],
                    "shown_shift": (row["mean"] - exact[0]) / exact[1],
                    "shown_ratio": row["sd"] / exact[1],
                    "k_hat": certificate.k_hat,
                    "ess": certificate.ess,
                }
            )
    return pd.DataFrame(rows)


def report(found: pd.DataFrame) -> None:
    """The confusion table, and everything that was trusted or repaired wrongly."""
    table = found.groupby(["way", "verdict"])[["wrong", "shown_wrong"]].agg(["size", "sum"])
    print(table.to_string())
    trusted = (found["verdict"] == "trust") & found["wrong"]
    repaired = (found["verdict"] == "repaired") & found["shown_wrong"]
    print(found[trusted | repaired].round(3).to_string())


def main(run: Callable[[int, str], pd.DataFrame]) -> None:
    """Run `[seeds] [first] [some of the name]` of the command line, and report."""
    seeds, first = (int(given) for given in (*sys.argv[1:3], *("1", "0")[len(sys.argv[1:3]) :]))
    part = "".join(sys.argv[3:4])
    report(pd.concat([run(seed, part) for seed in range(first, first + seeds)], ignore_index=True))
