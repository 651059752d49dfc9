"""Certified sds over the paper's range of normal–Poisson, and of mixtures from 100 to 100,000 rows.

    python benchmarks/certificate_accuracy.py [normal-poisson] [mixture] [digits]

Normal–Poisson is judged by the exact posterior on a grid; mixtures by Gibbs chains with the same
priors (proper ones, because in a hundred rows a component may run out of them), whose own Monte Carlo
error of an sd stands beside; the digits, 701 parameters, by what the certificate itself says.
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np
import pandas as pd

import lrvb
from lrvb.models import NormalPoisson
from lrvb.studies.experiments import digits, matched
from lrvb.studies.reference import normal_poisson, simulate

SDS = (0.3, 0.6, 1.0)
ROWS = (100, 300, 1000, 10_000, 100_000)
SWEEPS = {100: 6000, 300: 6000, 1000: 4000, 10_000: 2000, 100_000: 1000}
PROPER = {"wishart_dof_prior": 4.0, "wishart_scale_prior": 1.0, "weight_concentration_prior": 5.0}


def counts() -> pd.DataFrame:
    """Sds of τ over the exact one: linear response, second order, certified, a row a data set."""
    rows = []
    for n in (100, 500):
        for sd in SDS:
            data = simulate.normal_poisson(np.random.default_rng(5), n=n, beta=1.0, sd=sd)
            exact = normal_poisson.exact(data["x"], data["y"])
            posterior = lrvb.infer(NormalPoisson(), {k: data[k] for k in "xy"}, certify=False)
            certificate = posterior.certify(2048)
            found = certificate.summary().loc["tau"]
            rows.append(
                {
                    "rows": n,
                    "sd of z": sd,
                    "linear response": found["lrvb_sd"] / exact.sd["tau"],
                    "second order": posterior.refined("tau")["sd"].iloc[0] / exact.sd["tau"],
                    "certified": found["sd"] / exact.sd["tau"],
                    "mean, in sds": (found["mean"] - exact.mean["tau"]) / exact.sd["tau"],
                    "k-hat": certificate.k_hat,
                    "verdict": found["verdict"],
                }
            )
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def mixtures() -> pd.DataFrame:
    """Sds of a mixture of two in two columns over those of Gibbs: least, median and most."""
    rows = []
    for n in ROWS:
        data = simulate.scaled_mixture(np.random.default_rng(1), n, 2, 2)
        X, labels = data["X"], data["z"]
        fitted = matched.fit(X, labels, **PROPER)
        certificate = fitted.posterior_.certify(1024, seed=1)
        begun = time.process_time()
        chain = matched.chain([1, n], X, labels, draws=SWEEPS[n], burn_in=100, least=1000, **PROPER)
        spent = time.process_time() - begun
        table = matched.compare(fitted, chain).set_index("quantity")
        names = [name for name in table.index if name in certificate.names]
        own = certificate.summary().loc[names]
        plain = table.loc[names, "sd"] / table.loc[names, "gibbs_sd"]
        ours = own["sd"] / table.loc[names, "gibbs_sd"]
        rows.append(
            {
                "rows": n,
                "linear response": spread(plain),
                "certified": spread(ours),
                "error of Gibbs' sds": 1 / np.sqrt(2 * matched.slowest(chain)),
                "k-hat": certificate.k_hat,
                "effective": certificate.ess,
                "mean, in sds": spread((own["mean"] - table.loc[names, "gibbs_mean"]) / own["sd"]),
                "verdicts": own["verdict"].value_counts().to_dict(),
                "Gibbs seconds": spent,
            }
        )
        print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def spread(values: pd.Series) -> str:
    """Least, median and most."""
    return f"{values.min():.3f} / {values.median():.3f} / {values.max():.3f}"


def images() -> pd.DataFrame:
    """The handwritten digits of the paper: what draws say of 701 parameters, and what that takes."""
    posterior = digits.fit(digits.load()).posterior_
    begun = time.process_time()
    found = posterior.certify(2048)
    spent, table = time.process_time() - begun, found.summary()
    row = {
        "draws": len(found.weights),
        "seconds": spent,
        "k-hat": found.k_hat,
        "effective": found.ess,
        "linear response": spread(table["ratio"]),
        "mean, in sds": spread(table["shift"]),
        "verdicts": table["verdict"].value_counts().to_dict(),
    }
    return pd.DataFrame([row])


PARTS = {"normal-poisson": counts, "mixture": mixtures, "digits": images}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for part in sys.argv[1:] or PARTS:
        print(PARTS[part]().round(3).to_string(index=False))
