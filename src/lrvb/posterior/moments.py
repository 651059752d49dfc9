"""Means, standard deviations and covariances, of named quantities and of functions of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidModel
from ..numerics.double import in_double
from .answering import RowQuestions
from .intervals import check_probability, normal_ends
from .table import require_finite, table
from .trusted import Trusted
from .what_if import grouped, robust_sds

if TYPE_CHECKING:
    import pandas as pd


class Moments(Trusted):
    """The part of a posterior that has first and second moments."""

    observed: Mapping[str, Any] | None

    if TYPE_CHECKING:  # of the posterior itself

        def _what_if(self) -> RowQuestions: ...

    def mean(self, names: str | Iterable[str] | None = None, method: str = "lrvb") -> pd.Series:
        """Posterior means; `method="certified"` for those of the certificate."""
        import pandas as pd

        chosen = self._choose(names)
        known = isinstance(method, str) and method in ("lrvb", "mfvb", "certified")
        if not known:
            raise self._no_method(method, "'lrvb', 'mfvb' or 'certified'")
        m = self._certified().mean if method == "certified" else self.estimate.m
        values = m[self._at(chosen)]
        require_finite("mean", values, chosen)
        return pd.Series(values, index=chosen, name="mean")

    def sd(
        self, names: str | Iterable[str] | None = None, method: str = "lrvb", *, by: Any = None
    ) -> pd.Series:
        """Posterior standard deviations; `method="mfvb"` for the uncorrected, "certified" for exact.

        `method="robust"` is the sandwich: the sd of the mean over other rows from where these came
        from, whether or not the model is right; with `by` (a column, or one value a row) whole levels
        are taken, for rows that are alike within them.
        """
        import pandas as pd

        chosen = self._choose(names)
        if isinstance(method, str) and method == "robust":
            what_if = self._what_if()
            codes, _ = grouped(what_if, by, self.observed)
            return robust_sds(what_if, chosen, self._at(chosen), codes)
        if by is not None:
            raise InvalidModel('by= belongs to method="robust": other sds have no groups of rows.')
        values = np.sqrt(np.diag(self._covariance(method))[self._at(chosen)])
        require_finite("sd", values, chosen)
        return pd.Series(values, index=chosen, name="sd")

    def cov(self, names: str | Iterable[str] | None = None, method: str = "lrvb") -> pd.DataFrame:
        """Posterior covariance matrix."""
        import pandas as pd

        chosen = self._choose(names)
        at = self._at(chosen)
        values = self._covariance(method)[np.ix_(at, at)]
        require_finite("covariance", np.abs(values).max(axis=1, initial=0.0), chosen)
        return pd.DataFrame(values, index=chosen, columns=chosen)

    def corr(self, names: str | Iterable[str] | None = None, method: str = "lrvb") -> pd.DataFrame:
        """Posterior correlation matrix; zero with what is known exactly, which varies with nothing."""
        import pandas as pd

        cov = self.cov(names, method)
        sd = np.sqrt(np.diag(cov))
        scale = np.where(sd > 0, sd, 1.0)
        corr = cov.to_numpy() / np.outer(scale, scale)
        np.fill_diagonal(corr, 1.0)
        return pd.DataFrame(corr, index=cov.index, columns=cov.columns)

    def _covariance(self, method: str) -> np.ndarray:
        if isinstance(method, str) and method == "certified":
            return self._certified().cov
        if not isinstance(method, str) or method not in ("lrvb", "mfvb"):
            known = "'lrvb', 'mfvb' or 'certified', and for sd also 'robust'"
            raise self._no_method(method, known)
        return self.estimate.covariance(method)

    def _no_method(self, method: Any, known: str) -> InvalidModel:
        """The error of a method that there is not; a second name is easily given in its place."""
        is_name = isinstance(method, str) and method in self.names
        hint = f" Several names go into one list: ['…', '{method}']." if is_name else ""
        return InvalidModel(f"method={method!r} must be {known}.{hint}")

    def of(
        self,
        f: Callable[[Any], Any] | Mapping[str, Callable[[Any], Any]],
        g: Callable[[Any], Any] | None = None,
        method: str = "lrvb",
        *,
        prob: float = 0.94,
    ) -> Any:
        """Covariance of quantities with E_q[φ] = f(m) and E_q[γ] = g(m); see `Response.of`.

        With names, `{"ratio": lambda m: ...}`, it is a table of numbers: `mean, sd, mfvb_sd, lower, upper`.
        """
        if not isinstance(f, Mapping):
            return self.estimate.of(f, g, method)
        check_probability("prob", prob)
        if g is not None or method != "lrvb" or not f:
            raise InvalidModel(
                "With names, of takes functions alone: of({'name': f}); ask for a covariance with of(f, g)."
            )
        return self._table_of(f, prob)

    @in_double
    def _table_of(self, functions: Mapping[str, Callable[[Any], Any]], prob: float) -> pd.DataFrame:
        means, sds, alone = [], [], []
        for name, f in functions.items():
            variance = self.estimate.of(f)
            if np.ndim(variance):
                raise InvalidModel(f"The function '{name}' gives an array; give one number a name.")
            means.append(float(self.estimate.flat(f)(self.estimate.m)[0]))
            sds.append(np.sqrt(variance))
            alone.append(np.sqrt(self.estimate.of(f, method="mfvb")))
        ends = normal_ends(np.array(means), np.array(sds), prob)
        return table(list(functions), mean=means, sd=sds, mfvb_sd=alone, ends=ends)
