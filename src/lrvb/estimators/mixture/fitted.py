"""A mixture that was not fitted says so in scikit-learn's words and in ours."""

from __future__ import annotations

from typing import Any

from sklearn.exceptions import NotFittedError

from ...errors import NotFitted
from ..unfitted import not_fitted


class MixtureNotFitted(NotFitted, NotFittedError):
    """`lrvb.NotFitted` that scikit-learn's tools know as their own."""


def check_fitted(estimator: Any) -> None:
    """Raise MixtureNotFitted before `fit`."""
    if "posterior_" not in vars(estimator):
        raise MixtureNotFitted(str(not_fitted(estimator)))
