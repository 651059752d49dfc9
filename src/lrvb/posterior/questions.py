"""The questions of what if, as a posterior answers them: other priors, fewer rows, one row at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..engine.response import Response
from ..engine.sensitivity import require_rows
from ..errors import InvalidModel
from ..numerics.double import in_double
from .answering import PriorQuestions, RowQuestions, answers_rows
from .arguments import require_flag, require_whole
from .blocks import FamilyBlock
from .certification import Checked
from .estimate import Estimate
from .fragility import Fragility, fragile
from .intervals import check_probability
from .leave_one_out import loo_table
from .prior_steps import asked
from .quick_loo import quick_loo_table
from .sensitivity import Sensitivity
from .what_if import grouped, influence_table, prior_table, require_others

if TYPE_CHECKING:
    import pandas as pd

    from .check_up import CheckUp
    from .posterior import Posterior


class WhatIf:
    """The part of a posterior that derivatives of its fit answer."""

    estimate: Estimate
    observed: Mapping[str, Any] | None
    checked: Checked
    _sensitivity: PriorQuestions | None

    if TYPE_CHECKING:  # of the posterior itself

        def draws(self, n: int, seed: Any = 0) -> dict[str, np.ndarray]:
            """Joint draws of every block."""

        def _choose(self, names: str | Iterable[str] | None) -> list[str]: ...
        def _at(self, names: Iterable[str]) -> np.ndarray: ...
        def _require_engine(self, what: str) -> Response: ...

    def prior_sensitivity(
        self,
        names: str | Iterable[str] | None = None,
        verify: int = 0,
        *,
        power: float | None = None,
    ) -> pd.DataFrame:
        """How every number of the model moves every mean and sd, without a refit.

        Columns `hyperparameter, quantity, value, d_mean, d_sd, step, change`: derivatives of mean and sd,
        a plain step (see `lrvb.posterior.hyperparameters.plain_steps`), and the change of the mean at that
        step in posterior sds, by first order; the largest first. The line beneath tells the step, up or
        down, that moves a mean most, as foretold from this fit; by more than half an sd the prior matters.
        `verify` fits so many hyperparameters anew at the whole steps: columns `verified` at `step`, and
        `verified_back` at `back`.
        All hyperparameters together are one pass over the rows; of many rows 4000 are drawn to say how sds
        follow.

        Of a model by its log density the hyperparameters are log₂ of the powers to which the prior, each
        site's prior and the likelihood are raised; the step leads to `power`, 2 unless it is given, and
        `verified` is by weights of the draws.
        """
        chosen = self._some(names)
        if self._sensitivity is None:
            self._what_if()
        assert self._sensitivity is not None
        questions = self._sensitivity
        if power is not None:
            if not hasattr(questions, "with_power"):
                raise InvalidModel(
                    "power= is for models given by a log density (from_numpyro, from_pymc, "
                    "from_log_density); here the prior's own numbers are moved, without it."
                )
            questions = questions.with_power(power)
        return prior_table(questions, asked(self.estimate, chosen), verify)

    def influence(
        self,
        names: str | Iterable[str] | None = None,
        by: Any = None,
        *,
        scaled: bool = False,
        refits: int | None = None,
    ) -> pd.DataFrame:
        """The change of every mean if a row were left out, a row each.

        With `by` (a column, or one value a row) whole levels are left out. In the quantity's unit, or in
        posterior sds with `scaled=True`. First order in the row's weight; where that is above a tenth
        of an sd, or rows are 200 at most, a step of the second order, and for the ten largest and those of
        which it is not sure, as many as take about a second and ten at least, a refit (up to 100,000 rows).
        Of an integrated `MixedModel` by smoothed weights of its draws, with a refit for the ten largest whose
        k_hat is above a half or whose Monte Carlo error is above 5 %. `refits` says how many at most.
        """
        if refits is not None:
            require_whole("refits", refits, 0)
        require_flag("scaled", scaled)
        chosen, what_if = self._some(names), self._what_if()
        codes, levels = grouped(what_if, by, self.observed)
        require_others(levels)
        return influence_table(what_if, chosen, self._at(chosen), codes, levels, scaled, refits)

    def fragility(self, name: str, prob: float = 0.94) -> Fragility:
        """The fewest rows found without which the sign of a mean changes, or its interval holds zero.

        Rows are left out by their influence, some at a time and each time from a fit without those before,
        until a refit has the change; up to half of all rows.
        """
        check_probability("prob", prob)
        (chosen,) = self._one(name)
        i = int(self._at([chosen])[0])
        what_if = self._what_if()
        if isinstance(what_if, Sensitivity):
            require_rows(what_if.fit)
        return fragile(what_if, chosen, i, prob)

    @in_double
    def loo(self, draws: int = 1024, seed: int = 0) -> pd.DataFrame:
        """Leave-one-out log predictive density of every row, its local variables integrated out.

        By smoothed importance weights, from the certificate's draws where there is one; columns `elpd` and
        `k_hat`, sums in `attrs`. Its sum compares models of the same rows: `lrvb.compare`. An integrated
        `MixedModel` has its own draws, and leaves out whole groups too: `MixedModel.loo`.

        `draws=0` is a quick first answer from influence: log p(x_n | x_−n) ≈ L*(1) − L*(0), the change of the
        best ELBO when the row's weight goes from one to none, ℓ̄_n(m*) − ½g_nᵀΣ̂g_n to the first order, and by
        refits for rows that move something beyond an sd, the furthest first. In place of `k_hat` it has
        `moved`, the sds by which the row moves what it moves most.
        """
        require_whole("draws", draws, 0)
        what_if = self._what_if()
        if not isinstance(what_if, Sensitivity):
            if draws == 0:
                raise InvalidModel(
                    "draws=0 is for models whose draws must be made first; a MixedModel has its own, and "
                    "loo() uses them."
                )
            return cast(Any, what_if).loo(None, what_if.labels, False)
        if draws == 0:
            return quick_loo_table(what_if)
        checked = self.checked.certificate
        if checked is not None:
            T, weights = checked.statistics, checked.weights
            with np.errstate(divide="ignore"):
                return loo_table(what_if, T, np.log(weights), "the certificate's draws")
        drawn = self.draws(draws, seed)
        blocks = self.estimate.blocks.items()
        T = np.concatenate(
            [q.statistics_of(drawn[b]) for b, q in blocks if isinstance(q, FamilyBlock)], axis=1
        )
        return loo_table(what_if, T, np.zeros(len(T)), "draws of linear response")

    def check(self, by: Any = None) -> CheckUp:
        """One page on how far the answer can be believed: the worst first.

        Convergence, verdicts, sensitivity to priors, the influence of rows (of levels with `by`), and
        robust sds beside the posterior's.
        """
        from .check_up import check_up, look_at

        groups: tuple[Any, Any] = (None, None)
        if by is not None:
            groups = grouped(self._what_if(), by, self.observed)
            require_others(groups[1])
        found = look_at(cast("Posterior", self), self._sensitivity, groups)
        return check_up(repr(self).partition("\n")[0], found)

    def _what_if(self) -> RowQuestions:
        if answers_rows(self._sensitivity):
            return self._sensitivity
        if self._sensitivity is None:
            self._require_engine("derivatives of its fit")
            raise InvalidModel(
                "What another prior or fewer rows would do is known for posteriors of lrvb.infer, "
                "GaussianMixture and integrated MixedModels (factorization='blocked'); this one has no such "
                "fit behind it."
            )
        raise InvalidModel(
            f"What fewer rows would do is not known: {self._sensitivity.no_rows} prior_sensitivity() says "
            "what another prior would do."
        )

    def _some(self, names: str | Iterable[str] | None) -> list[str]:
        chosen = self._choose(names)
        if not chosen:
            raise InvalidModel(
                f"names={names!r} names no quantity; name one, or leave it out for all."
            )
        return chosen

    def _one(self, name: Any) -> list[str]:
        chosen = self._some(name)
        if len(chosen) != 1:
            raise InvalidModel(
                f"{name!r} stands for {len(chosen)} quantities; name one: {', '.join(chosen[:5])}."
            )
        return chosen
