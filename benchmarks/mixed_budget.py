"""What integrating costs: seconds of a fit against the variational block of the tree as it was.

    git worktree add /tmp/before f35f83a
    python benchmarks/mixed_budget.py /tmp/before/src [--family poisson ...] [--rows 1000 ...] [--design ...]

Until f35f83a every mixed model was one Gaussian factor with a Gamma or Wishart beside it, at one point.
Both trees fit the same rows, each in processes of its own that take turns, one BLAS thread each, no
compilation cache: "cold" is from the import to the summary, "warm" the same fit once more in that process.
The processor's seconds and those of the clock. One line a case: before, now, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import pandas as pd

FAMILIES = ("poisson", "bernoulli", "binomial")
ROWS = (200, 1000, 5000, 10_000, 100_000)
DESIGNS = {
    **{f"{k} levels": ("(1 | g)", (k,)) for k in (10, 30, 50, 100, 200, 1000)},
    **{f"rows in {k}": ("(1 | g) + (1 | row)", (k,)) for k in (5, 20, 30, 100, 300)},
    **{f"slopes, {k}": ("(1 + x | g)", (k,)) for k in (30, 50, 300)},
    "slopes || 30": ("(x || g)", (30,)),
    "nested, 10 by 5": ("(1 | g / h)", (10, 5)),
    "crossed, 50 by 10": ("(1 | g) + (1 | h)", (50, 10)),
}
HERE = pathlib.Path(__file__).resolve().parent.parent / "src"
LIMIT = 900  # seconds


def main() -> None:
    """Measure the cases asked for, a line each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", help="the source folder of the tree as it was")
    parser.add_argument("--family", nargs="*", default=FAMILIES, choices=FAMILIES)
    parser.add_argument("--rows", nargs="*", type=int, default=ROWS)
    parser.add_argument("--design", nargs="*", default=list(DESIGNS), choices=DESIGNS)
    parser.add_argument("--save", type=pathlib.Path, help="a CSV file for every number")
    parser.add_argument("--alone", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        family, rows, design = options.alone
        return print(json.dumps(measure(family, int(rows), design)))
    found = []
    for rows in options.rows:
        for design in options.design:
            if np.prod(DESIGNS[design][1]) * 2 > rows:
                continue
            for family in options.family:
                found.append(compare(options.before, family, rows, design))
                print(line(found[-1]), flush=True)
                if options.save:
                    pd.DataFrame(found).to_csv(options.save, index=False)


def compare(before: str, family: str, rows: int, design: str) -> dict[str, object]:
    """One case in both trees."""
    each = {
        "before": alone(before, family, rows, design),
        "now": alone(str(HERE), family, rows, design),
    }
    flat = {f"{who} {what}": value for who, part in each.items() for what, value in part.items()}
    return {"family": family, "rows": rows, "design": design, **flat}


def line(case: dict[str, object]) -> str:
    """Seconds of the processor before and now, cold and warm, with ratios."""
    parts = [f"{case['family']:10}{case['rows']:>7}  {case['design']:18}"]
    for what in ("cold", "warm"):
        before, now = (case.get(f"{who} {what}", np.nan) for who in ("before", "now"))
        parts.append(f"{what} {before:7.2f} {now:7.2f} {now / before:5.2f}")
    return "   ".join(parts)


def alone(source: str, family: str, rows: int, design: str) -> dict[str, float]:
    """One measurement in a process of its own; no numbers where it failed or took too long."""
    environment = dict(os.environ, PYTHONPATH=source, LRVB_CACHE_DIR="off")
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "-", "--alone", family, str(rows), design]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return {}
    if done.returncode:
        print(done.stderr.strip().splitlines()[-1], file=sys.stderr)
        return {}
    return json.loads(done.stdout.splitlines()[-1])


def measure(family: str, rows: int, design: str) -> dict[str, float]:
    """Seconds of the first fit, import and all, and of the second."""
    data = simulate(family, rows, design)
    response = "prop(y, n)" if family == "binomial" else "y"
    formula = f"{response} ~ x + {DESIGNS[design][0]}"
    taken = {}
    for what in ("cold", "warm"):
        clock, used = time.perf_counter(), time.process_time()
        import lrvb

        lrvb.MixedModel(formula, family=family, verbose=False).fit(data).summary()
        taken[what] = time.process_time() - used
        taken[f"{what} clock"] = time.perf_counter() - clock
    return taken


def simulate(family: str, rows: int, design: str) -> pd.DataFrame:
    """Columns y, n, x, g, h and row; effects of sd 0.6, slopes and rows of 0.4, trials of 10."""
    rng = np.random.default_rng([rows, len(design)])
    formula, levels = DESIGNS[design]
    g = rng.permutation(np.arange(rows) % levels[0])
    x = rng.normal(size=rows)
    eta = 0.3 + 0.3 * x + 0.6 * rng.normal(size=levels[0])[g]
    data = {"x": x, "g": g, "row": np.arange(rows), "n": np.full(rows, 10)}
    if "x |" in formula:
        eta += 0.4 * rng.normal(size=levels[0])[g] * x
    if "row" in formula:
        eta += 0.4 * rng.normal(size=rows)
    if len(levels) > 1:
        data["h"] = h = rng.integers(levels[1], size=rows)
        both = g * levels[1] + h if "/" in formula else h
        eta += 0.4 * rng.normal(size=both.max() + 1)[both]
    chance = 1 / (1 + np.exp(-eta))
    if family == "poisson":
        data["y"] = rng.poisson(np.exp(eta))
    else:
        data["y"] = rng.binomial(10 if family == "binomial" else 1, chance)
    return pd.DataFrame(data)


if __name__ == "__main__":
    main()
