"""Components of a fitted mixture: their order, and whether they died, collapsed or coincide."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ...engine.fitting import Fit
from ...errors import CoincidentComponents, EmptyComponent, InvalidModel
from ...models.mixture_sweeps import MixturePriors


def in_order(fit: Fit) -> Fit:
    """The same optimum with components by increasing first coordinate of their means.

    Means that agree to six digits are ordered by the next coordinate, and last by size.
    """
    params = fit.params()
    loc = np.round(params["mu"]["loc"], 6)
    return relabelled(fit, np.lexsort((-params["Lambda"]["dof"], *loc.T[::-1])))


def relabelled(fit: Fit, order: np.ndarray) -> Fit:
    """The same optimum with component `order[k]` in place k."""
    if (order == np.arange(len(order))).all():
        return fit
    alpha = fit.alpha
    at = np.arange(alpha.size)
    for name in ("mu", "Lambda", "pi"):
        here = alpha.slices[name]
        at[here] = at[here].reshape(len(order), -1)[order].reshape(-1)
    return fit.permuted(at)


def failure(fit: Fit, priors: MixturePriors) -> InvalidModel | None:
    """The error for a component without a proper posterior, None when every one has its own.

    Only improper priors allow it: a component without rows then has no posterior, and one whose rows
    span less than all columns has a precision, and an ELBO, without bound.
    """
    if priors.proper:
        return None
    P = len(priors.mean)
    ahead = fit.alpha.natural(fit.point.gradient)  # where the next update would go
    rows = 2 * np.asarray(ahead["Lambda"].logdet_x) + P + 1 - priors.dof
    params = fit.params()["Lambda"]
    spread = 1 / np.linalg.eigvalsh(params["scale"])[:, -1] / params["dof"]
    empty = np.flatnonzero(rows < (1e-6 if fit.converged else 0.5))
    thin = np.flatnonzero(~(spread > (1e-13 if fit.converged else 1e-7)))
    remedy = (
        "Try fewer components, another init or a larger n_init, or proper priors: "
        f"mean_precision_prior > 0, wishart_dof_prior > {P - 1}, a finite wishart_scale_prior, "
        "weight_concentration_prior > 0."
    )
    if len(empty):
        k = int(empty[np.argmin(rows[empty])])
        return InvalidModel(
            f"Component {k} has lost all of its rows, and with improper priors it has no posterior "
            f"of its own. {remedy}",
            component=k,
            rows=float(rows[k]),
        )
    if len(thin):
        k = int(thin[np.argmin(spread[thin])])
        return InvalidModel(
            f"Component {k} has collapsed onto {rows[k]:.1f} rows that do not span {P} columns: "
            f"without a proper prior its precision, and the ELBO, grow without bound. {remedy}",
            component=k,
            rows=float(rows[k]),
        )
    return None


def tell(params: dict[str, dict[str, Any]], priors: MixturePriors, stacklevel: int) -> None:
    """Warn of components that coincide, and of those that hold no rows."""
    pairs = coinciding(params, priors)
    if pairs:
        warnings.warn(coincidence(pairs), stacklevel=stacklevel + 1)
    rows = params["Lambda"]["dof"] - priors.dof
    empty = np.flatnonzero(rows <= 0.5)
    if len(empty):
        who = "Component " if len(empty) == 1 else "Components "
        held = "holds" if len(empty) == 1 else "hold"
        warnings.warn(
            EmptyComponent(
                f"{who}{', '.join(map(str, empty))} of {len(rows)} {held} no rows: what is said of it is the "
                "prior, and the others explain the data without it. Try fewer components, or another init "
                "or a larger n_init if you expect as many.",
                components=empty.tolist(),
                rows=rows[empty].tolist(),
            ),
            stacklevel=stacklevel + 1,
        )


def coinciding(params: dict[str, dict[str, Any]], priors: MixturePriors) -> list[tuple[int, int]]:
    """Pairs of components with rows whose means and precisions agree, in units of their sds."""
    loc, cov = params["mu"]["loc"], params["mu"]["cov"]
    dof, scale = params["Lambda"]["dof"], params["Lambda"]["scale"]
    pairs = []
    alive = np.flatnonzero(dof - priors.dof > 0.5)
    for i in alive:
        for j in alive[alive > i]:
            apart = (loc[i] - loc[j]) ** 2 / np.diagonal(cov[i])
            change = np.linalg.solve(dof[i] * scale[i], dof[j] * scale[j]) - np.eye(len(loc[i]))
            if apart.max() < 0.01 and np.abs(change).max() < 0.1 * np.sqrt(2 / dof[i]):
                pairs.append((int(i), int(j)))
    return pairs


def coincidence(pairs: list[tuple[int, int]]) -> CoincidentComponents:
    """The warning that names them."""
    i, j = pairs[0]
    more = f" (and {len(pairs) - 1} more such pairs)" if len(pairs) > 1 else ""
    return CoincidentComponents(
        f"Components {i} and {j} coincide{more}: the data do not tell them apart, and standard "
        "deviations speak of this one way to share their rows. Try fewer components, another init "
        "or a larger n_init.",
        pairs=pairs,
    )
