"""Families of mixed models: time beside Poisson's, and intervals of simulated truth.

python benchmarks/mixed_families.py            # 5,000 rows, 200 groups, every family
python benchmarks/mixed_families.py --recover  # Owls-like counts: how often intervals cover
python benchmarks/mixed_families.py --large    # 500,000 rows, 20,000 groups, negative binomial
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

import lrvb
from lrvb.likelihoods import likelihood_of

COUNTS = (
    "poisson",
    "negbinomial",
    "zero_inflated_poisson",
    "zero_inflated_negbinomial",
    "hurdle_poisson",
    "hurdle_negbinomial",
)
OTHERS = (
    "student",
    "gamma",
    "lognormal",
    "beta",
    "cumulative",
    "bernoulli(probit)",
    "bernoulli(cloglog)",
)
TRUTH = {"Intercept": 1.0, "x": 0.4, "sd[1|g]": 0.5, "shape": 1.5, "zi": 0.3, "hurdle": 0.3}
NOISE = {"residual": 0.5, "sigma": 0.4, "df": 4.0, "phi": 8.0}
NOISE |= {"threshold[1]": 0.0, "threshold[2]": 1.0, "threshold[3]": 2.0}


def simulate(family: str, n: int, groups: int, seed: int) -> dict[str, np.ndarray]:
    """Counts of a family at TRUTH, with n rows in so many groups."""
    rng = np.random.default_rng(seed)
    g, x = rng.integers(0, groups, n), rng.normal(size=n)
    effects = TRUTH["sd[1|g]"] * rng.normal(size=groups)
    eta = TRUTH["Intercept"] + TRUTH["x"] * x + effects[g]
    y = likelihood_of(family).draw(rng, eta, {**TRUTH, **NOISE})
    return {"y": y, "x": x, "g": g}


def timed(family: str, data: dict[str, np.ndarray], best_of: int) -> tuple[float, lrvb.MixedModel]:
    """Seconds of the processor, the least of some runs, and the model."""
    times = []
    for _ in range(best_of):
        start = time.process_time()
        model = lrvb.MixedModel("y ~ x + (1|g)", family).fit(data)
        times.append(time.process_time() - start)
    return min(times), model


def compare_speed(n: int, groups: int, best_of: int, sets: int) -> None:
    """Every family on data sets of its own, each beside Poisson counts with the same covariates by turns.

    The median of the ratios, with the least and the largest.
    """
    timed("poisson", simulate("poisson", n, groups, 0), 1)
    print("| family | seconds | beside Poisson's | from | to | trusted |")
    print("| --- | --- | --- | --- | --- | --- |")
    for family in (*COUNTS, *OTHERS):
        seconds, ratios, trusted = [], [], True
        for seed in range(1, sets + 1):
            counts, data = (simulate(name, n, groups, seed) for name in ("poisson", family))
            pairs = []
            for _ in range(best_of):
                plain, _ = timed("poisson", counts, 1)
                own, model = timed(family, data, 1)
                pairs.append((plain, own))
            plain, own = np.min(pairs, axis=0)
            seconds.append(own)
            ratios.append(own / plain)
            trusted &= bool((model.summary()["verdict"] == "trust").all())
        middle, ends = np.median(ratios), (min(ratios), max(ratios))
        row = f"{np.median(seconds):.2f} | {middle:.1f} | {ends[0]:.1f} | {ends[1]:.1f}"
        print(f"| `{family}` | {row} | {'all' if trusted else 'not all'} |", flush=True)


def recover(repeats: int, n: int, groups: int) -> None:
    """How often 94 % intervals hold the truth, over simulated data sets."""
    for family in COUNTS[1:]:
        held: dict[str, list[bool]] = {}
        for seed in range(repeats):
            model = lrvb.MixedModel("y ~ x + (1|g)", family).fit(simulate(family, n, groups, seed))
            for name, row in model.summary().iterrows():
                held.setdefault(str(name), []).append(
                    bool(row["lower"] <= TRUTH[str(name)] <= row["upper"])
                )
        print(family, {name: round(float(np.mean(found)), 2) for name, found in held.items()})


def main() -> None:
    """As asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recover", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument(
        "--sets", type=int, default=5, help="data sets of a family whose time is taken"
    )
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--groups", type=int, default=200)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    if asked.recover:
        recover(asked.repeats, 600, 27)
    elif asked.large:
        own, model = timed("negbinomial", simulate("negbinomial", 500_000, 20_000, 1), 1)
        print(f"500,000 rows: {own:.1f} s")
        print(model.summary())
    else:
        compare_speed(asked.rows, asked.groups, 3, asked.sets)


if __name__ == "__main__":
    main()
