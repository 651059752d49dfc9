"""One order beyond linear response, as a posterior answers it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine.response import Response
from ..engine.second_order import Refined
from ..errors import InvalidModel
from ..numerics.double import in_double
from ..numerics.lazy import jax
from .blocks import DerivedBlock
from .correction import warn_large_second_order
from .intervals import check_probability, normal_ends, support_ends
from .named import Named
from .noted import noted
from .table import table
from .weighted import WeightedDraws, mixture_quantiles

if TYPE_CHECKING:
    import pandas as pd

    from .certification import Checked

INTEGRATED = "Integrated by draws of the exact posterior already: there is no order beyond."
SecondOrderOf = Callable[[np.ndarray | Callable[[Any], Any]], Refined]


class Refining(Named):
    """The part of a posterior that corrects its means and variances."""

    weighted: WeightedDraws | None
    checked: Checked
    _second_order: SecondOrderOf | None

    if TYPE_CHECKING:  # of the posterior itself

        def summary(self, prob: float = 0.94) -> pd.DataFrame:
            """Mean, sd and interval of every named quantity."""

        def _require_engine(self, what: str) -> Response: ...

    @in_double
    def refined(
        self,
        names: str | Iterable[str] | Callable[[Any], Any] | None = None,
        prob: float = 0.94,
    ) -> pd.DataFrame:
        """`mean, sd, lower, upper` one order beyond linear response.

        They correct the bias that the factorisation leaves in means, which is largest where a
        posterior is skewed; `attrs["log_evidence"]` is the evidence to the same order. In place of
        names a function of named moments may be given, as to `of`: E φ = f(m) of one or several φ. It
        costs two curvatures of all rows a quantity. A mean that moves by more than half an sd, or a
        variance that changes by more than half, is a warning (`LargeCorrection`), not an answer. A precision
        of a mixed model that is not well known is answered by its density, asked at a few points, with a
        warning where the second order does not agree. A posterior that was integrated is exact already, and
        answers with its own numbers.
        """
        check_probability("prob", prob)
        if self.weighted is not None and self._second_order is None:
            return self._integrated(self.weighted, names, prob)
        second_order = self._corrected()
        if callable(names):
            f = names
            flat = self.estimate.flat(f)
            value = np.asarray(flat(self.estimate.m))
            second = second_order(flat)
            mean, sd = value + second.shift, np.sqrt(second.variance)
            index: Any = range(len(value))
            ends = normal_ends(mean, sd, prob)
        else:
            index = self._choose(names) if names is not None else self._stated()
            at = self._at(index)
            second = second_order(np.eye(len(self.estimate.m))[at])
            mean, sd = self.estimate.m[at] + second.shift, np.sqrt(second.variance)
            ends = support_ends(self.estimate, at, mean, sd, prob)
        warn_large_second_order(second, index)
        result = table(index, mean=mean, sd=sd, ends=ends)
        result.attrs["log_evidence"] = second.log_evidence
        return result

    def _integrated(
        self,
        draws: WeightedDraws,
        names: str | Iterable[str] | Callable[[Any], Any] | None,
        prob: float,
    ) -> pd.DataFrame:
        """The answer of draws that are exact already, of functions too."""
        if callable(names):
            x, weights = draws.points()
            values = np.asarray(jax.vmap(self.estimate.flat(names))(x))
            mean = weights @ values
            sd = np.sqrt(weights @ (values - mean) ** 2)
            prob_ends = np.array([0.5 - prob / 2, 0.5 + prob / 2])
            none = np.zeros(len(values))
            found = [mixture_quantiles(v, none, weights, prob_ends) for v in values.T]
            lower, upper = np.reshape(found, (-1, 2)).T
            result = table(range(len(mean)), mean=mean, sd=sd, ends=(lower, upper))
        else:
            columns = ["mean", "sd", "lower", "upper"]
            result = self.summary(prob).loc[self._choose(names), columns]
        result = noted(result, INTEGRATED)
        if self.checked.integrated is not None:
            result.attrs["log_evidence"] = self.checked.integrated.log_evidence
        return result

    def _stated(self) -> list[str]:
        """All names but those of functions of the others."""
        derived = [
            self.estimate.slices[name]
            for name, block in self.estimate.blocks.items()
            if isinstance(block, DerivedBlock)
        ]
        index = self.estimate.index
        return [n for n in self.names if not any(s.start <= index[n] < s.stop for s in derived)]

    def _corrected(self) -> SecondOrderOf:
        if self._second_order is not None:
            return self._second_order
        self._require_engine("fit to refine")
        raise InvalidModel(
            "The second order is available only for a posterior in the coordinates of its fit, such "
            "as that of lrvb.infer."
        )
