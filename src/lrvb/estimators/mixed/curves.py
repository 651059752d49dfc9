"""The smooths of a fitted mixed model as curves with their bands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InvalidModel
from ...posterior.intervals import check_probability
from .design.design import Design
from .design.smooths import Smooth

if TYPE_CHECKING:
    import pandas as pd

    from ...posterior.posterior import Posterior

POINTS = 100


class Curves:
    """`model.smooth`; `MixedModel` inherits it."""

    def _fitted(self) -> Posterior:
        raise NotImplementedError

    def _design(self) -> Design:
        raise NotImplementedError

    def smooth(self, name: str, at: Any = None, prob: float = 0.94) -> pd.DataFrame:
        """A smooth such as "s(x)" on the scale of the link: `x, mean, sd, lower, upper`.

        The curve is what the term adds to the linear predictor: its line, zero at the mean of x, and its
        bends, whose mean over the rows is zero. `at` are points of x, by default 100 from the lowest of the
        fit to the highest. A smooth by a group, "s(x, by=g)", has one curve for every level, in the
        column `g`; "s(x, by=g)[a]" is that of one. Bands hold at each point with probability `prob`.
        """
        import pandas as pd

        posterior, design = self._fitted(), self._design()
        check_probability("prob", prob)
        chosen = _find(design, name)
        x = _points(chosen[0], at)
        tables = []
        for smooth in chosen:
            C = np.zeros((len(x), len(posterior.estimate.m)))
            C[:, smooth.linear] = smooth.basis.line(x)
            C[:, smooth.places] = smooth.basis(x)
            mean = C @ posterior.estimate.m
            sd = np.sqrt(np.einsum("ij,jk,ik->i", C, posterior.estimate.Sigma, C))
            assert posterior.weighted is not None
            lower, upper = posterior.weighted.combined(C, prob)
            columns: dict[str, Any] = {smooth.text.argument: x}
            if smooth.coder is not None:
                columns[smooth.coder.name] = np.repeat(smooth.level, len(x))
            tables.append(
                pd.DataFrame(columns | {"mean": mean, "sd": sd, "lower": lower, "upper": upper})
            )
        return pd.concat(tables, ignore_index=True)


def _find(design: Design, name: Any) -> list[Smooth]:
    """The curves of this name."""
    known = {smooth.label for smooth in design.smooths}
    known |= {smooth.text.label for smooth in design.smooths}
    chosen = [s for s in design.smooths if name in (s.label, s.text.label)]
    if chosen:
        return chosen
    there = f"; there are: {', '.join(sorted(known))}" if known else ": the formula has none"
    raise InvalidModel(f"There is no smooth {name!r}{there}.")


def _points(smooth: Smooth, at: Any) -> np.ndarray:
    if at is None:
        return np.linspace(smooth.basis.low, smooth.basis.high, POINTS)
    x = np.atleast_1d(np.asarray(at, dtype=np.float64))
    if x.ndim != 1 or not len(x) or not np.isfinite(x).all():
        raise InvalidModel(f"at={at!r} must be finite numbers, points of '{smooth.text.argument}'.")
    return x
