"""Mixed models beside brms with the same priors, on data of R packages: gaps of means, sds, seconds.

    python benchmarks/mixed_brms.py [case ...]     needs R with brms, rstan, lme4, glmmTMB, ordinal, nlme

brms: four chains of 1000 warm-up and 2000 kept draws, one after another, its intercept written as a
coefficient of its own so that priors are of the same numbers. Seconds are of the wall: brms compiles a
program for each model first, which is listed apart. R writes its data to a temporary folder, from which both
fit the same rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import pandas as pd

import lrvb


class Case(NamedTuple):
    """R's data, both formulas, the family by both names, and scales of the priors: coefficients, sds."""

    data: str
    here: str
    there: str
    family: str
    theirs: str
    fixed: float
    sds: float


CASES = {
    "sleepstudy": Case(
        "lme4::sleepstudy",
        "Reaction ~ Days + (Days | Subject)",
        "Reaction ~ 0 + Intercept + Days + (Days | Subject)",
        "gaussian",
        "gaussian()",
        500,
        50,
    ),
    "penicillin": Case(
        "lme4::Penicillin",
        "diameter ~ 1 + (1 | plate) + (1 | sample)",
        "diameter ~ 0 + Intercept + (1 | plate) + (1 | sample)",
        "gaussian",
        "gaussian()",
        100,
        5,
    ),
    "orthodont": Case(
        "as.data.frame(nlme::Orthodont)",
        "distance ~ age + Sex + (1 | Subject)",
        "distance ~ 0 + Intercept + age + Sex + (1 | Subject)",
        "student",
        "student()",
        100,
        5,
    ),
    "cbpp": Case(
        "lme4::cbpp",
        "prop(incidence, size) ~ C(period) + (1 | herd)",
        "incidence | trials(size) ~ 0 + Intercept + period + (1 | herd)",
        "binomial",
        "binomial()",
        5,
        2.5,
    ),
    "bacteria": Case(
        "transform(MASS::bacteria, y = as.integer(y == 'y'))",
        "y ~ trt + week + (1 | ID)",
        "y ~ 0 + Intercept + trt + week + (1 | ID)",
        "bernoulli",
        "bernoulli()",
        5,
        2.5,
    ),
    "epil": Case(
        "transform(MASS::epil, row = seq_along(y))",
        "y ~ lbase + trt + lage + (1 | subject) + (1 | row)",
        "y ~ 0 + Intercept + lbase + trt + lage + (1 | subject) + (1 | row)",
        "poisson",
        "poisson()",
        5,
        2.5,
    ),
    "owls": Case(
        "setNames(glmmTMB::Owls[c(1, 2, 3, 5, 8)], c('nest', 'food', 'sex', 'calls', 'brood'))",
        "calls ~ food + sex + offset(brood) + (1 | nest)",
        "calls ~ 0 + Intercept + food + sex + offset(brood) + (1 | nest)",
        "zero_inflated_negbinomial",
        "zero_inflated_negbinomial()",
        5,
        2.5,
    ),
    "wine": Case(
        "ordinal::wine",
        "rating ~ temp + contact + (1 | judge)",
        "rating ~ temp + contact + (1 | judge)",
        "cumulative",
        "cumulative()",
        5,
        2.5,
    ),
    "cake": Case(
        "transform(lme4::cake, batch = interaction(recipe, replicate))",
        "angle ~ recipe + temp + (1 | batch)",
        "angle ~ 0 + Intercept + recipe + temp + (1 | batch)",
        "gamma",
        "Gamma('log')",
        10,
        2.5,
    ),
}

#: dispersions of a family: what brms calls one, its name in our table and among our priors, and its prior
#: where it is not that of the sds; brms counts degrees of freedom from 1 on, as here
DISPERSIONS = {
    "gaussian": [("sigma", "sd[residual]", "residual", None)],
    "student": [("sigma", "sigma", "sigma", None), ("nu", "df", "df", "gamma(2, 0.1)")],
    "gamma": [("shape", "shape", "shape", "exponential(0.01)")],
    "zero_inflated_negbinomial": [
        ("shape", "shape", "shape", "exponential(0.1)"),
        ("zi", "zi", "zi", "beta(1, 1)"),
    ],
}
HERE = {
    "gamma(2, 0.1)": lrvb.prior.Gamma(2, 0.1),
    "exponential(0.01)": lrvb.prior.Exponential(0.01),
    "exponential(0.1)": lrvb.prior.Exponential(0.1),
    "beta(1, 1)": lrvb.prior.Beta(1, 1),
}

R = """
suppressMessages({{library(brms); library(rstan)}})
# Debian keeps the headers that a Stan program is compiled with outside R's own library
if (!file.exists(rstan_options("boost_lib"))) rstan_options(boost_lib = "/usr/include")
if (!file.exists(rstan_options("eigen_lib"))) rstan_options(eigen_lib = "/usr/include/eigen3")
d <- as.data.frame({data})
# levels of factors in the order of their names, as a file has them
d[] <- lapply(d, function(x) if (is.factor(x) && !is.ordered(x)) as.character(x) else x)
write.csv(d, "data.csv", row.names = FALSE)
before <- proc.time()[["elapsed"]]
program <- brm({there}, d, {theirs}, prior = c({priors}), chains = 0)
compiled <- proc.time()[["elapsed"]]
fit <- update(program, chains = 4, iter = 3000, warmup = 1000, cores = 1, refresh = 0, seed = 1,
  recompile = FALSE)
sampled <- proc.time()[["elapsed"]]
found <- posterior::summarise_draws(fit, "mean", "sd", "rhat", "ess_bulk")
writeLines(jsonlite::toJSON(list(table = as.data.frame(found), compile = compiled - before,
  sample = sampled - compiled, versions = list(brms = as.character(packageVersion("brms")),
  rstan = as.character(packageVersion("rstan")))), digits = 12, auto_unbox = TRUE), "found.json")
"""


def priors_there(case: Case) -> str:
    """The priors as brms writes them, commas between."""
    half = f"student_t(3, 0, {case.sds})"
    said = [f"prior(normal(0, {case.fixed}), class = b)", f"prior({half}, class = sd)"]
    if case.family == "cumulative":
        said.append("prior(normal(0, 5), class = Intercept)")
    for there, _, _, prior in DISPERSIONS.get(case.family, []):
        said.append(f"prior({prior or half}, class = {there})")
    return ", ".join(said)


def priors_here(case: Case) -> dict[str, object]:
    """The same as `priors=` takes them."""
    half = lrvb.prior.HalfStudentT(3, case.sds)
    groups = [part.split(")")[0].strip() for part in case.here.split("|")[1:]]
    terms = ["1", "Days"] if "(Days |" in case.here else ["1"]
    said: dict[str, object] = {"fixed": lrvb.prior.Normal(0, case.fixed)}
    said |= {f"sd[{term}|{group}]": half for group in groups for term in terms}
    if case.family == "cumulative":
        said["threshold"] = lrvb.prior.Normal(0, 5)
    for _, _, name, prior in DISPERSIONS.get(case.family, []):
        said[name] = half if prior is None else HERE[prior]
    return said


def beside(case: Case) -> tuple[pd.DataFrame, dict]:
    """brms's table with our names, our columns beside it, and what was said of seconds and versions."""
    with tempfile.TemporaryDirectory() as folder:
        script = R.format(**case._asdict(), priors=priors_there(case))
        done = subprocess.run(
            ["Rscript", "-e", script], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"brms did not fit {case.there}: {done.stderr[-2000:]}")
        found = json.loads((Path(folder) / "found.json").read_text())
        data = pd.read_csv(Path(folder) / "data.csv")
    start = time.perf_counter()
    model = lrvb.MixedModel(case.here, case.family, priors_here(case)).fit(data)
    ours = model.summary()
    found["ours"] = time.perf_counter() - start
    theirs = pd.DataFrame(found["table"]).set_index("variable")
    theirs = theirs.rename(index=_names(list(theirs.index), list(ours.index), case))
    return theirs.join(ours.add_suffix("_ours"), how="inner"), found


def _names(there: list[str], here: list[str], case: Case) -> dict[str, str]:
    """What each quantity of brms is called here: coefficients stand in the same order in both."""
    own = {dispersion[0]: dispersion[1] for dispersion in DISPERSIONS.get(case.family, [])}
    fixed = [
        name for name in there if name.startswith("b_") and not name.startswith("b_Intercept[")
    ]
    ours = [name for name in here if not name.startswith(("sd[", "corr[", "threshold["))]
    ours = [name for name in ours if name not in own.values()]
    if len(fixed) != len(ours):
        raise RuntimeError(f"{fixed} of brms are not {ours}")
    names = dict(zip(fixed, ours, strict=True)) | own
    for name in there:
        if name.startswith("b_Intercept["):
            names[name] = name.replace("b_Intercept", "threshold")
        elif name.startswith("sd_"):
            group, term = name[3:].split("__")
            names[name] = f"sd[{'1' if term == 'Intercept' else term}|{group}]"
        elif name.startswith("cor_"):
            names[name] = next(one for one in here if one.startswith("corr["))
    return names


def main(asked: list[str]) -> None:
    """One line for each case."""
    print(
        "| data | family | gap of means, sds | ratio of sds | brms's least effective draws | verdicts | "
        "ours, s | brms: compile + sample, s |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in asked or list(CASES):
        case = CASES[name]
        table, found = beside(case)
        gap = ((table["mean_ours"] - table["mean"]) / table["sd"]).abs()
        ratio = table["sd_ours"] / table["sd"]
        cells = [
            name,
            f"`{case.family}`",
            f"{gap.max():.2f} ({gap.idxmax()})",
            f"{ratio.min():.2f}–{ratio.max():.2f}",
            f"{table['ess_bulk'].min():.0f}",
            ", ".join(sorted(set(table["verdict_ours"]))),
            f"{found['ours']:.1f}",
            f"{found['compile']:.0f} + {found['sample']:.0f}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
