"""What a stronger or weaker prior would do: powers of the prior and of the likelihood, by weights of draws.

With p(θ)^α in place of p(θ) a mean changes by Cov(q, log p(θ)) per unit of α, by log 2 as much per unit of
log₂ α; at any α by weights p(θ)^(α − 1). See: N. Kallioinen, T. Paananen, P.-C. Bürkner and A. Vehtari,
"Detecting and diagnosing prior and likelihood sensitivity", Statistics and Computing 34 (2024).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InvalidModel
from ..numerics.lazy import jnp
from ..numerics.pareto import smooth
from ..posterior.answering import Elsewhere, PriorChange
from ..posterior.hyperparameters import Hyperparameter, either_way
from ..posterior.weighted import WeightedDraws
from .density import LIKELIHOOD, Density
from .kernel import WIDE, Batched

PRIOR = "prior"
RELIABLE = 0.7
_LOG2 = "log2 power of "
CONFLICT = 0.1  # posterior sds per doubling, of prior and likelihood in opposite directions
_SAME = 1e-9  # relative: a site whose log density does not change with other sites


class Power(Hyperparameter):
    """log₂ of a power, 0 as the model stands."""

    def said(self, step: float) -> str:
        """A step in words."""
        return f"{self.name.removeprefix(_LOG2)} to the power {2**step:.3g}"


@dataclass(frozen=True, eq=False)
class PowerSensitivity:
    """The questions of `posterior.answering.PriorQuestions`, of draws x (n, D) and values T (n, a).

    Hyperparameters are log₂ of the power of the whole prior, of each site's, and of the likelihood; the
    prior is that of the sites that do not depend on others.
    """

    density: Density = field(repr=False)
    x: np.ndarray = field(repr=False)
    values: np.ndarray = field(repr=False)
    power: float = 2.0
    verifies: str = "weights of the draws"
    no_rows: str = "a log density is one number for all rows."

    def with_power(self, power: Any) -> PowerSensitivity:
        """The same with another step."""
        number = isinstance(power, int | float | np.number) and not isinstance(power, bool)
        if not (number and np.isfinite(power) and power > 0 and power != 1):
            raise InvalidModel(
                f"power={power!r} must be a positive number other than 1, such as 2."
            )
        return replace(self, power=float(power))

    @cached_property
    def sd(self) -> np.ndarray:
        """Of every coordinate, over the draws."""
        return self.values.std(axis=0)

    @cached_property
    def parts(self) -> dict[str, np.ndarray]:
        """Log densities (n,) at the draws: of the likelihood, each site's prior, and the whole prior."""
        stated = self.density.parts
        if stated is None:
            raise InvalidModel(
                f"Of {self.density.source} the prior is not known apart from the data, so that it has no "
                "powers: give from_log_density(f, start, log_prior=...), or sum discrete sites out by hand."
            )
        names: list[str] = []

        def flat(x: Any) -> Any:
            found = stated(x)
            names[:] = list(found)
            return jnp.stack([jnp.asarray(value, dtype=jnp.float64) for value in found.values()])

        batched = Batched(
            flat, self.density.size, f"The prior of {self.density.source}", WIDE, False
        )
        columns = batched(self.x)[0]
        found = dict(zip(names, columns.T, strict=True))
        for name, column in found.items():
            if not np.isfinite(column).all():
                raise InvalidModel(
                    f"The log density of '{name}' is not finite at some draws, so that it has no powers."
                )
        sites = [name for name in found if name != LIKELIHOOD]
        top = [n for n in sites if len(sites) == 1 or self._alone(n, sites, batched, names)]
        if not top:
            raise InvalidModel(f"Every prior of {self.density.source} depends on another's.")
        whole = np.sum([found[name] for name in top], axis=0)
        each = {name: found[name] for name in top} if len(top) > 1 else {}
        return {PRIOR: whole, **each, LIKELIHOOD: found[LIKELIHOOD]}

    def _alone(self, name: str, sites: list[str], batched: Batched, names: list[str]) -> bool:
        """Whether a site's log density changes with its own coordinates only."""
        own = [k for k, c in enumerate(self.density.coordinates) if _owner(c, sites) == name]
        first, other = self.x[:8], self.x[::-1][:8].copy()
        other[:, own] = first[:, own]
        at = names.index(name)
        before, after = batched(first)[0][:, at], batched(other)[0][:, at]
        return bool(np.all(np.abs(after - before) <= _SAME * (1 + np.abs(before))))

    def known(self) -> list[Hyperparameter]:
        """log₂ powers, each 0."""
        steps = either_way(float(np.log2(self.power)))
        return [Power(_said(name), 0.0, steps, lambda _: {}) for name in self.parts]

    def prior_changes(self, at: np.ndarray) -> list[PriorChange]:
        """Derivatives of the means and sds `at` in every hyperparameter."""
        found = map(self.prior_change, self.known())
        return [PriorChange(h, *(part[..., at] for part in parts)) for h, *parts in found]

    def prior_change(self, hyperparameter: Hyperparameter) -> PriorChange:
        """Derivatives of all means and sds per doubling."""
        T, n = self.values, len(self.values)
        score = np.log(2) * self._of(hyperparameter)
        score = (score - score.mean()) / n
        away = T - T.mean(axis=0)
        d_mean = score @ away
        d_sd = (score @ away**2) / (2 * np.where(self.sd > 0, self.sd, 1.0))
        found = [self._weights(hyperparameter, step) for step in hyperparameter.steps]
        center = T.mean(axis=0)
        at_steps = [
            w @ T - center if k <= RELIABLE else np.full_like(center, np.nan) for w, k in found
        ]
        return PriorChange(hyperparameter, d_mean, d_sd, np.array(at_steps))

    def refitted(self, hyperparameter: Hyperparameter, step: float, prob: float) -> Elsewhere:
        """What is found at the whole power, by smoothed weights of the draws."""
        w, k_hat = self._weights(hyperparameter, step)
        if not k_hat <= RELIABLE:
            raise InvalidModel(
                f"{hyperparameter.name} cannot be verified at power {2**step:g}: the weights have k_hat "
                f"{k_hat:.2f}. Take a power nearer to 1."
            )
        change = w @ self.values - self.values.mean(axis=0)
        return Elsewhere(change, *self._weighted(w).intervals(prob))

    def intervals(self, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals of all coordinates, over the draws."""
        n = len(self.values)
        return self._weighted(np.full(n, 1 / n)).intervals(prob)

    def _weighted(self, weights: np.ndarray) -> WeightedDraws:
        return WeightedDraws(self.values, weights, np.zeros((len(weights), 0, 0)))

    def _weights(self, hyperparameter: Hyperparameter, step: float) -> tuple[np.ndarray, float]:
        """Smoothed weights (n,) of the draws at another log₂ power, and their k̂."""
        log_w, k_hat = smooth((2.0**step - 1) * self._of(hyperparameter))
        return np.exp(log_w), k_hat

    def remark(self, names: list[str], at: np.ndarray) -> str:
        """Where prior and likelihood pull a mean in opposite directions, or "" ."""
        sd = np.where(self.sd > 0, self.sd, np.inf)
        changes = {h.name: self.prior_change(h).d_mean / sd for h in self.known()}
        prior, likelihood = (changes[_said(name)][at] for name in (PRIOR, LIKELIHOOD))
        both = np.minimum(np.abs(prior), np.abs(likelihood))
        found = np.flatnonzero((both > CONFLICT) & (prior * likelihood < 0))
        if not len(found):
            return ""
        k = found[np.argmax(both[found])]
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return (
            f"Prior and data disagree about {names[k]}{more}: twice the prior's power moves its mean by "
            f"{prior[k]:+.2g} sds, twice the likelihood's by {likelihood[k]:+.2g}."
        )

    def _of(self, hyperparameter: Hyperparameter) -> np.ndarray:
        return {_said(name): part for name, part in self.parts.items()}[hyperparameter.name]


def _owner(coordinate: str, sites: list[str]) -> str:
    """The site of a coordinate: `tau`, `tau[3]`, or as PyMC writes it, `tau_log__`."""
    base = coordinate.partition("[")[0]
    fitting = [
        site
        for site in sites
        if base == site or (base.startswith(f"{site}_") and base.endswith("__"))
    ]
    return max(fitting, key=len, default="")


def _said(name: str) -> str:
    return _LOG2 + (f"the {name}" if name in (PRIOR, LIKELIHOOD) else f"{name}'s prior")
