"""Speed and memory of mixed models, against NumPyro's NUTS, statsmodels and mixedlm.

    python benchmarks/mixed.py [small] [large] [growth] [five] [--shrink 1] [--skip nuts ...]

`small`: 5000 counts in 200 groups, a covariate of the row and one of the group. `large`: 500,000
counts in 20,000 groups, each with an intercept and a slope. `growth`: gaussian rows, 50 in each
group, from 5·10⁴ to 5·10⁶. `five`: five models beside peers that give estimates and standard errors
(see mixed_peers.py; `--peers PYTHON` is an interpreter that has them).
Each prints one table; every ratio is to a peer measured in the same run. Each measurement has a
process of its own, so that it starts cold and its peak memory is its own: "cold" counts from the
import to the answer, without a cache of JAX's programs; making the data is not counted. `--shrink 10`
divides the rows and groups by ten. A peer that is not installed is left out.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from mixed_peers import PEERS, compiled, five

Row = tuple[str, str, str, str]
LIBRARY = {
    "lrvb": "lrvb",
    "nuts": "numpyro",
    "nuts-centred": "numpyro",
    "statsmodels": "statsmodels",
    "mixedlm": "mixedlm",
}
TASKS = ("small", "large", "growth", "five")
FORMULAS = {
    "small": "y ~ u + w + (1 | g)",
    "large": "y ~ x + (1 + x | g)",
    "growth": "y ~ x + (1 | g)",
}


def main() -> None:
    """Measure what was asked for and print its tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "tasks", nargs="*", metavar="task", help=f"{', '.join(TASKS)}; all by default"
    )
    parser.add_argument("--shrink", type=int, default=1, help="divide rows and groups by this")
    everyone = sorted({*LIBRARY, *PEERS})
    parser.add_argument("--skip", nargs="*", default=[], choices=everyone, help="leave these out")
    parser.add_argument(
        "--peers", help="the interpreter of an environment with the peers of `five`"
    )
    parser.add_argument("--alone", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        who, task, rows, groups = options.alone
        return print(json.dumps(MEASURES[who](task, simulate(task, int(rows), int(groups)))))
    unknown = [task for task in options.tasks if task not in TASKS]
    if unknown:
        parser.error(f"There is no task {unknown[0]!r}; there are {', '.join(TASKS)}.")

    def measure(who: str, task: str, rows: int, groups: int) -> dict[str, float] | None:
        if who in options.skip or importlib.util.find_spec(LIBRARY[who]) is None:
            return None
        return alone(who, task, rows // options.shrink, groups // options.shrink)

    compiled()
    tables = {"small": small, "large": large, "growth": growth}
    for task in options.tasks or TASKS:
        if task == "five":
            found = five(options.skip, options.peers)
            table = pd.DataFrame(found, columns=["case", "goal", *PEERS])
            print(f"five: cold seconds (the processor's)\n{table.to_string(index=False)}\n")
            continue
        table = pd.DataFrame(tables[task](measure), columns=["what", "lrvb", "peer", "ratio"])
        divided = f", sizes divided by {options.shrink}" if options.shrink > 1 else ""
        print(f"{task}: {FORMULAS[task]}{divided}\n{table.to_string(index=False)}\n", flush=True)


def alone(who: str, task: str, rows: int, groups: int) -> dict[str, float]:
    """One measurement in a process of its own, without a compilation cache."""
    command = [sys.executable, __file__, "--alone", who, task, str(rows), str(groups)]
    environment = dict(os.environ, LRVB_CACHE_DIR="off")
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise SystemExit(f"{who} failed on {task}, {rows} rows:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def simulate(task: str, rows: int, groups: int) -> pd.DataFrame:
    """Rows of a task; groups are of nearly equal size and in random order."""
    rng = np.random.default_rng(0)
    g = rng.permutation(np.arange(rows) % groups)
    x = rng.normal(size=rows)
    if task == "small":
        w = rng.normal(size=groups)[g]
        eta = 0.5 + 0.3 * x + 0.4 * w + 0.6 * rng.normal(size=groups)[g]
        return pd.DataFrame({"y": rng.poisson(np.exp(eta)), "u": x, "w": w, "g": g})
    eta = 0.5 + 0.3 * x + 0.5 * rng.normal(size=groups)[g]
    if task == "large":
        eta += 0.3 * rng.normal(size=groups)[g] * x
        return pd.DataFrame({"y": rng.poisson(np.exp(eta)), "x": x, "g": g})
    return pd.DataFrame({"y": eta + rng.normal(size=rows), "x": x, "g": g})


# ---- tables --------------------------------------------------------------------------------

Measure = Callable[[str, str, int, int], "dict[str, float] | None"]


def small(measure: Measure) -> list[Row]:
    """Against NUTS for 1000 effective draws, and against statsmodels' variational fit."""
    size = (5000, 200)
    ours = measure("lrvb", "small", *size)
    rows = []
    for who in ("nuts", "nuts-centred"):
        if nuts := measure(who, "small", *size):
            slowest = f"{who}, 1000 effective draws of {nuts.pop('slowest')}"
            rows += [
                row(f"cold, against {slowest}", ours, nuts, "cold", "at least 20 times"),
                row(f"warm, against {who}, sampling alone", ours, nuts, "warm"),
            ]
    if vb := measure("statsmodels", "small", *size):
        rows += [
            row("cold, against statsmodels fit_vb", ours, vb, "cold", "at least 1 time"),
            row("warm, against statsmodels fit_vb", ours, vb, "warm"),
        ]
    return rows or [row("cold", ours, None, "cold")]


def large(measure: Measure) -> list[Row]:
    """Time and memory, against mixedlm's glmer."""
    size = (500_000, 20_000)
    ours, peer = measure("lrvb", "large", *size), measure("mixedlm", "large", *size)
    return [
        row("cold, bound 20 s, against mixedlm glmer", ours, peer, "cold", "at least 1 time"),
        row("warm, against mixedlm glmer", ours, peer, "warm"),
        ("peak memory, bound 4 GB", shown(ours, "memory", "GB"), shown(peer, "memory", "GB"), ""),
    ]


def growth(measure: Measure) -> list[Row]:
    """Time and memory as N grows; mixedlm's lmer up to 500,000 rows."""
    rows, seconds = [], {}
    for n in (50_000, 158_000, 500_000, 1_580_000, 5_000_000):
        ours = measure("lrvb", "growth", n, n // 50)
        peer = measure("mixedlm", "growth", n, n // 50) if n <= 500_000 else None
        bound = ", bound 60 s" if n == 5_000_000 else ""
        rows.append(row(f"cold, N = {n:,}{bound}, against mixedlm lmer", ours, peer, "cold"))
        rows.append((f"peak memory, N = {n:,}", shown(ours, "memory", "GB"), "", ""))
        if ours:
            seconds[n] = ours["warm"]
    if seconds:
        slope = np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0]
        rows.append(("slope of the warm time in N", f"{slope:.2f}", "bound 1.1", ""))
    return rows


def row(
    what: str,
    ours: dict[str, float] | None,
    peer: dict[str, float] | None,
    key: str,
    wanted: str = "",
) -> Row:
    """One line of a table, with how many times faster we are."""
    ratio = f"{peer[key] / ours[key]:.1f} times faster" if ours and peer else ""
    if wanted:
        ratio = f"{ratio} (wanted: {wanted})".strip()
    return what, shown(ours, key, "s"), shown(peer, key, "s"), ratio


def shown(measured: dict[str, float] | None, key: str, unit: str) -> str:
    """A number with its unit, or a dash for what was left out."""
    return f"{measured[key]:.3g} {unit}" if measured else "–"


# ---- one measurement each ------------------------------------------------------------------


def measure_lrvb(task: str, data: pd.DataFrame) -> dict[str, float]:
    """Import and fit, then fit again."""
    began = time.perf_counter()
    import lrvb

    family = "gaussian" if task == "growth" else "poisson"

    def fit() -> Any:
        return lrvb.MixedModel(FORMULAS[task], family=family).fit(data).summary()

    fit()
    return timed(began, fit)


def measure_nuts(task: str, data: pd.DataFrame, centred: bool = False) -> dict[str, Any]:
    """Seconds for 1000 effective draws of the slowest of β and log precision; "warm" is sampling alone.

    One chain in double precision. The model is as users write it, with effects sd · N(0, 1) added
    to the linear predictor; `centred`, each group's mean is drawn around β₀ + β₂w, in which NUTS mixes
    best for groups of 25 rows. "cold" adds the import, the compilation and the warm-up.
    """
    began = time.perf_counter()
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.diagnostics import effective_sample_size
    from numpyro.infer import MCMC, NUTS

    numpyro.enable_x64()
    y, u, g = (data[name].to_numpy() for name in ("y", "u", "g"))
    w = data.groupby("g")["w"].first().to_numpy()

    def model() -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 5).expand([3]).to_event(1))
        precision = numpyro.sample("precision", dist.Gamma(2, 1))
        numpyro.deterministic("log(precision)", jnp.log(precision))
        middle, sd = beta[0] + beta[2] * w, precision**-0.5
        if centred:
            level = numpyro.sample("level", dist.Normal(middle, sd).to_event(1))
        else:
            raw = numpyro.sample("raw", dist.Normal(0, 1).expand([len(w)]).to_event(1))
            level = middle + sd * raw
        numpyro.sample("y", dist.Poisson(jnp.exp(beta[1] * u + level[g])), obs=y)

    chain = MCMC(NUTS(model), num_warmup=1000, num_samples=1000, progress_bar=False)
    chain.warmup(jax.random.key(0))
    chain.run(jax.random.key(1))  # compiles
    before = time.perf_counter()
    chain.post_warmup_state = chain.last_state
    chain.run(jax.random.key(2))
    draws = chain.get_samples(group_by_chain=True)
    jax.block_until_ready(draws)
    sampling = time.perf_counter() - before
    named = {f"beta[{j}]": draws["beta"][..., j] for j in range(3)}
    named["log(precision)"] = draws["log(precision)"]
    ess = {name: float(effective_sample_size(np.asarray(v))) for name, v in named.items()}
    slowest = min(ess, key=lambda name: ess[name])
    thousand = sampling * 1000 / ess[slowest]
    preparation = before - began - sampling  # the first run sampled as many draws
    return {"cold": preparation + thousand, "warm": thousand, "slowest": slowest}


def measure_statsmodels(task: str, data: pd.DataFrame) -> dict[str, float]:
    """PoissonBayesMixedGLM.fit_vb, with its sparse design made beforehand."""
    from scipy.sparse import csr_matrix

    rows = np.arange(len(data))
    Z = csr_matrix((np.ones(len(data)), (rows, data["g"])))
    X = np.column_stack([np.ones(len(data)), data["u"], data["w"]])
    began = time.perf_counter()
    from statsmodels.genmod.bayes_mixed_glm import PoissonBayesMixedGLM

    def fit() -> Any:
        ident = np.zeros(Z.shape[1], int)
        return PoissonBayesMixedGLM(data["y"].to_numpy(), X, Z, ident).fit_vb()

    fit()
    return timed(began, fit)


def measure_mixedlm(task: str, data: pd.DataFrame) -> dict[str, float]:
    """lmer or glmer."""
    began = time.perf_counter()
    import mixedlm

    def fit() -> Any:
        if task == "growth":
            return mixedlm.lmer(FORMULAS[task], data)
        return mixedlm.glmer(FORMULAS[task], data, family=mixedlm.families.Poisson())

    fit()
    return timed(began, fit)


def timed(began: float, fit: Callable[[], Any]) -> dict[str, float]:
    """Seconds from `began` to now, of one more fit, and the peak memory in GB."""
    middle = time.perf_counter()
    fit()
    end = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"cold": middle - began, "warm": end - middle, "memory": peak}


MEASURES: dict[str, Callable[[str, pd.DataFrame], dict[str, Any]]] = {
    "lrvb": measure_lrvb,
    "nuts": measure_nuts,
    "nuts-centred": functools.partial(measure_nuts, centred=True),
    "statsmodels": measure_statsmodels,
    "mixedlm": measure_mixedlm,
}


if __name__ == "__main__":
    main()
