"""The posterior of a model with thousands of global coordinates: what is asked for is solved for."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine.fitting import Fit, default_sum
from ..engine.objective import Objective
from ..engine.wide import SOLVED, covariance_columns
from ..errors import InvalidModel, NotAMaximum, NotConverged
from ..numerics.double import in_double
from .blocks import FamilyBlock
from .certification import Checked
from .estimate import Estimate
from .intervals import check_probability, normal_ends
from .noted import noted
from .table import table
from .verdicts import NOT_CHECKED

if TYPE_CHECKING:
    import pandas as pd

    from .posterior import Posterior

UNCHECKED = "a model with thousands of coordinates is not checked"


class WidePosterior:
    """Means of all quantities, and linear-response sds and covariances of those that are asked for.

    No matrix of all coordinates is ever formed: each quantity costs one solve. `narrow` gives a `Posterior`
    of a few, for draws and files.
    """

    fit: Fit

    def __init__(self, fit: Fit):
        self.fit = fit
        labels = fit.alpha.names()
        self._index = {name: i for i, name in enumerate(labels) if name is not None}

    def __getattr__(self, name: str) -> Any:
        """What else a `Posterior` answers, which this one does not."""
        from .posterior import Posterior

        if name.startswith("_") or not hasattr(Posterior, name):
            raise AttributeError(f"A WidePosterior has no '{name}'.")
        raise AttributeError(
            f"A WidePosterior has no '{name}', because no matrix of its {len(self.fit.m):,} coordinates is "
            "formed. It answers mean, sd, cov and summary; narrow([...]) gives a Posterior of a few "
            "quantities, for draws and files."
        )

    @property
    def names(self) -> list[str]:
        """Every named scalar quantity."""
        return list(self._index)

    @property
    def elbo(self) -> float:
        """E = L + S at the optimum."""
        return self.fit.elbo

    @property
    def converged(self) -> bool:
        """Whether the optimum was reached."""
        return self.fit.converged

    @property
    def n_iter(self) -> int:
        """Passes of the fit."""
        return self.fit.n_iter

    def mean(self, names: str | Iterable[str] | None = None) -> pd.Series:
        """Posterior means."""
        import pandas as pd

        chosen = self._choose(names)
        return pd.Series(self.fit.m[self._at(chosen)], index=chosen, name="mean")

    def sd(self, names: str | Iterable[str] | None = None, method: str = "lrvb") -> pd.Series:
        """Standard deviations; `method="mfvb"` for the uncorrected. One solve a name."""
        import pandas as pd

        cov = self.cov(names, method)
        return pd.Series(np.sqrt(np.diag(cov)), index=cov.index, name="sd")

    @in_double
    def cov(self, names: str | Iterable[str] | None = None, method: str = "lrvb") -> pd.DataFrame:
        """Covariances of the quantities asked for."""
        import pandas as pd

        if method not in ("lrvb", "mfvb"):
            raise InvalidModel(f"method={method!r} must be 'lrvb' or 'mfvb'.")
        chosen = self._choose(names)
        at = self._at(chosen)
        solved, V = self._columns(at)
        values = (solved.Vx if method == "lrvb" else V)[:, at]
        return pd.DataFrame((values + values.T) / 2, index=chosen, columns=chosen)

    @property
    def certificate(self) -> None:
        """None: no certificate is made of so many coordinates."""
        return None

    @property
    def verdicts(self) -> pd.DataFrame:
        """`verdict` and `why` of every named quantity: "not checked"."""
        import pandas as pd

        found = [(NOT_CHECKED, f"Not checked: {UNCHECKED}.")] * len(self.names)
        return pd.DataFrame(found, index=pd.Index(self.names), columns=["verdict", "why"])

    def certify(self, *given: Any, **options: Any) -> None:
        """Refused: draws of so many coordinates confirm nothing."""
        raise InvalidModel(
            f"This posterior has {len(self.fit.m)} global coordinates, and {UNCHECKED}; use certify=False "
            'or "auto", and compare some quantities with a smaller model or MCMC.'
        )

    @in_double
    def summary(self, names: str | Iterable[str] | None = None, prob: float = 0.94) -> pd.DataFrame:
        """`mean, sd, mfvb_sd, lower, upper, verdict` of the quantities asked for; intervals are normal."""
        check_probability("prob", prob)
        chosen = self._choose(names)
        at = self._at(chosen)
        solved, V = self._columns(at)
        each = np.arange(len(at))
        mean = self.fit.m[at]
        sd, alone = np.sqrt(solved.Vx[each, at]), np.sqrt(V[each, at])
        ends, words = normal_ends(mean, sd, prob), [NOT_CHECKED] * len(at)
        found = table(chosen, mean=mean, sd=sd, mfvb_sd=alone, ends=ends, verdict=words)
        return noted(found, f"Not checked: {UNCHECKED}.")

    @in_double
    def narrow(self, names: str | Iterable[str]) -> Posterior:
        """The posterior of some quantities alone, with all that one has: draws, intervals, files, ArviZ.

        Members that have a quantity asked for come whole: `a[3]` of a batch, with its moments. Each
        coordinate of theirs costs one solve.
        """
        from .posterior import Posterior  # which knows this one

        alpha, fit = self.fit.alpha, self.fit
        asked = self._at(self._choose(names))
        blocks: dict[str, FamilyBlock] = {}
        places: list[np.ndarray] = []
        for name, family in alpha.blocks.items():
            start, one = alpha.slices[name].start, family.single()
            inside = asked[(asked >= start) & (asked < alpha.slices[name].stop)]
            for copy in np.unique((inside - start) // one.size):
                at = start + copy * one.size + np.arange(one.size)
                label = f"{name}[{','.join(map(str, np.unravel_index(copy, family.batch)))}]"
                blocks[label if family.batch else name] = FamilyBlock(one, fit.eta[at])
                places.append(at)
        at = np.concatenate(places)
        solved, V = self._columns(at)
        Sigma = solved.Vx[:, at]
        every = alpha.names()
        estimate = Estimate.of_blocks(
            blocks, fit.m[at], V[:, at], (Sigma + Sigma.T) / 2, [every[i] for i in at]
        )
        return Posterior(
            estimate,
            fit.convergence,
            origin="some quantities of a model with too many for matrices",
            checked=Checked(reason=UNCHECKED),
        )

    def _columns(self, at: np.ndarray) -> tuple[Any, np.ndarray]:
        fit = self.fit
        strategy = fit.local_sum or default_sum(fit.problem)
        rows = None if fit.problem.rows is None else strategy.bind(fit.problem, fit.chunk_size)
        J = np.zeros((len(at), len(fit.m)))
        J[np.arange(len(at)), at] = 1.0
        solved, V = covariance_columns(Objective(fit.problem, rows), fit.point, J)
        labels = fit.alpha.names()
        if not solved.positive.all():
            name = labels[at[int(np.argmin(solved.positive))]]
            raise NotAMaximum(
                f"I - VH is not positive along '{name}': linear response exists only at a strict maximum "
                "of the ELBO. Try another start, or a proper prior.",
                block=name,
            )
        if not (solved.left <= SOLVED).all():
            worst = int(np.argmax(np.nan_to_num(solved.left, nan=np.inf)))
            name = labels[at[worst]]
            warnings.warn(
                NotConverged(
                    f"Conjugate gradients leave {solved.left[worst]:.0e} of the equation for '{name}' "
                    "unsolved, so that its sd is too small. Standardise the data, or state variables that "
                    "go together as one block.",
                    quantity=name,
                ),
                stacklevel=4,
            )
        return solved, V

    def _choose(self, names: str | Iterable[str] | None) -> list[str]:
        if names is None:
            return self.names
        asked = [names] if isinstance(names, str) else list(names)
        chosen: list[str] = []
        for name in asked:
            block = [q for q in self._index if q.partition("[")[0] == name]
            if name not in self._index and not block:
                some = ", ".join(self.names[:5])
                raise InvalidModel(f"There is no quantity '{name}'; there are: {some}, …")
            chosen += [name] if name in self._index else block
        return chosen

    def _at(self, chosen: list[str]) -> np.ndarray:
        return np.array([self._index[name] for name in chosen], dtype=int)
