"""What few draws say unasked where rows are many: verdicts against long certificates, and their cost in fits.

    python benchmarks/certificates_many_rows.py [seeds] [first] [some of the name]

Truth is 2048 other draws of the same density, where those are sound, whose errors are printed;
`confusion.py` says what counts as wrong. Seconds are of the processor, warm, of fits without and with "auto".
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from certificates import GammaPoisson, Location
from confusion import compared, main
from elsewhere.positive import ZIP, TwoPoissons
from elsewhere.real import TScale

import lrvb
from lrvb.models import NormalMixture, NormalPoisson, RandomSlope
from lrvb.posterior.verdicts import K_HAT
from lrvb.studies.reference import simulate


def cases(seed: int) -> Iterator[tuple[str, lrvb.Model, Any, Any]]:
    """Name, model, data and start."""
    rng = np.random.default_rng(seed)
    for n, sd, beta in ((2000, 0.6, 1), (3000, 0.15, 0), (6000, 1.0, -1)):
        data = simulate.normal_poisson(rng, n=n, beta=beta, sd=sd)
        yield f"poisson {n} {sd}", NormalPoisson(), {k: data[k] for k in ("x", "y")}, None
    data = simulate.random_slope(rng, groups=12_000, per_group=5)
    keep = {k: data[k] for k in ("x", "r", "y", "group")}
    yield "slopes 12000", RandomSlope(), keep, None
    for n, apart, share in ((20_000, 1.8, 0.5), (20_000, 2.5, 0.05), (40_000, 4.0, 0.002)):
        z = rng.random(n) < share
        x = rng.normal(size=(n, 2)) + apart * z[:, None]
        start = {"mu": {"loc": np.array([[0.0, 0.0], [apart, apart]]), "cov": np.eye(2)}}
        model = NormalMixture(2, np.zeros(2), 0.05 * np.eye(2), 4.0, np.eye(2), 3.0)
        yield f"mixture {n} {apart} {share}", model, {"x": x}, start
    for K, P, n in ((3, 3, 6000), (3, 6, 4000)):
        data = simulate.scaled_mixture(rng, n, K, P)
        loc = np.array([data["X"][data["z"] == k].mean(axis=0) for k in range(K)])
        model = NormalMixture(K, np.zeros(P), 0.01 * np.eye(P), P + 2.0, np.eye(P), 2.0)
        yield (
            f"mixture {K} {P} {n}",
            model,
            {"x": data["X"]},
            {"mu": {"loc": loc, "cov": np.eye(P)}},
        )
    y = rng.poisson(rng.gamma(2.0, 2.0, size=60_000)).astype(float)
    yield "gamma poisson 60000", GammaPoisson(), {"y": y}, None
    yield "location 200000", Location(), {"y": 1 + rng.normal(size=200_000)}, None
    for n, share in ((60_000, 0.4), (60_000, 0.02)):
        y = np.where(rng.random(n) < share, 0, rng.poisson(0.7, n)).astype(float)
        yield f"zip {n} {share}", ZIP(), {"y": y}, None
    for share in (0.5, 0.001):
        low = rng.random(60_000) < share
        y = np.where(low, rng.poisson(1, 60_000), rng.poisson(4, 60_000)).astype(float)
        yield f"poissons 60000 {share}", TwoPoissons(), {"y": y}, None
    yield "tscale 60000", TScale(3), {"y": 1 + rng.standard_t(3, size=60_000)}, None


def seconds(action: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds of the second call, and its result."""
    action()
    begun = time.process_time()
    result = action()
    return time.process_time() - begun, result


def run(seed: int, part: str = "") -> pd.DataFrame:
    """One row a quantity that was certified unasked."""
    found = []
    for name, model, data, init in cases(seed):
        if part not in name:
            continue
        infer = partial(lrvb.infer, model, data, init=init)
        try:
            fit, _ = seconds(partial(infer, certify=False))
            both, posterior = seconds(infer)
        except lrvb.LrvbError as error:
            print(f"{seed} {name}: no answer ({type(error).__name__})", flush=True)
            continue
        ours = posterior.certificate
        if ours is None:
            print(f"{seed} {name}: no certificate", flush=True)
            continue
        long = posterior._certifier.certify(2048, seed + 1, starts=0, thorough=False)
        if not long.k_hat < K_HAT:
            print(f"{seed} {name}: no truth, k-hat {long.k_hat:.2f}; {ours}", flush=True)
            continue
        truth = long.summary()
        known = {quantity: (row["mean"], row["sd"]) for quantity, row in truth.iterrows()}
        found.append(compared("unasked", ours, known).assign(case=name, seed=seed))
        print(
            f"{seed} {name}: {len(ours.weights)} draws{'' if ours.control is None else ', control'}, "
            f"{(both - fit) / fit:.1f} fits of {fit:.2f} s; {ours}; truth has k-hat {long.k_hat:.2f}, "
            f"errors of {(truth['mcse'] / truth['sd']).max():.3f} sd",
            flush=True,
        )
    return pd.concat(found, ignore_index=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(run)
