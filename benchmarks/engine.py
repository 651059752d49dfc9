"""Speed of the engine: cold start, warm fits against NUTS, and the cost as N grows.

    python benchmarks/engine.py [--quick]

Prints one table; every ratio is to a peer measured in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

COLD = """
import time; begin = time.perf_counter()
import lrvb
imported = time.perf_counter()
import numpy as np
rng = np.random.default_rng(0)
x = rng.normal(size=500)
y = rng.poisson(np.exp(1.5 * x + 0.5 * rng.normal(size=500)))
posterior = lrvb.infer(lrvb.models.NormalPoisson(), {"x": x, "y": y})
end = time.perf_counter()
print(imported - begin, end - begin)
"""
JAX = "import time; begin = time.perf_counter(); import jax; print(time.perf_counter() - begin)"


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller N, shorter chains")
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory:
        return print(json.dumps(one_size(options.memory)))
    rows = [*cold_start(), *warm(options.quick), *growth(options.quick)]
    table = pd.DataFrame(rows, columns=["what", "measured", "peer or bound", "ratio"])
    print(table.to_string(index=False))


def cold_start() -> list[tuple[str, str, str, str]]:
    """A fresh process from import to the first posterior, without and with the compilation cache."""
    jax_alone = min(float(_python(JAX)) for _ in range(3))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        off = [_cold("off") for _ in range(3)]
        _cold(folder)
        on = [_cold(folder) for _ in range(3)]
    for name, times, bound in (("without cache", off, 5.0), ("with cache", on, 2.5)):
        imported, total = min(times, key=lambda t: t[1])
        rows.append(
            (
                f"cold start to first posterior, N=500, {name}",
                f"{total:.2f} s (import {imported:.2f} s)",
                f"bound {bound} s; import jax alone {jax_alone:.2f} s",
                f"{total / bound:.2f}",
            )
        )
    return rows


def warm(quick: bool) -> list[tuple[str, str, str, str]]:
    """A warm fit with its covariances, against NUTS for 1000 effective draws of τ."""
    import lrvb

    data = _data(500)
    model = lrvb.models.NormalPoisson()
    lrvb.infer(model, data).summary()
    seconds = _best(lambda: lrvb.infer(lrvb.models.NormalPoisson(), data, certify=False), 20)
    rows = [
        ("warm infer, N=500", f"{1e3 * seconds:.1f} ms", "bound 50 ms", f"{seconds / 0.05:.2f}")
    ]
    try:
        per_thousand, ess = _nuts(data, 300 if quick else 2000)
    except ImportError:
        return [*rows, ("NUTS, 1000 effective draws of tau", "NumPyro is not installed", "", "")]
    rows.append(
        (
            "the same against NumPyro NUTS, 1000 effective draws of tau",
            f"{1e3 * seconds:.1f} ms",
            f"{per_thousand:.1f} s (sampling only; {ess:.0f} effective draws taken)",
            f"{per_thousand / seconds:.0f} times faster",
        )
    )
    return rows


def growth(quick: bool) -> list[tuple[str, str, str, str]]:
    """Time and memory as N grows, each size in a process of its own."""
    sizes = [10_000, 100_000] if quick else [10_000, 100_000, 1_000_000]
    results = [
        json.loads(_python(None, [__file__, "--memory", str(n)]).splitlines()[-1]) for n in sizes
    ]
    rows = [
        (
            f"infer, N={n:,}",
            f"{r['seconds']:.2f} s, {r['passes']} passes, peak {r['memory']:.2f} GB",
            f"linear response anew {r['response']:.2f} s",
            f"{r['response'] / (r['seconds'] + r['response']):.2f} of the whole",
        )
        for n, r in zip(sizes, results, strict=True)
    ]
    times = [r["seconds"] for r in results]
    slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    rows.append(("log-log slope in N", f"{slope:.2f}", "bound 1.05", f"{slope / 1.05:.2f}"))
    return rows


def one_size(n: int) -> dict[str, float]:
    """One size: seconds of a fit whose programs are compiled, of the response anew, peak memory."""
    import lrvb

    data = _data(n)
    lrvb.infer(lrvb.models.NormalPoisson(), {k: v[:9000] for k, v in data.items()})
    begin = time.perf_counter()
    posterior = lrvb.infer(lrvb.models.NormalPoisson(), data)
    middle = time.perf_counter()
    lrvb.respond(lrvb.linearize(posterior.fit, local_sum=lrvb.AutodiffSum()))
    end = time.perf_counter()
    return {
        "seconds": middle - begin,
        "response": end - middle,
        "passes": posterior.n_iter + 1,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def _nuts(data: dict[str, np.ndarray], draws: int) -> tuple[float, float]:
    """Seconds of NUTS per 1000 effective draws of τ, without warm-up and compilation."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.diagnostics import effective_sample_size
    from numpyro.infer import MCMC, NUTS

    jax.config.update("jax_enable_x64", True)

    def model(x: np.ndarray, y: np.ndarray) -> None:
        beta = numpyro.sample("beta", dist.Normal(0, 10**0.5))
        tau = numpyro.sample("tau", dist.Gamma(1, 1))
        with numpyro.plate("rows", len(x)):
            z = numpyro.sample("z", dist.Normal(beta * x, tau**-0.5))
            numpyro.sample("y", dist.Poisson(jax.numpy.exp(z)), obs=y)

    chain = MCMC(NUTS(model), num_warmup=500, num_samples=draws, progress_bar=False)
    chain.warmup(jax.random.key(0), data["x"], data["y"])
    chain.run(jax.random.key(1), data["x"], data["y"])  # compiles
    begin = time.perf_counter()
    chain.run(jax.random.key(2), data["x"], data["y"])
    seconds = time.perf_counter() - begin
    ess = float(effective_sample_size(np.asarray(chain.get_samples(group_by_chain=True)["tau"])))
    return seconds * 1000 / ess, ess


def _data(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return {"x": x, "y": rng.poisson(np.exp(1.5 * x + 0.5 * rng.normal(size=n)))}


def _best(action: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def _cold(cache: str) -> tuple[float, float]:
    imported, total = _python(COLD, cache=cache).split()
    return float(imported), float(total)


def _python(code: str | None, arguments: list[str] | None = None, cache: str | None = None) -> str:
    command = [sys.executable, *(["-c", code] if code else []), *(arguments or [])]
    environment = dict(os.environ, **({"LRVB_CACHE_DIR": cache} if cache else {}))
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment
    ).stdout.strip()


if __name__ == "__main__":
    main()
