r"""A model of your own: failures of ten pumps, each with its own rate.

Pump n failed y_n times in t_n thousand hours. Its failure rate λ_n comes from a common
Gamma(shape, rate b) whose b is unknown:

    y_n | λ_n ~ Poisson(t_n λ_n),   λ_n | b ~ Gamma(shape, b),   b ~ Gamma(b_shape, b_rate).

Nothing here is part of the package: the blocks and two expected log densities are all it asks for.
The posterior of b is also known up to one integral, so the answer can be checked.
Data: Gaver and O'Muircheartaigh, Technometrics 29 (1987).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import lrvb

PUMPS = pd.DataFrame(
    {
        "failures": [5, 1, 5, 14, 3, 19, 1, 1, 4, 22],
        "hours": [94.3, 15.7, 62.9, 126.0, 5.24, 31.4, 1.05, 1.05, 2.1, 10.5],
    },
    index=pd.Index(range(1, 11), name="pump"),
)


class Pumps(lrvb.Model):
    """Poisson counts with gamma rates: a negative binomial model with its rates kept."""

    global_blocks = {"b": lrvb.Gamma()}
    local_blocks = {"rate": lrvb.Gamma()}

    def __init__(self, shape: float = 1.802, b_shape: float = 0.01, b_rate: float = 1.0):
        self.shape, self.b_shape, self.b_rate = shape, b_shape, b_rate

    def global_term(self, m: Any) -> Any:
        """E[log p(b)]."""
        return (self.b_shape - 1) * m.b.log_x - self.b_rate * m.b.x

    def local_term(self, m: Any, z: Any, row: Any) -> Any:
        """E[log p(y_n | λ_n) + log p(λ_n | b)]."""
        likelihood = row.failures * z.rate.log_x - row.hours * z.rate.x
        prior = self.shape * m.b.log_x + (self.shape - 1) * z.rate.log_x - m.b.x * z.rate.x
        return likelihood + prior


def exact(model: Pumps, data: pd.DataFrame) -> tuple[float, float]:
    """Mean and sd of b from its one-dimensional posterior, the rates integrated out."""
    b = np.linspace(1e-4, 20, 200_001)
    y, t = data["failures"].to_numpy(), data["hours"].to_numpy()
    log_density = (model.b_shape - 1 + len(y) * model.shape) * np.log(b) - model.b_rate * b
    for count, hours in zip(y, t, strict=True):
        log_density -= (model.shape + count) * np.log(b + hours)
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ b
    return float(mean), float(np.sqrt(weight @ (b - mean) ** 2))


def main() -> None:
    """Fit, compare with the exact answer, and look at single pumps."""
    model = Pumps()
    posterior = lrvb.infer(model, PUMPS)
    print(posterior.summary().round(3), end="\n\n")

    mean, sd = exact(model, PUMPS)
    print("b            mean     sd")
    print(f"exact       {mean:5.3f}  {sd:5.3f}")
    print(f"lrvb        {posterior.mean('b').item():5.3f}  {posterior.sd('b').item():5.3f}")
    print(f"mean field  {'':5}  {posterior.sd('b', method='mfvb').item():5.3f}", end="\n\n")

    rates = posterior.local("rate")
    print(rates[["mean", "sd", "mfvb_sd"]].to_dataframe().round(3))


if __name__ == "__main__":
    main()
