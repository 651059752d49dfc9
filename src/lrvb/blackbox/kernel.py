"""The one compiled kernel, log p and its gradient at 64 points at a time, and what is made of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidModel, LrvbError
from ..numerics.double import in_double
from ..numerics.lazy import jax, jnp
from ..numerics.program import Program
from .density import Density, told
from .warp import Warp

BATCH = 64  # points of one call; gradients in batches cost a third to a fourteenth of single ones
WIDE = 256  # of the named values, which need no gradient
STEP = 1e-4  # of a difference, in units of the coordinates' own scale


@dataclass
class Count:
    """Gradients asked for, those among them that were watched, and those that were not numbers."""

    gradients: int = 0
    watched: int = 0
    broken: int = 0


class Kernel:
    """Values and gradients of a log density at any number of points, counted.

    A point where the value or its gradient is not a number has log p = −∞ and no gradient. Of points
    asked for with `watch`, `count.broken` counts those. Through a warp, points are those of its
    coordinates v and log p is that of v.
    """

    _warp: Warp | None = None

    def __init__(self, density: Density):
        self.size, self.count = density.size, Count()
        what = f"The log density of {density.source}"
        self._batched = Batched(_scalar(density.log_density, what), self.size, what, BATCH, True)

    def __call__(self, X: np.ndarray, *, watch: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """log p (n,) and its gradient (n, D) at X (n, D)."""
        self.count.gradients += len(X)
        with np.errstate(all="ignore"):  # what is not a number is told apart below
            value, gradient = self._batched(X if self._warp is None else self._warp.forward(X))
            if self._warp is not None:
                value, gradient = self._warp.pulled_back(X, value, gradient)
        bad = np.isnan(value) | (value == np.inf) | ~np.isfinite(gradient).all(axis=1)
        if watch:
            self.count.watched += len(X)
            self.count.broken += int((bad & (value != -np.inf)).sum())
        bad |= value == -np.inf
        return np.where(bad, -np.inf, value), np.where(bad[:, None], 0.0, gradient)

    def through(self, warp: Warp) -> Kernel:
        """The same log density in the coordinates of a warp, with the same count."""
        found = copy.copy(self)
        found._warp = warp
        return found

    def hessians(self, X: np.ndarray, root: np.ndarray) -> np.ndarray:
        """rootᵀ ∇²log p root at X (n, D), (n, D, D), by central differences along root's columns.

        A step leads h = 1e-4 of a column away, an error of order h² beside third derivatives. Not a
        number where a step leads to a point without density.
        """
        n, D = X.shape
        moved = STEP * root.T
        points = np.concatenate([X[:, None] + moved, X[:, None] - moved], axis=1)
        value, gradient = self(points.reshape(-1, D))
        gradient = np.where(np.isfinite(value)[:, None], gradient, np.nan).reshape(n, 2, D, D)
        H = (gradient[:, 0] - gradient[:, 1]) @ root / (2 * STEP)
        return 0.5 * (H + H.swapaxes(1, 2))


class Values:
    """Named values at any number of points, of x or of v, flat and one after another."""

    _warp: Warp | None = None

    def __init__(self, density: Density):
        self.shapes = density.shapes()
        what = f"The values of {density.source}"

        def flat(x: Any) -> Any:
            parts = [jnp.ravel(v).astype(jnp.float64) for v in density.values(x).values()]
            return jnp.concatenate([jnp.zeros(0), *parts])

        self._batched = Batched(flat, density.size, what, WIDE, False)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Values (n, q) at X (n, D)."""
        return self._batched(X if self._warp is None else self._warp.forward(X))[0]

    def through(self, warp: Warp) -> Values:
        """The same in the coordinates of a warp."""
        found = copy.copy(self)
        found._warp = warp
        return found

    @property
    def names(self) -> list[str]:
        """`tau` of a number, `theta[3]` and `Omega[0,1]` of arrays."""
        return [name for site, shape in self.shapes.items() for name in _names(site, shape)]


class Batched:
    """A function of one point, compiled for a fixed number of them; its data are arguments."""

    @in_double
    def __init__(
        self, f: Callable[[Any], Any], size: int, what: str, batch: int, differentiate: bool
    ):
        try:
            closed = jax.make_jaxpr(f)(np.zeros(size))
        except LrvbError:
            raise
        except Exception as error:
            raise InvalidModel(f"{what} {told(error)}") from error
        self._constants = [jax.device_put(c) for c in closed.consts]  # asarray would compile
        self.batch = batch

        def one(constants: list[Any], x: Any) -> Any:
            return jax.core.eval_jaxpr(closed.jaxpr, constants, x)[0]

        def every(constants: list[Any], X: Any) -> Any:
            if not differentiate:
                return (jax.vmap(one, (None, 0))(constants, X),)
            return jax.vmap(jax.value_and_grad(one, argnums=1), (None, 0))(constants, X)

        self._program, self._what, self._met = Program(every, brief=True), what, False

    @in_double
    def __call__(self, X: np.ndarray) -> tuple[np.ndarray, ...]:
        """What the function gives at X (n, D), each output with n in front."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        n = len(X)
        if n == self.batch:
            return tuple(np.asarray(part) for part in self._run(X))
        padded = np.concatenate([X, np.repeat(X[-1:], -n % self.batch, axis=0)])
        parts = [self._run(padded[i : i + self.batch]) for i in range(0, len(padded), self.batch)]
        found = zip(*parts, strict=True)
        return tuple(np.concatenate([np.asarray(p) for p in part])[:n] for part in found)

    def _run(self, X: np.ndarray) -> Any:
        """The program; what JAX says when it differentiates or compiles, at the first call, is told."""
        if self._met:
            return self._program(self._constants, X)
        try:
            found = self._program(self._constants, X)
        except LrvbError:
            raise
        except Exception as error:
            raise InvalidModel(
                f"{self._what} could not be differentiated or compiled: it {told(error)}"
            ) from error
        self._met = True
        return found


def _names(site: str, shape: tuple[int, ...]) -> list[str]:
    if not shape:
        return [site]
    return [f"{site}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def _scalar(f: Callable[[Any], Any], what: str) -> Callable[[Any], Any]:
    """f as one number in double precision; anything else is told."""

    def checked(x: Any) -> Any:
        found = f(x)
        if found is None:
            raise InvalidModel(f"{what} is None; it must be one number: does it say `return`?")
        value = jnp.asarray(found)
        if value.shape != ():
            raise InvalidModel(f"{what} has shape {value.shape}; it must be one number.")
        if jnp.issubdtype(value.dtype, jnp.complexfloating):
            raise InvalidModel(f"{what} is complex; it must be a real number.")
        return value.astype(jnp.float64)

    return checked
