"""Hamiltonian Monte Carlo (NUTS) as a referee of the exact posteriors; NumPyro does the sampling.

It shares nothing with the quadratures but the statement of the models. A further model is one more
function: write it with NumPyro's primitives, call `sample`, and name its quantities.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from ...errors import InvalidModel, LrvbError
from ...numerics.double import in_double
from .ess import effective_sample_size

WARMUP, DRAWS = 500, 4000


@dataclass(frozen=True)
class Chain:
    """One chain of n draws of named scalar quantities."""

    draws: pd.DataFrame = field(repr=False)
    """(n, q), a column per quantity"""
    divergences: int
    """Draws whose trajectory left the region where the integrator is accurate"""

    @cached_property
    def ess(self) -> pd.Series:
        """Effective sample size of each quantity."""
        values = effective_sample_size(self.draws.to_numpy())
        return pd.Series(values, self.draws.columns, name="ess")

    def summary(self) -> pd.DataFrame:
        """Columns mean, sd, ess, mean_error, sd_error; the errors are Monte Carlo standard errors.

        That of the sd comes from the effective sample size of the squared deviations.
        """
        mean, sd = self.draws.mean(), self.draws.std()
        squares = (self.draws - mean) ** 2
        square_error = squares.std() / np.sqrt(effective_sample_size(squares.to_numpy()))
        return pd.DataFrame(
            {
                "mean": mean,
                "sd": sd,
                "ess": self.ess,
                "mean_error": sd / np.sqrt(self.ess),
                "sd_error": square_error / (2 * sd),
            }
        )


def normal_poisson(
    x: np.ndarray,
    y: np.ndarray,
    *,
    seed: int,
    beta_var: float = 10.0,
    tau_shape: float = 1.0,
    tau_rate: float = 1.0,
    warmup: int = WARMUP,
    draws: int = DRAWS,
) -> Chain:
    """Draws of β, τ, log τ and every z_n, named as in the exact posterior and z[n].

    See: eq:pn_model
    """
    numpyro, distributions = _numpyro()

    def model() -> None:
        beta = numpyro.sample("beta", distributions.Normal(0.0, beta_var**0.5))
        tau = numpyro.sample("tau", distributions.Gamma(tau_shape, tau_rate))
        z = numpyro.sample("z", distributions.Normal(beta * x, tau**-0.5))
        numpyro.sample("y", distributions.Poisson(jnp.exp(z)), obs=y)

    return _chain(*sample(model, seed=seed, warmup=warmup, draws=draws))


def random_slope(
    x: np.ndarray,
    r: np.ndarray,
    y: np.ndarray,
    group: np.ndarray,
    *,
    seed: int,
    beta_var: float = 10.0,
    tau_shape: float = 2.0,
    tau_rate: float = 2.0,
    nu_shape: float = 2.0,
    nu_rate: float = 2.0,
    warmup: int = WARMUP,
    draws: int = DRAWS,
) -> Chain:
    """Draws of β, τ, log τ, ν, log ν and every z_k in the order of the sorted group labels.

    See: sec:random_effects_model
    """
    numpyro, distributions = _numpyro()
    labels, k = np.unique(group, return_inverse=True)
    center = np.zeros(x.shape[1])

    def model() -> None:
        beta = numpyro.sample("beta", distributions.Normal(center, beta_var**0.5))
        tau = numpyro.sample("tau", distributions.Gamma(tau_shape, tau_rate))
        nu = numpyro.sample("nu", distributions.Gamma(nu_shape, nu_rate))
        z = numpyro.sample("z", distributions.Normal(np.zeros(len(labels)), nu**-0.5))
        numpyro.sample("y", distributions.Normal(x @ beta + r * z[k], tau**-0.5), obs=y)

    return _chain(*sample(model, seed=seed, warmup=warmup, draws=draws))


@in_double
def sample(
    model: Callable[[], None], *, seed: int, warmup: int, draws: int
) -> tuple[Mapping[str, np.ndarray], int]:
    """Draws of every unobserved site of a NumPyro model, (draws, ...), and the divergences."""
    if draws < 4 or warmup < 0:
        raise InvalidModel(
            f"draws={draws}, warmup={warmup}: a chain needs 4 draws or more, and no negative warmup."
        )
    numpyro, _ = _numpyro()
    chain = numpyro.infer.MCMC(
        numpyro.infer.NUTS(model), num_warmup=warmup, num_samples=draws, progress_bar=False
    )
    chain.run(jax.random.PRNGKey(seed), extra_fields=("diverging",))
    sites = {name: np.asarray(values) for name, values in chain.get_samples().items()}
    return sites, int(np.asarray(chain.get_extra_fields()["diverging"]).sum())


def _chain(sites: Mapping[str, np.ndarray], divergences: int) -> Chain:
    """Scalars with their names: beta[j] of a vector, and each precision with its logarithm."""
    columns: dict[str, np.ndarray] = {}
    for site in ("beta", "tau", "nu", "z"):
        if site not in sites:
            continue
        values = sites[site]
        if values.ndim == 2:
            columns.update({f"{site}[{j}]": values[:, j] for j in range(values.shape[1])})
        else:
            columns[site] = values
        if site in ("tau", "nu"):
            columns[f"log({site})"] = np.log(values)
    return Chain(pd.DataFrame(columns), divergences)


def _numpyro() -> tuple[Any, Any]:
    """NumPyro and its distributions, or what to install."""
    try:
        import numpyro
        import numpyro.distributions
    except ImportError as error:
        if (error.name or "").split(".")[0] != "numpyro":
            raise
        raise LrvbError(
            "lrvb.reference.nuts needs NumPyro, which is not installed: pip install 'lrvb[bench]'."
        ) from error
    return numpyro, numpyro.distributions
