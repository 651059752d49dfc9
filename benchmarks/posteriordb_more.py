"""Posteriors of posteriordb beyond those with a reference: our errors and what we trust, in one table.

    python benchmarks/posteriordb_more.py [name ...] [--seed 1] [--references]

27 linear regressions are measured against quadrature over σ (`posteriordb_regressions.py`), five harder
models (`posteriordb_models.py`) against long NUTS runs, kept in `results/posteriordb_more.csv`;
`--references` makes those anew, a few minutes each. An error is the larger of the mean's, in sds, and the
log sd's. The data are those of posteriordb, in ../shared/posteriordb; without them a sentence says so.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from posteriordb_models import LONG, MODELS, model
from posteriordb_regressions import FOLDER, MISSING, REGRESSIONS, regression

KEPT = Path(__file__).resolve().parents[1] / "results" / "posteriordb_more.csv"
WITHIN, WRONG = 0.1, 0.15


class Errors(NamedTuple):
    """Of one posterior: every quantity's error, whether it is trusted, and seconds of the processor."""

    error: pd.Series
    trusted: pd.Series
    seconds: float

    @property
    def wrongly(self) -> int:
        """How many are trusted with an error above 0.15."""
        return int((self.trusted & (self.error > WRONG)).sum())


def reference(name: str) -> pd.DataFrame:
    """`mean` and `sd` of every quantity, exact or by NUTS."""
    if name in REGRESSIONS:
        exact = regression(name).exact()
        return pd.DataFrame.from_dict(exact, orient="index", columns=["mean", "sd"])
    kept = pd.read_csv(KEPT)
    return kept[kept["case"] == name].set_index("quantity")[["mean", "sd"]]


def errors(name: str, seed: int = 1) -> Errors:
    """Ours against the reference."""
    import lrvb

    stated = regression(name).model if name in REGRESSIONS else model(name)
    begun = time.process_time()
    found = lrvb.from_numpyro(stated).infer(seed=seed).summary()
    seconds = time.process_time() - begun
    truth = reference(name)
    found = found.loc[truth.index]
    mean = (found["mean"] - truth["mean"]).abs() / truth["sd"]
    sd = np.log(found["sd"] / truth["sd"]).abs()
    return Errors(np.maximum(mean, sd), found["verdict"] == "trust", seconds)


def long_run(name: str) -> pd.DataFrame:
    """Four chains of NUTS in the better statement; `ess` is the smaller of the mean's and the variance's."""
    import jax
    from numpyro.diagnostics import summary
    from numpyro.infer import MCMC, NUTS, init_to_uniform, init_to_value

    jax.config.update("jax_enable_x64", True)
    init = init_to_value(values=LONG[name]) if name in LONG else init_to_uniform
    dense = name not in ("irt_2pl-irt_2pl", "rats_data-rats_model")
    kernel = NUTS(
        model(name, better=True), target_accept_prob=0.9, dense_mass=dense, init_strategy=init
    )
    chain = MCMC(
        kernel,
        num_warmup=1000,
        num_samples=2000 if name in LONG or "irt" in name else 3000,
        num_chains=4,
        chain_method="vectorized",
        progress_bar=False,
    )
    chain.run(jax.random.PRNGKey(3))
    rows = []
    for site, values in chain.get_samples(group_by_chain=True).items():
        if site.endswith("_raw"):
            continue
        for index in np.ndindex(values.shape[2:]):
            label = f"{site}[{','.join(map(str, index))}]" if index else site
            one = np.asarray(values[(..., *index)], dtype=float)
            known = [summary({"x": x})["x"] for x in (one, (one - one.mean()) ** 2)]
            ess = min(float(found["n_eff"]) for found in known)
            rows.append((name, label, one.mean(), one.std(), ess, float(known[0]["r_hat"])))
    return pd.DataFrame(rows, columns=["case", "quantity", "mean", "sd", "ess", "r_hat"])


def main() -> None:
    """A line for every posterior, then the regressions together."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="posteriors; all if none is named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--references", action="store_true", help="run NUTS for them instead")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not FOLDER.is_dir():
        sys.exit(MISSING)
    names = options.names or [*REGRESSIONS, *MODELS]
    if options.references:
        asked = [name for name in names if name in MODELS]
        kept = pd.read_csv(KEPT) if KEPT.exists() else pd.DataFrame(columns=["case"])
        runs = [long_run(name) for name in asked]
        table = pd.concat([kept[~kept["case"].isin(asked)], *runs])
        table.to_csv(KEPT, index=False, float_format="%.6g")
        return
    lines: dict[str, Errors] = {}
    for name in names:
        lines[name] = errors(name, options.seed)
        print(_line(name, lines[name]), flush=True)
    together = [found for name, found in lines.items() if name in REGRESSIONS]
    if together:
        total = Errors(
            pd.concat([found.error for found in together]),
            pd.concat([found.trusted for found in together]),
            sum(found.seconds for found in together),
        )
        print(_line(f"{len(together)} regressions", total))


def _line(name: str, found: Errors) -> str:
    error = found.error
    return (
        f"{name:50s} within {WITHIN}: {(error <= WITHIN).sum()} of {len(error)}, largest {error.max():.3f} "
        f"({error.idxmax()}), trusted {found.trusted.sum()}, wrongly {found.wrongly}, {found.seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
