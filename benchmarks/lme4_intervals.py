"""Standard deviations of random effects: our intervals under default priors beside lme4's profiles.

    python benchmarks/lme4_intervals.py [--only hsb82 ...]     needs Rscript with lme4, mlmRev, nlme

lme4's are 95 % profile-likelihood intervals of maximum likelihood, ours 95 % of the posterior. The R session
writes its data to a temporary folder, from which both fit the same rows. The table is printed as Markdown.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import pandas as pd

import lrvb

LEVEL = 0.95


class Case(NamedTuple):
    """A data set of R (package::name), a formula, a family, and what is said of it."""

    source: str
    formula: str
    family: str
    words: str


CASES = {
    "hsb82": Case(
        "mlmRev::Hsb82",
        "mAch ~ meanses*cses + sector*cses + (cses|school)",
        "gaussian",
        "7,185 pupils, 160 schools",
    ),
    "chem97": Case(
        "mlmRev::Chem97",
        "score ~ gcsecnt + (1|school) + (1|lea)",
        "gaussian",
        "31,022 pupils, 2,410 schools, 131 areas",
    ),
    "sleepstudy": Case(
        "lme4::sleepstudy", "Reaction ~ Days + (Days|Subject)", "gaussian", "180 rows, 18 subjects"
    ),
    "dyestuff": Case("lme4::Dyestuff", "Yield ~ 1 + (1|Batch)", "gaussian", "30 rows, 6 batches"),
    "dyestuff2": Case("lme4::Dyestuff2", "Yield ~ 1 + (1|Batch)", "gaussian", "30 rows, 6 batches"),
    "penicillin": Case(
        "lme4::Penicillin",
        "diameter ~ 1 + (1|plate) + (1|sample)",
        "gaussian",
        "144 rows, 24 plates, 6 samples",
    ),
    "cbpp": Case(
        "lme4::cbpp",
        "prop(incidence, size) ~ period + (1|herd)",
        "binomial",
        "56 rows, 15 herds",
    ),
}

SCRIPT = """
suppressMessages(library(lme4))
data <- as.data.frame({source})
write.csv(data, "{folder}/data.csv", row.names = FALSE)
fit <- {fit}
ci <- suppressWarnings(confint(fit, parm = "theta_", level = {level}, oldNames = FALSE, quiet = TRUE))
est <- as.data.frame(VarCorr(fit), order = "lower.tri")
write.csv(data.frame(name = rownames(ci), estimate = est$sdcor, lower = ci[, 1], upper = ci[, 2]),
          "{folder}/lme4.csv", row.names = FALSE)
"""


def profile(case: Case, folder: str) -> pd.DataFrame:
    """lme4's estimates and profile intervals, by its own names; the data are left in the folder."""
    text = case.formula
    if case.family == "binomial":
        text = text.replace("prop(incidence, size)", "cbind(incidence, size - incidence)")
        fit = f"glmer({text}, data, family = binomial)"
    else:
        fit = f"lmer({text}, data, REML = FALSE)"
    script = SCRIPT.format(source=case.source, folder=folder, fit=fit, level=LEVEL)
    done = subprocess.run(["Rscript", "-e", script], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return pd.read_csv(Path(folder) / "lme4.csv").set_index("name")


def ours(case: Case, folder: str) -> pd.DataFrame:
    """Our table of standard deviations and correlations under default priors."""
    data = pd.read_csv(Path(folder) / "data.csv")
    table = lrvb.MixedModel(case.formula, family=case.family).fit(data).summary(prob=LEVEL)
    keep = table.index.str.startswith(("sd[", "corr["))
    return pd.DataFrame(table)[keep]


def named(name: str) -> str:
    """Our name of lme4's: sd_(Intercept)|g, cor_x.(Intercept)|g, sigma."""
    if name == "sigma":
        return "sd[residual]"
    kind, _, rest = name.partition("_")
    effect, _, group = rest.rpartition("|")
    if kind == "sd":
        return f"sd[{effect.replace('(Intercept)', '1')}|{group}]"
    second, _, first = effect.partition(".")
    return f"corr[{group}][{first.replace('(Intercept)', '1')},{second}]"


def main() -> None:
    """Print one table of all cases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    asked = parser.parse_args().only
    print("| data | quantity | lme4, profile | ours, default priors |\n| --- | --- | --- | --- |")
    for name in asked:
        case = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            theirs, table = profile(case, folder), ours(case, folder)
        for row in theirs.itertuples():
            found = table.loc[named(str(row.Index))]
            print(
                f"| {name} ({case.words}) | `{named(str(row.Index))}` "
                f"| {row.estimate:.3g} [{row.lower:.3g}, {row.upper:.3g}] "
                f"| {found['mean']:.3g} [{found['lower']:.3g}, {found['upper']:.3g}], {found['verdict']} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
