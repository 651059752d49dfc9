"""Ground truth for mixed models: long NUTS runs of the cases of `mixed_cases.py`, same priors.

    python benchmarks/mixed_truth.py [case ...] [--ess 4000] [--out results/mixed_truth.csv]

Four chains of NumPyro's NUTS in double precision, one after another, are extended until every
quantity has the effective sample size asked for and r_hat < 1.01. Gaussian cases sample the
precisions alone, with the coefficients integrated out, and then draw the coefficients given them;
the others are non-centred. A case's rows are written as soon as it is done; cases already in the
file are skipped, so a run that is stopped is taken up again. All six take about ten minutes on one
core. The stored file was made with `--ess 8000`, and 4500 for poisson_nested.

Columns: mean, sd and skewness of the draws; ess and rhat; sd_error, the Monte Carlo error of the
sd relative to it.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
from mixed_cases import CASES, MixedCase
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from scipy.stats import skew

CHAINS, WARMUP, BATCH = 4, 1500, 5000  # BATCH: draws of each chain at a time
LEVELS = 5  # random effects reported, of each grouping

# The random terms of each case, stated here and not parsed: (grouping columns, columns of a bar).
TERMS: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "gaussian_slopes": [(("g",), ("1", "x"))],
    "poisson_nested": [(("a",), ("1",)), (("a", "b"), ("1",)), (("obs",), ("1",))],
    "bernoulli_small": [(("g",), ("1",))],
    "gaussian_crossed": [(("a",), ("1",)), (("b",), ("1",))],
    "binomial": [(("g",), ("1",))],
    "poisson_slopes": [(("g",), ("1", "x"))],
}


class Term(NamedTuple):
    """One bar of the formula: row n has the effect R_n · z_k(n), z_k ~ N(0, Λ⁻¹)."""

    group: str
    columns: tuple[str, ...]
    levels: list[str]
    codes: np.ndarray
    """(N,)"""
    R: np.ndarray
    """(N, q)"""
    prior: tuple[Any, ...]


class Design(NamedTuple):
    """Everything the samplers read; fixed effects are Intercept and x."""

    family: str
    X: np.ndarray
    """(N, 2)"""
    y: np.ndarray
    trials: np.ndarray
    terms: list[Term]
    fixed_sd: float
    residual_prior: tuple[Any, ...] | None


def main() -> None:
    """Sample each case that is not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--ess", type=float, default=4000, help="least effective sample size")
    parser.add_argument("--out", type=Path, default=Path("results/mixed_truth.csv"))
    options = parser.parse_args()
    unknown = [name for name in options.cases if name not in CASES]
    if unknown:
        parser.error(f"There is no case {unknown[0]!r}; there are {', '.join(CASES)}.")
    numpyro.enable_x64()
    for name in options.cases or CASES:
        done = pd.read_csv(options.out) if options.out.exists() else pd.DataFrame({"case": []})
        if name in set(done["case"]):
            print(f"{name}: already in {options.out}")
            continue
        began = time.perf_counter()
        table = sample(name, options.ess)
        write(pd.concat([done, table]), options.out)
        print(
            f"{name}: {time.perf_counter() - began:.0f} s, least ess {table['ess'].min():.0f} "
            f"({table['quantity'][table['ess'].idxmin()]}), largest rhat {table['rhat'].max():.4f}",
            flush=True,
        )


def write(table: pd.DataFrame, path: Path) -> None:
    """Replace the file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    table.to_csv(temporary, index=False, float_format="%.6g")
    os.replace(temporary, path)


def design(name: str, case: MixedCase) -> Design:
    """Arrays of a case."""
    data, priors = case.data, case.priors
    one = np.ones(len(data))
    columns = {"1": one, "x": data["x"].to_numpy()}
    terms = []
    for grouping, bar in TERMS[name]:
        joined = data[grouping[0]].str.cat([data[other] for other in grouping[1:]], sep=":")
        levels, codes = np.unique(joined, return_inverse=True)
        group = ":".join(grouping)
        prior = priors[group if len(bar) > 1 else f"{bar[0]}|{group}"]
        R = np.stack([columns[column] for column in bar], axis=1)
        terms.append(Term(group, bar, list(levels), codes, R, prior))
    response = data["s" if case.family == "binomial" else "y"].to_numpy()
    trials = data["n"].to_numpy() if case.family == "binomial" else one
    X = np.stack([columns["1"], columns["x"]], axis=1)
    return Design(
        case.family, X, response, trials, terms, priors["fixed"][2], priors.get("residual")
    )


# ---- the models ----------------------------------------------------------------------------


def factor(term: Term) -> jax.Array:
    """Lower triangular L with LLᵀ = Λ from its prior: Gamma for a single column, else Wishart."""
    kind, first, second = term.prior
    if kind == "Gamma":
        return jnp.sqrt(numpyro.sample(f"precision {term.group}", dist.Gamma(first, second)))[
            None, None
        ]
    wishart = dist.WishartCholesky(first, scale_matrix=jnp.asarray(second))
    return numpyro.sample(f"factor {term.group}", wishart)


def non_centred(made: Design) -> None:
    """Poisson and logit families: β, and z = L⁻ᵀ raw with raw standard normal."""
    beta = numpyro.sample("beta", dist.Normal(0, made.fixed_sd).expand([2]).to_event(1))
    eta = made.X @ beta
    for term in made.terms:
        shape = [len(term.levels), len(term.columns)]
        raw = numpyro.sample(f"raw {term.group}", dist.Normal().expand(shape).to_event(2))
        z = jax.scipy.linalg.solve_triangular(factor(term), raw.T, lower=True, trans=1).T
        numpyro.deterministic(f"z {term.group}", z)
        eta = eta + jnp.sum(term.R * z[term.codes], axis=1)
    partition = jnp.exp(eta) if made.family == "poisson" else made.trials * jax.nn.softplus(eta)
    numpyro.factor("likelihood", made.y @ eta - jnp.sum(partition))


def collapsed(made: Design) -> None:
    """The gaussian family: precisions alone, (β, z) integrated out."""
    _, shape, rate = made.residual_prior or ()
    tau = numpyro.sample("residual", dist.Gamma(shape, rate))
    factors = [factor(term) for term in made.terms]
    numpyro.factor("evidence", coefficients(made, tau, factors)[0])


def coefficients(
    made: Design, tau: jax.Array, factors: list[jax.Array]
) -> tuple[jax.Array, jax.Array, jax.Array]:
    r"""log p(y | τ, Λ) up to a constant, and mean and Cholesky factor of the precision of (β, z).

    With C = [X, Z] and prior precision P the coefficients given y have precision Q = τCᵀC + P and
    mean Q⁻¹τCᵀy; the evidence is ½(N log τ − τyᵀy + log|P| − log|Q| + τyᵀC Q⁻¹ τCᵀy).
    """
    C = np.concatenate([made.X, *[indicators(term) for term in made.terms]], axis=1)
    blocks = [jnp.eye(2) / made.fixed_sd**2]
    log_det = 0.0
    for term, L in zip(made.terms, factors, strict=True):
        G = len(term.levels)
        blocks.append(jnp.kron(jnp.eye(G), L @ L.T))
        log_det += 2 * G * jnp.sum(jnp.log(jnp.diag(L)))
    K = jnp.linalg.cholesky(tau * (C.T @ C) + jax.scipy.linalg.block_diag(*blocks))
    half = jax.scipy.linalg.solve_triangular(K, tau * (C.T @ made.y), lower=True)
    mean = jax.scipy.linalg.solve_triangular(K, half, lower=True, trans=1)
    evidence = 0.5 * (
        len(made.y) * jnp.log(tau)
        - tau * (made.y @ made.y)
        + log_det
        - 2 * jnp.sum(jnp.log(jnp.diag(K)))
        + half @ half
    )
    return evidence, mean, K


def indicators(term: Term) -> np.ndarray:
    """Columns of Z, (N, levels · q), those of one level side by side."""
    of_level = term.codes[:, None] == np.arange(len(term.levels))
    return (of_level[:, :, None] * term.R[:, None, :]).reshape(len(term.R), -1)


# ---- sampling ------------------------------------------------------------------------------


def sample(name: str, least: float) -> pd.DataFrame:
    """Rows of one case, from chains as long as it takes."""
    made = design(name, CASES[name]())
    model = collapsed if made.family == "gaussian" else non_centred
    sampler = MCMC(
        NUTS(model, dense_mass=dense_sites(made)),
        num_warmup=WARMUP,
        num_samples=BATCH,
        num_chains=CHAINS,
        chain_method="sequential",
        progress_bar=False,
    )
    key = jax.random.PRNGKey(0)
    batches: list[dict[str, np.ndarray]] = []
    while True:
        key, run_key, draw_key = jax.random.split(key, 3)
        sampler.run(run_key, made)
        sampler.post_warmup_state = sampler.last_state
        sites = sampler.get_samples(group_by_chain=True)
        if made.family == "gaussian":
            sites |= draw_coefficients(made, sites, draw_key)
        batches.append(quantities(made, {k: np.asarray(v) for k, v in sites.items()}))
        draws = {k: np.concatenate([b[k] for b in batches], axis=1) for k in batches[0]}
        table = describe(name, draws)
        print(
            f"  {draws['x'].size} draws, least ess {table['ess'].min():.0f} "
            f"({table['quantity'][table['ess'].idxmin()]}), "
            f"divergent {int(sampler.get_extra_fields()['diverging'].sum())}",
            flush=True,
        )
        if table["ess"].min() >= least and table["rhat"].max() < 1.01:
            return table


def dense_sites(made: Design) -> bool | list[tuple[str, ...]]:
    """Sites whose mass matrix is dense: all but those of a term with a level for each row."""
    if made.family == "gaussian":
        return True
    terms = [term for term in made.terms if len(term.levels) < len(made.y)]
    if terms == made.terms:
        return True
    return [("beta", *[f"raw {term.group}" for term in terms])]


def draw_coefficients(made: Design, sites: dict[str, Any], key: jax.Array) -> dict[str, jax.Array]:
    """One draw of (β, z) for each draw of the precisions."""

    def one(inputs: tuple[Any, ...]) -> jax.Array:
        at, noise = inputs
        factors = [
            at[f"factor {t.group}"]
            if f"factor {t.group}" in at
            else jnp.sqrt(at[f"precision {t.group}"])[None, None]
            for t in made.terms
        ]
        _, mean, K = coefficients(made, at["residual"], factors)
        return mean + jax.scipy.linalg.solve_triangular(K, noise, lower=True, trans=1)

    size = 2 + sum(len(t.levels) * len(t.columns) for t in made.terms)
    chains, draws = sites["residual"].shape
    flat = {k: v.reshape(-1, *v.shape[2:]) for k, v in sites.items()}
    noise = jax.random.normal(key, (chains * draws, size))
    values = jax.lax.map(one, (flat, noise)).reshape(chains, draws, size)
    found, at = {"beta": values[..., :2]}, 2
    for t in made.terms:
        width = len(t.levels) * len(t.columns)
        part = values[..., at : at + width]
        found[f"z {t.group}"] = part.reshape(chains, draws, len(t.levels), len(t.columns))
        at += width
    return found


def quantities(made: Design, sites: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Every reported quantity by its name, (chains, draws); the only home of the names."""
    found = {"Intercept": sites["beta"][..., 0], "x": sites["beta"][..., 1]}
    for term in made.terms:
        group = term.group
        if len(term.columns) == 1:
            bar = f"{term.columns[0]}|{group}"
            precision = sites[f"precision {group}"]
            found[f"precision[{bar}]"] = precision
            found[f"log(precision[{bar}])"] = np.log(precision)
            found[f"sd[{bar}]"] = precision**-0.5
        else:
            L = sites[f"factor {group}"]
            Lambda = L @ np.swapaxes(L, -1, -2)
            cov = np.linalg.inv(Lambda)
            first, second = term.columns
            found[f"Lambda[{group}][{first},{first}]"] = Lambda[..., 0, 0]
            found[f"Lambda[{group}][{first},{second}]"] = Lambda[..., 0, 1]
            found[f"Lambda[{group}][{second},{second}]"] = Lambda[..., 1, 1]
            found[f"logdet(Lambda[{group}])"] = np.linalg.slogdet(Lambda)[1]
            found[f"sd[{first}|{group}]"] = np.sqrt(cov[..., 0, 0])
            found[f"sd[{second}|{group}]"] = np.sqrt(cov[..., 1, 1])
            scale = np.sqrt(cov[..., 0, 0] * cov[..., 1, 1])
            found[f"corr[{group}][{first},{second}]"] = cov[..., 0, 1] / scale
    if "residual" in sites:
        found["precision[residual]"] = sites["residual"]
        found["log(precision[residual])"] = np.log(sites["residual"])
        found["sd[residual]"] = sites["residual"] ** -0.5
    for term in made.terms:
        for j, column in enumerate(term.columns):
            for k, level in enumerate(term.levels[:LEVELS]):
                found[f"{column}|{term.group}[{level}]"] = sites[f"z {term.group}"][..., k, j]
    return found


def describe(name: str, draws: dict[str, np.ndarray]) -> pd.DataFrame:
    """One row for each quantity."""
    rows = []
    for quantity, values in draws.items():
        deviations = (values - values.mean()) ** 2
        variance = deviations.mean()
        sd_error = deviations.std() / np.sqrt(effective_sample_size(deviations)) / (2 * variance)
        rows.append(
            {
                "case": name,
                "quantity": quantity,
                "mean": values.mean(),
                "sd": np.sqrt(variance),
                "ess": effective_sample_size(values),
                "rhat": split_gelman_rubin(values),
                "skewness": skew(values, axis=None),
                "sd_error": sd_error,
            }
        )
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
