"""Seconds of certificates beside NUTS and Gibbs for the same Monte Carlo error, in one run.

    python benchmarks/certificate_speed.py [normal-poisson] [random-slope] [mixture] [second-order]

Seconds are of the processor, warm. A sampler's are what its slowest quantity would need for as many
effective draws as the certificate has, from a short chain whose compilation and warm-up do not count.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lrvb
from lrvb.engine.objective import Objective
from lrvb.engine.response import Response
from lrvb.engine.second_order import SecondOrder, linear
from lrvb.models import NormalPoisson, RandomSlope
from lrvb.posterior.certificate import Certificate
from lrvb.studies.experiments import matched
from lrvb.studies.reference import mixture_gibbs, simulate

MANY = 20_000  # draws of NUTS


def seconds(action: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """Processor seconds, best of some after one that compiles, and the result."""
    action()
    best, result = np.inf, None
    for _ in range(times):
        begun = time.process_time()
        result = action()
        best = min(best, time.process_time() - begun)
    return best, result


def alternately(*actions: Callable[[], Any], times: int) -> np.ndarray:
    """Processor seconds of each, medians of so many turns, so that a busy machine is busy for all."""
    took = np.zeros((times, len(actions)))
    for turn in range(-1, times):
        for i, action in enumerate(actions):
            begun = time.process_time()
            action()
            took[max(turn, 0), i] = time.process_time() - begun
    return np.median(took, axis=0)


def report(what: str, took: float, found: Certificate, other: str, each: float) -> None:
    """One line: the certificate, and the sampler for as many effective draws."""
    print(
        f"{what}: {took:.2f} s for {len(found.weights)} draws, {found.ess:.0f} effective, k-hat "
        f"{found.k_hat:.2f}; {other} for as many: {each * found.ess:.1f} s",
        flush=True,
    )


def counts() -> dict[str, np.ndarray]:
    """500 rows of counts."""
    data = simulate.normal_poisson(np.random.default_rng(0), n=500, beta=1.0, sd=0.6)
    return {"x": data["x"], "y": data["y"]}


def mixture(n: int = 100_000) -> tuple[np.ndarray, np.ndarray]:
    """Three components in three columns, with their labels."""
    data = simulate.scaled_mixture(np.random.default_rng(0), n, 3, 3)
    return data["X"], data["z"]


def seconds_each(sampler: Callable[..., Any], names: list[str], **data: np.ndarray) -> float:
    """Processor seconds of one effective draw of NUTS' slowest quantity; NaN where it is missing."""
    spent = []
    try:
        # The first pays for imports; the difference of the others is that of the draws alone, so many
        # that compilation, which varies by a second, hardly counts.
        for draws in (10, 500, MANY):
            begun = time.process_time()
            chain = sampler(**data, seed=0, warmup=300, draws=draws)
            spent.append(time.process_time() - begun)
    except lrvb.LrvbError as error:
        print(error)
        return float("nan")
    slowest = chain.ess[[name for name in chain.ess.index if name.startswith(tuple(names))]].min()
    return (spent[2] - spent[1]) * MANY / (MANY - 500) / slowest


def time_counts() -> None:
    """Normal–Poisson: importance sampling against NUTS on all 502 variables."""
    from lrvb.studies.reference import nuts

    data = counts()
    posterior = lrvb.infer(NormalPoisson(), data, certify=False)
    took, found = seconds(lambda: posterior.certify(1024))
    each = seconds_each(nuts.normal_poisson, ["beta", "tau", "log(tau)"], **data)
    report("normal-Poisson, 500 rows", took, found, "NUTS", each)


def time_slopes() -> None:
    """Random slopes of 300 rows in 30 groups: importance sampling against NUTS."""
    from lrvb.studies.reference import nuts

    data = simulate.random_slope(np.random.default_rng(0), groups=30, per_group=10)
    data = {name: data[name] for name in ("x", "r", "y", "group")}
    posterior = lrvb.infer(RandomSlope(), data, certify=False)
    took, found = seconds(lambda: posterior.certify(1024))
    each = seconds_each(nuts.random_slope, ["beta", "tau", "nu", "log("], **data)
    report("random slopes, 300 rows", took, found, "NUTS", each)


def time_mixture() -> None:
    """Three components in three columns: importance sampling against Gibbs."""
    X, labels = mixture()
    fitted = matched.fit(X, labels)
    took, found = seconds(lambda: fitted.posterior_.certify(1024), times=1)
    begun = time.process_time()
    draws = mixture_gibbs.sample(np.random.default_rng(0), X, labels, draws=200, burn_in=20)
    spent = (time.process_time() - begun) * 200 / 220
    report("mixture, 100,000 rows", took, found, "Gibbs", spent / matched.slowest(draws))


def time_second_order() -> None:
    """The second order in units of one evaluation of the objective, its gradient and curvature."""
    X, labels = mixture()
    bound = NormalPoisson(local="gaussian")
    fits = {
        "normal-Poisson, 500 rows": lrvb.infer(NormalPoisson(), counts(), certify=False),
        "the same, rows not linear in z": lrvb.infer(bound, counts(), certify=False),
        "mixture, 100,000 rows": matched.fit(X, labels).posterior_,
    }
    for what, posterior in fits.items():
        in_curvatures(what, posterior.response)


def in_curvatures(what: str, response: Response) -> None:
    """One line: what all means and one sd cost."""
    rows = response.fit.bound()
    assert rows is not None
    objective = Objective(response.fit.problem, rows)
    shift, d = SecondOrder(response).shift, linear(np.eye(len(response.m))[0])
    one, means, sd = alternately(
        lambda: objective.at(response.eta),
        lambda: SecondOrder(response).shift,
        lambda: SecondOrder(response, None, shift).variance(d),
        times=60 if response.fit.problem.n <= 1000 else 5,
    )
    print(
        f"{what}: all means {means / one:.1f} curvatures, an sd {sd / one:.1f} "
        f"({one * 1e3:.1f} ms each)",
        flush=True,
    )


PARTS = {
    "normal-poisson": time_counts,
    "random-slope": time_slopes,
    "mixture": time_mixture,
    "second-order": time_second_order,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
