"""Likelihood: how a response follows from its linear predictor, and all that is asked about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from ..errors import InvalidData
from ..numerics.functions import NUMPY
from ..numerics.hermite import hermite
from .dispersion import Dispersion
from .expectation import Expectation, expect
from .given import NOTHING, Given, take
from .links import Link
from .quantiles import averaged_quantile
from .totals import Totals
from .values import Values

_STEP = 5e-3  # of central differences, of the distance on which log p changes: second ones to 1e-10

#: (column, row, value, problem, remedy) → the error that names them.
Refuse = Callable[[str, int, Any, str, str], Exception]


class Likelihood:
    """p(y | η, given) of a row, smooth in η and, unless it says otherwise, concave; shapes broadcast.

    State `name`, `link`, `log_p`, `variance` and `cdf`. Expectations over a normal η and their
    derivatives, quantiles, draws and starts follow; an override is for speed or precision, and the
    laws hold it against what is derived here.
    """

    name: str
    link: Link
    #: the links that it can have, where there are several: "family(link)" is its name with another
    links: ClassVar[tuple[Link, ...]] = ()
    #: columns of the data besides the response that a row brings, such as trials
    extras: ClassVar[tuple[str, ...]] = ()
    dispersions: tuple[Dispersion, ...] = ()
    #: whether y is a whole number
    discrete: ClassVar[bool] = False
    #: whether y is 0 or 1 in every row
    binary: ClassVar[bool] = False
    #: whether log p = −½(w − η)²/sd² in η with the dispersion sd and w = `working`(y): then nothing
    #: needs iterating
    quadratic: ClassVar[bool] = False
    #: whether log p is concave in η whatever is given, so that a level's effects have one mode
    concave: ClassVar[bool] = True
    #: whether p depends on y − η alone (of a quadratic one, on w − η)
    translates: ClassVar[bool] = False
    #: whether the fixed effects may have an intercept; otherwise a dispersion carries the level
    intercept: ClassVar[bool] = True
    #: whether y must vary: one that is the same in every row tells nothing
    varies: ClassVar[bool] = False
    #: whether y is the number of a category, with `probabilities` of each
    categorical: ClassVar[bool] = False
    #: the dispersion whose first coordinate does to log p what η does with the other sign
    moves: ClassVar[str] = ""
    #: the dispersion that has a part of log p for itself, without η: `part`
    apart: str = ""
    #: what one value of the kernel costs, beside an exponential and a logarithm
    cost: ClassVar[float] = 1.0
    #: whether its tails are no heavier than those of a Poisson variable with the same mean
    light_tails: ClassVar[bool] = False
    #: where log p = yη − A(e^η) but for the constant: "rate" for A(e) = e, "odds" for A(e) =
    #: trials · log(1 + e), "shape" for (y + shape) · log(1 + e/shape) and what depends on the dispersion
    #: shape alone; sums over many η of the same rows then need few exponentials
    exponential: str = ""

    def dispersions_of(self, y: Values) -> tuple[Dispersion, ...]:
        """The dispersions of a response with these values: as many thresholds as they need."""
        return self.dispersions

    # ---- the density ----------------------------------------------------------------------

    def log_p(self, y: Any, eta: Any, given: Given = NOTHING, xp: Any = NUMPY) -> Any:
        """log p(y | η), normalised, written with the functions of `xp`."""
        raise NotImplementedError

    def constant(self, y: Any, given: Given = NOTHING) -> Any:
        """What log p has that depends neither on η nor on a dispersion, of every row."""
        return np.zeros(np.shape(y))

    def kernel(self, y: Any, eta: Any, given: Given = NOTHING) -> Any:
        """log p(y | η) but for the constant, for sums that ask for many η of the same rows."""
        return self.log_p(y, eta, given, NUMPY) - self.constant(y, given)

    def linear(self, y: np.ndarray) -> np.ndarray | None:
        """w (N,) with kernel = wη + `rest`, a function of e^η; None where there is no such form."""
        return None

    def rest(self, y: np.ndarray, e: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The kernel less wη of rows (N,) at e^η (…, N), which may be written over. See: linear."""
        raise NotImplementedError

    def part(self, y: Any, given: Given) -> Any:
        """What log p has that depends on y and the dispersion `apart` alone."""
        raise NotImplementedError

    def derivatives(self, y: Any, eta: Any, given: Given = NOTHING) -> tuple[Any, Any]:
        """Score ∂ log p/∂η and information −∂² log p/∂η², here by central differences of the kernel.

        Of five values, which are off by h⁴/30 of the fifth derivative and h⁴/90 of the sixth.
        """
        h = _STEP * self.scale(given)
        middle = self.kernel(y, eta, given)
        (low, high), (lower, higher) = (
            [self.kernel(y, eta + move * h, given) for move in (-far, far)] for far in (1, 2)
        )
        score = (8 * (high - low) - (higher - lower)) / (12 * h)
        bend = 16 * (low + high) - (lower + higher) - 30 * middle
        return score, -bend / (12 * h**2)

    def scale(self, given: Given) -> Any:
        """The distance in η on which log p changes its shape: one on a log or logit scale."""
        return 1.0

    def mean(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """E[y | η]."""
        return self.link.inverse(eta)

    def mean_on_link(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """g(mean of a row) with the link g, less what extras such as trials have to do with it.

        η itself, unless a dispersion has a part in the mean.
        """
        return eta

    def mean_moments(
        self, eta: np.ndarray, v: np.ndarray, own: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd over η ~ N(eta, v) of g⁻¹(`mean_on_link`) in which e ~ N(0, own) is averaged out."""
        return self.link.moments(eta, v, own)

    def slope(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The derivative of the mean in η."""
        return self.link.slope(eta)

    def variance(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """Var(y | η)."""
        raise NotImplementedError

    def cdf(self, y: np.ndarray, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """P(Y ≤ y | η), for any y."""
        raise NotImplementedError

    def sharpness(self, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """How many of its sds y moves with η: P(Y ≤ y | η) rises over the inverse of it."""
        return self.slope(eta, given) / np.sqrt(self.variance(eta, given))

    def quantile(self, prob: Any, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """The smallest y with P(Y ≤ y | η) ≥ prob."""
        return averaged_quantile(self, eta, np.zeros_like(eta), prob, given)

    def draw(self, rng: np.random.Generator, eta: np.ndarray, given: Given = NOTHING) -> np.ndarray:
        """One y for each η."""
        return self.quantile(rng.uniform(size=np.shape(eta)), eta, given)

    def working(self, y: np.ndarray) -> np.ndarray:
        """The response on the scale where a quadratic likelihood has its normal noise."""
        return y

    def from_working(self, values: np.ndarray) -> np.ndarray:
        """The inverse of `working`, which rises."""
        return values

    # ---- averages over η ~ N(mean, v) -----------------------------------------------------

    def rows(self, y: np.ndarray, given: Given = NOTHING) -> LikelihoodRows:
        """These rows, to be averaged over η many times."""
        return LikelihoodRows(self, y, given)

    def averaged(
        self, mean: np.ndarray, v: np.ndarray, given: Given = NOTHING
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of y, by the laws of total expectation and variance."""
        if not v.any():
            return self.mean(mean, given), self.variance(mean, given)
        root = np.sqrt(v)
        first, second, noise = (np.zeros_like(mean) for _ in range(3))
        for x, weight in zip(*hermite(root.max(initial=0.0) / self.link.unit), strict=True):
            eta = mean + root * x
            value = self.mean(eta, given)
            first += weight * value
            second += weight * value**2
            noise += weight * self.variance(eta, given)
        return first, noise + np.maximum(second - first**2, 0.0)

    def averaged_quantile(
        self, mean: np.ndarray, v: np.ndarray, prob: float, given: Given = NOTHING
    ) -> np.ndarray:
        """The smallest y with E P(Y ≤ y | η) ≥ prob."""
        return averaged_quantile(self, mean, v, prob, given)

    # ---- data -----------------------------------------------------------------------------

    def check(self, y: np.ndarray, given: Given, names: Mapping[str, str], refuse: Refuse) -> None:
        """Raise the sentence for the first value that no response of this kind can have.

        `names` are those of the columns: "response", and the extras that the user gave.
        """

    def check_all(self, y: Values, name: str, labels: list[Any] | None) -> None:
        """Raise the sentence for values that may occur, but not these alone; `labels` are what they mean."""
        if self.varies:
            require_varying(name, y.low, y.high)

    def labels(self, ordered: list[Any] | None) -> list[Any] | None:
        """What the numbers 1, 2, … stand for; None where the response must be a number.

        `ordered` are the categories in their order, where the column has one.
        """
        return None

    def encode(self, name: str, values: np.ndarray, labels: list[Any]) -> np.ndarray:
        """The numbers of labels."""
        raise NotImplementedError

    def probabilities(self, eta: np.ndarray, v: np.ndarray, given: Given) -> np.ndarray:
        """Of a categorical response, P(y = k) for η ~ N(eta, v), (K, …)."""
        raise NotImplementedError

    def label_remedy(self, name: str, labels: list[str]) -> str:
        """What to do about a response that is text, with these different labels."""
        return "Convert the column to numbers"

    def start(self, y: np.ndarray, given: Given = NOTHING) -> tuple[np.ndarray, np.ndarray]:
        """A guess of every row's η, half way from the mean of all rows to its own y, and its weight."""
        guess = self.link.apply((y + y.mean()) / 2)
        return guess, self.slope(guess, given) ** 2 / self.variance(guess, given)

    def level(self, rows: Totals) -> float:
        """The link of the mean response less the mean offset, where the prior of an intercept is centred."""
        return float(self.link.apply(np.asarray(rows.y / rows.n))) - rows.offset / rows.n

    def free_sides(self, y: np.ndarray, given: Given) -> tuple[np.ndarray, np.ndarray] | None:
        """+1 where log p never falls as η rises, −1 where as η falls, 0 where it is bounded on both sides.

        And where none of these (bound): log p falls without end on either side.

        None when every row holds η on both sides, so that no effect can run off.
        """
        return None

    def free_words(self, y: np.ndarray, given: Given, response: str, listed: str) -> str:
        """What is the matter when effects `listed` run off along the free sides."""
        return f"The rows of '{response}' set no limit to {listed}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LikelihoodRows:
    """E log p of all rows under η ~ N(η̄, v), derived from values of log p."""

    def __init__(self, likelihood: Likelihood, y: np.ndarray, given: Given = NOTHING):
        self.likelihood, self.y, self.given = likelihood, y, given

    def at(self, mean: np.ndarray, v: np.ndarray) -> Expectation:
        """The sum and every row's derivatives."""
        with np.errstate(over="ignore", invalid="ignore"):
            return expect(self._log_p, mean, v, self.likelihood.scale(self.given))

    def _log_p(self, eta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """log p of some rows at η (…, rows)."""
        given = take(self.given, rows)
        found: np.ndarray = self.likelihood.log_p(self.y[rows], eta, given, NUMPY)
        return found

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """A guess of every row's η and of its weight."""
        return self.likelihood.start(self.y, self.given)


class WeightedRows(LikelihoodRows):
    """Rows that count `weights` (N,) times: Σ w E log p."""

    def __init__(self, likelihood: Likelihood, y: np.ndarray, given: Given, weights: np.ndarray):
        super().__init__(likelihood, y, given)
        self.weights = weights

    def _log_p(self, eta: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return self.weights[rows] * super()._log_p(eta, rows)

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """That of single rows, with the weight of all of them."""
        guess, weight = super().start()
        return guess, self.weights * weight


def require_positive(name: str, y: np.ndarray, refuse: Refuse, what: str) -> None:
    """Numbers above 0."""
    if (y <= 0).any():
        row = int(np.argmax(y <= 0))
        raise refuse(
            name,
            row,
            y[row],
            f"is not above 0, where {what} must be",
            "Correct the value or drop the row; of exact zeros, model apart whether they occur",
        )


def require_varying(name: str, low: float, high: float) -> None:
    """Not the same number in every row."""
    if low == high:
        raise InvalidData(
            f"The response '{name}' is {low:g} in every row, so that nothing is left to explain; "
            "choose a response that varies.",
            column=name,
            value=low,
        )


def require_counts(name: str, y: np.ndarray, refuse: Refuse, what: str = "counts") -> None:
    """Whole numbers from 0."""
    problems = {
        "is negative": y < 0,
        "is not a whole number": y != np.floor(y),
        "is too large to be an exact count": y > 2**53,
    }
    for problem, bad in problems.items():
        if bad.any():
            row = int(np.argmax(bad))
            raise refuse(
                name,
                row,
                y[row],
                f"{problem}, but {what} must be whole numbers from 0",
                "Correct the value or drop the row",
            )
