"""Programs of a structure: compiled once for all structures whose terms do the same."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..errors import InvalidModel
from ..numerics.double import in_double
from ..numerics.lazy import jax, jnp
from ..numerics.program import Executables, Program
from .structure import Structure
from .tracing import key_of


def shared(build: Callable[..., Callable[..., Any]], brief: bool = False) -> Callable[..., Program]:
    """Programs of a structure, compiled once for all that are equal to it.

    Each is traced from its own structure's model; before that, the model must still be what its
    key says, since a key is of the moment at which the problem was stated. `brief` ones run seldom.
    """

    @functools.lru_cache(maxsize=256)
    def executables(key: Any, rest: tuple[Any, ...]) -> Executables:
        return Executables()

    @functools.wraps(build)
    def program(structure: Structure, *rest: Any) -> Program:
        found = structure.programs.get((build, rest))
        if found is None:
            known = executables(structure.key, rest)
            check = functools.partial(require_unchanged, structure)
            found = Program(build(structure, *rest), known, check, brief=brief)
            structure.programs[build, rest] = found
        return found

    return program


shared_briefly = functools.partial(shared, brief=True)


@in_double
def require_unchanged(structure: Structure) -> None:
    """The model, and all that it reads, is as it was when the problem was stated."""
    if structure.key is not None and key_of(structure) != structure.key:
        raise InvalidModel(
            f"{type(structure.model).__name__}, or something that its terms read, has changed since "
            "the fit was started, so that what is asked now would belong to another model; fit again."
        )


@shared
def global_program(structure: Structure, order: int) -> Callable[..., Any]:
    """(numbers, η) → q(α) at η, with value, gradient and Hessian of the global term."""

    def at(numbers: Any, eta: Any) -> Any:
        q = structure.alpha.evaluate(eta)
        term = functools.partial(structure.global_term, numbers)
        value, gradient = jax.value_and_grad(term)(q.m)
        H = jax.hessian(term)(q.m) if order == 2 else jnp.zeros((0, 0))
        return q, value, gradient, H

    return at


@shared
def global_product_program(structure: Structure) -> Callable[..., Any]:
    """(numbers, m, v (k, a)) → Hv of the global term, (k, a)."""

    def at(numbers: Any, m: Any, v: Any) -> Any:
        gradient = jax.grad(functools.partial(structure.global_term, numbers))
        return jax.vmap(lambda one: jax.jvp(gradient, (m,), (one,))[1])(v)

    return at


@shared
def global_density_program(structure: Structure, gradient: bool) -> Callable[..., Any]:
    """(numbers, points) → the global term at each m (S, a), and its gradient where asked for."""

    def at(numbers: Any, points: Any) -> Any:
        term = functools.partial(structure.global_term, numbers)
        if gradient:
            return jax.vmap(jax.value_and_grad(term))(points)
        return jax.vmap(term)(points), jnp.zeros(0)

    return at


@shared
def valid_means_program(structure: Structure) -> Callable[..., Any]:
    """Many η (S, a) → the means of q(α) at each (S, a), and whether η lies in the domain (S,)."""

    def at(etas: Any) -> Any:
        def one(eta: Any) -> Any:
            found = structure.alpha.evaluate(eta)
            return found.m, found.valid

        return jax.vmap(one)(etas)

    return at


@shared
def means_program(structure: Structure) -> Callable[..., Any]:
    """Many η (S, a) → the means of q(α) at each, (S, a)."""

    def at(etas: Any) -> Any:
        return jax.vmap(lambda eta: structure.alpha.evaluate(eta).m)(etas)

    return at
