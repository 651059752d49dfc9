"""`lrvb mixed`: fit a mixed model, given by a formula, to a CSV file."""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.files import whole_set
from ..errors import InvalidModel, LrvbError
from ..likelihoods import DEFAULT, FAMILIES
from .check_page import add_check, checked
from .common import count, in_options, output_folder, require_plots
from .csv_files import read_csv, write_csv

DESCRIPTION = """\
Fit a mixed model in lme4's syntax to a CSV file: fixed effects, and random effects such as (1|g) or
(1 + x|g). Writes tables (CSV), figures (PNG), the model and its posterior (for lrvb.load) and one
HTML page.
"""


def add(subparsers: Any) -> None:
    """Declare the options."""
    parser = subparsers.add_parser(
        "mixed", help="fit a mixed model to a CSV file", description=DESCRIPTION
    )
    parser.add_argument("formula", help='in quotes, such as "y ~ x + (1|g)"')
    parser.add_argument(
        "data", type=Path, metavar="data.csv", help="a first line names the columns"
    )
    parser.add_argument(
        "--family",
        default=DEFAULT,
        metavar="NAME",
        help=f"one of {', '.join(FAMILIES)} (default: {DEFAULT})",
    )
    parser.add_argument(
        "--factorization",
        default="blocked",
        metavar="NAME",
        help="blocked, variational or mean_field (default: blocked)",
    )
    parser.add_argument(
        "--missing",
        default="error",
        metavar="WHAT",
        help="error, or drop to leave out rows with missing values (default: error)",
    )
    add_check(parser, "priors, groups, replicated data")
    parser.add_argument(
        "--weights", metavar="COLUMN", help="how often each row counts (default: once)"
    )
    parser.add_argument(
        "--separator", default=",", metavar="S", help="between columns (default: a comma)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for the results (default: <data>-mixed)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check the input, fit, and write everything."""
    from ..estimators.mixed.estimator import MixedModel

    if "~" in str(options.data) and "~" not in options.formula:
        raise InvalidModel(
            f"The formula comes first and the file second: lrvb mixed '{options.data}' {options.formula}."
        )
    model = MixedModel(
        options.formula,
        options.family,
        factorization=options.factorization,
        missing=options.missing,
        progress=True,
        weights=options.weights,
    )
    data = read_csv(options.data, options.separator)
    require_plots()
    with output_folder(options.out or Path(f"{options.data.stem}-mixed")) as out:
        _say(f"Fitting {options.formula} to {count(len(data), 'row')} of {options.data}")
        remarks = _fit(model, data)
        with whole_set(out) as folder:
            page = _write(folder, model, remarks, options)
    print(f"The page is at {(out / page.name).resolve()}")
    return 0


def _fit(model: Any, data: pd.DataFrame) -> list[str]:
    """Fit, and give back the warnings, which are also shown."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(data)
    remarks = [in_options(str(w.message)) for w in caught if isinstance(w.message, LrvbError)]
    for remark in remarks:
        _say(f"Warning: {remark}")
    return remarks


def _write(out: Path, model: Any, remarks: list[str], options: argparse.Namespace) -> Path:
    from .. import __version__
    from ..report import html
    from ..report.mixed_figures import write_figures

    _say("Writing tables and figures")
    summary = model.summary()
    fixed = summary.loc[model.design_.effects]
    random = summary.drop(index=fixed.index)
    tables = {"fixed": fixed}
    if len(random):
        tables["random"] = random
    if model.design_.terms:
        tables["ranef"] = model.ranef()
    for name, table in tables.items():
        write_csv(table, out / f"{name}.csv", None if name == "ranef" else "name")
    model.posterior_.save(out / "posterior.npz")
    model.save(out / "model.npz")
    figures = [html.figure(path, caption) for path, caption in write_figures(model, out)]
    priors = _readable(summary.priors)
    body = [
        *(html.paragraph(f"Warning: {remark}", "bad") for remark in remarks),
        html.section(
            "Fixed effects",
            [
                html.paragraph(
                    "Posterior means with 94 % intervals; mfvb_sd is what mean field would have said."
                ),
                html.table(fixed),
                html.paragraph(f"Verdict: {summary.remark}"),
            ],
        ),
        *(
            [html.section("Standard deviations and correlations", [html.table(random)])]
            if len(random)
            else []
        ),
        *([_checked(model, out)] if options.check else []),
        html.section("Figures", figures),
        html.section("Priors", [html.table(priors)]),
    ]
    heading = ". ".join(summary.heading[1:]) + "."
    if model.design_.terms:
        heading += " The effect of every level is in ranef.csv."
    return html.write_page(
        out / "index.html",
        f"{options.data.name}: {options.formula}",
        heading,
        body,
        f"lrvb {__version__}.",
    )


def _checked(model: Any, out: Path) -> str:
    _say("Checking priors, groups and replicated data")
    return checked(model, out)


def _readable(priors: pd.DataFrame) -> pd.DataFrame:
    """Priors with words instead of truth values."""
    said = priors["default"].map({True: "default", False: "stated"})
    return priors.assign(default=said).rename(columns={"default": "from"})


def _say(message: str) -> None:
    print(message, file=sys.stderr)
