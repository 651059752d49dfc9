"""One door for every file that this package has written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidModel
from ..posterior.storage import known_families, posterior_of, read

if TYPE_CHECKING:
    from ..families.base import Family
    from ..likelihoods import Likelihood
    from ..posterior.archive import Archive
    from ..posterior.posterior import Posterior
    from .mixed.estimator import MixedModel


def load(
    path: str | Path,
    *,
    families: Iterable[type[Family]] = (),
    family: Likelihood | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> Posterior | MixedModel:
    """Read what `Posterior.save` or `MixedModel.save` has written: the posterior, or the model.

    Nothing that a file names is imported: families of your own are passed as classes, and to a mixed
    model its `family`, a likelihood of your own, and the `functions` that its formula calls.
    """
    known = known_families(families)

    def make(header: dict[str, Any], archive: Archive) -> Posterior | MixedModel:
        posterior = posterior_of(header, archive, known)
        if "mixed" not in header:
            if family is not None or functions:
                raise InvalidModel(
                    f"'{path}' holds a posterior and no mixed model, to which family= and functions= "
                    "belong; leave them out."
                )
            return posterior
        from .mixed.storage import model_of

        return model_of(header, archive, posterior, family, functions)

    return read(path, make)
