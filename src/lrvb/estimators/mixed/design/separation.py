"""Fixed effects without a finite estimate: separated binary data, categories whose counts are all zero."""

from __future__ import annotations

import numpy as np
from scipy.linalg import null_space

from ....data.standardise import measure
from ....errors import InvalidData
from .design import Design
from .rank import CONSTANT, triangle

ROUNDS = 50  # of adding violated rows to the linear programme
BATCH = 500  # rows added in a round
NEGLIGIBLE = 1e-7  # the linear programme's own tolerance


def check_separation(design: Design, held: set[str]) -> None:
    """Refuse data in which some fixed effects run off to infinity, unless their priors are stated.

    The likelihood rises for ever along a direction b when Xb ≥ 0 wherever log p never falls with η
    (every trial succeeds), Xb ≤ 0 wherever it never rises (none does, a count is zero), Xb = 0 in
    between, and Xb ≠ 0 somewhere; then only the prior holds the effects, so it has to be the user's.
    Effects in `held` have one and stay where they are.
    """
    names = [name for name in design.names if name not in held]
    if not names:
        return
    family, y, given = design.family, design.y, design.given
    sides = family.free_sides(y, given)
    if sides is None:
        return
    sign, bound = sides
    if separating_direction(_columns(design, names), sign, bound) is None:
        return
    for name in list(reversed(names)):  # the fewest effects that run off together
        fewer = [other for other in names if other != name]
        if separating_direction(_columns(design, fewer), sign, bound) is not None:
            names = fewer
    spread = measure(_columns(design, names[-1:])).unit(CONSTANT)[0]
    listed = ", ".join(f"'{name}'" for name in names)
    what = family.free_words(y, given, design.formula.response, listed)
    raise InvalidData(
        f"{what}; state how large it can be, for example "
        f'priors={{"{names[-1]}": lrvb.prior.Normal(0, {2 / spread:.2g})}}, or leave it out.',
        column=names[-1],
        columns=names,
    )


def _columns(design: Design, names: list[str]) -> np.ndarray:
    """Some of the columns of X."""
    return design.X[:, [design.names.index(name) for name in names]]


def separating_direction(X: np.ndarray, sign: np.ndarray, bound: np.ndarray) -> np.ndarray | None:
    """b ≠ 0 with sign·Xb ≥ 0, = 0 on bound rows, ≠ 0 somewhere, |b| ≤ 1/size; None if there is none.

    Rows of sign 0 go either way: b that moves none but them is one.
    Exact for any number of rows: a linear programme maximises Σ sign·Xb under the constraints of few
    rows, and rows that its solution violates are added until none is violated (b separates) or
    the maximum is zero (fewer constraints already allow nothing).
    """
    if not X.shape[1]:
        return None
    from scipy.optimize import linprog

    size = measure(X).size
    basis = np.eye(X.shape[1])
    said = bound | (sign != 0)
    if not said.all():
        R = triangle(X[said], np.zeros(X.shape[1]), size) if said.any() else np.zeros_like(basis)
        unsaid = null_space(R / np.sqrt(max(said.sum(), 1)), rcond=1e-10)
        if unsaid.shape[1]:
            return unsaid[:, 0] / size
        X, sign, bound = X[said], sign[said], bound[said]
    if bound.any():
        R = triangle(X[bound], np.zeros(X.shape[1]), size)
        basis = null_space(R / np.sqrt(bound.sum()), rcond=1e-10)
    if not basis.shape[1]:
        return None
    free = np.flatnonzero(~bound)
    rows = sign[free, None] * ((X[free] / size) @ basis)
    objective = rows.mean(axis=0)
    active = np.zeros(len(rows), dtype=bool)
    active[np.linspace(0, len(rows) - 1, min(BATCH, len(rows))).astype(int)] = True
    for _ in range(ROUNDS):
        best = linprog(
            -objective,
            A_ub=np.vstack([-rows[active], basis, -basis]),
            b_ub=np.concatenate([np.zeros(active.sum()), np.ones(2 * len(basis))]),
            bounds=(None, None),
            method="highs",
        )
        if best.status != 0 or -best.fun < NEGLIGIBLE:
            return None
        gain = rows @ best.x
        violated = gain < -NEGLIGIBLE
        if not violated.any():
            b = basis @ best.x
            return np.where(np.abs(b) > 1e-6 * np.abs(b).max(), b, 0.0) / size
        worst = np.argsort(gain)[: min(BATCH, int(violated.sum()))]
        active[worst] = True
    return None
