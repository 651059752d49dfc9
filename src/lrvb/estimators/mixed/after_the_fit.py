"""What is asked of a fitted mixed model beyond its tables, answered from joint draws of all it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .answers.joint import DRAWS, Drawable, JointDraws, check_draws, generator, labelled
from .design.design import Design

if TYPE_CHECKING:
    import xarray as xr


class Drawn:
    """Joint draws of one fit, of which the last are kept: many questions ask for the same."""

    def __init__(self, source: Drawable):
        self.source = source
        self._last: tuple[tuple[int, int], JointDraws] | None = None

    def draw(self, n: int, seed: Any) -> JointDraws:
        """n joint draws."""
        if not isinstance(seed, int):
            return self.source.draw(n, generator(seed))
        if self._last is None or self._last[0] != (n, seed):
            self._last = (n, seed), self.source.draw(n, generator(seed))
        return self._last[1]


class AfterTheFit:
    """Questions of a fitted model; `MixedModel` inherits them."""

    _drawn: Drawn

    def _design(self) -> Design:
        raise NotImplementedError

    def draws(self, n: int = DRAWS, seed: Any = 0) -> xr.Dataset:
        """n draws from the joint posterior of everything: an `xarray.Dataset` over `draw`.

        Every name of `posterior_` is a variable (draw,): coefficients, sds, correlations, dispersions.
        Every random effect is one over its levels: `draws["1|g"].sel(g="b")`. Hyperparameters are
        drawn in proportion to their weights, and coefficients given them from their exact conditional
        distribution; of a variational fit all come from its Gaussian and its families.
        """
        design = self._design()
        return labelled(design, self._drawn.draw(check_draws(n), seed))
