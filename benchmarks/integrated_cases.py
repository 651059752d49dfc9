"""The integrated core on real cases with truth: bias in sds, ratios of sds, verdicts, seconds.

    python benchmarks/integrated_cases.py FOLDER [CASE[:SEED] ...]

FOLDER has NAME.csv and NAME.json: formula, family, explicit priors, and the posterior of every quantity.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lrvb.estimators.mixed.design.design import Design, build
from lrvb.integrated.choice import choose
from lrvb.integrated.density import Density
from lrvb.integrated.direct import integrate_gaussian
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.importance import Weighted
from lrvb.integrated.integration import integrate_path
from lrvb.integrated.regression import Regression
from lrvb.integrated.terms import Term
from lrvb.prior import Gamma, Wishart


class Answer(NamedTuple):
    """(mean, sd) by name, and the weighted draws behind them."""

    quantities: dict[str, tuple[float, float]]
    weighted: Weighted


def read(folder: Path, name: str) -> tuple[dict[str, Any], Design]:
    """A case and its design; factors are text, as in R."""
    case = json.loads((folder / f"{name}.json").read_text())
    path = folder / case["data"]
    data, text = pd.read_csv(path), pd.read_csv(path, dtype=str)
    categorical = {m for key in case["priors"] for m in re.findall(r"(\w+)\[", key)}
    grouped = set(re.findall(r"\w+", " ".join(re.findall(r"\|([^)]*)\)", case["formula"]))))
    for column in categorical | grouped:
        data[column] = text[column]
    return case, build(case["formula"], data, case["family"])


def run(case: dict[str, Any], design: Design, seed: int = 0) -> Answer:
    """The posterior of one case under its own priors."""
    family, priors = case["family"], case["priors"]
    stated = {"".join(sorted(key.split(":"))): key for key in priors if "Normal" in priors[key]}
    keys = [stated["".join(sorted(name.split(":")))] for name in design.names]
    mean, sd = np.array([priors[key]["Normal"] for key in keys]).T
    terms = []
    for term in design.terms:
        prior = priors[term.name]
        sds = (Gamma(*prior["Gamma"]),) if "Gamma" in prior else Wishart(*prior["Wishart"])
        factor = design.factors[term.factor]
        terms.append(Term(factor.codes, term.R, len(factor.levels), sds))
    columns = (design.y, *design.given.values())
    likelihood = Density(design.family, tuple(design.given))
    rows = Regression.independent(likelihood, columns, design.X, np.zeros(design.n), mean, sd)
    out: dict[str, tuple[float, float]] = {}
    if family == "gaussian":
        model = Gaussian(rows, terms, Gamma(*priors["residual"]["Gamma"]))
        found = integrate_gaussian(model, seed=seed)
        moments = model.moments(*found.heavy)
        w = found.weighted
        out |= dict(zip(keys, zip(moments.beta, moments.beta_sd, strict=True), strict=True))
        effects = list(zip(moments.levels, moments.levels_sd, strict=True))
        spreads = model.spreads(found.theta)
        residual = np.exp(found.theta[:, -1])
        out["sd[residual]"] = float(w.mean(residual)), float(w.sd(residual))
    else:
        chosen = choose(rows, terms)
        assert chosen is not None
        found = integrate_path(chosen.inside, seed=seed)
        w = found.weighted
        p, order = chosen.inside.p, list(chosen.order)
        beta = found.theta[:, : rows.p]
        out |= dict(zip(keys, zip(w.mean(beta), w.sd(beta), strict=True), strict=True))
        ends = p + np.cumsum([terms[t].size for t in order])
        parts = {
            t: found.theta[:, end - terms[t].size : end] for t, end in zip(order, ends, strict=True)
        }
        spreads = [term.spread(parts[t]) for t, term in enumerate(terms)]
        by_term = dict(zip(order, found.effects, strict=True))
        effects = [(by_term[t].mean, by_term[t].sd) for t in range(len(terms))]
    for term, spread, (m, s) in zip(design.terms, spreads, effects, strict=True):
        for i, name in enumerate(term.coefficients):
            out[f"sd[{name}|{term.group}]"] = w.mean(spread.sd[:, i]), w.sd(spread.sd[:, i])
            for g, level in enumerate(design.factors[term.factor].levels):
                out[f"{name}|{term.group}[{level}]"] = m[g, i], s[g, i]
        if len(term.coefficients) == 2:
            rho = spread.correlation[:, 0, 1]
            out[f"corr[{term.group}][{','.join(term.coefficients)}]"] = w.mean(rho), w.sd(rho)
    return Answer(out, w)


def compare(case: dict[str, Any], answer: Answer) -> dict[str, tuple[float, float, int]]:
    """Worst bias in sds, worst ratio of sds and how many, of fixed effects, sds and levels."""
    truth = case["quantities"] | case.get("indicative_ess_below_2000", {})
    groups: dict[str, list[tuple[float, float]]] = {"fixed": [], "sd": [], "level": []}
    for name, (mean, sd) in answer.quantities.items():
        if name in truth and "mean" in truth[name]:
            kind = "fixed" if name in case["priors"] else "level"
            kind = "sd" if name.startswith(("sd[", "corr[")) else kind
            exact = truth[name]
            groups[kind].append(((mean - exact["mean"]) / exact["sd"], sd / exact["sd"]))
    return {
        kind: (
            max(found, key=lambda pair: abs(pair[0]))[0],
            max(found, key=lambda pair: abs(np.log(pair[1])))[1],
            len(found),
        )
        for kind, found in groups.items()
        if found
    }


def main(folder: str, *names: str) -> None:
    """One line a case."""
    where = Path(folder)
    for name in names or sorted(path.stem for path in where.glob("*.json")):
        name, _, seed = name.partition(":")
        case, design = read(where, name)
        start = time.process_time()
        answer = run(case, design, int(seed or 0))
        seconds = time.process_time() - start
        w = answer.weighted
        line = f"{name:16s} d={w.x.shape[1]:2d} n={len(w.x)} k={w.k_hat:5.2f} ess={w.ess / len(w.x):.2f}"
        line += f" {seconds:6.2f} s"
        for kind, (bias, ratio, count) in compare(case, answer).items():
            line += f" | {kind} ({count}) {bias:+.3f} {ratio:.3f}"
        print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
