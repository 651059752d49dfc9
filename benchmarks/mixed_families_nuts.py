"""Families of mixed models beside NUTS with the same priors: gaps of means in sds, ratios of sds.

    python benchmarks/mixed_families_nuts.py [family ...]

400 rows in 20 groups, y ~ x + (1|g), simulated. NUTS by NumPyro (the extra `numpyro`): one chain of 1000
warm-up and 4000 kept draws, levels sampled as effects of unit size times their sd. One line for each family:
the largest gap of a posterior mean in posterior sds, the smallest and largest ratio of sds, seconds of the
processor of both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS
from scipy.special import expit

import lrvb

ROWS, GROUPS = 400, 20
RNG = np.random.default_rng(12)
G, X = RNG.integers(0, GROUPS, ROWS), RNG.normal(size=ROWS)
ETA = 0.4 + 0.5 * X + 0.6 * RNG.normal(size=GROUPS)[G]
GATES = ("zi", "hurdle")  # probabilities of a zero
HALF = 10.0  # scale of the half-normal prior of a dispersion


class Case(NamedTuple):
    """The response, NumPyro's distribution of it given η and dispersions, and the dispersions' names."""

    y: np.ndarray
    likelihood: Callable[..., Any]
    dispersions: tuple[str, ...] = ()


def _beta(eta: Any, phi: Any) -> Any:
    mean = jax.nn.sigmoid(eta)
    return dist.Beta(mean * phi, (1 - mean) * phi)


class Hurdle(dist.Distribution):
    """Zero with probability `gate`, else a positive count of `base`."""

    support = dist.constraints.nonnegative_integer

    def __init__(self, base: Any, gate: Any) -> None:
        self.base, self.gate = base, gate
        super().__init__(base.batch_shape)

    def log_prob(self, y: Any) -> Any:
        """log p of the zeros and of the truncated counts."""
        some = jnp.log1p(-jnp.exp(self.base.log_prob(jnp.zeros_like(y))))
        positive = jnp.log1p(-self.gate) + self.base.log_prob(jnp.maximum(y, 1)) - some
        return jnp.where(y == 0, jnp.log(self.gate), positive)


def _counts(family: str, rng: np.random.Generator) -> Case:
    """Counts of a mean exp η, with zeros of another origin in a fifth of the rows or decided first."""
    zeros, over = family.split("_")[0], family.endswith("negbinomial")
    rate = np.exp(ETA + 0.6) * (rng.gamma(2.0, 1 / 2.0, ROWS) if over else 1.0)
    y = rng.poisson(rate)
    if zeros == "hurdle":
        while (none := y == 0).any():
            y[none] = rng.poisson(rate[none])
    if zeros in ("zero", "hurdle"):
        y = np.where(rng.uniform(size=ROWS) < 0.2, 0, y)

    def likelihood(eta: Any, *given: Any) -> Any:
        shape, gate = given[0] if over else None, given[-1]
        base = dist.NegativeBinomial2(jnp.exp(eta), shape) if over else dist.Poisson(jnp.exp(eta))
        if zeros == "hurdle":
            return Hurdle(base, gate)
        return dist.ZeroInflatedDistribution(base, gate=gate) if zeros == "zero" else base

    gates = {"zero": ("zi",), "hurdle": ("hurdle",)}.get(zeros, ())
    return Case(y.astype(float), likelihood, (("shape",) if over else ()) + gates)


COUNTS = (
    "negbinomial",
    "zero_inflated_poisson",
    "zero_inflated_negbinomial",
    "hurdle_poisson",
    "hurdle_negbinomial",
)


def cases() -> dict[str, Case]:
    """Every family here, with its data."""
    rng, place = np.random.default_rng(3), ETA - 0.4 + RNG.logistic(size=ROWS)
    ones = rng.uniform(size=ROWS)
    return {
        "bernoulli(probit)": Case(
            (ones < np.asarray(jax.scipy.stats.norm.cdf(ETA))).astype(float),
            lambda eta: dist.Bernoulli(jax.scipy.stats.norm.cdf(eta)),
        ),
        "bernoulli(cloglog)": Case(
            (ones < -np.expm1(-np.exp(ETA - 0.8))).astype(float),
            lambda eta: dist.Bernoulli(-jnp.expm1(-jnp.exp(eta))),
        ),
        "gamma": Case(
            np.exp(ETA) * rng.gamma(3.0, 1 / 3, ROWS),
            lambda eta, shape: dist.Gamma(shape, shape * jnp.exp(-eta)),
            ("shape",),
        ),
        "lognormal": Case(
            np.exp(ETA + 0.5 * rng.normal(size=ROWS)),
            lambda eta, residual: dist.LogNormal(eta, residual),
            ("residual",),
        ),
        "beta": Case(rng.beta(8 * expit(ETA), 8 * expit(-ETA)), _beta, ("phi",)),
        "student": Case(
            ETA + 0.5 * rng.standard_t(4, size=ROWS),
            lambda eta, sigma, df: dist.StudentT(df, eta, sigma),
            ("sigma", "df"),
        ),
        "cumulative": Case(
            1.0 + (place > -1) + (place > 0.5) + (place > 1.5),
            lambda eta, threshold: dist.OrderedLogistic(eta, threshold),
            ("threshold",),
        ),
        **{family: _counts(family, np.random.default_rng(5)) for family in COUNTS},
    }


def ours(family: str, case: Case) -> tuple[lrvb.MixedModel, float]:
    """The fit, and seconds of the processor."""
    priors: dict[str, Any] = {"fixed": lrvb.prior.Normal(0, 5), "1|g": lrvb.prior.HalfNormal(1.0)}
    special = {"threshold": lrvb.prior.Normal(0, 5), "df": lrvb.prior.Gamma(2, 0.1)}
    special |= {gate: lrvb.prior.Beta(1, 1) for gate in GATES}
    for name in case.dispersions:
        priors[name] = special.get(name, lrvb.prior.HalfNormal(HALF))
    start = time.process_time()
    model = lrvb.MixedModel("y ~ x + (1|g)", family, priors).fit({"y": case.y, "x": X, "g": G})
    return model, time.process_time() - start


def nuts(case: Case) -> tuple[dict[str, np.ndarray], float]:
    """Draws by the names of ours, and seconds of the processor."""

    def model() -> None:
        ordinal = case.dispersions == ("threshold",)
        slope = numpyro.sample("x", dist.Normal(0, 5))
        level = 0.0 if ordinal else numpyro.sample("Intercept", dist.Normal(0, 5))
        sd = numpyro.sample("sd[1|g]", dist.HalfNormal(1.0))
        effects = numpyro.sample("z", dist.Normal(0, 1).expand([GROUPS]))
        given = []
        for name in case.dispersions:
            if name == "df":
                df = numpyro.sample(
                    "df", dist.ImproperUniform(dist.constraints.greater_than(1.0), (), ())
                )
                numpyro.factor("df prior", dist.Gamma(2.0, 0.1).log_prob(df))
                given.append(df)
            elif name == "threshold":
                ordered = dist.constraints.ordered_vector
                t = numpyro.sample("threshold", dist.ImproperUniform(ordered, (), (3,)))
                # the prior of ours is of thresholds at the mean of x
                numpyro.factor("t prior", dist.Normal(0, 5).log_prob(t - slope * X.mean()).sum())
                given.append(t)
            elif name in GATES:
                given.append(numpyro.sample(name, dist.Beta(1.0, 1.0)))
            else:
                given.append(numpyro.sample(name, dist.HalfNormal(HALF)))
        eta = level + slope * X + sd * effects[G]
        y = (case.y - 1).astype(int) if ordinal else case.y
        numpyro.sample("y", case.likelihood(eta, *given), obs=jnp.asarray(y))

    start = time.process_time()
    run = MCMC(NUTS(model), num_warmup=1000, num_samples=4000, progress_bar=False)
    run.run(jax.random.PRNGKey(0))
    found = {name: np.asarray(part) for name, part in run.get_samples().items()}
    found.pop("z")
    if "residual" in found:
        found["sd[residual]"] = found.pop("residual")
    if "threshold" in found:
        t = found.pop("threshold")
        found |= {f"threshold[{k + 1}]": t[:, k] for k in range(t.shape[1])}
    return found, time.process_time() - start


def main(asked: list[str]) -> None:
    """One line for each family."""
    numpyro.enable_x64()
    every = cases()
    print("| family | gap of means, sds | ratio of sds | ours, s | NUTS, s |")
    print("| --- | --- | --- | --- | --- |")
    for family in asked or list(every):
        model, seconds = ours(family, every[family])
        draws, long = nuts(every[family])
        names = list(draws)
        mean, sd = model.posterior_.mean(names), model.posterior_.sd(names)
        gap = max(abs(mean[k] - draws[k].mean()) / draws[k].std() for k in names)
        ratio = [sd[k] / draws[k].std() for k in names]
        print(
            f"| `{family}` | {gap:.2f} | {min(ratio):.2f}–{max(ratio):.2f} | {seconds:.1f} | {long:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
