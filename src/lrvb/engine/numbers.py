r"""What if a number of the model were another: derivatives of m* and of variances, all in one pass over rows.

Where L̄ depends on ε as well, dm*/dε = Σ̂c with c = ∂²L̄/∂m∂ε. The variance vᵢ = eᵢᵀΣ̂eᵢ, Σ̂ = (V⁻¹ − H̃)⁻¹,
follows H̃ and V. With sᵢ = Σ̂eᵢ and tᵢ = V⁻¹sᵢ = eᵢ + H̃sᵢ, and η following by dη = c + H̃dm,

  dvᵢ/dε = sᵢᵀ(dH̃/dε)sᵢ + κ₃[tᵢ, tᵢ, dη],

κ₃ the third cumulants of q. The gradients of sᵢᵀH̃sᵢ in m and all ε together are sums over rows
(`collapsed.turning`), so that the cost does not grow with the number of hyperparameters. See: R. Giordano,
T. Broderick and M. Jordan, "Covariances, robustness, and variational Bayes", JMLR 19 (2018).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..collapsed.row_optimum import is_searched
from ..collapsed.turning import Directions, numbers_at, third_cumulant
from ..errors import InvalidModel
from ..families import Tilted
from ..numerics.double import in_double
from ..numerics.lazy import jax, jnp
from ..statement.programs import global_program, shared_briefly
from ..statement.structure import Structure
from ..statement.tracing import numbers_read
from .fitting import Fit
from .response import Response
from .second_order import thinned
from .sensitivity import means_at, newton_change, require_rows

MANY_ROWS = 30_000  # beyond which a sample says how sds follow a prior
SAMPLED = 4000  # rows of it, in one piece: d_sd is then known to 4 % and more often to 2 %
_COSTLY = 10_000  # rows beyond which a sample does so where each is a quadrature or a search
_FEW, _MANY = 16, 64  # directions that are turned together
_SAME = 1e-8  # relative: of statistics of rows that are the same up to rounding one is enough


class NumberChanges(NamedTuple):
    """Of h numbers: dm*/dε (h, a), and dv/dε (h, k) of the variances that were asked for.

    rows (h, a) is the part of ∂²L̄/∂m∂ε that rows have, because they read the number themselves.
    """

    d_mean: np.ndarray
    d_variance: np.ndarray
    rows: np.ndarray


def standing_rows(fit: Fit) -> int | None:
    """How many rows are drawn to say how sds follow, so that they cost no more than a curvature; None: all.

    A row that is a quadrature or a search takes three times its curvature: a quarter of them is drawn.
    """
    problem = fit.problem
    n = problem.total if problem.total is not None else problem.n if problem.rows else 0
    blocks = problem.structure.local.blocks.values()
    if is_searched(problem.structure) or any(isinstance(q, Tilted) for q in blocks):
        return min(n // 4, SAMPLED) if n > _COSTLY else None
    return SAMPLED if n > MANY_ROWS else None


@in_double
def number_changes(
    response: Response,
    moved: Sequence[Mapping[str, np.ndarray]],
    of: np.ndarray,
    most: int | None = None,
) -> NumberChanges:
    """Along each direction of the model's numbers; the variances are those of the functionals `of` (k, a).

    With `most` at most so many rows, which stand for all, say how H̃ turns, weighted so that they have all
    rows' score; all else is of all rows.
    """
    fit = response.fit
    assert fit.curved is not None
    H, Sigma, a, h = fit.curved.H, response.Sigma, len(fit.m), len(moved)
    S = of @ Sigma
    T = of + S @ H
    directions = _stacked(fit.problem.traced, moved)
    program = _global_program(fit.problem.structure)
    found = program(fit.problem.traced, directions, response.eta, fit.m, S, T)
    turns, thirds = np.array(found[0]), np.asarray(found[1])
    of_prior = turns[:h, :a].copy()
    if fit.problem.rows is not None:
        read = numbers_read(fit.problem.structure)
        own = {name: d for name, d in directions.items() if name in read}
        # of those that rows read, and of no others
        moving = np.array([any(np.any(d[i]) for d in own.values()) for i in range(h)], dtype=bool)
        own = {name: d[moving] for name, d in own.items()} if moving.any() else {}
        sample = fit if most is None else _standing_for_all(response, thinned(fit, most), S)
        p = int(moving.sum())
        found = _rows(sample, S, own)
        of_numbers = _rows(fit, S[:0], own) if p and sample is not fit else found[:p]
        turns[:h][moving, :a] += of_numbers[:, :a]
        turns[h:, :a] += found[p:, :a]
        turns[h:, a + np.flatnonzero(moving)] += found[p:, a:]
    c = turns[:h, :a]
    dm = c @ Sigma
    d_eta = c + dm @ H
    d_variance = dm @ turns[h:, :a].T + turns[h:, a:].T + d_eta @ thirds.T
    if not (np.isfinite(dm).all() and np.isfinite(d_variance).all()):
        raise InvalidModel(
            "The derivative in a hyperparameter is not finite; check the third derivatives of the model's "
            "terms at the optimum."
        )
    return NumberChanges(dm, d_variance, c - of_prior)


@in_double
def number_steps(
    response: Response, others: Sequence[Mapping[str, np.ndarray]], rows: np.ndarray
) -> np.ndarray:
    """m (s, a) with each of other numbers of the model, by a Newton step in η; NaN beyond the domain.

    The residual ∂L̄/∂m − η at m* has the global term with the new numbers themselves, so that a prior of
    an exponential family is followed however far it goes, and of the rows their part `rows` (s, a), which
    is of first order.
    """
    fit = response.fit
    program = global_program(fit.problem.structure, 2)

    def derivatives(changed: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        found = program({**fit.problem.traced, **changed}, response.eta)
        return [np.asarray(part) for part in found[2:]]

    gradient, H = derivatives({})
    etas = np.full((len(others), len(fit.m)), np.nan)
    for s, numbers in enumerate(others):
        there, curvature = derivatives(numbers)
        if np.isfinite(there).all() and np.isfinite(curvature).all():
            step = newton_change(response, there - gradient + rows[s], H - curvature)
            etas[s] = response.eta + step
    told = np.isfinite(etas).all(1)
    etas[told] = means_at(fit, etas[told])
    return etas


@in_double
def third_order(response: Response, S: np.ndarray) -> np.ndarray:
    """D³L̄[s, s, ·] (k, a) at the optimum for each s of S (k, a), in one pass over the rows for 64 of them."""
    fit, parts = response.fit, [np.zeros((0, S.shape[1]))]
    program = _global_program(fit.problem.structure)
    together = _FEW if len(S) <= _FEW else _MANY  # two shapes, and no more programs
    for start in range(0, len(S), together):
        part = S[start : start + together]
        full = np.concatenate([part, np.zeros((together - len(part), S.shape[1]))])
        found = program(fit.problem.traced, {}, response.eta, fit.m, full, np.zeros_like(full))[0]
        rows = _rows(fit, full, {}) if fit.problem.rows is not None else 0.0
        parts.append((np.asarray(found) + rows)[: len(part)])
    return np.concatenate(parts)


def _standing_for_all(response: Response, some: Fit, S: np.ndarray) -> Fit:
    """Some of the rows, weighted anew so that count, score and curvature along S are those of all rows.

    w(1 + xᵀλ) with x = (1, g_n, sᵀH̃_n s) and λ such that Σ wx(1 + xᵀλ) is what all rows have: their score is
    η − ∂L̄₀/∂m at the optimum, L̄₀ the global term, and their curvature H̃ less that of L̄₀. What varies with
    x over rows has then no sampling error.
    """
    if some is response.fit:
        return some
    rows, fit = require_rows(some), response.fit
    assert fit.curved is not None
    of_term = global_program(some.problem.structure, 2)(some.problem.traced, response.eta)
    gradient, H = (np.asarray(part) for part in of_term[2:])
    bound: Any = some.bound()
    w = np.asarray(rows.weights)
    x, start = np.ones((len(w), 1 + len(gradient) + len(S))), 0
    for part in bound.curvatures(some.m, S):
        x[start : start + len(part), 1:] = part
        start += len(part)
    products = x.T @ (x * w[:, None])
    curvature = ((S @ (fit.curved.H - H)) * S).sum(1)
    missing = np.concatenate([products[0, :1], response.eta - gradient, curvature]) - products[0]
    size = np.sqrt(np.diag(products))
    unit = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
    share = unit * np.linalg.lstsq(products * unit * unit[:, None], missing * unit, rcond=_SAME)[0]
    rows = replace(rows, weights=w * (1 + x @ share))
    return replace(some, problem=replace(some.problem, rows=rows))


def _rows(fit: Fit, S: np.ndarray, moved: Directions) -> np.ndarray:
    bound: Any = fit.bound()
    return np.asarray(bound.turns(fit.m, S, moved))


def _stacked(
    numbers: Mapping[str, np.ndarray], moved: Sequence[Mapping[str, np.ndarray]]
) -> Directions:
    """Each number's directions (h, …), of those that any ε moves."""
    names = sorted({k for one in moved for k, d in one.items() if np.any(d)})
    found = {}
    for name in names:
        still = np.zeros(np.shape(numbers[name]))
        found[name] = np.stack(
            [np.asarray(one.get(name, still), dtype=np.float64) for one in moved]
        )
    return found


@shared_briefly
def _global_program(structure: Structure) -> Callable[..., Any]:
    """(numbers, moved, η, m, S, T) → the global term's turns (h + k, a + h), and κ₃[t, t, ·] (k, a)."""

    def turns(numbers: Any, moved: Any, eta: Any, m: Any, S: Any, T: Any) -> Any:
        a = m.size
        h = len(next(iter(moved.values()))) if moved else 0
        x = jnp.concatenate([m, jnp.zeros(h)])

        def term(x: Any) -> Any:
            return structure.global_term(numbers_at(numbers, moved, x[a:]), x[:a])

        def mixed(u: Any) -> Any:
            return jax.jvp(jax.grad(term), (x,), (u,))[1]

        def turn(s: Any) -> Any:
            s = jnp.concatenate([s, jnp.zeros(h)])

            def first(x: Any) -> Any:
                return jax.jvp(term, (x,), (s,))[1]

            return jax.grad(lambda x: jax.jvp(first, (x,), (s,))[1])(x)

        thirds = jax.vmap(lambda t: third_cumulant(structure.alpha, eta, t))(T)
        return jnp.concatenate([jax.vmap(mixed)(jnp.eye(a + h)[a:]), jax.vmap(turn)(S)]), thirds

    return turns
