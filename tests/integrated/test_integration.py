"""θ integrated: against quadrature over two or three hyperparameters, and on real data with truth."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from small import intercepts, regression, sloped

import lrvb
from integrated.small import NORMAL_ROWS
from lrvb.integrated.density import Density
from lrvb.integrated.direct import integrate_gaussian, longest_steps
from lrvb.integrated.gaussian import Gaussian
from lrvb.integrated.importance import Budget
from lrvb.integrated.integration import climb_finer, integrate_path
from lrvb.integrated.levels import Levels
from lrvb.integrated.mode import NoMode, climb
from lrvb.integrated.regression import Regression
from lrvb.integrated.slopes import Slopes
from lrvb.likelihoods import POISSON, Student
from lrvb.prior import Exponential, HalfNormal, HalfStudentT

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))
import integrated_cases as benchmark  # noqa: E402

SOURCE = Path(lrvb.__file__).parent


def grid_moments(log_density, axes):
    """Weights of a dense product grid, and the grid (n, d)."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))
    value = log_density(points)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    return points, np.exp(value - logsumexp(value)), logsumexp(value) + np.log(cell)


@pytest.mark.parametrize("kind", ["one factor", "two factors"])
def test_gaussian_theta_against_quadrature(kind):
    """Sds, β and evidence to three digits; the factors' sds reach down to zero."""
    rng = np.random.default_rng(8)
    n = 60
    a, b = rng.integers(0, 12, n), rng.integers(0, 7, n)
    X = np.column_stack([np.ones(n), rng.normal(size=n)])
    y = X @ [1.0, 0.5] + rng.normal(0, 0.5, 12)[a] + rng.normal(0, 1.0, n)
    rows = Regression.independent(NORMAL_ROWS, (y,), X, np.zeros(n), np.zeros(2), np.full(2, 10.0))
    terms = [intercepts(a, 12, HalfStudentT(3, 1.0)), intercepts(b, 7, Exponential(1.0))]
    terms = terms[: 1 if kind == "one factor" else 2]
    model = Gaussian(rows, terms, HalfNormal(2.0))
    found = integrate_gaussian(model, Budget(final=2**14))
    small = np.linspace(-11, 3, 71)
    axes = [small] * len(terms) + [np.linspace(-1.2, 1.2, 31)]
    theta, weights, log_z = grid_moments(model.log_density, axes)
    w = found.weighted
    assert w.k_hat < 0.7
    assert_allclose(w.log_evidence, log_z, atol=4 * w.log_evidence_error + 1e-3)
    for j in range(theta.shape[1]):
        sd, draws = np.exp(theta[:, j]), np.exp(found.theta[:, j])
        mean = weights @ sd
        spread = np.sqrt(weights @ (sd - mean) ** 2)
        assert_allclose(w.mean(draws), mean, atol=1e-2 * spread)
        assert_allclose(w.sd(draws), spread, rtol=1e-2)
    keep = weights > 1e-9
    exact, ours = model.moments(theta[keep], weights[keep]), model.moments(*found.heavy)
    assert_allclose(ours.beta, exact.beta, atol=1e-3 * exact.beta_sd.max())
    assert_allclose(ours.beta_sd, exact.beta_sd, rtol=1e-3)
    for mean, truth, sd, true_sd in zip(
        ours.levels, exact.levels, ours.levels_sd, exact.levels_sd, strict=True
    ):
        assert_allclose(mean, truth, atol=1e-2 * true_sd.max())
        assert_allclose(sd, true_sd, rtol=1e-2)


def test_binary_rows_in_small_groups_against_quadrature():
    """Intercept and sd of 40 groups of two or three zeros and ones, by a dense grid of both."""
    rng = np.random.default_rng(5)
    n = 100
    codes = np.arange(n) % 40
    rows = regression("bernoulli", rng.normal(0, 2.0, 40)[codes], np.ones((n, 1)), seed=6)
    model = Levels(rows, intercepts(codes, 40), nodes=41)
    found = integrate_path(model)
    model.nodes = 41
    theta, weights, log_z = grid_moments(
        model.log_density, [np.linspace(-4, 4, 81), np.linspace(-8, 4, 121)]
    )
    w = found.weighted
    assert w.k_hat < 0.5
    assert_allclose(w.log_evidence, log_z, atol=4 * w.log_evidence_error + 1e-3)
    for values, draws in [
        (theta[:, 0], found.theta[:, 0]),
        (np.exp(theta[:, 1]), np.exp(found.theta[:, 1])),
    ]:
        mean = weights @ values
        sd = np.sqrt(weights @ (values - mean) ** 2)
        assert_allclose(w.mean(draws), mean, atol=3e-2 * sd)
        assert_allclose(w.sd(draws), sd, rtol=3e-2)


def test_slopes_of_nearly_exact_rows_are_the_simulated_ones():
    """Counts of about 400 leave an sd of 1/20 a row: six rows a level give back what was simulated.

    β is then near the levels' own average, whose prior spread is far wider than the rows' error.
    """
    rng = np.random.default_rng(7)
    n, levels = 60, 10
    codes = np.arange(n) % levels
    x = rng.normal(1, 1, n)
    X = np.column_stack([np.ones(n), x])
    z = rng.normal(0, [0.5, 0.3], (levels, 2))
    eta = 6 + 0.3 * x + z[codes, 0] + x * z[codes, 1]
    y = rng.poisson(np.exp(eta)).astype(float)
    flat = np.full(2, 100.0)
    rows = Regression.independent(
        Density(POISSON), (y,), X, np.zeros(n), np.array([6.0, 0.0]), flat
    )
    found = integrate_path(Slopes(rows, sloped(codes, x, levels)))
    w = found.weighted
    assert w.k_hat < 0.7
    mean, sd = w.mean(found.theta[:, :2]), w.sd(found.theta[:, :2])
    # the rows are almost exact, so β is a mean over ten levels with known effects
    truth = np.array([6, 0.3]) + z.mean(0)
    assert np.all(np.abs(mean - truth) < 0.3 * sd)
    ((level_mean, level_sd, _),) = found.effects
    total = level_mean + mean
    assert np.abs(total - (z + np.array([6, 0.3]))).max() < 0.2
    assert level_sd.shape == (levels, 2)


def test_this_path_never_imports_jax():
    """A small mixed model starts without it: every module that `integrated` reaches, by its source."""
    seen, todo = set(), sorted((SOURCE / "integrated").glob("*.py"))
    while todo:
        path = todo.pop()
        if path in seen or path.name == "lazy.py":  # which defers it: see tests/test_cold_start.py
            continue
        seen.add(path)
        package = path.parent
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                assert not any(alias.name.split(".")[0] == "jax" for alias in node.names), path
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").split(".")[0] not in ("jax", "jaxlib"), path
                if node.level:
                    base = package
                    for _ in range(node.level - 1):
                        base = base.parent
                    parts = (node.module or "").split(".")
                    candidate = base.joinpath(*parts).with_suffix(".py")
                    todo += [candidate] if candidate.exists() else []
    assert len(seen) > 15


CASES = ROOT.parent / "shared" / "mixed_cases"
needs_cases = pytest.mark.skipif(
    not CASES.is_dir(), reason="The folder ../shared/mixed_cases of real cases is not here."
)


@needs_cases
@pytest.mark.parametrize("name", ["dyestuff2", "machines", "hsb82", "ohio", "bacteria"])
def test_real_cases_agree_with_long_runs(name):
    """Fixed effects within 0.1 sd and 5 %, sds and correlations within 0.15 sd and 10 %."""
    case, design = benchmark.read(CASES, name)
    found = benchmark.run(case, design)
    assert found.weighted.k_hat < 0.7
    worst = benchmark.compare(case, found)
    for kind, bias, ratio in [("fixed", 0.1, 0.05), ("sd", 0.15, 0.1)]:
        assert abs(worst[kind][0]) < bias
        assert abs(np.log(worst[kind][1])) < ratio


def test_a_mode_that_few_nodes_hide_is_found_with_more():
    """Rows whose noise is a twentieth of the sds: sums of 31² nodes have no mode, and finer ones do.

    There the gradient of sums of 121² nodes has next to nothing to gain.
    """
    rng = np.random.default_rng(1)
    codes = np.repeat(np.arange(10), 4)
    x = rng.normal(size=40)
    y = 0.5 + 0.3 * x + rng.normal(size=10)[codes] + 0.8 * rng.normal(size=10)[codes] * x
    y = y + 0.05 * rng.standard_t(3, size=40)
    X = np.column_stack([np.ones(40), x])
    density, prior = Density(Student(df=3.0)), (HalfStudentT(3, 1.0),)
    own = np.zeros(40), np.zeros(2), np.full(2, 3.0), prior
    inside = Slopes(Regression.independent(density, (y,), X, *own), sloped(codes, x, 10))
    start, longest = inside.start(), longest_steps(inside.kinds)
    inside.nodes = 31
    with pytest.raises(NoMode):
        climb(inside.log_density, start, inside.derivatives, longest)
    inside.forget()
    mode = climb_finer(inside, start, longest)
    assert inside.nodes > 31
    inside.nodes = 121
    _, gradient, H = inside.derivatives(mode.x)
    assert gradient @ np.linalg.solve(-H, gradient) < 0.05
