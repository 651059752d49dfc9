"""Levels' effects and predictions for known and new levels, against NUTS draws of the same model.

    python benchmarks/mixed_predictions.py

Zeros and ones, 20 groups of four rows, with stated priors. Prints, of each kind of answer, the largest
difference of means in sds of NUTS and the range of ratios of sds, and writes every one of them to
`results/mixed_predictions.csv`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import lrvb
from lrvb.prior import HalfNormal, Normal

TABLE = Path(__file__).resolve().parents[1] / "results" / "mixed_predictions.csv"
GROUPS, ROWS = 20, 4
PRIORS = {"Intercept": Normal(0, 2), "x": Normal(0, 2), "sd[1|g]": HalfNormal(2)}


def main() -> None:
    """Both answers, side by side."""
    data, new = simulate()
    model = lrvb.MixedModel("y ~ x + (1|g)", family="bernoulli", priors=PRIORS).fit(data)
    draws = sample(data)
    rng = np.random.default_rng(1)
    z = draws["z"]
    fresh = draws["sd"][:, None] * rng.normal(size=(len(z), 1))
    effects = np.concatenate([z, fresh], axis=1)[:, np.minimum(new["g"].to_numpy(), GROUPS)]
    eta = draws["b"][:, :1] + draws["b"][:, 1:] * new["x"].to_numpy() + effects
    p = 1 / (1 + np.exp(-eta))
    ours = model.predict(new)
    levels = model.ranef("1|g")
    parts = [
        pd.DataFrame({"kind": "effect of a level", "mean": levels["mean"], "sd": levels["sd"]}),
        pd.DataFrame({"kind": "probability", "mean": ours["mean"], "sd": ours["sd"]}),
    ]
    table = pd.concat(parts, ignore_index=True)
    known = np.r_[np.ones(GROUPS, bool), new["g"] < GROUPS]
    table.loc[~known, "kind"] = "probability, new level"
    table["nuts_mean"] = np.r_[z.mean(0), p.mean(0)]
    table["nuts_sd"] = np.r_[z.std(0), p.std(0)]
    table.round(5).to_csv(TABLE, index=False)
    bias = (table["mean"] - table["nuts_mean"]).abs() / table["nuts_sd"]
    ratio = table["sd"] / table["nuts_sd"]
    summary = pd.DataFrame({"kind": table["kind"], "bias": bias, "ratio": ratio}).groupby("kind")
    print(summary.agg({"bias": "max", "ratio": ["min", "max"]}).round(3).to_string())


def simulate() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of the fit, and rows to predict: of known levels, and of one that is new."""
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(GROUPS), ROWS)
    x = rng.normal(size=len(g))
    eta = 0.4 + 0.7 * x + 1.2 * rng.normal(size=GROUPS)[g]
    data = pd.DataFrame({"y": rng.binomial(1, 1 / (1 + np.exp(-eta))), "x": x, "g": g})
    new = pd.DataFrame(
        {"x": np.tile([-1.0, 0.0, 1.5], 5), "g": np.repeat([0, 5, 9, 14, GROUPS], 3)}
    )
    return data, new


def sample(data: pd.DataFrame) -> dict[str, np.ndarray]:
    """NUTS draws of coefficients b, the groups' sd and their effects z."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)
    y, x, g = (data[name].to_numpy() for name in ("y", "x", "g"))

    def model() -> Any:
        b = numpyro.sample("b", dist.Normal(0, 2).expand([2]))
        sd = numpyro.sample("sd", dist.HalfNormal(2))
        e = numpyro.sample("e", dist.Normal(0, 1).expand([GROUPS]))
        z = numpyro.deterministic("z", sd * e)
        numpyro.sample("y", dist.Bernoulli(logits=b[0] + b[1] * x + z[g]), obs=y)

    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.9),
        num_warmup=1000,
        num_samples=5000,
        num_chains=8,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(0))
    return {name: np.asarray(value) for name, value in mcmc.get_samples().items()}


if __name__ == "__main__":
    main()
