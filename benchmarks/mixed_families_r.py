"""Families of mixed models beside the estimates of glmmTMB and ordinal, on data of those packages.

    python benchmarks/mixed_families_r.py [family ...]     needs Rscript with glmmTMB, ordinal

Counts: calls of owl nestlings (glmmTMB::Owls, 599 rows, 27 nests), the effect of food. Ordered categories:
ratings of wine (ordinal::wine, 72 rows, 9 judges), the effect of temperature, by clmm with 20 nodes. Theirs
are maximum-likelihood estimates with standard errors, ours posterior means with sds under a wide prior of the
coefficients. The R session writes its data to a temporary folder, from which both fit the same rows.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

import lrvb

OWLS = "calls ~ food + sex + offset(brood) + (1|nest)"
WINE = "rating ~ temp + contact + (1|judge)"

#: what R calls the family, and with it zeros of another origin
COUNTS = {
    "negbinomial": "nbinom2",
    "zero_inflated_poisson": "poisson, ziformula = ~1",
    "zero_inflated_negbinomial": "nbinom2, ziformula = ~1",
    "hurdle_poisson": "truncated_poisson, ziformula = ~1",
    "hurdle_negbinomial": "truncated_nbinom2, ziformula = ~1",
}

R_COUNTS = """
suppressMessages(library(glmmTMB))
d <- Owls[c("SiblingNegotiation", "FoodTreatment", "SexParent", "logBroodSize", "Nest")]
names(d) <- c("calls", "food", "sex", "brood", "nest")
write.csv(d, "data.csv", row.names = FALSE)
fit <- glmmTMB({formula}, d, {family})
b <- summary(fit)$coefficients$cond["foodSatiated", ]
cat("effect", b[1], b[2], "\\n")
cat("sd", attr(VarCorr(fit)$cond[[1]], "stddev"), "\\n")
cat("shape", sigma(fit), "\\n")
cat("zero", if (length(fixef(fit)$zi)) plogis(fixef(fit)$zi) else NA, "\\n")
"""

R_ORDERED = """
suppressMessages(library(ordinal))
write.csv(wine, "data.csv", row.names = FALSE)
fit <- clmm({formula}, wine, nAGQ = 20)
b <- summary(fit)$coefficients["tempwarm", ]
cat("effect", b[1], b[2], "\\n")
cat("sd", sqrt(unlist(VarCorr(fit))), "\\n")
for (k in 1:4) cat(paste0("threshold[", k, "]"), fit$alpha[k], "\\n")
"""


def theirs(family: str) -> tuple[dict[str, list[float]], pd.DataFrame]:
    """Numbers by name, and the data they were fitted to."""
    if family == "cumulative":
        script = R_ORDERED.format(formula=WINE)
    else:
        script = R_COUNTS.format(formula=OWLS, family=COUNTS[family])
    with tempfile.TemporaryDirectory() as folder:
        said = subprocess.run(
            ["Rscript", "-e", script], cwd=folder, check=True, capture_output=True, text=True
        ).stdout
        data = pd.read_csv(Path(folder) / "data.csv")
    lines = [line.split() for line in said.splitlines()]
    return {line[0]: [float("nan" if x == "NA" else x) for x in line[1:]] for line in lines}, data


def line(family: str) -> str:
    """One row of the table: coefficient, sd of the groups, dispersions; theirs and ours of each."""
    found, data = theirs(family)
    formula, effect, term = (
        (WINE, "temp[warm]", "sd[1|judge]")
        if family == "cumulative"
        else (OWLS, "food[Satiated]", "sd[1|nest]")
    )
    model = lrvb.MixedModel(formula, family, {"fixed": lrvb.prior.Normal(0, 10)}).fit(data)
    table = model.summary()

    def beside(name: str, number: float) -> str:
        return f"{number:.3f}; {table.loc[name, 'mean']:.3f} ({table.loc[name, 'sd']:.3f})"

    b, se = found["effect"]
    named = {"shape": "shape", "zi": "zero", "hurdle": "zero"}
    named |= {f"threshold[{k}]": f"threshold[{k}]" for k in (1, 2, 3, 4)}
    own = [
        f"{name} {beside(name, found[there][0])}"
        for name, there in named.items()
        if name in table.index
    ]
    return (
        f"| `{family}` | {b:.3f} ({se:.3f}) | {table.loc[effect, 'mean']:.3f} "
        f"({table.loc[effect, 'sd']:.3f}) | {beside(term, found['sd'][0])} | {', '.join(own)} | "
        f"{', '.join(sorted(set(table['verdict'])))} |"
    )


def main(asked: list[str]) -> None:
    """One line for each family."""
    print("| family | theirs | ours | sd of groups | its own parameters | verdicts |")
    print("| --- | --- | --- | --- | --- | --- |")
    for family in asked or [*COUNTS, "cumulative"]:
        print(line(family), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
