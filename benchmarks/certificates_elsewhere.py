"""Verdicts on models that `certificates.py` does not have, with truth that asks nothing of the library.

    python benchmarks/certificates_elsewhere.py [seeds] [first] [some of the name]

Each model brings its exact posterior as a plain NumPy grid, or a sum in closed form over one.
`confusion.py` says what counts as wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from confusion import judged, main
from elsewhere.positive import ZIP, NormWish, Ridge, TwoPoissons
from elsewhere.real import Cauchy, Collinear, Decay, Hier, Product, TScale

import lrvb


def cases(seed: int) -> Iterator[tuple[str, Any, dict[str, np.ndarray]]]:
    """Name, model and data."""
    r = np.random.default_rng(seed)
    for k in (3, 4, 8):
        n = r.integers(2, 6, k).astype(float)
        mu = r.normal() * 2 + r.normal(size=k) * r.choice([0.3, 1.5])
        rows = [mu[i] + r.normal(size=int(n[i])) for i in range(k)]
        yield (
            f"hier {k}",
            Hier(),
            {
                "n": n,
                "s1": np.array([x.sum() for x in rows]),
                "s2": np.array([(x**2).sum() for x in rows]),
            },
        )
    for n, rho in ((6, 0.9), (12, 0.99), (40, 0.999)):
        x = r.normal(size=n)
        w = rho * x + np.sqrt(1 - rho**2) * r.normal(size=n)
        yield f"collinear {n} {rho}", Collinear(), {"x": x, "w": w, "y": x + w + r.normal(size=n)}
    for n, p in ((4, 1.0), (10, 4.0)):
        t = np.linspace(0, 2, n)
        yield (
            f"decay {n}",
            Decay(),
            {"t": t, "y": np.exp(0.5 - t) + r.normal(size=n) / np.sqrt(p), "p": np.full(n, p)},
        )
    for n, rate in ((8, 0.5), (15, 1.0), (60, 0.7)):
        y = np.where(r.random(n) < 0.4, 0, r.poisson(rate, n)).astype(float)
        yield f"zip {n} {rate}", ZIP(), {"y": y}
    for gap, k in ((6, 4), (12, 4), (30, 3), (4, 6)):
        yield (
            f"cauchy {gap}",
            Cauchy(r.choice([1, 2, 3])),
            {
                "y": np.r_[
                    r.normal(size=k) * 0.5, gap + r.normal(size=k + int(r.integers(0, 2))) * 0.5
                ]
            },
        )
    for n in (4, 10, 40):
        yield f"tscale {n}", TScale(3), {"y": 1 + r.standard_t(3, size=n)}
    for n in (5, 40):
        yield f"product {n}", Product(), {"y": r.choice([0.2, 1.0, 3.0]) + r.normal(size=n)}
    for n in (10, 40):
        yield (
            f"poissons {n}",
            TwoPoissons(),
            {"y": np.where(r.random(n) < 0.5, r.poisson(1, n), r.poisson(7, n)).astype(float)},
        )
    for n in (2, 10, 60):
        yield f"ridge {n}", Ridge(), {"y": r.normal(size=n)}
    for n in (3, 10):
        yield (
            f"normwish {n}",
            NormWish(),
            {"y": r.normal(size=(n, 2)) @ np.array([[1, 0.6], [0, 0.7]])},
        )


def moments(found: Any) -> tuple[float, float]:
    """Mean and sd of values with weights, or as they are given."""
    values, weights = found
    if np.ndim(values) == 0:
        return float(values), float(weights)
    mean = weights @ values
    return mean, np.sqrt(weights @ (values - mean) ** 2)


def run(seed: int, part: str = "") -> pd.DataFrame:
    """One row a quantity and a way of checking it."""
    found = []
    for name, model, data in cases(seed):
        if part not in name:
            continue
        try:
            posterior = lrvb.infer(model, data, certify=False)
        except lrvb.LrvbError as error:
            print(f"{seed} {name}: no answer ({type(error).__name__})", flush=True)
            continue
        known = {quantity: moments(exact) for quantity, exact in model.truth(data).items()}
        found.append(judged(posterior, known, seed).assign(case=name, seed=seed))
        print(f"{seed} {name}: {posterior.certificate}", flush=True)
    return pd.concat(found, ignore_index=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(run)
