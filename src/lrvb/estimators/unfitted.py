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
            # `name` and `obj` let Python ask for what may have been meant
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}'{_of_posterior(self, name)}",
                name=name,
                obj=self,
            )


def _of_posterior(estimator: Any, name: str) -> str:
    """Where a question stands that is one of the posterior's."""
    posterior = estimator.__dict__.get("posterior_")
    there = not name.startswith("_") and hasattr(type(posterior), name)
    return f"; its posterior has: posterior_.{name}" if there else ""


def not_fitted(estimator: Any) -> NotFitted:
    """The error for an estimator that was not fitted."""
    return NotFitted(f"This {type(estimator).__name__} has not been fitted; call fit(data) first.")
