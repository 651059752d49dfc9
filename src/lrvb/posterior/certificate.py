"""Certificate: weighted draws of the exact posterior, and what they say of linear response's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidModel
from ..numerics.double import in_double
from ..numerics.hmc import r_hat
from ..numerics.lazy import jax, jnp
from .arguments import require_whole
from .blocks import FamilyBlock, RealBlock
from .control import FEW, Control
from .estimate import Estimate
from .intervals import check_probability
from .polish import Polish
from .rivals import Rivals
from .tails import hanging, tail_index, unseen_square
from .unknown import half, unknown
from .verdicts import K_HAT, MODE, REPAIRED, ROUGH, TAIL, TRUST, Compared, Draws, judge
from .weighted import weighted_quantiles

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Certificate:
    """Draws of T(α) (n, a) from the exact posterior, with normalised weights (n,), and their quality.

    `method` is "importance" or "hmc"; `exact` whether the density is (rows linear in z) or a bound;
    `k_hat` judges the weights and `ess` counts the effective draws. `log_evidence` is log p(x) with its
    Monte Carlo error. `chains` is the number of HMC chains, 0 for weights; `others` the share of the
    evidence of a mode that the draws have not seen, `relabelled` whether symmetric copies were seen.
    `looked` is whether other modes were looked for at all. Averages of chains lean on control variates:
    `errors` (2, q) are then the Monte Carlo errors of means and sds, and some weights may be negative.
    `far` (q,) are tail indices of the density itself beyond the draws. With a `control` averages are those of
    a normal, and the draws say how the posterior differs from it.
    `polish` is there where HMC is the answer itself, and tables show its numbers.
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
    looked: bool = True
    errors: np.ndarray | None = field(default=None, repr=False)
    far: np.ndarray | None = field(default=None, repr=False)
    control: Control | None = field(default=None, repr=False)
    rivals: Rivals | None = field(default=None, repr=False)

    @property
    def names(self) -> list[str]:
        """Every named quantity."""
        return list(self.estimate.index)

    @cached_property
    def mean(self) -> np.ndarray:
        """E T, (a,)."""
        return self._measure @ self._places

    @cached_property
    def cov(self) -> np.ndarray:
        """Cov T, (a, a)."""
        centered = self._places - self.mean
        return (centered * self._measure[:, None]).T @ centered

    def summary(self, prob: float = 0.94) -> pd.DataFrame:
        """Certified numbers beside linear response's, and a verdict with its reason, a row a quantity.

        `lower` and `upper` are quantiles of the draws; `shift` is in certified sds, `ratio` linear
        response's sd over the certified, `mcse` the Monte Carlo error of the mean. Where the sd is not
        finite it is not a number.
        """
        check_probability("prob", prob)
        found = self._compared
        result = self._table(self._values, found, self.verdicts, self.names, prob)
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
            hangs = hanging(self._values, self._compared.tail > TAIL)
            return self.polish.judge(self._compared, self.others, hangs)
        draws = Draws(self.method, self.exact, self.k_hat, self.ess, self.others, self.looked)
        return judge(draws, self._compared)

    @property
    def asks_again(self) -> bool:
        """Whether a second run of HMC could confirm what linear response does not."""
        polish = self.polish
        return polish is not None and self.others < MODE and polish.asks_again(self._compared)

    @cached_property
    def unsettled(self) -> int:
        """Quantities that are neither trusted nor repaired, were the density exact."""
        draws = Draws(self.method, True, self.k_hat, self.ess)
        return sum(verdict not in (TRUST, REPAIRED) for verdict, _ in judge(draws, self._compared))

    @property
    def rough(self) -> np.ndarray:
        """Which named quantities lean on so few squares that better draws are to be made, (q,).

        Those that differ from linear response's from a small k̂ of the squares on; those that agree from where
        the Monte Carlo error of an sd is not known itself.
        """
        if self.method != "importance":
            return np.zeros(len(self.names), dtype=bool)
        trusted = np.array([verdict == TRUST for verdict, _ in self.verdicts])
        return ~(self._compared.quality < np.where(trusted, K_HAT, ROUGH))

    @property
    def tail_index(self) -> pd.Series:
        """Index of every named quantity's heavier tail: from ½ on no sd is finite, from 1 on no mean."""
        import pandas as pd

        return pd.Series(self._compared.tail, index=self.names, name="tail_index")

    @property
    def heavy(self) -> np.ndarray:
        """Which named quantities have no finite sd for all that the draws can say."""
        return self._compared.tail > TAIL

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

    def after(self, neck: np.ndarray, gradients: int, seconds: float) -> Certificate:
        """The same with a last look at necks, and what the whole answer took."""
        assert self.polish is not None
        last = replace(self.polish, neck=neck, gradients=gradients, seconds=seconds)
        return replace(self, polish=last)

    @in_double
    def of(
        self, f: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]], prob: float = 0.94
    ) -> pd.DataFrame:
        """Any function of the global variables, written with their moments, as a row of `summary`.

        At the moments of a single point, f(m) is the function itself: `lambda m: m.beta.x / m.tau.x`.
        Linear response's answer beside it is f of the means with sd √(∇fᵀΣ̂∇f). With names,
        `{"ratio": lambda m: ...}`, rows have them, a number each.
        """
        check_probability("prob", prob)
        functions = f if isinstance(f, Mapping) else {"": f}
        if not functions:
            raise InvalidModel("of has no function: give of(f), or of({'name': f}).")
        variances = [self.estimate.of(_raveled(one)) for one in functions.values()]
        parts = [np.sqrt(np.diag(np.atleast_2d(variance))) for variance in variances]
        for name, part in zip(functions, parts, strict=True):
            if isinstance(f, Mapping) and len(part) != 1:
                raise InvalidModel(f"The function '{name}' gives an array; give one number a name.")
        flat = [self.estimate.flat(one) for one in functions.values()]
        values = np.hstack([np.asarray(jax.vmap(one)(self._places)) for one in flat])
        lrvb_mean = np.concatenate([np.asarray(one(self.estimate.m)) for one in flat])
        far = self.rivals and np.hstack([np.asarray(jax.vmap(one)(self.rivals.T)) for one in flat])
        found = self._compare(values, lrvb_mean, np.concatenate(parts), far)
        names = list(functions) if isinstance(f, Mapping) else range(len(lrvb_mean))
        return self._table(values, found, self._judged(values, found), names, prob)

    def _judged(self, values: np.ndarray, found: Compared) -> list[tuple[str, str]]:
        """Verdicts on functions of the quantities (n, p), by the same rules as the quantities'."""
        if self.polish is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                ess = (found.sd / found.mean_error) ** 2
            own = replace(
                self.polish,
                r_hat=found.quality,
                ess=np.where(found.mean_error > 0, ess, np.inf),
                mean_error=found.mean_error,
                sd_error=found.sd_error,
                second=self.polish.between_runs(values, self.chains),
                neck=None,
            )
            endless = np.concatenate([self._compared.tail, found.tail]) > TAIL
            hangs = hanging(np.hstack([self._values, values]), endless)[-len(found.tail) :]
            return own.judge(found, self.others, hangs)
        draws = Draws(self.method, self.exact, self.k_hat, self.ess, self.others, self.looked)
        return judge(draws, found)

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
        n = len(self.weights)
        return np.full(n, 1 / n) if self.chains or self.polish is not None else self.weights

    @cached_property
    def _places(self) -> np.ndarray:
        """T of all that is averaged over: the draws, and points of the control."""
        if self.control is None:
            return self.statistics
        return np.concatenate([self.statistics, self.control.known])

    @cached_property
    def _measure(self) -> np.ndarray:
        """Weights of `_places`; with a control some are negative."""
        return self.weights if self.control is None else self.control.weights(self.weights)

    @cached_property
    def _values(self) -> np.ndarray:
        return self._places[:, list(self.estimate.index.values())]

    @cached_property
    def _compared(self) -> Compared:
        at = list(self.estimate.index.values())
        sd = np.sqrt(np.diag(self.estimate.Sigma)[at])
        far = None if self.rivals is None else self.rivals.T[:, at]
        found = self._compare(self._values, self.estimate.m[at], sd, far)
        if self.polish is not None:
            polish = self.polish
            tail = found.tail if polish.tail is None else polish.tail
            unseen = [unseen_square(v, k) for v, k in zip(self._values.T, tail, strict=True)]
            sd_error = np.maximum(polish.sd_error, 0.5 * np.array(unseen) * found.sd)
            errors = {"mean_error": polish.mean_error, "sd_error": sd_error}
            found = found._replace(**errors, tail=tail, quality=polish.r_hat)
        elif self.errors is not None:
            found = found._replace(mean_error=self.errors[0], sd_error=self.errors[1])
        if self.far is not None:
            tail = np.maximum(found.tail, self.far)
            found = found._replace(tail=tail, heavy=self.far > TAIL)
        return found

    def _compare(
        self,
        values: np.ndarray,
        lrvb_mean: np.ndarray,
        lrvb_sd: np.ndarray,
        far: np.ndarray | None,
    ) -> Compared:
        """Averages over the draws of values (n, q) beside linear response's; `far` (k, q) at the rivals.

        Errors of chains come from the spread of their averages. Of a constant linear response knows the
        value but for rounding.
        """
        varies = np.ptp(values, axis=0) > 0
        mean = np.where(varies, self._measure @ values, values[0])
        centered = values - mean
        lrvb_mean = np.where(varies | ~np.isclose(lrvb_mean, mean), lrvb_mean, mean)
        lrvb_sd = np.where(varies | (lrvb_sd > 1e-9 * np.abs(mean)), lrvb_sd, 0.0)
        variance = self._measure @ centered**2
        if self.control is not None and (variance < 0).any():  # of a function it does not know
            n = len(self.weights)
            return replace(self, control=None)._compare(values[:n], lrvb_mean, lrvb_sd, far)
        sd = np.sqrt(variance)
        if self.chains:
            shape = (-1, self.chains, len(mean))
            averages = [part.reshape(shape).mean(axis=0) for part in (centered, half(centered, sd))]
            errors = [a.std(axis=0, ddof=1) / np.sqrt(self.chains) for a in averages]
            quality = r_hat(values.reshape(shape))
        else:
            quality, errors = unknown(self.weights, self.control, values, mean, sd)
        tail = np.array([self._tail(v) for v in values.T])
        light = np.zeros(len(mean), dtype=bool)
        left = None
        if self.rivals is not None and far is not None:
            n = len(self.weights)
            left = self.rivals.unseen(far, mean, sd, values[:n], self._shares)
        ours = (errors[0], errors[1], tail, quality, light, left)
        return Compared(mean, sd, lrvb_mean, lrvb_sd, *ours)

    def _tail(self, values: np.ndarray) -> float:
        """Index of the tail of values at the draws, or where those are few at the points of the control."""
        n = len(self.weights)
        if self.control is None or n >= FEW:
            return tail_index(values[:n], self._shares)
        known = values[n:]
        return tail_index(known, np.full(len(known), 1 / len(known)))

    def _table(
        self,
        values: np.ndarray,
        found: Compared,
        verdicts: list[tuple[str, str]],
        names: Any,
        prob: float,
    ) -> pd.DataFrame:
        import pandas as pd

        ends = np.array([0.5 - prob / 2, 0.5 + prob / 2])
        lower, upper = np.array([weighted_quantiles(v, self._measure, ends) for v in values.T]).T
        finite = found.tail <= TAIL
        return pd.DataFrame(
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
            index=pd.Index(names),
        )


def _raveled(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f with a flat value."""
    return lambda m: jnp.ravel(jnp.asarray(f(m)))
