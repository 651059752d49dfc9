"""The mixture's third series: certified sds of every data set, and what is said of them.

The priors are flat, as those of fit and chain. Strictly no constant exists then: a component without
rows has no bound on its mean. At 10,000 rows that region is separated from the labelled mode by
thousands of units of log density, where neither chain nor draw ever comes, so that all three series
are of the mode alone.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...estimators.mixture.estimator import GaussianMixture
from ..figures.mixture import CERTIFICATES, with_certified
from .base import Tables

DRAWS = 512  # asked for; where they leave something open the certificate makes more
ERRORS = 4.0  # Monte Carlo errors that a mean ratio may differ from one
MISSING = " These tables were made without certificates, so that the certified series is not shown."


def certify(
    mixture: GaussianMixture, names: list[str], seed: int, draws: int = DRAWS
) -> pd.DataFrame:
    """A row for each parameter: certified mean and sd, verdict, and the draws' k-hat and worth."""
    certificate = mixture.posterior_.certify(draws=draws, seed=seed)
    found = certificate.summary().loc[names, ["mean", "sd", "verdict"]]
    found = found.assign(k_hat=certificate.k_hat, ess=certificate.ess)
    return found.rename_axis("quantity").reset_index()


def joined(tables: Tables) -> pd.DataFrame:
    """The table of sds with certified_sd, certified_ess, verdict and k_hat."""
    more = tables[CERTIFICATES][["data set", "quantity", "verdict", "k_hat", "ess"]]
    more = more.rename(columns={"ess": "certified_ess"})
    return with_certified(tables).merge(more, on=["data set", "quantity"], how="left")


def mean_ratios(tables: Tables) -> pd.DataFrame:
    """Of each parameter: the mean over data sets of certified sd ÷ Gibbs sd, and its Monte Carlo error.

    An sd from e effective draws has a relative error of about 1/√(2e), on both sides of the ratio.
    """
    table = joined(tables)
    table = table.assign(
        ratio=table["certified_sd"] / table["gibbs_sd"],
        variance=0.5 / table["ess"] + 0.5 / table["certified_ess"],
    )
    grouped = table.groupby("quantity", sort=False)
    error = np.sqrt(grouped["variance"].sum()) / grouped.size()
    return pd.DataFrame({"mean": grouped["ratio"].agg(_mean), "error": error})


def numbers(tables: Tables) -> list[float]:
    """Lowest and highest mean of a parameter, lowest and highest of all."""
    table, mean = joined(tables), mean_ratios(tables)["mean"]
    ratio = table["certified_sd"] / table["gibbs_sd"]
    return [mean.min(), mean.max(), ratio.min(), ratio.max()]


def checks(tables: Tables) -> dict[str, bool]:
    """Every parameter has a certified sd, and the mean ratios are one as far as draws can tell."""
    found = mean_ratios(tables)
    near = (found["mean"] - 1).abs() <= ERRORS * found["error"]
    return {
        "mean certified ÷ Gibbs sd of each parameter within four Monte Carlo errors of one": bool(
            near.all()
        )
    }


def words(tables: Tables) -> str:
    """A word on the certificates: ratios, k-hat, verdicts and priors."""
    table, mean = joined(tables), mean_ratios(tables)["mean"]
    k_hat = table.groupby("data set")["k_hat"].first()
    shares = table["verdict"].value_counts(normalize=True)
    verdicts = ", ".join(f"{share:.1%} {word}" for word, share in shares.items())
    seconds = ""
    if "certificate" in tables["times"]:
        seconds = f" A certificate takes {tables['times']['certificate'].mean():.1f} seconds."
    return (
        f" Certified by draws of the exact density, with every membership summed out, the mean ratio is "
        f"{mean.min():.4f}–{mean.max():.4f}; the draws' k-hat is {k_hat.median():.2f} in the median and "
        f"{k_hat.max():.2f} at most (below 0.6 averages can be believed), and the verdicts are {verdicts}. "
        "Under flat priors the certificate is, like the chain, one of the labelled mode alone."
        f"{seconds}"
    )


def _mean(ratio: pd.Series) -> float:
    return float(ratio.mean(skipna=False))
