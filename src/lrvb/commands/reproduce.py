"""`lrvb reproduce`: run the paper's experiments and write one page about them."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from .common import Interrupted, UsageError, require_plots, whole, writable_folder

DESCRIPTION = """\
Run the experiments of the paper and write tables (CSV), figures (PNG) and one HTML page that sets
our numbers beside the published ones. Results are saved task by task: after Ctrl-C, the same
command goes on where it was.

experiments (all of them when none is named):
  normal-poisson   Poisson counts with normal log rates, 100 data sets
  random-slope     a normal model with random slopes, 100 data sets
  mixture          a mixture of two normals in the plane, 200 data sets
  mnist            handwritten 0s and 1s as a mixture in 25 dimensions
  scaling          seconds against the number of rows and of dimensions
  exactness        normal posteriors, where linear response is exact; and SEM
  sparsity         the pattern of V, H and I - VH
"""


def add(subparsers: Any) -> None:
    """Declare the options."""
    parser = subparsers.add_parser(
        "reproduce",
        help="run the paper's experiments",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("experiments", nargs="*", metavar="experiment", help="see above")
    parser.add_argument(
        "--quick", action="store_true", help="everything, but smaller: a few minutes on two cores"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="folder for the results (default: reproduction, or reproduction-quick with --quick)",
    )
    parser.add_argument(
        "--seed", type=whole, default=1, metavar="N", help="of every draw (default: 1)"
    )
    parser.add_argument("--jobs", type=whole, metavar="N", help="processes (default: one per core)")
    parser.add_argument("--fresh", action="store_true", help="compute again what is saved")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check everything first, then run the experiments."""
    from ..studies.experiments.base import ExperimentFailed
    from ..studies.experiments.catalog import NAMES, require
    from ..studies.experiments.provenance import cores
    from ..studies.experiments.runner import Plan, reproduce

    require(options.experiments)
    if options.jobs is not None and options.jobs < 1:
        raise UsageError(f"--jobs must be 1 or more, not {options.jobs}.")
    if options.seed < 0:
        raise UsageError(f"--seed must be 0 or more, not {options.seed}.")
    require_plots()
    default = "reproduction-quick" if options.quick else "reproduction"
    out = writable_folder(options.out or Path(default))
    plan = Plan(
        names=options.experiments or NAMES,
        quick=options.quick,
        seed=options.seed,
        out=out,
        jobs=options.jobs or cores(),
        fresh=options.fresh,
        command=shlex.join(["lrvb", *options.arguments]),
    )
    failure = out / "failure.txt"
    failure.unlink(missing_ok=True)
    try:
        results = reproduce(plan)
    except ExperimentFailed as error:
        if "traceback" not in error.evidence:
            raise
        failure.write_text(error.evidence["traceback"], encoding="utf-8")
        raise UsageError(f"{error} (where, is in {failure})") from error
    except KeyboardInterrupt:
        raise Interrupted(
            f"Stopped. What is finished is saved in {out}; the same command"
            f"{' without --fresh' if options.fresh else ''} goes on from there."
        ) from None
    print()
    for result in results:
        checks = result.findings.checks
        print(
            f"{result.experiment.name:15} {result.findings.verdict:10} "
            f"{sum(checks.values())} of {len(checks)} checks hold"
        )
    print(f"\nThe page is at {(out / 'index.html').resolve()}")
    return 0
