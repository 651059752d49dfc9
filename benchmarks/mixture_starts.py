"""Local optima: how far the default start ends below the best of many, on overlapping mixtures.

    python benchmarks/mixture_starts.py [--mixtures 48] [--starts 20]

Each mixture is drawn anew: 2 to 4 components in 1 to 4 dimensions, 300 to 2000 rows, centres two to
three standard deviations apart. Beside the default (`n_init=1`, many cheap trials) stands one k-means
start alone; both are compared with the best of so many seeds of either. Writes nothing.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.cluster import KMeans

import lrvb


def main() -> None:
    """Fit all and print the two counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mixtures", type=int, default=48)
    parser.add_argument("--starts", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    short = {"one k-means start": [], "the default": []}
    seconds = dict.fromkeys(short, 0.0)
    for seed in range(options.mixtures):
        X, K = overlapping(np.random.default_rng(seed))
        found = []
        for s in range(options.starts):
            labels = KMeans(K, n_init=1, random_state=s).fit_predict((X - X.mean(0)) / X.std(0))
            found.append(_elbo(X, K, init=np.eye(K)[labels]))
            seconds["one k-means start"] += found[-1][1]
        ours = [_elbo(X, K, random_state=s) for s in range(3)]
        seconds["the default"] += ours[0][1] * options.starts
        best = max(value for value, _ in [*found, *ours])
        short["one k-means start"].append(best - found[0][0])
        short["the default"].append(best - ours[0][0])
    for name, below in short.items():
        count = int(np.sum(np.array(below) > 1))
        each = 1e3 * seconds[name] / (options.mixtures * options.starts)
        print(
            f"{name}: {count} of {options.mixtures} more than a nat below the best, "
            f"worst {max(below):.1f}; {each:.0f} ms a fit"
        )


def overlapping(rng: np.random.Generator) -> tuple[np.ndarray, int]:
    """Rows of a mixture whose neighbouring centres are two to three standard deviations apart."""
    K, P, N = rng.integers(2, 5), rng.integers(1, 5), rng.integers(300, 2001)
    step = rng.normal(size=(K, P))
    step *= rng.uniform(2, 3, size=(K, 1)) / np.linalg.norm(step, axis=1, keepdims=True)
    centres = np.cumsum(step, axis=0)
    roots = np.linalg.cholesky(
        np.stack([np.cov(rng.normal(size=(P, 4 * P + 4))).reshape(P, P) for _ in range(K)])
    )
    z = rng.choice(K, size=N, p=rng.dirichlet(np.full(K, 5.0)))
    return centres[z] + np.einsum("nab,nb->na", roots[z], rng.normal(size=(N, P))), int(K)


def _elbo(X: np.ndarray, K: int, **options: object) -> tuple[float, float]:
    """The ELBO of a fit and its processor seconds; −∞ where it fails."""
    begin = time.process_time()
    try:
        value = lrvb.GaussianMixture(K, certify=False, **options).fit(X).lower_bound_
    except lrvb.LrvbError:
        value = -np.inf
    return value, time.process_time() - begin


if __name__ == "__main__":
    main()
