"""Five mixed models beside peers that give estimates and standard errors: cold seconds from the import.

    python benchmarks/mixed.py five [--peers PYTHON] [--skip gpboost ...]

Each measurement has a process of its own; making the data is not counted. lrvb gives the whole posterior,
the summary with its verdicts and every level's effect; `glmm` (Rust), GPBoost, mixedlm and statsmodels (its
MixedLM, and its variational fit of zeros and ones or counts) give estimates and standard errors. PYTHON is
the interpreter of an environment that has the peers, where this one has not (pip install glmm gpboost mixedlm
statsmodels). lrvb is compiled to bytecode first, as pip does with what it installs. The processor's seconds
stand in brackets: on a busy machine they are what can be compared.
"""

from __future__ import annotations

import compileall
import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

PEERS = ("lrvb", "glmm", "gpboost", "mixedlm", "statsmodels")
LIMIT = 600  # seconds


class Case(NamedTuple):
    """Rows, levels of each factor, formula, family; what was asked of us, in seconds."""

    rows: int
    levels: tuple[int, ...]
    formula: str
    family: str
    goal: float


CASES = {
    "Poisson, 200 groups": Case(5000, (200,), "y ~ x + (1 | g)", "poisson", 1.2),
    "gaussian, 10,000 groups": Case(500_000, (10_000,), "y ~ x + (1 | g)", "gaussian", 1.5),
    "Poisson, 20,000 groups, slopes": Case(
        500_000, (20_000,), "y ~ x + (1 + x | g)", "poisson", 10.0
    ),
    "Bernoulli, 10,000 groups": Case(100_000, (10_000,), "y ~ x + (1 | g)", "bernoulli", 3.0),
    "gaussian, 2972 × 1128 crossed": Case(
        73_421, (2972, 1128), "y ~ x + (1 | g) + (1 | h)", "gaussian", 3.0
    ),
}


def simulate(case: Case) -> dict[str, np.ndarray]:
    """Columns y, x, g and h."""
    rng = np.random.default_rng(1)
    n = case.rows
    codes = [rng.integers(size, size=n) for size in case.levels]
    x = rng.normal(size=n)
    eta = 0.3 + 0.3 * x + 0.5 * rng.normal(size=case.levels[0])[codes[0]]
    if "1 + x" in case.formula:
        eta += 0.3 * rng.normal(size=case.levels[0])[codes[0]] * x
    if len(codes) > 1:
        eta += 0.3 * rng.normal(size=case.levels[1])[codes[1]]
    draw = {
        "gaussian": lambda: eta + rng.normal(size=n),
        "poisson": lambda: rng.poisson(np.exp(eta)).astype(float),
        "bernoulli": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
    }
    return {"y": draw[case.family](), "x": x, **dict(zip("gh", codes, strict=False))}


def five(skip: Sequence[str], python: str | None) -> list[tuple[str, ...]]:
    """One line a case: the goal, then everyone's seconds."""
    lines = []
    for name, case in CASES.items():
        found = [alone(who, name, python) if who not in skip else "–" for who in PEERS]
        lines.append((f"{name}, {case.rows:,} rows", f"{case.goal:g} s", *found))
    return lines


def compiled() -> None:
    """Bytecode of this package, which an installed one has: a source tree may be run without."""
    found = importlib.util.find_spec("lrvb")
    for folder in (found and found.submodule_search_locations) or ():
        compileall.compile_dir(folder, quiet=1)


def alone(who: str, name: str, python: str | None) -> str:
    """Seconds of one measurement, with those of the processor."""
    interpreter = sys.executable if who == "lrvb" or python is None else python
    environment = dict(os.environ, LRVB_CACHE_DIR="off")
    try:
        done = subprocess.run(
            [interpreter, __file__, who, name],
            capture_output=True,
            text=True,
            env=environment,
            timeout=LIMIT,
        )
    except subprocess.TimeoutExpired:
        return f"over {LIMIT} s"
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        return "not installed" if last and "ModuleNotFound" in last[0] else "failed"
    cold, cpu = json.loads(done.stdout.splitlines()[-1])
    return f"{cold:.1f} ({cpu:.1f})"


def fit(who: str, case: Case, data: dict[str, np.ndarray]) -> Any:
    """One fit, import and all."""
    if who == "lrvb":
        import lrvb

        model = lrvb.MixedModel(case.formula, family=case.family).fit(data)
        return model.summary(), model.ranef()
    if who == "glmm":
        import glmm

        strings = {k: v if k in "yx" else v.astype(str) for k, v in data.items()}
        family = {"bernoulli": "binomial"}.get(case.family, case.family)
        return glmm.fit(strings, case.formula, family=family)
    if who == "mixedlm":
        import mixedlm
        import pandas as pd

        frame = pd.DataFrame(data)
        if case.family == "gaussian":
            return mixedlm.lmer(case.formula, frame)
        family = {"poisson": "Poisson", "bernoulli": "Binomial"}[case.family]
        return mixedlm.glmer(case.formula, frame, family=getattr(mixedlm.families, family)())
    if who == "statsmodels":
        return _statsmodels(case, data)
    import gpboost

    groups = np.column_stack([data[k] for k in "gh" if k in data])
    likelihood = {"bernoulli": "bernoulli_logit"}.get(case.family, case.family)
    slopes = {}
    if "1 + x" in case.formula:
        slopes = {"group_rand_coef_data": data["x"], "ind_effect_group_rand_coef": [1]}
    model = gpboost.GPModel(group_data=groups, likelihood=likelihood, **slopes)
    X = np.column_stack([np.ones(case.rows), data["x"]])
    model.fit(y=data["y"], X=X)
    return model.get_coef(std_err=True), model.get_cov_pars(std_err=True)


def _statsmodels(case: Case, data: dict[str, np.ndarray]) -> Any:
    """MixedLM of a gaussian response with one factor; the variational fit of another, without slopes."""
    import scipy.sparse as sp

    n, X = case.rows, np.column_stack([np.ones(case.rows), data["x"]])
    if len(case.levels) > 1 or "1 + x" in case.formula:
        raise NotImplementedError("Crossed factors and slopes take too long there.")
    if case.family == "gaussian":
        from statsmodels.regression.mixed_linear_model import MixedLM

        found = MixedLM(data["y"], X, groups=data["g"]).fit()
        return found.params, found.bse
    from statsmodels.genmod.bayes_mixed_glm import BinomialBayesMixedGLM, PoissonBayesMixedGLM

    kind = BinomialBayesMixedGLM if case.family == "bernoulli" else PoissonBayesMixedGLM
    Z = sp.csr_matrix((np.ones(n), (np.arange(n), data["g"])), shape=(n, case.levels[0]))
    found = kind(data["y"], X, Z, np.zeros(case.levels[0], dtype=int)).fit_vb()
    return found.fe_mean, found.fe_sd


if __name__ == "__main__":
    chosen = CASES[sys.argv[2]]
    made = simulate(chosen)
    began, used = time.perf_counter(), time.process_time()
    fit(sys.argv[1], chosen, made)
    print(json.dumps([time.perf_counter() - began, time.process_time() - used]))
