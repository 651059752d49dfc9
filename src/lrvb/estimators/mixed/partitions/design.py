"""The design of rows in partitions: as any other, but the rows themselves stay where they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from ....data.standardise import Measures
from ....errors import InvalidData
from ..design.design import Design, Response, TermRows
from ..design.terms import Term
from .rows import Measured, Reduced


class Elsewhere:
    """Stands for rows that were never brought here: any question for them is an error."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise InvalidData(
            "The rows of this fit are in Dask's partitions and were never brought together; give the rows "
            "that you ask about, one partition at a time: model.predict(part.compute()) for part in "
            "ddf.partitions."
        )

    __getattr__ = __getitem__ = __len__ = __array__ = __iter__ = _refuse
    __add__ = __sub__ = __mul__ = __truediv__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse


@dataclass(frozen=True, eq=False)
class PartitionedDesign(Design):
    """A design whose y, X, R and codes are elsewhere: what is known of them are measures and sums."""

    measured: Measured = field(kw_only=True)
    reduced: Reduced = field(kw_only=True, repr=False)
    left: float = field(kw_only=True)

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.measured.y.n

    # properties here, where the rows are elsewhere; cached ones of rows in a plain design
    @property
    def measures(self) -> Measures:
        """Centre, spread and size of every column of X."""
        return self.measured.X

    @property
    def response(self) -> Response:
        """What is known of y − offset."""
        y = self.measured.y
        return Response(float(y.center[0]), float(y.spread[0]), float(y.size[0]), self.left)

    @property
    def level(self) -> float:
        """The mean of y − offset."""
        return self.response.mean

    @property
    def log_volume(self) -> float:
        """Of all rows. See: Design.log_volume."""
        return self.measured.log_volume

    def columns(self, term: Term) -> Measures:
        """Centre, spread and size of every column of a term's R."""
        return self.measured.R[[other.name for other in self.terms].index(term.name)]

    def term_rows(self, t: int) -> TermRows:
        """The rows that stand for all, and measures of those."""
        widths = np.cumsum([0, *(len(term.coefficients) for term in self.terms)])
        codes = self.reduced.codes[self.terms[t].factor]
        return TermRows(codes, self.reduced.R[:, widths[t] : widths[t + 1]], self.measured.R[t])

    @property
    def observed(self) -> dict[str, np.ndarray]:
        """Nothing: the response is elsewhere."""
        return {}
