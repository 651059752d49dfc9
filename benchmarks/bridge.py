"""Any model, against NUTS and the approximations that users have: errors and cold seconds in one table.

    python benchmarks/bridge.py [folder] [--methods lrvb,NUTS,...] [--cases name,name,...]
                                [--store FILE] [--seconds 200] [--limit 200] [--peers PYTHON]

`folder` holds posteriordb cases: NAME.data.json, models/NAME.py with `model(**data)` in NumPyro, some with a
PyMC twin models/NAME.pymc.py with `build(**data)`, and references/NAME.json; the other twins are in
twins/ beside this file. `--cases` also takes the regressions of `posteriordb_regressions.py` and
diamonds-like, whose moments are exact. Every method meets every case in a fresh process without a
compilation cache. Seconds are of the processor, from the stated model
to its means and sds, libraries imported; errors are of the worst quantity, of means in reference sds
and of log sds. Quantities without a finite variance are left out. With `--store` every result is kept in
FILE, what is there already is not measured again, and `--seconds` ends a run before the next measurement: a
long table can be made in pieces. PYTHON is an interpreter that has pymc-extras, where this one has not.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bridge_table import report
from diamonds_like import NAME as DIAMONDS
from diamonds_like import diamonds_like
from posteriordb_regressions import REGRESSIONS, Regression, regression

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "posteriordb"
TWINNED = Path(__file__).resolve().parent / "twins"
INFINITE = ("K_m", "V_m")
STEPS = 8000  # of stochastic optimisation
DRAWS = 2000

Answer = tuple[
    dict[str, np.ndarray], int
]  # draws of every site, and gradients where they are counted


def from_lrvb(case: Case, check: bool = True) -> tuple[pd.DataFrame, int]:
    """Ours: polished, or linear response alone."""
    import lrvb

    posterior = lrvb.from_numpyro(case.model(), **case.data).infer(check=check)
    summary = posterior.summary()
    return summary, posterior.certificate.gradients if check else 0


def from_lrvb_pymc(case: Case) -> tuple[pd.DataFrame, int]:
    """Ours, from the PyMC twin."""
    import lrvb

    posterior = lrvb.from_pymc(case.twin()).infer()
    return posterior.summary(), posterior.certificate.gradients


def nuts(case: Case, draws: int = 1000) -> Answer:
    """NumPyro's NUTS as it comes, 500 steps of warm-up and 1000 draws."""
    import jax
    from numpyro.infer import MCMC, NUTS

    chain = MCMC(NUTS(case.model()), num_warmup=500, num_samples=draws, progress_bar=False)
    chain.run(jax.random.PRNGKey(0), extra_fields=("num_steps",), **case.data)
    steps = int(chain.get_extra_fields()["num_steps"].sum())
    return chain.get_samples(), round((1 + 500 / draws) * steps)  # warm-up takes about as many


def guide(name: str) -> Callable[[Case], Answer]:
    """One of NumPyro's guides, 8000 steps of Adam with a falling rate."""

    def run(case: Case) -> Answer:
        import jax
        from numpyro.infer import SVI, Predictive, Trace_ELBO, autoguide
        from numpyro.optim import Adam

        model = case.model()
        made = getattr(autoguide, name)(model)
        svi = SVI(model, made, Adam(lambda t: 0.02 * 0.75 ** (t / 1000)), Trace_ELBO())
        state = svi.run(jax.random.PRNGKey(0), STEPS, progress_bar=False, **case.data)
        key = jax.random.PRNGKey(1)
        draws = made.sample_posterior(key, state.params, sample_shape=(DRAWS,), **case.data)
        latent = {name: values for name, values in draws.items()}
        rest = Predictive(model, latent)(key, **case.data)
        return {**rest, **latent}, STEPS

    return run


def advi(case: Case) -> Answer:
    """PyMC's ADVI as it comes."""
    import pymc as pm

    with case.twin():
        fitted = pm.fit(random_seed=0, progressbar=False)
        draws = fitted.sample(DRAWS, random_seed=0).posterior
    return {str(name): values.values[0] for name, values in draws.items()}, 10_000


def pathfinder(case: Case) -> Answer:
    """pymc-extras' Pathfinder, where it is installed."""
    import pymc_extras as pmx

    with case.twin():
        draws = pmx.fit_pathfinder(random_seed=0, num_draws=1000).posterior
    return {
        str(name): values.values.reshape(-1, *values.shape[2:]) for name, values in draws.items()
    }, 0


def dadvi(case: Case) -> Answer:
    """pymc-extras' DADVI, where it is installed."""
    from pymc_extras.inference import fit_dadvi

    with case.twin():
        draws = fit_dadvi(random_seed=0, progressbar=False).posterior
    return {
        str(name): values.values.reshape(-1, *values.shape[2:]) for name, values in draws.items()
    }, 0


METHODS: dict[str, Callable[[Case], Any]] = {
    "lrvb": from_lrvb,
    "lrvb, unchecked": lambda case: from_lrvb(case, check=False),
    "NUTS": nuts,
    "NUTS, 8000 draws": lambda case: nuts(case, draws=8000),
    "AutoNormal": guide("AutoNormal"),
    "AutoMultivariateNormal": guide("AutoMultivariateNormal"),
    "AutoLaplace": guide("AutoLaplaceApproximation"),
    "lrvb (PyMC)": from_lrvb_pymc,
    "PyMC ADVI": advi,
    "Pathfinder": pathfinder,
    "DADVI": dadvi,
}
TWINS = ("lrvb (PyMC)", "PyMC ADVI", "Pathfinder", "DADVI")
EXTRAS = ("Pathfinder", "DADVI")  # of pymc-extras
LIMIT = 200  # seconds of one measurement


class Case:
    """One posterior: its data, its model and its reference."""

    def __init__(self, folder: Path, name: str):
        self.folder, self.name = folder, name
        self.regression = self._regression(name)
        stored = folder / f"{name}.data.json"
        self.data = {} if self.regression else json.loads(stored.read_text())

    @staticmethod
    def _regression(name: str) -> Regression | None:
        if name == DIAMONDS:
            return diamonds_like()
        return regression(name) if name in REGRESSIONS else None

    def model(self) -> Any:
        """The NumPyro model."""
        if self.regression is not None:
            return self.regression.model
        return _module(self.folder / "models" / f"{self.name}.py").model

    def twin(self) -> Any:
        """The PyMC model."""
        return _module(twin_of(self.folder, self.name)).build(**self.data)

    def reference(self) -> pd.DataFrame:
        """`mean` and `sd` of every quantity."""
        if self.regression is not None:
            exact = self.regression.exact()
            return pd.DataFrame.from_dict(exact, orient="index", columns=["mean", "sd"])
        stored = json.loads((self.folder / "references" / f"{self.name}.json").read_text())
        names = [_from_zero(name) for name in stored["names"]]
        return pd.DataFrame({k: stored[k] for k in ("mean", "sd")}, index=names)

    def errors(self, answer: pd.DataFrame) -> tuple[float, float]:
        """Worst of the means, in sds, and of the log sds."""
        table = self.reference()
        table = table.loc[[name for name in table.index if name not in INFINITE]]
        found = answer.loc[table.index]
        mean = ((found["mean"] - table["mean"]) / table["sd"]).abs().max()
        return float(mean), float(np.log(found["sd"] / table["sd"]).abs().max())


def twin_of(folder: Path, name: str) -> Path:
    """Where the PyMC model is: beside the NumPyro one, or here."""
    beside = folder / "models" / f"{name}.pymc.py"
    return beside if beside.exists() else TWINNED / f"{name}.py"


def _module(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location("case", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _from_zero(name: str) -> str:
    """The references count from 1."""
    inside = re.fullmatch(r"(.*)\[([\d,]+)\]", name)
    if inside is None:
        return name
    return f"{inside[1]}[{','.join(str(int(k) - 1) for k in inside[2].split(','))}]"


def moments(draws: dict[str, np.ndarray]) -> pd.DataFrame:
    """Mean and sd of every scalar, by name."""
    rows = {}
    for name, values in draws.items():
        values = np.asarray(values, dtype=float)
        for index in np.ndindex(values.shape[1:]):
            label = f"{name}[{','.join(map(str, index))}]" if index else name
            one = values[(slice(None), *index)]
            rows[label] = (one.mean(), one.std())
    return pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd"])


def measure(folder: Path, name: str, method: str) -> dict[str, Any]:
    """One method on one case, in this process."""
    warnings.simplefilter("ignore")
    if method.startswith("lrvb"):
        import lrvb

        lrvb.from_log_density(lambda x: -x @ x, np.zeros(1))
    elif method not in TWINS:
        import jax

        jax.config.update("jax_enable_x64", True)
    if method in TWINS:  # imported for its time, which is not measured
        import pymc  # noqa: F401
    else:
        import numpyro.infer  # noqa: F401
    case = Case(folder, name)
    cpu, wall = time.process_time(), time.perf_counter()
    answer, gradients = METHODS[method](case)
    table = answer if isinstance(answer, pd.DataFrame) else moments(answer)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    mean, sd = case.errors(table)
    found = {"mean": mean, "log sd": sd, "cpu": cpu, "wall": wall, "gradients": gradients}
    if "verdict" in table:
        found["trusted"] = float((table["verdict"] == "trust").mean())
    return found


def in_a_fresh_process(
    folder: Path, name: str, method: str, peers: str | None = None, limit: float = LIMIT
) -> dict[str, Any]:
    """The same in a process of its own; only `why` where the method fails, or takes `limit` seconds."""
    python = peers if peers and method in EXTRAS else sys.executable
    command = [python, __file__, str(folder), "--one", name, method]
    environment = {**os.environ, "LRVB_CACHE_DIR": "off"}
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        told, complaint = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # what it started ends with it
        process.communicate()
        return {"why": f"over {limit:.0f} s"}
    lines = told.strip().splitlines()
    if process.returncode == 0 and lines:
        return json.loads(lines[-1])
    return {"why": (complaint.strip().splitlines() or ["no answer"])[-1][:200]}


def main() -> None:
    """Every method on every case, a line each, then medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--cases", default="")
    parser.add_argument("--store", type=Path, help="a file of results, one line each")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin nothing after these")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of one measurement")
    parser.add_argument("--peers", help="an interpreter that has pymc-extras")
    parser.add_argument("--one", nargs=2, metavar=("CASE", "METHOD"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.folder, *options.one)))
        return
    known = sorted(path.stem for path in (options.folder / "references").glob("*.json"))
    cases = options.cases.split(",") if options.cases else known
    methods = re.split(r",(?! )", options.methods)
    rows = _stored(options.store)
    begun = time.monotonic()
    for name in cases:
        twin = twin_of(options.folder, name).exists()
        for method in methods:
            there = any((row["case"], row["method"]) == (name, method) for row in rows)
            if there or (method in TWINS and not twin):
                continue
            if time.monotonic() - begun > options.seconds:
                break
            found = in_a_fresh_process(options.folder, name, method, options.peers, options.limit)
            rows.append({"case": name, "method": method, **found})
            print(_line(rows[-1]), flush=True)
            if options.store is not None:
                with options.store.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    report(pd.DataFrame([row for row in rows if row["case"] in cases and "mean" in row]))


def _stored(store: Path | None) -> list[dict[str, Any]]:
    if store is None or not store.exists():
        return []
    return [json.loads(line) for line in store.read_text().splitlines()]


def _line(row: dict[str, Any]) -> str:
    head = f"{row['case']:45s} {row['method']:24s} "
    if "mean" not in row:
        return f"{head}failed: {row['why']}"
    return (
        f"{head}mean {row['mean']:.3f}, log sd {row['log sd']:.3f}, {row['cpu']:.1f} s, "
        f"{row['gradients']} gradients"
    )


if __name__ == "__main__":
    main()
