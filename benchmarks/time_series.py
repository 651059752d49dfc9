"""Chains against the truth: linear response beside NUTS on the three models of examples/time_series.py.

    python benchmarks/time_series.py

NUTS (NumPyro) samples parameters and states; hidden states are summed out by a forward pass. Each line is
a quantity: sds as ratios to NUTS, biases of means in NUTS's sds; states in the median and at worst.
"""

from __future__ import annotations

import runpy
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.special import logsumexp
from numpyro.infer import MCMC, NUTS

import lrvb

LENGTH, SEED, DRAWS = 200, 1, 8000


def local_level(y: Any) -> None:
    """See LocalLevel."""
    tau = numpyro.sample("tau", dist.Gamma(2, 1))
    omega = numpyro.sample("omega", dist.Gamma(2, 0.1))
    e = numpyro.sample("e", dist.Normal(0, 1).expand([len(y)]))
    steps = e.at[0].mul(10.0).at[1:].divide(jnp.sqrt(omega))
    level = numpyro.deterministic("level", jnp.cumsum(steps))
    numpyro.sample("y", dist.Normal(level, 1 / jnp.sqrt(tau)), obs=y)


def volatility(y: Any) -> None:
    """See Volatility."""
    gamma = numpyro.sample("ar[0]", dist.Normal(0, 1))
    phi = numpyro.sample("ar[1]", dist.Normal(0.9, 0.1))
    omega = numpyro.sample("omega", dist.Gamma(5, 0.25))
    e = numpyro.sample("e", dist.Normal(0, 1).expand([len(y)]))

    def step(h: Any, e: Any) -> Any:
        h = gamma + phi * h + e / jnp.sqrt(omega)
        return h, h

    _, later = jax.lax.scan(step, 2 * e[0], e[1:])
    h = numpyro.deterministic("h", jnp.concatenate([2 * e[:1], later]))
    numpyro.sample("y", dist.Normal(0, jnp.exp(h / 2)), obs=y)


def hidden_markov(y: Any) -> None:
    """See HiddenMarkov; the first state has no probability of its own."""
    mu = numpyro.sample("mu", dist.Normal(jnp.array([0.0, 2.0]), 0.5))
    tau = numpyro.sample("tau", dist.Gamma(2, 1))
    A = numpyro.sample("A", dist.Dirichlet(jnp.full((2, 2), 2.0)))
    seen = dist.Normal(mu, 1 / jnp.sqrt(tau)).log_prob(y[:, None])

    def step(mass: Any, seen: Any) -> Any:
        return logsumexp(mass[:, None] + jnp.log(A), axis=0) + seen, None

    numpyro.factor("y", logsumexp(jax.lax.scan(step, seen[0], seen[1:])[0]))


def nuts(model: Any, y: np.ndarray) -> dict[str, np.ndarray]:
    """Draws of every site, by its own name or with an index."""
    sampler = MCMC(NUTS(model), num_warmup=2000, num_samples=DRAWS, progress_bar=False)
    sampler.run(jax.random.PRNGKey(0), jnp.asarray(y))
    draws = {k: np.asarray(v) for k, v in sampler.get_samples().items()}
    for name in ("tau", "omega"):
        if name in draws:
            draws[f"log({name})"] = np.log(draws[name])
    for name, log in (("mu", "{}"), ("A", "log({})")):
        values = draws.pop(name, np.zeros((0, 0)))
        for index in np.ndindex(*values.shape[1:]) if len(values) else ():
            where = f"{name}[{','.join(map(str, index))}]"
            value = values[(slice(None), *index)]
            draws[log.format(where)] = value if name == "mu" else np.log(value)
    return draws


def main() -> None:
    """Fit, sample, and print both."""
    jax.config.update("jax_enable_x64", True)
    stated = runpy.run_path(str(Path(__file__).parents[1] / "examples" / "time_series.py"))
    models = {"LocalLevel": local_level, "Volatility": volatility, "HiddenMarkov": hidden_markov}
    for name, sampled in models.items():
        y = stated["simulated"](stated[name], LENGTH, SEED)
        begun = time.perf_counter()
        posterior = lrvb.infer(stated[name](), {"y": y}, certify=False)
        fitted = time.perf_counter() - begun
        begun = time.perf_counter()
        draws = nuts(sampled, y[0])
        print(f"{name}: {fitted:.1f} s cold, NUTS {time.perf_counter() - begun:.1f} s")
        table = posterior.summary()
        for quantity in table.index:
            mean, sd, alone = table.loc[quantity, ["mean", "sd", "mfvb_sd"]]
            truth = draws[quantity]
            ess = numpyro.diagnostics.effective_sample_size(truth[None])
            print(
                f"  {quantity:12s} bias {(mean - truth.mean()) / truth.std():+.2f}  sd ratio "
                f"{sd / truth.std():.2f}  mean field {alone / truth.std():.2f}  (ess {ess:.0f})"
            )
        for state in ("level", "h"):
            if state in draws:
                own, truth = posterior.local(state), draws[state]
                bias = np.abs(own["mean"][0].values - truth.mean(0)) / truth.std(0)
                ratio = own["sd"][0].values / truth.std(0)
                print(
                    f"  {state:12s} bias {np.median(bias):.2f} (worst {bias.max():.2f})  sd ratio "
                    f"{np.median(ratio):.2f} ({ratio.min():.2f} to {ratio.max():.2f})"
                )


if __name__ == "__main__":
    main()
