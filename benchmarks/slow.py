"""Posteriors on which chains are slow: how many quantities are trusted, and how many of these wrongly.

    python benchmarks/slow.py [--only funnel,banana] [--seeds 0,1,2] [--store FILE] [--seconds 300]

Each is a log density of `slow_densities.py` with independent draws of itself, so that its means and sds are
known without a sampler. An error is the larger of the mean's, in sds, and the log sd's, beyond three errors
of the truth's own; wrong is above 0.15.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from slow_densities import DENSITIES, DRAWS, Slow

WITHIN, WRONG = 0.1, 0.15


def truth(case: Slow, seed: int = 123) -> dict[str, tuple[float, float, float]]:
    """Mean, sd and the error of both, in sds, of every scalar by name."""
    draws = case.draw(np.random.default_rng(seed), DRAWS)
    draws |= {name: f(draws, np) for name, f in case.functions.items()}
    found = {}
    for name, values in draws.items():
        values = np.asarray(values, dtype=float)
        for index in np.ndindex(values.shape[1:]):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            one = values[(slice(None), *index)]
            sd = one.std()
            z = (one - one.mean()) / sd
            error = max(1.0, 0.5 * (z**2).std()) / np.sqrt(DRAWS)
            found[label] = (float(one.mean()), float(sd), float(error))
    return found


def measure(name: str, seed: int) -> dict[str, Any]:
    """Ours on one density: counts, the largest error of what is trusted, and seconds of the processor."""
    import jax.numpy as jnp

    import lrvb

    case = DENSITIES[name]
    functions = {k: (lambda v, f=f: f(v, jnp)) for k, f in case.functions.items()}
    begun = time.process_time()
    try:
        posterior = lrvb.from_log_density(case.log_density, case.start).infer(
            functions=functions, seed=seed
        )
    except lrvb.LrvbError as error:
        return {"case": name, "seed": seed, "why": str(error)[:150]}
    table = posterior.certificate.summary()
    seconds = time.process_time() - begun
    worst: tuple[float, str] = (0.0, "")
    trusted = wrong = within = 0
    known = truth(case)
    for label, (mean, sd, own) in known.items():
        row = table.loc[label]
        sd_error = abs(np.log(row["sd"] / sd)) if np.isfinite(row["sd"]) else np.inf
        error = max(abs(row["mean"] - mean) / sd, sd_error) - 3 * own
        within += error <= WITHIN
        if row["verdict"] == "trust":
            trusted += 1
            wrong += error > WRONG
            worst = max(worst, (float(error), label))
    return {
        "case": name,
        "seed": seed,
        "quantities": len(known),
        "within": int(within),
        "trusted": trusted,
        "wrongly": int(wrong),
        "largest": round(worst[0], 3),
        "of": worst[1],
        "seconds": round(seconds, 1),
        "gradients": posterior.certificate.gradients,
    }


def main() -> None:
    """A line for every density and seed, then the sum."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names that contain one of these, by commas")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--store", type=Path, help="a file of results, one line each")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin nothing after these")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    if options.store is not None and options.store.exists():
        rows = [json.loads(line) for line in options.store.read_text().splitlines()]
    done = {(row["case"], row["seed"]) for row in rows}
    begun = time.monotonic()
    for name in DENSITIES:
        for seed in map(int, options.seeds.split(",")):
            chosen = any(part in name for part in options.only.split(","))
            late = time.monotonic() - begun > options.seconds
            if not chosen or late or (name, seed) in done:
                continue
            rows.append(measure(name, seed))
            print(rows[-1], flush=True)
            if options.store is not None:
                with options.store.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    told = [row for row in rows if "why" not in row]
    total = {key: sum(row[key] for row in told) for key in ("quantities", "trusted", "wrongly")}
    print({"runs": len(rows), "sentences": len(rows) - len(told), **total})


if __name__ == "__main__":
    main()
