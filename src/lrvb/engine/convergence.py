"""How an optimum was reached: the ELBO on the way, and why the way ended."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True, eq=False)
class Convergence:
    """The ELBO at the optimum and on the way there; whether, when and why the fit stopped.

    `stationarity` is the length of the next Newton step, in linear-response standard deviations. `unit` is
    what `n_iter` counts.
    """

    elbo: float
    trace: np.ndarray
    n_iter: int
    converged: bool
    reason: str
    stationarity: float
    unit: str = "iteration"

    @property
    def steps(self) -> str:
        """`n_iter` in words."""
        return f"{self.n_iter} {self.unit}" + ("" if self.n_iter == 1 else "s")

    def shifted(self, by: float) -> Convergence:
        """The same way up where every log density has a constant more: data in other units."""
        return replace(self, elbo=self.elbo + by, trace=self.trace + by)
