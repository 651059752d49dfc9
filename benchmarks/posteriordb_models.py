"""Harder models of posteriordb in NumPyro: hierarchies as their authors centred them, and an ODE.

`better=True` states the same posterior for NUTS: without the funnels of a centred hierarchy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from posteriordb_regressions import data

STEPS = 20  # of Runge and Kutta between two years


def _effects(name: str, mean: Any, sd: Any, n: int, better: bool) -> Any:
    """n effects N(mean, sd²) by that name, centred, or as a function of standard normal ones."""
    import numpyro
    import numpyro.distributions as dist

    if not better:
        return numpyro.sample(name, dist.Normal(mean, sd).expand([n]).to_event(1))
    raw = numpyro.sample(f"{name}_raw", dist.Normal(0.0, 1.0).expand([n]).to_event(1))
    return numpyro.deterministic(name, mean + sd * raw)


def rats(d: dict[str, Any], better: bool = False) -> None:
    """Growth of 30 rats: a line each, with flat priors on the three scales."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.distributions import constraints

    rat = jnp.asarray(d["rat"]) - 1
    level = numpyro.sample("mu_alpha", dist.Normal(0.0, 100.0))
    slope = numpyro.sample("mu_beta", dist.Normal(0.0, 100.0))
    noise, spread, tilt = (
        numpyro.sample(name, dist.ImproperUniform(constraints.positive, (), ()))
        for name in ("sigma_y", "sigma_alpha", "sigma_beta")
    )
    # Nine weighings a rat: centred is the better statement here.
    alpha = _effects("alpha", level, spread, 30, False)
    beta = _effects("beta", slope, tilt, 30, False)
    numpyro.deterministic("alpha0", level - d["xbar"] * slope)
    mean = alpha[rat] + beta[rat] * (d["x"] - d["xbar"])
    numpyro.sample("y", dist.Normal(mean, noise), obs=d["y"])


def seeds(d: dict[str, Any], better: bool = False) -> None:
    """Germination on 21 plates: a binomial regression with an effect of each plate."""
    import numpyro
    import numpyro.distributions as dist

    x1, x2 = d["x1"], d["x2"]
    a0, a1, a12, a2 = (
        numpyro.sample(name, dist.Normal(0.0, 1.0))
        for name in ("alpha0", "alpha1", "alpha12", "alpha2")
    )
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1.0))
    c = _effects("c", 0.0, sigma, 21, better)
    b = numpyro.deterministic("b", c - c.mean())
    logits = a0 + a1 * x1 + a2 * x2 + a12 * x1 * x2 + b
    numpyro.sample("n", dist.Binomial(d["N"], logits=logits), obs=d["n"])


def falcons(d: dict[str, Any], better: bool = False) -> None:
    """Counts of 40 years: a cubic in time and an effect of each year, centred."""
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    year = d["year"]
    alpha = numpyro.sample("alpha", dist.Uniform(-20.0, 20.0))
    b1 = numpyro.sample("beta1", dist.Uniform(-10.0, 10.0))
    b2 = numpyro.sample("beta2", dist.Uniform(-10.0, 20.0))
    b3 = numpyro.sample("beta3", dist.Uniform(-10.0, 10.0))
    sigma = numpyro.sample("sigma", dist.Uniform(0.0, 5.0))
    eps = _effects("eps", 0.0, sigma, 40, better)
    log_mean = alpha + b1 * year + b2 * year**2 + b3 * year**3 + eps
    numpyro.sample("C", dist.Poisson(jnp.exp(log_mean)), obs=d["C"])


def items(d: dict[str, Any], better: bool = False) -> None:
    """Answers of 100 people to 20 items, which differ in difficulty and discrimination."""
    import numpyro
    import numpyro.distributions as dist

    # The authors' statement is what NUTS is given too: its effective draws are enough.
    ability = numpyro.sample("sigma_theta", dist.HalfCauchy(2.0))
    theta = _effects("theta", 0.0, ability, int(d["J"]), False)
    spread = numpyro.sample("sigma_a", dist.HalfCauchy(2.0))
    a = numpyro.sample("a", dist.LogNormal(0.0, spread).expand([int(d["I"])]).to_event(1))
    mu = numpyro.sample("mu_b", dist.Normal(0.0, 5.0))
    b = _effects("b", mu, numpyro.sample("sigma_b", dist.HalfCauchy(2.0)), int(d["I"]), False)
    numpyro.sample("y", dist.Bernoulli(logits=a[:, None] * (theta - b[:, None])), obs=d["y"])


def lynxes(d: dict[str, Any], better: bool = False) -> None:
    """Pelts of lynxes and hares: Lotka's and Volterra's equation, with a false mode."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    scale = jnp.array([0.5, 0.05, 0.5, 0.05])
    center = jnp.array([1.0, 0.05, 1.0, 0.05])
    prior = dist.TruncatedNormal(center, scale, low=0.0)
    theta = numpyro.sample("theta", prior.to_event(1))
    first = dist.LogNormal(np.log(10.0), 1.0).expand([2]).to_event(1)
    begin = numpyro.sample("z_init", first)
    sigma = numpyro.sample("sigma", dist.LogNormal(-1.0, 1.0).expand([2]).to_event(1))

    def field(z: Any) -> Any:
        hare = (theta[0] - theta[1] * z[1]) * z[0]
        return jnp.stack([hare, (theta[3] * z[0] - theta[2]) * z[1]])

    def year(z: Any, h: Any) -> Any:
        def step(z: Any, _: Any) -> Any:
            k1 = field(z)
            k2 = field(z + h / 2 * k1)
            k3 = field(z + h / 2 * k2)
            return z + h / 6 * (k1 + 2 * k2 + 2 * k3 + field(z + h * k3)), None

        z, _ = jax.lax.scan(step, z, None, length=STEPS)
        return z, z

    _, path = jax.lax.scan(year, begin, np.diff(d["ts"], prepend=0.0) / STEPS)
    numpyro.sample("y_init", dist.LogNormal(jnp.log(begin), sigma), obs=d["y_init"])
    numpyro.sample("y", dist.LogNormal(jnp.log(path), sigma), obs=d["y"])


MODELS: dict[str, Callable[..., None]] = {
    "rats_data-rats_model": rats,
    "seeds_data-seeds_stanified_model": seeds,
    "GLMM_Poisson_data-GLMM_Poisson_model": falcons,
    "irt_2pl-irt_2pl": items,
    "hudson_lynx_hare-lotka_volterra": lynxes,
}
LONG = {  # where NUTS begins: near the true mode
    "hudson_lynx_hare-lotka_volterra": {
        "theta": np.array([0.55, 0.028, 0.8, 0.024]),
        "z_init": np.array([34.0, 6.0]),
        "sigma": np.array([0.25, 0.25]),
    }
}


def model(name: str, better: bool = False) -> Callable[[], None]:
    """One of MODELS with its data."""
    return partial(MODELS[name], data(name), better)
