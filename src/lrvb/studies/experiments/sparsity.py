"""Which entries of V, H and I − VH are zero: the normal–Poisson model with five rows.

Paper: fig:sparsity_patterns
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd

from ...collapsed.autodiff import AutodiffSum
from ...data.tables import Row
from ...engine.curvature import linearize
from ...engine.fitting import Fit, fit
from ...engine.response import respond
from ...models import NormalPoisson
from ...numerics.double import in_double
from ..figures import sparsity as drawn
from ..reference import simulate
from .base import Experiment, Figure, Findings, Settings, Tables, verdict

CLAIM = (
    "V is block diagonal, because the blocks of q are independent. The mean parameters of β and τ "
    "occur with each other and with all z, so their four rows of H are expected to be dense, while "
    "those of different z never meet. So (I − VH)⁻¹ needs no inverse larger than that of β and τ."
)


def settings(quick: bool) -> Settings:
    """Five rows with β = 1 and sd 0.5: quick and full are the same."""
    return {"rows": 5, "beta": 1.0, "sd": 0.5, "local": "gaussian"}


def run(task: str, settings: Settings, seed: int) -> Tables:
    """Fit, write down V, H and I − VH in full, and solve in full what the package solves by parts."""
    rng = np.random.default_rng(seed)
    n = settings["rows"]
    data = simulate.normal_poisson(rng, n, beta=settings["beta"], sd=settings["sd"])
    fitted = fit(NormalPoisson(local=settings["local"]), {"x": data["x"], "y": data["y"]})
    V, H = full_covariance(fitted), full_hessian(fitted)
    identity_less = np.eye(len(V)) - V @ H
    dense = np.linalg.solve(identity_less, V)
    response = respond(linearize(fitted))
    a = len(response.Sigma)
    scale = np.sqrt(np.outer(np.diag(dense), np.diag(dense)))
    gap = np.abs(dense[:a, :a] - response.Sigma) / scale[:a, :a]
    names = coordinate_names(n)
    tables = [
        _entries(name, M, names) for name, M in (("V", V), ("H", H), ("I - VH", identity_less))
    ]
    return {
        "entries": pd.concat(tables, ignore_index=True),
        "solve": pd.DataFrame({"size": [len(V)], "global": [a], "largest_gap": [gap.max()]}),
    }


def coordinate_names(n: int) -> list[str]:
    """The paper's order of mean parameters: β, β², τ, log τ, then z and z² of every row."""
    local = [name for i in range(1, n + 1) for name in (f"z{i}", f"z{i}^2")]
    return ["beta", "beta^2", "tau", "log(tau)", *local]


def _entries(name: str, M: np.ndarray, names: list[str]) -> pd.DataFrame:
    row, column = np.indices(M.shape)
    labels = np.array(names)
    return pd.DataFrame(
        {
            "matrix": name,
            "row": labels[row.ravel()],
            "column": labels[column.ravel()],
            "value": M.ravel(),
        }
    )


def full_covariance(fitted: Fit) -> np.ndarray:
    """V of the global and of all local mean parameters, (a + Nd, a + Nd)."""
    assert fitted.problem is not None
    a = fitted.alpha.size
    blocks = [fitted.point.C @ fitted.point.C.T]
    for chunk in AutodiffSum().bind(fitted.problem).respond(fitted.m):
        blocks.extend(chunk.V)
    V = np.zeros((a + sum(len(b) for b in blocks[1:]),) * 2)
    start = 0
    for block in blocks:
        here = slice(start, start + len(block))
        V[here, here] = block
        start += len(block)
    return V


@in_double
def full_hessian(fitted: Fit) -> np.ndarray:
    """H = ∇²L over the global and all local mean parameters, (a + Nd, a + Nd)."""
    problem = fitted.problem
    assert problem is not None
    assert problem.rows is not None
    structure, a, d = problem.structure, problem.alpha.size, problem.local.size
    columns = {name: jnp.asarray(c) for name, c in problem.rows.columns.items()}

    def expected_log_joint(mean: Any) -> Any:
        m, z = mean[:a], mean[a:].reshape(-1, d)

        def term(z: Any, row: Any) -> Any:
            return structure.local_term(problem.traced, m, z, Row(row))

        rows = jax.vmap(term)(z, columns)
        return structure.global_term(problem.traced, m) + rows.sum()

    z = [chunk.z for chunk in AutodiffSum().bind(problem).respond(fitted.m)]
    mean = jnp.concatenate([jnp.asarray(fitted.m), *(jnp.asarray(part).ravel() for part in z)])
    return np.asarray(jax.jit(jax.hessian(expected_log_joint))(mean))


def findings(tables: Tables, settings: Settings) -> Findings:
    """Where the zeros are, and that the small solve is the large one."""
    patterns = {
        name: rows.pivot(index="row", columns="column", values="value")
        for name, rows in tables["entries"].groupby("matrix")
    }
    names = coordinate_names(settings["rows"])
    V, H, M = (patterns[k].loc[names, names].to_numpy() for k in ("V", "H", "I - VH"))
    blocks = np.repeat(np.arange(len(names) // 2), 2)
    together = blocks[:, None] == blocks
    local = np.add.outer(np.arange(len(names)) >= 4, np.arange(len(names)) >= 4) == 2
    meeting = {name: int((H[i] != 0).sum()) for i, name in enumerate(names[:4])}
    gap = float(tables["solve"]["largest_gap"].iloc[0])
    zeros = {
        "V, entries outside its blocks": int(np.count_nonzero(V[~together])),
        "H, entries between two different z": int(np.count_nonzero(H[local & ~together])),
        "I − VH, entries between two different z": int(np.count_nonzero(M[local & ~together])),
    }
    expected = {name: (0, count) for name, count in zeros.items()}
    expected |= {f"H, entries in the row of {k}": (len(names), v) for k, v in meeting.items()}
    numbers = pd.DataFrame(expected, index=["published", "ours"]).T
    numbers.index.name = "entries that are not zero"
    checks = {
        "V has no entry outside the blocks of q": np.count_nonzero(V[~together]) == 0,
        "no two different z meet in H": np.count_nonzero(H[local & ~together]) == 0,
        "no two different z meet in I − VH": np.count_nonzero(M[local & ~together]) == 0,
        "E β and E τ meet every z in H": bool(
            (H[np.ix_([0, 2], range(4, len(names), 2))] != 0).all()
        ),
        "the small solve equals the full one to 1e-9": gap < 1e-9,
    }
    reason = (
        "The pattern is the published one. The four dense rows of H are less than dense: log τ enters "
        "the expected log joint linearly, so its row of H is zero, and β² meets only τ. Solving with the "
        f"4 × 4 Schur complement gives the covariance of the full {len(V)} × {len(V)} solve to "
        f"{gap:.0e} of the sds."
    )
    return verdict(reason, numbers, checks)


EXPERIMENT = Experiment(
    name="sparsity",
    title="Sparsity of V and H",
    claim=CLAIM,
    labels=("fig:sparsity_patterns", "app:np_details", "sec:scaling_formulas"),
    settings=settings,
    tasks=lambda settings: ["rows"],
    run=run,
    figures=(
        Figure(
            "patterns",
            "V, H and I − VH of the normal–Poisson model with five rows, in the paper's order of mean "
            "parameters; white is zero, darker is larger.",
            drawn.patterns,
        ),
    ),
    findings=findings,
)
