"""What the best Gaussian of a group's effect leaves out of counts and of zeros and ones.

    python benchmarks/block_gap.py

One grouping factor, effects u ~ N(0, sd²), a fixed intercept under a flat prior on a grid, sd half-normal(2).
The posterior of log sd by the exact evidence of every group, by that of its best Gaussian, and by that with
two corrections: the factor's own −½ log det(I − V_zH_z), and third and fourth cumulants, Σ (l⁽ᵏ⁾)²s²ᵏ/(2k!).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logsumexp

CASES = (  # family, rows a group, groups, sd, intercept
    ("poisson", 10, 20, 0.5, 1.0),
    ("poisson", 4, 40, 1.0, -1.0),
    ("bernoulli", 4, 60, 1.0, 0.0),
    ("bernoulli", 4, 60, 2.0, 0.0),
    ("bernoulli", 7, 100, 3.0, -1.0),
)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def terms(family: str, y: np.ndarray, n: int, eta: np.ndarray) -> list[np.ndarray]:
    """Log likelihood of groups with sums y of n rows at η (G, nodes), and its four derivatives."""
    if family == "poisson":
        e = n * np.exp(eta)
        return [y[:, None] * eta - e, y[:, None] - e, -e, -e, -e]
    p = expit(eta)
    v = n * p * (1 - p)
    second = [-v, -v * (1 - 2 * p), -v * (1 - 6 * p * (1 - p))]
    return [y[:, None] * eta - n * np.logaddexp(0, eta), y[:, None] - n * p, *second]


def evidences(family: str, y: np.ndarray, n: int, b: float, sd: float) -> np.ndarray:
    """Exact, of the best Gaussians, and these with either correction."""
    m, v = np.zeros(len(y)), np.full(len(y), sd**2)
    for _ in range(200):
        _, first, second, *_ = terms(family, y, n, b + m[:, None] + np.sqrt(v)[:, None] * NODES)
        v = 0.5 * v + 0.5 / (1 / sd**2 - second @ WEIGHTS)
        m = m + np.clip((first @ WEIGHTS - m / sd**2) * v, -1, 1)
    found = terms(family, y, n, b + m[:, None] + np.sqrt(v)[:, None] * NODES)
    log_p, _, _, third, fourth = (part @ WEIGHTS for part in found)
    best = log_p - (m**2 + v) / 2 / sd**2 + np.log(np.sqrt(v) / sd) + 0.5
    det = 1 - v**2 * fourth / 2 - v**3 * third**2 / 2
    own = -0.5 * np.log(np.where(det > 0, det, np.nan))
    cumulants = v**3 * third**2 / 12 + v**4 * fourth**2 / 48
    z = m[:, None] + 1.5 * np.sqrt(v)[:, None] * NODES
    log_f = terms(family, y, n, b + z)[0] - z**2 / 2 / sd**2 + NODES**2 / 2 + np.log(WEIGHTS)
    exact = logsumexp(log_f, axis=1) + np.log(1.5 * np.sqrt(v) / sd)
    return np.array([exact.sum(), best.sum(), (best + own).sum(), (best + cumulants).sum()])


def main() -> None:
    """Biases of E log sd in posterior sds, a row a case."""
    rng = np.random.default_rng(0)
    for family, n, groups, sd, b in CASES:
        eta = b + sd * rng.normal(size=(groups, 1))
        size = (groups, n)
        rows = (
            rng.poisson(np.exp(eta), size) if family == "poisson" else rng.random(size) < expit(eta)
        )
        y = rows.sum(1).astype(float)
        width = 1.2 * max(1.0, sd)
        log_sd = np.linspace(-2.5, np.log(2.2 * sd), 34)
        found = np.array(
            [
                [evidences(family, y, n, a, np.exp(t)) for t in log_sd]
                for a in np.linspace(b - width, b + width, 21)
            ]
        )
        found += (log_sd - np.exp(2 * log_sd) / 8)[None, :, None]
        means = []
        for one in np.moveaxis(found, -1, 0):
            p = np.exp(one - one.max()).sum(0)
            p /= p.sum()
            means.append((p @ log_sd, np.sqrt(p @ (log_sd - p @ log_sd) ** 2)))
        (mean, spread), *others = means
        biases = ", ".join(f"{(other - mean) / spread:+.2f}" for other, _ in others)
        print(f"{family}, {groups} × {n}, sd {sd}: {biases} sd", flush=True)


if __name__ == "__main__":
    main()
