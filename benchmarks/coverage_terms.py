"""Random effects that `mixed_coverage.py` draws: 24 groups of three to six rows, alone or beside others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lrvb.prior import LKJ, HalfNormal

GROUPS, CROSSING = 24, 8  # levels of the larger factor, and of the one it may be crossed with


class Effects(NamedTuple):
    """Columns of groups and covariate, the effects' part of η, their true sds and correlations, priors."""

    columns: dict[str, np.ndarray]
    eta: np.ndarray
    truth: dict[str, float]
    priors: dict[str, Any]


def effects_of(terms: str, rng: np.random.Generator) -> Effects:
    """Effects of `(1|g)`, `(x|g)`, `(1|g) + (1|h)` with h crossing g, or `(1|g/h)` with two h in each g."""
    sd = abs(rng.normal())
    g = np.repeat(np.arange(GROUPS), rng.integers(3, 7, GROUPS))
    x = rng.normal(size=len(g))
    first = rng.normal(size=GROUPS)
    truth: dict[str, float] = {"sd[1|g]": sd}
    priors: dict[str, Any] = {"sd[1|g]": HalfNormal(1)}
    if terms == "(1|g)":
        return Effects({"x": x, "g": g}, sd * first[g], truth, priors)
    other = abs(rng.normal())
    if terms == "(x|g)":
        x += 1.0  # so that its mean matters
        r = rng.uniform(-1, 1)
        slope = other * (r * first + np.sqrt(1 - r**2) * rng.normal(size=GROUPS))
        truth |= {"sd[x|g]": other, "corr[g][1,x]": r}
        priors |= {"sd[x|g]": HalfNormal(1), "corr[g]": LKJ(1)}
        return Effects({"x": x, "g": g}, sd * first[g] + slope[g] * x, truth, priors)
    if terms == "(1|g) + (1|h)":
        h = rng.integers(0, CROSSING, len(g))
        name, second = "sd[1|h]", rng.normal(size=CROSSING)[h]
    else:
        h = rng.integers(0, 2, len(g))
        name, second = "sd[1|g:h]", rng.normal(size=2 * GROUPS)[2 * g + h]
    columns = {"x": x, "g": g, "h": h}
    return Effects(
        columns,
        sd * first[g] + other * second,
        truth | {name: other},
        priors | {name: HalfNormal(1)},
    )
