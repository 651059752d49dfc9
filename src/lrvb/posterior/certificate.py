"""Certificate: weighted draws of the exact posterior, and what they say of linear response's answer."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidModel
from ..numerics.double import in_double
from ..numerics.hmc import r_hat
from ..numerics.lazy import jax
from ..numerics.pareto import fit as fit_pareto
from ..numerics.pareto import smooth
from .blocks import FamilyBlock, RealBlock
from .estimate import Estimate
from .intervals import check_probability
from .polish import Polish
from .verdicts import REPAIRED, TAIL, TRUST, Compared, Draws, judge

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Certificate:
    """Draws of T(α) (n, a) from the exact posterior, with normalised weights (n,), and their quality.

    `method` is "importance" or "hmc"; `exact` whether the density is (rows linear in z) or a bound;
    `k_hat` judges the weights and `ess` counts the effective draws. `log_evidence` is log p(x) with its
    Monte Carlo error. `chains` is the number of HMC chains, 0 for weights; `others` the share of the
    evidence of a mode that the draws have not seen, `relabelled` whether symmetric copies were seen.
    `polish` is there where HMC had control variates: then the weights are theirs, some may be negative,
    and tables show these numbers.
    """

    estimate: Estimate
    statistics: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    method: str
    exact: bool
    k_hat: float
    ess: float
    log_evidence: float
    log_evidence_error: float
    chains: int = 0
    others: float = 0.0
    relabelled: bool = False
    polish: Polish | None = None

    @property
    def names(self) -> list[str]:
        """Every named quantity."""
        return list(self.estimate.index)

    @cached_property
    def mean(self) -> np.ndarray:
        """E T, (a,)."""
        return self.weights @ self.statistics

    @cached_property
    def cov(self) -> np.ndarray:
        """Cov T, (a, a)."""
        centered = self.statistics - self.mean
        return (centered * self.weights[:, None]).T @ centered

    def summary(self, prob: float = 0.94) -> pd.DataFrame:
        """Certified numbers beside linear response's, and a verdict with its reason, a row a quantity.

        `lower` and `upper` are quantiles of the draws; `shift` is in certified sds, `ratio` linear
        response's sd over the certified, `mcse` the Monte Carlo error of the mean. Where the sd is not
        finite it is not a number.
        """
        import pandas as pd

        check_probability("prob", prob)
        found = self._compared
        ends = np.array([0.5 - prob / 2, 0.5 + prob / 2])
        lower, upper = np.array([_quantiles(v, self.weights, ends) for v in self._values.T]).T
        verdicts = self.verdicts
        finite = self._finite
        result = pd.DataFrame(
            {
                "mean": found.mean,
                "sd": np.where(finite, found.sd, np.nan),
                "lower": lower,
                "upper": upper,
                "lrvb_mean": found.lrvb_mean,
                "lrvb_sd": found.lrvb_sd,
                "shift": found.shift,
                "ratio": np.where(finite, found.ratio, np.nan),
                "mcse": found.mean_error,
                "verdict": [v for v, _ in verdicts],
                "why": [w for _, w in verdicts],
            },
            index=pd.Index(self.names),
        )
        if self.polish is not None:
            columns = {"gap": self.polish.gap(found), "r_hat": self.polish.r_hat}
            for name, column in {**columns, "ess": self.polish.ess}.items():
                result.insert(result.columns.get_loc("verdict"), name, column)
        if self.relabelled:
            result.attrs["note"] = "Local to one labelling: the posterior has symmetric copies."
        return result

    @cached_property
    def verdicts(self) -> list[tuple[str, str]]:
        """Verdict and reason of every named quantity."""
        if self.polish is not None:
            return self.polish.judge(self._compared, self.others)
        draws = Draws(self.method, self.exact, self.k_hat, self.ess, self.others)
        return judge(draws, self._compared)

    @cached_property
    def unsettled(self) -> int:
        """Quantities that are neither trusted nor repaired, were the density exact."""
        draws = Draws(self.method, True, self.k_hat, self.ess)
        return sum(verdict not in (TRUST, REPAIRED) for verdict, _ in judge(draws, self._compared))

    @property
    def r_hat(self) -> pd.Series | None:
        """Split R̂ of every named quantity; None for weights, which have no chains."""
        import pandas as pd

        if not self.chains:
            return None
        return pd.Series(self._compared.quality, index=self.names, name="r_hat")

    @property
    def modes(self) -> tuple[float, ...]:
        """log evidence of every mode found, less that of the one answered from."""
        return () if self.polish is None else self.polish.modes

    @property
    def gradients(self) -> int | None:
        """Gradients of the log density that the whole answer took, where they were counted."""
        return None if self.polish is None else self.polish.gradients

    @property
    def seconds(self) -> float | None:
        """Seconds that the whole answer took, compilation included, where they were measured."""
        return None if self.polish is None else self.polish.seconds

    @in_double
    def of(self, f: Callable[[Any], Any], prob: float = 0.94) -> pd.DataFrame:
        """`mean, sd, lower, upper` of any function of the global variables, written with their moments.

        At the moments of a single point, f(m) is the function itself: `lambda m: m.beta.x / m.tau.x`.
        """
        import pandas as pd

        check_probability("prob", prob)
        at = jax.vmap(lambda T: jax.numpy.ravel(f(self.estimate.moments(T))))
        values = np.asarray(at(self.statistics))
        mean = self.weights @ values
        sd = np.sqrt(self.weights @ (values - mean) ** 2)
        ends = np.array([0.5 - prob / 2, 0.5 + prob / 2])
        lower, upper = np.array([_quantiles(v, self.weights, ends) for v in values.T]).T
        return pd.DataFrame({"mean": mean, "sd": sd, "lower": lower, "upper": upper})

    def draws(self, n: int, seed: Any = 0) -> dict[str, np.ndarray]:
        """n draws of every global block, resampled by their weights, shape (n, *batch, *shape)."""
        require_whole("n", n, 1)
        require_whole("seed", seed, 0)
        rng = np.random.default_rng(seed)
        ladder = (np.arange(n) + rng.random()) / n
        edges = np.cumsum(self._shares)
        chosen = np.minimum(np.searchsorted(edges, ladder * edges[-1]), len(edges) - 1)
        T = self.statistics[rng.permutation(chosen)]
        values = {}
        for name, block in self.estimate.blocks.items():
            if isinstance(block, RealBlock):
                values[name] = block.constrain(T[:, self.estimate.slices[name]])
                continue
            if not isinstance(block, FamilyBlock):
                raise InvalidModel(
                    f"Block '{name}' has no family, so that it has no certified draws."
                )
            values[name] = block.values(T[:, self.estimate.slices[name]])
        return values

    def to_arviz(self, n: int = 1000, seed: Any = 0) -> Any:
        """ArviZ's container with the resampled draws."""
        from ..bridges.arviz import draws_to_arviz

        return draws_to_arviz(self.draws(n, seed))

    def __repr__(self) -> str:
        counts: dict[str, int] = {}
        for verdict, _ in self.verdicts:
            counts[verdict] = counts.get(verdict, 0) + 1
        found = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
        quality = f"k-hat {self.k_hat:.2f}, " if self.method == "importance" else ""
        quality += f"{self.ess:.0f} effective draws" + ("" if self.exact else ", of a bound")
        return f"<lrvb.Certificate by {self.method}: {quality}; {found}>"

    # ---- what the verdicts stand on -------------------------------------------------------

    @property
    def _shares(self) -> np.ndarray:
        """Weights in whose proportion draws may be drawn again: of chains, equal ones."""
        return (
            self.weights
            if self.polish is None
            else np.full(len(self.weights), 1 / len(self.weights))
        )

    @cached_property
    def _values(self) -> np.ndarray:
        return self.statistics[:, list(self.estimate.index.values())]

    @cached_property
    def _compared(self) -> Compared:
        at = list(self.estimate.index.values())
        mean, sd = self.mean[at], np.sqrt(np.diag(self.cov)[at])
        mean_error, sd_error, spread = self._errors(mean, sd)
        return Compared(
            mean,
            sd,
            self.estimate.m[at],
            np.sqrt(np.diag(self.estimate.Sigma)[at]),
            mean_error,
            sd_error,
            np.array([_tail_index(v, self._shares) for v in self._values.T]),
            spread,
        )

    @property
    def _finite(self) -> np.ndarray:
        return self._compared.tail <= TAIL

    def _errors(
        self, mean: np.ndarray, sd: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Standard errors of means and sds, and `Compared.quality`.

        Errors of chains come from the spread of their averages.
        """
        if self.polish is not None:
            return self.polish.mean_error, self.polish.sd_error, self.polish.r_hat
        centered = self._values - mean
        half = (centered**2 - sd**2) / (2 * np.where(sd > 0, sd, 1.0))
        if not self.chains:
            square = self.weights**2
            quality = np.array([_product_index(self.weights, d**2) for d in centered.T])
            return np.sqrt(square @ centered**2), np.sqrt(square @ half**2), quality
        shape = (-1, self.chains, len(mean))
        averages = [part.reshape(shape).mean(axis=0) for part in (centered, half)]
        errors = [a.std(axis=0, ddof=1) / np.sqrt(self.chains) for a in averages]
        return errors[0], errors[1], r_hat(self._values.reshape(shape))


def require_whole(name: str, value: Any, least: int) -> None:
    """A whole number, at least so large."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise InvalidModel(f"{name}={value!r} must be a whole number, {least} or more.")


def _quantiles(values: np.ndarray, weights: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Weighted quantiles, linear between the middles of the steps."""
    order = np.argsort(values)
    w = weights[order]
    return np.interp(p, np.maximum.accumulate(np.cumsum(w) - w / 2), values[order])


def _product_index(weights: np.ndarray, values: np.ndarray) -> float:
    """k̂ of the products of weights and values, −∞ where all values are zero."""
    product = weights * values
    positive = product[product > 0]
    return smooth(np.log(positive))[1] if len(positive) > 1 else -np.inf


def _tail_index(values: np.ndarray, weights: np.ndarray) -> float:
    """Index of the heavier tail of weighted draws, of a generalised Pareto beyond their outer quantiles.

    From the 1 % to 20 % of an equally weighted resample, as many as 3√n; −1 without a spread.
    """
    n = int(np.clip(1 / (weights**2).sum(), 50, 4000))
    edges = np.cumsum(weights[order := np.argsort(values)])
    picked = np.minimum(
        np.searchsorted(edges, (np.arange(n) + 0.5) / n * edges[-1]), len(edges) - 1
    )
    x = values[order][picked]
    size = int(np.ceil(min(n / 5, 3 * np.sqrt(n))))
    found = -1.0
    for tail in (x[-size:] - x[-size - 1], x[size] - x[:size][::-1]):
        tail = np.unique(tail[tail > 0])
        if len(tail) >= 20 and tail[0] < tail[-1]:
            found = max(found, float(fit_pareto(tail)[0]))
    return found
