"""What is asked of a fitted mixture beyond its components: how far to believe it, and which is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .fitted import check_fitted

if TYPE_CHECKING:
    import pandas as pd

    from ...posterior.check_up import CheckUp
    from ...posterior.posterior import Posterior


class MixtureQuestions:
    """Answers of the posterior, at the estimator."""

    posterior_: Posterior

    def check(self, by: Any = None) -> CheckUp:
        """One page on how far the answer can be believed, the worst first; see `Posterior.check`."""
        check_fitted(self)
        return self.posterior_.check(by)

    def loo(self, draws: int = 1024, seed: int = 0) -> pd.DataFrame:
        """Leave-one-out log predictive density of every row, quick with `draws=0`; see `Posterior.loo`."""
        check_fitted(self)
        return self.posterior_.loo(draws, seed)
