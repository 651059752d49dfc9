"""Everything that can go wrong, as types whose message says what was found and what to try."""

from __future__ import annotations

from typing import Any


class LrvbError(Exception):
    """Base of every error and warning raised by `lrvb`; its evidence rides along as attributes."""

    def __init__(self, message: str, **evidence: Any):
        super().__init__(message)
        self.evidence = evidence
        for name, value in evidence.items():
            setattr(self, name, value)


class InvalidData(LrvbError, ValueError):
    """The data cannot be used as they are; the message names the column, the row and the value."""


class InvalidModel(LrvbError, ValueError):
    """The model's statement cannot be used; the message names the block or the term."""


class NotFitted(InvalidModel, AttributeError):
    """A result was asked of an estimator before `fit`."""


class NotConverged(LrvbError, UserWarning):
    """The fit stopped early; a warning where a result is still returned, with remedies."""


class NotAMaximum(LrvbError, ArithmeticError):
    """Linear response does not exist here: the point is not a strict maximum of the ELBO."""


class NotAveraged(LrvbError, UserWarning):
    """Coefficients' sds are not averaged over the precisions; a warning, the result is returned."""


class CoincidentComponents(LrvbError, UserWarning):
    """Two components of a mixture have the same posterior; a warning, the result is returned."""


class EmptyComponent(LrvbError, UserWarning):
    """A component of a mixture holds no rows, so that its posterior is its prior; a warning."""


class CollinearColumns(LrvbError, UserWarning):
    """The columns of a mixture do not vary in every direction; a warning, the result is returned."""


class LargeCorrection(LrvbError, UserWarning):
    """One order of approximation moves the answer of the one before by more than it may; a warning."""


class NewLevels(LrvbError, UserWarning):
    """Groups that the fit has not seen are predicted by their term's variance; a warning."""


class BeyondTheData(LrvbError, UserWarning):
    """Rows are predicted beyond the range that a smooth was fitted on; a warning."""


class RowsGathered(LrvbError, UserWarning):
    """Rows were brought together from the partitions they were in; a warning, the fit goes on."""


class CacheRefused(LrvbError, UserWarning):
    """The folder for compiled programs is not safe, so that none are kept; a warning."""


class ForkedProcess(LrvbError, RuntimeError):
    """The process was forked while JAX was running; workers must be started anew (spawn)."""
