"""Row sums by weighted Gram matrices, for terms linear in z and in features φ of the row.

If ℓ(m, z, φ) = Σ_k z_k A_k(m)·φ, then everything of size N enters through η_nk = A_k·φ_n, the sums
S_k = Σ_n z_nk φ_n and the Gram matrices G_kl = Σ_n V_n,kl φ_nφ_nᵀ, so that
H̃ = ∂²⟨A, S⟩/∂m² + Σ_kl J_kᵀ G_kl J_l with J = ∂A/∂m. The coefficients A are the derivative of the
model's own local term at unit features: no Hessian is written by hand.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InvalidModel
from ..families import Categorical
from ..numerics.double import in_double
from ..numerics.lazy import jax, jnp
from ..statement.problem import Problem
from ..statement.programs import shared
from ..statement.structure import Structure
from .autodiff import AutodiffSum
from .chunks import chunk_length, chunks, point_chunks
from .seam import BoundSum, CollapsedSums, Densities, LocalResponse
from .turning import Directions, autodiff_turns, third_cumulant


@dataclass(frozen=True)
class GramSum:
    """Row sums at the speed of a matrix product; the model must declare `features`."""

    @in_double
    def bind(self, problem: Problem, chunk_size: int | None = None) -> BoundSum:
        """The sum over this problem's rows."""
        model = type(problem.model).__name__
        if problem.model.features is None or not problem.structure.conjugate:
            raise InvalidModel(
                f"{model} is not linear in its local variables and in features of the row; "
                "leave local_sum to its default."
            )
        _require_bilinear(problem)
        width = _declared(problem.structure)
        return _GramBound(problem, chunk_length(problem, chunk_size, 3 * width), chunk_size)


class _GramBound:
    def __init__(self, problem: Problem, size: int, chunk_size: int | None = None):
        self.problem, self.size, self.chunk_size = problem, size, chunk_size
        self._kept = list(chunks(problem, size)) if problem.n <= size else None

    def evaluate(self, m: np.ndarray, order: int = 2, state: Any = None) -> CollapsedSums:
        problem, structure = self.problem, self.problem.structure
        A = coefficient_program(structure)(problem.traced, m)
        program = gram_program(structure, order)
        value, failed, first = 0.0, -1, 0
        S: Any = 0.0
        G: Any = 0.0
        for chunk in self._kept or chunks(problem, self.size):
            v, s, g, bad = program(problem.traced, A, chunk.columns, chunk.weights)
            value, S, G = value + float(v), S + np.asarray(s), G + np.asarray(g)
            if failed < 0 <= int(bad):
                failed = first + int(bad)
            first += chunk.n
        gradient, H = assembly_program(structure, order)(problem.traced, m, S, G)
        curvature = np.asarray(H) if order == 2 else None
        return CollapsedSums(value, np.asarray(gradient), curvature, failed)

    def respond(
        self, m: np.ndarray, asked: np.ndarray | None = None, state: Any = None
    ) -> Iterator[LocalResponse]:
        return AutodiffSum().bind(self.problem).respond(m, asked)

    def density(self, points: np.ndarray, gradient: bool = False) -> Densities:
        problem, structure = self.problem, self.problem.structure
        value = np.zeros(len(points))
        slope = np.zeros(points.shape if gradient else (0, points.shape[1]))
        program = point_program(structure, gradient)
        rows = min(self.size, problem.n)
        for here, part in point_chunks(points, rows):
            A = coefficients_program(structure)(problem.traced, part)
            v, S = np.zeros(len(part)), np.zeros(A.shape)
            for chunk in self._kept or chunks(problem, self.size):
                values, sums = program(problem.traced, A, chunk.columns, chunk.weights)
                v += np.asarray(values)
                if gradient:
                    S += np.asarray(sums)
            n = here.stop - here.start
            value[here] = v[:n]
            if gradient:
                pulled = pullback_program(structure)(problem.traced, part, S)
                slope[here] = np.asarray(pulled)[:n]
        return Densities(value, slope if gradient else None)

    def bend(self, m: np.ndarray, R: np.ndarray) -> np.ndarray:
        problem, structure = self.problem, self.problem.structure
        A = coefficient_program(structure)(problem.traced, m)
        M = spread_program(structure)(problem.traced, m, R)
        S: Any = 0.0
        G: Any = 0.0
        D: Any = 0.0
        for chunk in self._kept or chunks(problem, self.size):
            rows = (chunk.columns, chunk.weights)
            _, s, g, _ = gram_program(structure, 2)(problem.traced, A, *rows)
            S, G = S + np.asarray(s), G + np.asarray(g)
            D = D + np.asarray(third_program(structure)(problem.traced, A, M, *rows))
        return np.asarray(bend_program(structure)(problem.traced, m, R, S, G, D))

    def turns(self, m: np.ndarray, S: np.ndarray, moved: Directions) -> np.ndarray:
        problem, structure = self.problem, self.problem.structure
        if moved:  # numbers that rows read may move features as well as coefficients
            return autodiff_turns(problem, self.chunk_size, m, S, moved)
        A = coefficient_program(structure)(problem.traced, m)
        along = along_program(structure)(problem.traced, m, S)
        s: Any = 0.0
        G: Any = 0.0
        D: Any = 0.0
        for chunk in self._kept or chunks(problem, self.size):
            rows = (chunk.columns, chunk.weights)
            _, part, g, _ = gram_program(structure, 2)(problem.traced, A, *rows)
            s, G = s + np.asarray(part), G + np.asarray(g)
            D = D + np.asarray(thirds_program(structure)(problem.traced, A, along, *rows))
        return np.asarray(turns_program(structure)(problem.traced, m, S, s, G, D))

    def gaps(self, points: np.ndarray) -> np.ndarray:
        return np.zeros(len(points))  # linear in z

    def gap_slope(self, m: np.ndarray, R: np.ndarray) -> np.ndarray:
        return np.zeros(R.shape[1])

    def gap_bends(self, m: np.ndarray, velocity: np.ndarray, turn: np.ndarray) -> np.ndarray:
        return np.zeros(len(velocity))


def _features(structure: Structure, traced: Any, row: Any) -> Any:
    return structure.features(traced, structure.row(row))


def _coefficients(structure: Structure, traced: Any, m: Any, F: int) -> Any:
    """A (d, F): the derivative of the local term in z and φ, the same at every row."""
    term = functools.partial(structure.local_term, traced, m)
    by_features = jax.grad(lambda phi, z: term(z, phi))
    return jax.jacfwd(by_features, 1)(jnp.zeros(F), jnp.zeros(structure.local.size)).T


def _feature_count(problem: Problem) -> int:
    assert problem.rows is not None
    row = {name: jnp.asarray(c[0]) for name, c in problem.rows.columns.items()}
    shape = jax.eval_shape(
        functools.partial(_features, problem.structure), problem.traced, row
    ).shape
    if len(shape) != 1:
        raise InvalidModel(f"features returned shape {shape}; it must return a vector.")
    return int(shape[0])


def _pairs(structure: Structure) -> tuple[list[tuple[int, int]], bool]:
    """Index pairs whose Gram matrices are needed, and whether diagonals follow from the rest.

    A categorical's covariance has rows that sum to zero: G_kk = −Σ_{l≠k} G_kl.
    """
    blocks = list(structure.local.blocks.values())
    d = structure.local.size
    if len(blocks) == 1 and isinstance(blocks[0], Categorical) and blocks[0].copies == 1:
        return [(k, j) for k in range(d) for j in range(k + 1, d)], True
    return [(k, j) for k in range(d) for j in range(k, d)], False


@shared
def coefficient_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m) → A."""

    def coefficients(traced: Any, m: Any) -> Any:
        return _coefficients(structure, traced, m, _declared(structure))

    return coefficients


@shared
def gram_program(structure: Structure, order: int) -> Callable[..., Any]:
    """(traced, A, columns, weights) → collapsed value, S, the Gram matrices, first failed row."""
    pairs, _ = _pairs(structure)

    def sums(traced: Any, A: Any, columns: Any, weights: Any) -> Any:
        Phi = jax.vmap(functools.partial(_features, structure, traced))(columns)

        def one(row: Any, eta: Any) -> Any:
            local = structure.local.at(structure.row(row))
            q = local.evaluate(eta)
            return q.m, local.dense(q.C), q.S + eta @ q.m, q.valid

        eta = Phi @ A.T
        z, C, A_z, valid = jax.vmap(one)(columns, eta)
        failed = ~(valid & jnp.isfinite(A_z)) & (weights > 0)
        first = jnp.where(failed.any(), jnp.argmax(failed), -1)
        S = (weights[:, None] * z).T @ Phi
        value = weights @ A_z
        if order < 2:
            return value, S, jnp.zeros((0, 0, 0)), first
        V = C @ jnp.swapaxes(C, 1, 2)
        G = [(Phi * (weights * V[:, k, j])[:, None]).T @ Phi for k, j in pairs]
        F = Phi.shape[1]
        return value, S, jnp.stack(G) if G else jnp.zeros((0, F, F)), first

    return sums


@shared
def coefficients_program(structure: Structure) -> Callable[..., Any]:
    """(traced, points) → A at each point, (S, d, F)."""

    def coefficients(traced: Any, points: Any) -> Any:
        F = _declared(structure)
        return jax.vmap(lambda m: _coefficients(structure, traced, m, F))(points)

    return coefficients


@shared
def point_program(structure: Structure, gradient: bool) -> Callable[..., Any]:
    """(traced, A, columns, weights) → Σ_n w_n A_z(ΦAᵀ) at each point, and S = Σ_n w_n z_n φ_nᵀ."""

    def densities(traced: Any, A: Any, columns: Any, weights: Any) -> Any:
        Phi = jax.vmap(functools.partial(_features, structure, traced))(columns)
        points, d, F = A.shape
        eta = (Phi @ A.reshape(points * d, F).T).reshape(-1, points, d)

        def one(row: Any, eta: Any) -> Any:
            local = structure.local.at(structure.row(row))

            def at(eta: Any) -> Any:
                if not gradient:
                    return jnp.zeros(0), *local.log_partition(eta)
                q = local.evaluate(eta)
                return q.m, q.S + eta @ q.m, q.valid

            return jax.vmap(at)(eta)

        z, A_z, valid = jax.vmap(one)(columns, eta)
        counted = (weights > 0)[:, None]
        found = (valid & jnp.isfinite(A_z) | ~counted).all(axis=0)
        value = jnp.where(found, weights @ jnp.where(counted, A_z, 0.0), -jnp.inf)
        if not gradient:
            return value, jnp.zeros(0)
        return value, jnp.einsum("n,npd,nf->pdf", weights, z, Phi)

    return densities


@shared
def pullback_program(structure: Structure) -> Callable[..., Any]:
    """(traced, points, S) → ∂⟨A, S⟩/∂m at each point."""

    def pull(traced: Any, points: Any, S: Any) -> Any:
        def one(m: Any, S: Any) -> Any:
            F = S.shape[1]
            return jax.grad(lambda m: jnp.sum(_coefficients(structure, traced, m, F) * S))(m)

        return jax.vmap(one)(points, S)

    return pull


@shared
def assembly_program(structure: Structure, order: int) -> Callable[..., Any]:
    """(traced, m, S, G) → gradient and curvature of the sum over rows."""
    d = structure.local.size

    def assemble(traced: Any, m: Any, S: Any, G: Any) -> Any:
        F = S.shape[1]

        def paired(m: Any) -> Any:
            return jnp.sum(_coefficients(structure, traced, m, F) * S)

        gradient = jax.grad(paired)(m)
        if order < 2:
            return gradient, jnp.zeros((0, 0))
        J = jax.jacfwd(lambda m: _coefficients(structure, traced, m, F))(m).reshape(d * F, -1)
        return gradient, jax.hessian(paired)(m) + J.T @ (_whole(structure, G, F) @ J)

    return assemble


def _whole(structure: Structure, G: Any, F: int) -> Any:
    """All Gram matrices as one, (dF, dF)."""
    pairs, sums_to_one = _pairs(structure)
    d, zero = structure.local.size, jnp.zeros((F, F))
    full = [[zero] * d for _ in range(d)]
    for i, (k, j) in enumerate(pairs):
        full[k][j] = full[j][k] = G[i]
    if sums_to_one:
        for k in range(d):
            full[k][k] = -sum((full[k][j] for j in range(d) if j != k), zero)
    return jnp.block(full)


@shared
def spread_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, R) → Σ_k Ȧ_k ⊗ Ȧ_k (d, d, F, F), Ȧ_k the derivative of A along column k of R."""

    def spread(traced: Any, m: Any, R: Any) -> Any:
        F = _declared(structure)
        J = jax.jacfwd(lambda m: _coefficients(structure, traced, m, F))(m)  # (d, F, a)
        moved = J @ R
        return jnp.einsum("dfk,egk->defg", moved, moved)

    return spread


@shared
def third_program(structure: Structure) -> Callable[..., Any]:
    """(traced, A, M, columns, weights) → D = Σ_n w_n ∂/∂A of Σ_kl V_n,kl φᵀM_klφ, M held fixed."""

    def third(traced: Any, A: Any, M: Any, columns: Any, weights: Any) -> Any:
        Phi = jax.vmap(functools.partial(_features, structure, traced))(columns)
        u = jnp.stack(
            [jnp.stack([((Phi @ block) * Phi).sum(1) for block in row], axis=1) for row in M],
            axis=1,
        )  # (n, d, d)

        def one(row: Any, eta: Any, u: Any) -> Any:
            local = structure.local.at(structure.row(row))

            def spread(eta: Any) -> Any:
                C = local.dense(local.evaluate(eta).C)
                return jnp.sum((C @ C.T) * u)

            return jax.grad(spread)(eta)

        slopes = jax.vmap(one)(columns, Phi @ A.T, u)
        return jnp.where(weights > 0, slopes.T * weights, 0.0) @ Phi

    return third


@shared
def along_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, S (k, a)) → the derivative of A along each of S, (k, d, F)."""

    def along(traced: Any, m: Any, S: Any) -> Any:
        def A(m: Any) -> Any:
            return _coefficients(structure, traced, m, _declared(structure))

        return jax.vmap(lambda s: jax.jvp(A, (m,), (s,))[1])(S)

    return along


@shared
def thirds_program(structure: Structure) -> Callable[..., Any]:
    """(traced, A, Ȧ (k, d, F), columns, weights) → Σ_n w_n κ₃[Ȧφ, Ȧφ, ·]φᵀ of each Ȧ, (k, d, F)."""
    _, categorical = _pairs(structure)

    def thirds(traced: Any, A: Any, along: Any, columns: Any, weights: Any) -> Any:
        Phi = jax.vmap(functools.partial(_features, structure, traced))(columns)
        eta, d = Phi @ A.T, along.shape[1]
        u = [Phi @ along[:, c].T for c in range(d)]  # (n, k) each

        def mean(row: Any, eta: Any) -> Any:
            return structure.local.at(structure.row(row)).evaluate(eta).m

        def third(row: Any, eta: Any, u: Any) -> Any:
            local = structure.local.at(structure.row(row))
            return jax.vmap(lambda e: third_cumulant(local, eta, e))(u)

        if categorical:  # κ₃[u, u, c] = z_c((u_c − ū)² − Var u)
            z = jax.vmap(mean)(columns, eta)
            centre = sum(z[:, c, None] * u[c] for c in range(d))
            squares = [(u[c] - centre) ** 2 for c in range(d)]
            spread = sum(z[:, c, None] * squares[c] for c in range(d))
            found = [z[:, c, None] * (squares[c] - spread) for c in range(d)]
        else:
            every = jax.vmap(third)(columns, eta, jnp.stack(u, axis=2))
            found = [every[..., c] for c in range(d)]
        counted = weights[:, None] > 0
        return jnp.stack(
            [jnp.where(counted, weights[:, None] * t, 0.0).T @ Phi for t in found], axis=1
        )

    return thirds


@shared
def turns_program(structure: Structure) -> Callable[..., Any]:
    """(traced, m, S (k, a), s, G, D (k, d, F)) → ∂(sᵀH̃s)/∂m of each of S, (k, a)."""
    bend = bend_program.__wrapped__(structure)  # type: ignore[attr-defined]

    def turns(traced: Any, m: Any, S: Any, sums: Any, G: Any, D: Any) -> Any:
        def one(s: Any, D: Any) -> Any:
            return bend(traced, m, s[:, None], sums, G, D)

        return jax.vmap(one)(S, D)

    return turns


@shared
def bend_program(structure: Structure) -> Callable[..., Any]:
    r"""(traced, m, R, S, G, D) → ∂ tr(RRᵀH̃)/∂m.

    With L̄ = v(A(m)) and ∂v = S, ∂²v = G, tr(RRᵀH̃) = Σ_k Ȧ_kᵀGȦ_k + ⟨S, Ä_k⟩. Its derivative is that of
    A in ⟨D + GΣ_kÄ_k, A⟩, and of Ȧ and Ä with G and S held fixed.
    """
    d = structure.local.size

    def bend(traced: Any, m: Any, R: Any, S: Any, G: Any, D: Any) -> Any:
        F = S.shape[1]
        whole = _whole(structure, G, F)

        def A(m: Any) -> Any:
            return _coefficients(structure, traced, m, F)

        def along(m: Any) -> Any:
            def one(r: Any) -> Any:
                def first(m: Any) -> Any:
                    return jax.jvp(A, (m,), (r,))[1]

                return jax.jvp(first, (m,), (r,))

            return jax.lax.map(one, R.T)  # Ȧ_k and Ä_k

        second = along(m)[1].sum(0).reshape(d * F)
        held = D + (whole @ second).reshape(d, F)

        def total(m: Any) -> Any:
            moved, moved_twice = along(m)
            flat = moved.reshape(-1, d * F)
            own = jnp.sum((flat @ whole) * flat) + jnp.sum(S * moved_twice.sum(0))
            return own + jnp.sum(held * A(m))

        return jax.grad(total)(m)

    return bend


_COUNTS: dict[Structure, int] = {}


def _declared(structure: Structure) -> int:
    return _COUNTS[structure]


def _require_bilinear(problem: Problem) -> None:
    """Check the declaration on the first rows: ℓ(m, z, φ) = z·A(m)φ for a z that is not special."""
    structure, rows = problem.structure, problem.rows
    if structure in _COUNTS:
        return
    assert rows is not None
    _COUNTS[structure] = _feature_count(problem)
    first = {name: np.asarray(c[:4]) for name, c in rows.columns.items()}
    terms, bilinear, size = (
        np.asarray(part) for part in bilinearity_program(structure)(problem.traced, first)
    )
    bad = ~(np.abs(terms - bilinear) <= 1e-8 * (np.abs(terms) + size))
    if bad.any():
        i = int(np.argmax(bad))
        del _COUNTS[structure]
        raise InvalidModel(
            f"{type(problem.model).__name__} declares features, but its local_term is not linear "
            f"in z and in them at row {i} ({terms[i]:.6g} against {bilinear[i]:.6g}). Put every "
            "factor that multiplies z into features, or leave the declaration out.",
            row=i,
        )


@shared
def bilinearity_program(structure: Structure) -> Callable[..., Any]:
    """(traced, columns) → ℓ, z·Aφ and the size of its summands, at an m and z that are not special."""

    def compare(traced: Any, columns: Any) -> Any:
        m = jnp.linspace(0.5, 1.5, structure.alpha.size)
        z = jnp.linspace(0.3, 1.1, structure.local.size)
        A = _coefficients(structure, traced, m, _declared(structure))

        def one(row: Any) -> Any:
            phi = _features(structure, traced, row)
            size = jnp.abs(z) @ jnp.abs(A) @ jnp.abs(phi)
            return structure.local_term(traced, m, z, phi), z @ (A @ phi), size

        return jax.vmap(one)(columns)

    return compare
