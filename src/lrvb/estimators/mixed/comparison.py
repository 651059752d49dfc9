"""How well a mixed model predicts what it has not seen, and how far it hangs on each group."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InvalidModel
from ...posterior.check_up import CheckUp, check_up
from ...posterior.what_if import grouped
from .answers.predictive_check import predictive_finding
from .design.design import Design
from .design.stored import StoredDesign
from .integral.certificate import IMPORTANCE, MixedCertificate
from .integral.influence import MixedSensitivity
from .partitions.design import PartitionedDesign

if TYPE_CHECKING:
    import pandas as pd

    from ...posterior.posterior import Posterior
    from .after_the_fit import Drawn

LEVELS = ("integrated", "given")


class Predictive:
    """The part of a MixedModel that leaves rows and groups out."""

    if TYPE_CHECKING:  # of the estimator itself
        certificate_: MixedCertificate
        _drawn: Drawn

        def _fitted(self) -> Posterior: ...
        def _design(self) -> Design: ...

    def loo(self, by: Any = None, *, levels: str = "integrated") -> pd.DataFrame:
        """Leave-one-out log predictive densities: `elpd` and `k_hat` of every row, sums in `attrs`.

        log p(y_i | y_−i) by smoothed importance weights over the fit's draws of θ, no refit. With
        levels="integrated" the random effects are integrated in each weight, 1/p(y_i | y_−i, θ). With
        levels="given" the weights are 1/p(y_i | θ, z) with one draw of z for each of θ, as packages
        have it that sample z: the same number in the limit, with larger k_hats. With `by`, a grouping
        factor or one value a row, whole groups are left out: how well a new group is predicted.
        """
        if not isinstance(levels, str) or levels not in LEVELS:
            raise InvalidModel(f"levels={levels!r} must be 'integrated' or 'given'.")
        design, what_if = self._design(), self._what_if()
        codes, labels = grouped(what_if, by, {})
        if codes is not None and levels == "given":
            raise InvalidModel(
                "A group that is left out takes its levels with it: leave levels='integrated' beside by=."
            )
        table = what_if.loo(
            codes,
            design.rows if codes is None else labels,
            levels == "given",
            "row" if codes is None else "group",
        )
        table.attrs["response"] = _digest(design)
        return table

    def check(self, by: Any = None) -> CheckUp:
        """One page on how far the answer can be believed, the worst first.

        Convergence, verdicts, priors; of an integrated model the groups (of `by`, as in `influence`, or of
        the factor with the fewest) without which a mean would move, and robust sds beside the posterior's;
        and whether data replicated from the model are like those observed in mean, sd, share of zeros and
        largest value (of ordered categories, numbered from 1, in mean and sd).
        """
        posterior, design = self._fitted(), self._design()
        integrated = isinstance(posterior._sensitivity, MixedSensitivity)
        if by is None and integrated and design.factors:
            by = min(design.factors, key=lambda factor: len(factor.levels)).name
        page = posterior.check(by=by)
        if isinstance(design, PartitionedDesign):
            return page
        replicated = predictive_finding(design, lambda n: self._drawn.draw(n, 0))
        return check_up(repr(self), [*page.findings, replicated])

    def _what_if(self) -> MixedSensitivity:
        found = self._fitted()._sensitivity
        if not isinstance(found, MixedSensitivity):
            if self.certificate_.method == IMPORTANCE:
                if isinstance(self._design(), StoredDesign):
                    _ = self._design().y[0]  # rows that a file does not hold say so
                raise InvalidModel(
                    "The rows of this fit are in parts elsewhere, and rows are left out of those in "
                    "memory. Fit a part of them, or their columns after compute()."
                )
            raise InvalidModel(
                "Rows and groups are left out by the draws of a model whose hyperparameters are integrated, "
                "and whose levels are summed exactly given them; not so here: "
                f"{self.certificate_.reason or 'levels are a Gaussian block'}."
            )
        return found


def _digest(design: Design) -> str:
    """What tells one response from another."""
    digest = hashlib.sha256(np.ascontiguousarray(design.y).tobytes())
    if design.trials is not None:
        digest.update(np.ascontiguousarray(design.trials).tobytes())
    return digest.hexdigest()[:16]
