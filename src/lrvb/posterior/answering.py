"""What tables of what if ask, of whoever answers: an engine's response, or weighted draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeGuard

import numpy as np

from .estimate import Estimate
from .hyperparameters import Hyperparameter

if TYPE_CHECKING:
    import pandas as pd

REFITTED = 10  # rows or levels, the largest, that are left out in fits of their own at least


class PriorChange(NamedTuple):
    """Of one hyperparameter: dm (k,) and dsd (k,) of the coordinates asked for, in the estimate's units.

    at_steps (2, k) foretells the change of the means at the whole plain step and at the step back, without
    a fit; NaN where it cannot be told.
    """

    hyperparameter: Hyperparameter
    d_mean: np.ndarray
    d_sd: np.ndarray
    at_steps: np.ndarray


class Elsewhere(NamedTuple):
    """At another value of a hyperparameter: the change of all means (a,), and the ends of all intervals."""

    change: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


class PriorQuestions(Protocol):
    """What a table of prior sensitivities asks."""

    @property
    def no_rows(self) -> str:
        """Why no rows can be left out, in a sentence; "" where they can."""

    @property
    def verifies(self) -> str:
        """By what `refitted` has its answer, in words."""

    @property
    def sd(self) -> np.ndarray:
        """Of every coordinate of the estimate."""

    def known(self) -> list[Hyperparameter]:
        """The hyperparameters that can be moved."""

    def prior_changes(self, at: np.ndarray) -> list[PriorChange]:
        """The derivatives of the means and sds `at` in every hyperparameter that is known."""

    def remark(self, names: list[str], at: np.ndarray) -> str:
        """What else is to be said of these quantities, or ""."""

    def refitted(self, hyperparameter: Hyperparameter, step: float, prob: float) -> Elsewhere:
        """What is found at value + step, by a fit of its own."""

    def intervals(self, prob: float) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of the central intervals of all coordinates."""


class Certifies(Protocol):
    """What every certificate answers: of draws that check an answer, or of those that are it."""

    @property
    def method(self) -> str:
        """How the draws were made: "importance", "hmc", or over a Gaussian "block"."""

    @property
    def exact(self) -> bool:
        """Whether their density is."""

    @property
    def k_hat(self) -> float:
        """Of the weights."""

    @property
    def ess(self) -> float:
        """Effective draws."""

    @property
    def log_evidence(self) -> float:
        """log p(x)."""

    @property
    def mean(self) -> np.ndarray:
        """Of every coordinate of the estimate."""

    @property
    def cov(self) -> np.ndarray:
        """Of all coordinates."""

    @property
    def verdicts(self) -> list[tuple[str, str]]:
        """Verdict and reason of every named quantity."""

    def summary(self, prob: float = 0.94) -> pd.DataFrame:
        """Numbers, errors, verdicts and reasons, a row a quantity."""

    def draws(self, n: int, seed: Any = 0) -> dict[str, np.ndarray]:
        """n draws of every block, in proportion to their weights."""

    def to_arviz(self, n: int = 1000, seed: Any = 0) -> Any:
        """ArviZ's container with such draws."""


class Influence(NamedTuple):
    """Changes (n, k) if a row or level is left out; refitted (n,) says which are by fits of their own.

    k_hat (n,) judges those that are from weights of draws, error (n,) is Monte Carlo's, in posterior sds;
    stepped (n,) says which are by a step of the second order, where others are of the first; `unsure` of
    those may be more than 5 % off, because `astray` fits did not converge or there were too many.
    """

    values: np.ndarray
    refitted: np.ndarray
    k_hat: np.ndarray | None = None
    error: np.ndarray | None = None
    stepped: np.ndarray | None = None
    astray: int = 0
    unsure: int = 0


def largest_entry(values: np.ndarray, sd: np.ndarray | None = None) -> np.ndarray:
    """max_k |values_nk| / sd_k (n,), a column at a time: no second table of a million rows is made.

    What has no spread (sd 0) counts as unmoved.
    """
    size = np.zeros(len(values))
    for k, column in enumerate(values.T):
        unit = 1.0 if sd is None else sd[k] if sd[k] > 0 else np.inf
        np.maximum(size, np.abs(column) / unit, out=size)
    return size


class RowQuestions(PriorQuestions, Protocol):
    """What tables of the influence of rows ask as well."""

    @property
    def estimate(self) -> Estimate:
        """Whose means move."""

    @property
    def labels(self) -> Any:
        """Of the rows."""

    @property
    def weights(self) -> np.ndarray:
        """Of the rows."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Columns of the rows by which they may be grouped, beside those observed."""

    @property
    def clusters(self) -> np.ndarray | None:
        """Codes (N,) of groups of rows that are independent of each other, or None: every row is."""

    def influence(
        self, at: np.ndarray, codes: np.ndarray | None = None, refits: int | None = None
    ) -> Influence:
        """The change of the coordinates `at` if a row, or a level of `codes` (N,), is left out."""

    def robust(
        self, at: np.ndarray, codes: np.ndarray | None = None, refits: int | None = None
    ) -> np.ndarray:
        """Variances (k,) of means over other rows, or levels, drawn from where these came from."""

    def without(self, rows: np.ndarray) -> tuple[RowQuestions, np.ndarray]:
        """The same questions of a fit without these rows, and the places of its rows among these."""


def answers_rows(questions: Any) -> TypeGuard[RowQuestions]:
    """Whether rows can be left out."""
    return hasattr(questions, "influence")


class Judges(Protocol):
    """What makes the certificate of an answer whose density it knows, other than by the engine."""

    def certify(
        self,
        draws: int = ...,
        seed: int = ...,
        *,
        budget: float | None = None,
        passes: int | None = None,
        progress: bool = False,
    ) -> Certifies:
        """Draws of the exact posterior beside the answer."""
