"""Speed of the mixture: against scikit-learn, plain NumPy, one BLAS product, and Gibbs sampling.

    OPENBLAS_NUM_THREADS=2 python benchmarks/mixture.py [--quick]

Prints one table; every ratio is to a peer measured in the same run, both started at the true
allocation and run to stationarity. Writes nothing.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.mixture import BayesianGaussianMixture

import lrvb
from lrvb.numerics.double import double
from lrvb.studies.reference import mixture_gibbs, simulate


class Started(BayesianGaussianMixture):
    """scikit-learn's mixture, started at given responsibilities."""

    start: np.ndarray

    def _initialize_parameters(self, X: Any, random_state: Any, **options: Any) -> None:
        self._initialize(X, self.start)


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave out the largest sizes")
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rows:
        return print(json.dumps(one_size(options.rows)))
    rows = [*against_sklearn(options.quick), *response_alone(options.quick), *against_gibbs()]
    rows += [*growth_in_rows(options.quick), *growth_in_columns(options.quick)]
    table = pd.DataFrame(rows, columns=["what", "lrvb", "peer", "ratio"])
    print(table.to_string(index=False))


# ---- against scikit-learn ------------------------------------------------------------------


def against_sklearn(quick: bool) -> list[tuple[str, str, str, str]]:
    """Fit and linear response against scikit-learn's fit alone, same start, same stationarity."""
    rng = np.random.default_rng(1)
    n = 20_000 if quick else 100_000
    cases = [
        ("K2 P2 N10000, the paper's", simulate.gaussian_mixture(rng, 10_000), True),
        (f"K3 P3 N{n}, overlapping", simulate.scaled_mixture(rng, n, 3, 3), True),
        ("K2 P10 N5000, well separated", _separated(rng, 5000, 10), False),
        ("K2 P22 N5000, well separated", _separated(rng, 5000, 22), False),
    ]
    rows = []
    for name, made, overlapping in cases:
        X, R = made["X"], np.eye(made["z"].max() + 1)[made["z"]]
        K = R.shape[1]

        def ours(K: int = K, X: np.ndarray = X, R: np.ndarray = R) -> Any:
            return lrvb.GaussianMixture(K, certify=False, init=R).fit(X)

        def theirs(K: int = K, X: np.ndarray = X, R: np.ndarray = R) -> Any:
            peer = Started(n_components=K, tol=1e-12, max_iter=5000, reg_covar=0.0)
            peer.start = R
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return peer.fit(X)

        ours()
        mine, fitted = _timed(ours, 5)
        peers, peer = _timed(theirs, 1 if overlapping else 3)
        rows.append(
            (
                f"fit + linear response, {name}",
                f"{mine:.3f} s ({fitted.n_iter_} iterations)",
                f"scikit-learn, fit alone: {peers:.3f} s ({peer.n_iter_} sweeps)",
                f"{peers / mine:.1f} times faster",
            )
        )
        alone = _fit_alone(fitted.posterior_.fit, X, R)
        rows.append(
            (
                f"  of which the fit alone, {name}",
                f"{alone:.3f} s",
                "",
                f"{peers / alone:.1f} times faster",
            )
        )
    return rows


def _fit_alone(optimum: lrvb.Fit, X: np.ndarray, R: np.ndarray) -> float:
    """Seconds from the responsibilities to the optimum, less one evaluation of V and H."""
    from lrvb.estimators.mixture.priors import standardised_priors
    from lrvb.estimators.mixture.responsibilities import start_from
    from lrvb.estimators.mixture.scaling import column_scaling

    def fit() -> Any:
        scaling = column_scaling(X, None, [str(j) for j in range(X.shape[1])])
        priors = standardised_priors(scaling, 0.01, None, None, 5.0)
        start = start_from(scaling.inward(X), R, None, priors)
        return lrvb.fit(optimum.problem, init=start, local_sum=lrvb.GramSum())

    curvature, _ = _timed(lambda: lrvb.linearize(optimum, local_sum=lrvb.GramSum()), 5)
    return max(_timed(fit, 5)[0] - curvature, 1e-9)


def _separated(rng: np.random.Generator, n: int, P: int) -> dict[str, np.ndarray]:
    return simulate.scaled_mixture(rng, n, 2, P)


# ---- the linear response alone -------------------------------------------------------------


def response_alone(quick: bool) -> list[tuple[str, str, str, str]]:
    """V, H and Σ̂ at a given optimum, against the plain formula and one BLAS product."""
    rng = np.random.default_rng(2)
    cases = [
        ("K2 P2 N10000", simulate.gaussian_mixture(rng, 10_000)),
        ("K3 P3 N10000", simulate.scaled_mixture(rng, 10_000, 3, 3)),
        ("K3 P3 N100000", simulate.scaled_mixture(rng, 100_000, 3, 3)),
        ("K3 P5 N6000", simulate.scaled_mixture(rng, 6000, 3, 5)),
        ("K2 P10 N5000", simulate.scaled_mixture(rng, 5000, 2, 10)),
        ("K2 P22 N5000", simulate.scaled_mixture(rng, 5000, 2, 22)),
        ("K2 P25 N12665", simulate.scaled_mixture(rng, 12_665, 2, 25)),
    ]
    rows = []
    for name, made in cases[: 3 if quick else None]:
        X, R = made["X"], np.eye(made["z"].max() + 1)[made["z"]]
        optimum = lrvb.GaussianMixture(R.shape[1], certify=False, init=R).fit(X).posterior_.fit

        def ours(optimum: lrvb.Fit = optimum) -> Any:
            return lrvb.respond(lrvb.linearize(optimum, local_sum=lrvb.GramSum()))

        def gram(optimum: lrvb.Fit = optimum) -> Any:
            with double():
                return lrvb.GramSum().bind(optimum.problem).evaluate(optimum.m)

        ours()
        seconds, response = _timed(ours, 5)
        sums, _ = _timed(gram, 5)
        _plain(optimum)  # compiles what it borrows
        plain, Sigma = _timed(lambda o=optimum: _plain(o), 2)
        scale = np.sqrt(np.outer(np.diag(Sigma), np.diag(Sigma)))
        assert np.abs(response.Sigma / scale - Sigma / scale).max() < 1e-6
        Phi = rng.normal(size=(len(X), 1 + X.shape[1] * (X.shape[1] + 3) // 2))
        pairs = R.shape[1] * (R.shape[1] - 1) // 2
        blas = pairs * _timed(lambda F=Phi: F.T @ F.copy(), 5)[0]
        rows.append(
            (
                f"linear response alone, {name}",
                f"{seconds:.4f} s (its row sums {sums:.4f} s)",
                f"plain NumPy {plain:.3f} s; BLAS of the Gram sum's flops {blas:.4f} s",
                f"{plain / seconds:.1f} times faster; row sums {sums / blas:.1f} × BLAS",
            )
        )
    return rows


def _plain(fit: lrvb.Fit) -> np.ndarray:
    """Σ̂ by eq:nuisance_lrvb_est as one would write it in NumPy: all rows, no Gram matrices."""
    from lrvb.collapsed.gram_programs import assembly_program, coefficient_program
    from lrvb.statement.problem import global_program

    problem, structure = fit.problem, fit.problem.structure
    program = coefficient_program(structure)
    with double():
        A = np.asarray(program(problem.traced, fit.m))
        J = _jacobian(fit)
    X = problem.rows.columns["x"]
    upper = np.triu_indices(X.shape[1])
    Phi = np.concatenate(
        [np.ones((len(X), 1)), X, (X[:, :, None] * X[:, None, :])[:, upper[0], upper[1]]], axis=1
    )
    eta = Phi @ A.T
    eta -= eta.max(axis=1, keepdims=True)
    z = np.exp(eta)
    z /= z.sum(axis=1, keepdims=True)
    with double():
        S = z.T @ Phi
        zeros = np.zeros((len(A) * (len(A) - 1) // 2, Phi.shape[1], Phi.shape[1]))
        _, H = assembly_program(structure, 2)(problem.traced, fit.m, S, zeros)
        _, _, _, H_global = global_program(structure, 2)(problem.traced, fit.eta)
    H = np.array(H) + np.asarray(H_global)
    D = [Phi @ J[k] for k in range(len(A))]
    for k in range(len(A)):
        for j in range(len(A)):
            weight = z[:, k] * ((k == j) - z[:, j])
            H += (D[k] * weight[:, None]).T @ D[j]
    V = fit.point.C @ fit.point.C.T
    return np.linalg.solve(np.eye(len(V)) - V @ H, V)


_JACOBIANS: dict[int, np.ndarray] = {}


def _jacobian(fit: lrvb.Fit) -> np.ndarray:
    """∂A/∂m, (K, F, a); its cost is not counted."""
    import jax

    from lrvb.collapsed.bilinear import coefficients, width_of

    if id(fit) not in _JACOBIANS:
        structure, traced = fit.problem.structure, fit.problem.traced
        F = width_of(structure)
        function = jax.jit(jax.jacfwd(lambda m: coefficients(structure, traced, m, F)))
        _JACOBIANS[id(fit)] = np.asarray(function(fit.m))
    return _JACOBIANS[id(fit)]


# ---- Gibbs, growth -------------------------------------------------------------------------


def against_gibbs() -> list[tuple[str, str, str, str]]:
    """Our own Gibbs sampler for 1000 effective draws of its slowest parameter."""
    made = simulate.gaussian_mixture(np.random.default_rng(3), 10_000)
    X, R = made["X"], np.eye(2)[made["z"]]
    flat = {
        "mean_precision_prior": 0.0,
        "wishart_dof_prior": 3,
        "wishart_scale_prior": np.inf,
        "weight_concentration_prior": 0.0,
    }
    lrvb.GaussianMixture(2, certify=False, init=R, **flat).fit(X)
    mine, _ = _timed(lambda: lrvb.GaussianMixture(2, certify=False, init=R, **flat).fit(X), 5)
    chain = mixture_gibbs.sample(np.random.default_rng(4), X, made["z"], draws=5000)
    needed = chain.seconds * 1000 / chain.ess.min()
    return [
        (
            "fit + linear response, the paper's setting",
            f"{mine:.3f} s",
            f"Gibbs, 1000 effective draws: {needed:.2f} s",
            f"{needed / mine:.0f} times faster",
        )
    ]


def growth_in_rows(quick: bool) -> list[tuple[str, str, str, str]]:
    """K = 3, P = 3, k-means start included, each size in a process of its own."""
    sizes = [10_000, 100_000, 1_000_000] + ([] if quick else [10_000_000])
    results = []
    for n in sizes:
        done = subprocess.run(
            [sys.executable, __file__, "--rows", str(n)], check=True, capture_output=True, text=True
        )
        results.append(json.loads(done.stdout.splitlines()[-1]))
    rows = [
        (
            f"fit + linear response, K3 P3 N{n:,}",
            f"{r['seconds']:.2f} s, {r['iterations']} iterations",
            f"{r['over']:.2f} GB over X at the peak",
            f"{r['response'] / r['seconds']:.2f} of it linear response",
        )
        for n, r in zip(sizes, results, strict=True)
    ]
    slope = np.polyfit(np.log(sizes), np.log([r["response"] for r in results]), 1)[0]
    rows.append(("slope of the linear response in N", f"{slope:.2f}", "bound 1.05", ""))
    slope = np.polyfit(np.log(sizes), np.log([r["seconds"] for r in results]), 1)[0]
    rows.append(("slope of the whole in N", f"{slope:.2f}", "bound 1.05", ""))
    return rows


def one_size(n: int) -> dict[str, float]:
    """One size: seconds with compiled programs, and the peak memory over X's own."""
    rng = np.random.default_rng(5)
    lrvb.GaussianMixture(3, certify=False, random_state=0).fit(
        simulate.scaled_mixture(rng, 9000, 3, 3)["X"]
    )
    X = simulate.scaled_mixture(rng, n, 3, 3)["X"]
    before = _peak_memory(reset=True)
    seconds, fitted = _timed(
        lambda: lrvb.GaussianMixture(3, certify=False, random_state=0).fit(X), 1
    )
    again, _ = _timed(
        lambda: lrvb.respond(lrvb.linearize(fitted.posterior_.fit, local_sum=lrvb.GramSum())), 1
    )
    return {
        "seconds": seconds,
        "response": again,
        "iterations": fitted.n_iter_,
        "over": _peak_memory() - before,
    }


def _peak_memory(reset: bool = False) -> float:
    """Peak resident memory in GB; with `reset`, what is resident now, and the peak starts over."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1e6
    except (OSError, IndexError):  # not Linux: the peak so far
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def growth_in_columns(quick: bool) -> list[tuple[str, str, str, str]]:
    """K = 2, N = 5000: the linear response as P grows."""
    sizes, times = ([2, 5, 10] if quick else [2, 5, 10, 15, 22, 30]), []
    for P in sizes:
        made = _separated(np.random.default_rng(6), 5000, P)
        optimum = (
            lrvb.GaussianMixture(2, certify=False, init=np.eye(2)[made["z"]])
            .fit(made["X"])
            .posterior_.fit
        )

        def ours(optimum: lrvb.Fit = optimum) -> Any:
            return lrvb.respond(lrvb.linearize(optimum, local_sum=lrvb.GramSum()))

        ours()
        times.append(_timed(ours, 3)[0])
    large = np.array(sizes) > 5
    text = ", ".join(f"P={P}: {t:.4f} s" for P, t in zip(sizes, times, strict=True))
    slope = np.polyfit(np.log(np.array(sizes)[large]), np.log(np.array(times)[large]), 1)[0]
    return [("linear response alone, K2 N5000", text, "slope for P > 5", f"{slope:.2f}")]


def _timed(action: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    times, result = [], None
    for _ in range(repeats):
        begin = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - begin)
    return min(times), result


if __name__ == "__main__":
    main()
