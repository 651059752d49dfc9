"""What an estimator says of the results it does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import NotFitted


class Unfitted:
    """Results end in an underscore and are there after `fit`; before it, asking for one says so."""

    if not TYPE_CHECKING:  # a type checker would believe in every attribute

        def __getattr__(self, name: str) -> Any:
            own = getattr(type(self), name, None)
            if isinstance(own, property):  # its own AttributeError brought us here: let it be seen
                return own.fget(self)
            result = name.endswith("_") and not name.startswith("_")
            if result and "posterior_" not in self.__dict__:
                raise not_fitted(self)
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def not_fitted(estimator: Any) -> NotFitted:
    """The error for an estimator that was not fitted."""
    return NotFitted(f"This {type(estimator).__name__} has not been fitted; call fit(data) first.")
