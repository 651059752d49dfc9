"""What the tables of a regression study say: errors of sds beside the published ones, a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from .base import Findings, Tables, Verdict

COLUMNS = {
    "LRVB": "sd",
    "MFVB": "mfvb_sd",
    "second order": "second_sd",
    "certified": "certified_sd",
}
GREEK = {"beta": "β", "tau": "τ", "log(tau)": "log τ", "nu": "ν", "log(nu)": "log ν", "z": "z"}
GREEK |= {"beta[0]": "β₁", "beta[1]": "β₂"}
FACTOR = 2.0  # a failure is an artefact of the priors if they make more than half of its error


class Error(NamedTuple):
    """|log(sd / true sd)| over the data sets."""

    median: float
    worst: float


class Published(NamedTuple):
    """A stored result of the study; its worst is not known everywhere."""

    method: str
    quantity: str
    median: float
    worst: float = np.nan


@dataclass(frozen=True)
class Comparison:
    """How a study is judged.

    `columns` maps the title of a column to its model and truth, that of the study first;
    `limits` are the medians allowed with matched priors and the `judged` model; `doubted` is the
    quantity that the paper calls poorly estimated, and `statistic` what shows it.
    """

    published: Sequence[Published]
    columns: Mapping[str, tuple[str, str]]
    judged: str
    limits: Mapping[str, float]
    doubted: str
    statistic: str


def error(tables: Tables, method: str, quantity: str, model: str, truth: str) -> Error:
    r"""Median and worst |log(sd / true sd)| of a method.

    That of z is taken over its values within each data set first; its median is then the median
    of medians.
    """
    if quantity == "z":
        table = _rows(tables["local_errors"], "sd", model, truth)
        if method not in ("LRVB", "MFVB"):
            return Error(np.nan, np.nan)
        stem = method.lower()
        return Error(float(table[f"{stem}_median"].median()), float(table[f"{stem}_worst"].max()))
    table = _rows(tables["globals"], quantity, model, truth)
    if COLUMNS[method] not in table:  # tables of a run that made no certificates
        return Error(np.nan, np.nan)
    errors = np.abs(np.log(table[COLUMNS[method]] / table["true_sd"]))
    return Error(float(errors.median()), float(errors.max()))


def numbers(tables: Tables, comparison: Comparison) -> pd.DataFrame:
    """A row for each published number, a column for each comparison, second order and certificate."""
    rows, labels = [], []
    for method, quantity, *published in comparison.published:
        for statistic, value in zip(Error._fields, published, strict=True):
            if np.isnan(value):
                continue
            row = {"published": value}
            for title, (model, truth) in comparison.columns.items():
                row[title] = getattr(error(tables, method, quantity, model, truth), statistic)
            if method == "LRVB":
                for beyond in ("second order", "certified"):
                    found = error(tables, beyond, quantity, comparison.judged, "matched")
                    row[f"{beyond}, matched"] = getattr(found, statistic)
            rows.append(row)
            labels.append(f"{method} {GREEK[quantity]}, {statistic}")
    table = pd.DataFrame(rows, pd.Index(labels, name="|log(sd ÷ true sd)|"))
    return table.dropna(axis=1, how="all").round(4)


def judge(tables: Tables, comparison: Comparison, explanation: str) -> Findings:
    """The findings; `explanation` says why the study's comparison differs from ours.

    Corrected: with matched priors every limit is kept, and the quantity that the paper doubts is
    off by several times more with the study's priors. Anything else differs.
    """
    checks, failed = {}, []
    for quantity, limit in comparison.limits.items():
        found, mean_field = (
            error(tables, method, quantity, comparison.judged, "matched").median
            for method in ("LRVB", "MFVB")
        )
        words = (
            f"matched priors, {GREEK[quantity]}: median |log(sd ÷ exact sd)| is {found:.4f}, to be at "
            f"most {limit:g} (mean field {mean_field:.3f})"
        )
        checks[words] = bool(found <= limit)
        if not checks[words]:
            failed.append(GREEK[quantity])
    name, statistic = GREEK[comparison.doubted], comparison.statistic
    model, truth = next(iter(comparison.columns.values()))
    as_published, matched, second = (
        getattr(error(tables, method, comparison.doubted, which, against), statistic)
        for method, which, against in (
            ("LRVB", model, truth),
            ("LRVB", comparison.judged, "matched"),
            ("second order", comparison.judged, "matched"),
        )
    )
    artefact = as_published >= FACTOR * matched
    checks[
        f"{name}: the {statistic} error with the study's priors, {as_published:.3f}, is at least "
        f"{FACTOR:g} times that with matched priors, {matched:.3f}"
    ] = bool(artefact)
    verdict: Verdict = "corrected" if artefact and not failed else "differs"
    table = numbers(tables, comparison)
    ratios = (table["ours"] / table["published"]).sort_values()
    count = tables["globals"]["data set"].nunique()
    stored = table.loc[f"LRVB {name}, {statistic}", "published"]
    values = (
        f"Over {count} data sets, and with exact quadrature for truth, the {statistic} |log(sd ÷ true "
        f"sd)| of {name} is {as_published:.3f} with the study's priors (published: {stored:g}), "
        f"{matched:.3f} with matched ones, and {second:.4f} one order further. With the study's priors "
        f"our numbers are {ratios.median():.2f} of the published ones in the median, from "
        f"{ratios.iloc[0]:.2f} ({ratios.index[0]}) to {ratios.iloc[-1]:.2f} ({ratios.index[-1]})."
    )
    values += certified(tables, comparison)
    if verdict == "corrected":
        reason = (
            f"Of the published failure for {name}, {1 - matched / as_published:.0%} comes from its "
            f"comparison, not from the method. {explanation} {values}"
        )
    elif failed:
        reason = (
            f"With matched priors the sds of {', '.join(failed)} are not as near the truth as they "
            f"should be. {values}"
        )
    else:
        reason = f"The study's priors do not explain the published failure for {name}. {values}"
    return Findings(verdict, reason, table, checks)


def certified(tables: Tables, comparison: Comparison) -> str:
    """A word on the certificates: k̂, verdicts, and how near the certified sds are."""
    table, (name, statistic) = tables["globals"], (comparison.doubted, comparison.statistic)
    if "k_hat" not in table:
        return ""
    rows = table[(table["model"] == comparison.judged) & (table["truth"] == "matched")]
    k_hat = rows.groupby("data set")["k_hat"].first()
    words = rows["verdict"].value_counts()
    shares = ", ".join(f"{share:.0%} {word}" for word, share in (words / len(rows)).items())
    found = getattr(error(tables, "certified", name, comparison.judged, "matched"), statistic)
    return (
        f" Certified by draws of the exact density it is {found:.4f}; the draws' k-hat is "
        f"{k_hat.median():.2f} in the median and {k_hat.max():.2f} at most (below 0.6 averages can be "
        f"believed), and the verdicts are {shares}."
    )


def _rows(table: pd.DataFrame, quantity: str, model: str, truth: str) -> pd.DataFrame:
    chosen = (table["quantity"] == quantity) & (table["model"] == model)
    return table[chosen & (table["truth"] == truth)]
