"""`lrvb mixture`: fit a mixture of normals to the columns of a CSV file."""

from __future__ import annotations

import argparse
import itertools
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from ..data.files import whole_set
from ..errors import InvalidData, LrvbError
from ..posterior.verdicts import DOUBTFUL, NO, NOT_CHECKED, REPAIRED, TRUST
from .check_page import add_check, checked
from .common import UsageError, count, in_options, output_folder, require_plots, whole
from .csv_files import chosen_columns, read_csv, write_csv

DESCRIPTION = """\
Fit a mixture of normals with full covariances to the numeric columns of a CSV file, by mean-field
variational Bayes with linear-response standard deviations. Writes tables (CSV), figures (PNG), the
posterior (for lrvb.load) and one HTML page.
"""
SOUND = (REPAIRED, TRUST)
WORST_FIRST = (NO, DOUBTFUL, NOT_CHECKED, *SOUND)
MOST_COLUMNS = 3  # of which every pair is drawn


def add(subparsers: Any) -> None:
    """Declare the options."""
    parser = subparsers.add_parser(
        "mixture", help="fit a mixture of normals to a CSV file", description=DESCRIPTION
    )
    parser.add_argument(
        "data", type=Path, metavar="data.csv", help="a first line names the columns"
    )
    parser.add_argument(
        "--components", type=whole, required=True, metavar="K", help="how many normals"
    )
    parser.add_argument(
        "--columns", metavar="A,B,...", help="columns to use (default: all that are numeric)"
    )
    parser.add_argument(
        "--separator", default=",", metavar="S", help="between columns (default: a comma)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for the results (default: <data>-mixture)"
    )
    parser.add_argument(
        "--seed", type=whole, default=1, metavar="N", help="of the starts (default: 1)"
    )
    parser.add_argument(
        "--starts", type=whole, default=4, metavar="N", help="tried, the best kept (default: 4)"
    )
    add_check(parser, "priors, rows, robust sds")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Check the input, fit, and write everything."""
    for name, least in (("components", 1), ("starts", 1), ("seed", 0)):
        if getattr(options, name) < least:
            raise UsageError(f"--{name} must be {least} or more, not {getattr(options, name)}.")
    names = None if options.columns is None else [c.strip() for c in options.columns.split(",")]
    X, left_out = chosen_columns(read_csv(options.data, options.separator), names)
    if len(X) < max(options.components, 2):
        raise InvalidData(
            f"{options.data} has {count(len(X), 'row')}, too few for "
            f"{count(options.components, 'component')}; use fewer components or more rows."
        )
    require_plots()
    if left_out and names is None:
        listed = "; ".join(f"{name} ({why})" for name, why in left_out.items())
        _say(f"Left out, not numeric: {listed}.")
    size = f"{X.shape[0]} × {X.shape[1]} numbers"
    with output_folder(options.out or Path(f"{options.data.stem}-mixture")) as out:
        _say(f"Fitting {count(options.components, 'component')} to {size}")
        mixture, remarks = _fit(X, options)
        for remark in remarks:
            _say(f"Warning: {remark}")
        with whole_set(out) as folder:
            page = _write(folder, mixture, X, left_out, remarks, options)
    print(f"The page is at {(out / page.name).resolve()}")
    return 0


def _fit(X: pd.DataFrame, options: argparse.Namespace) -> tuple[Any, list[str]]:
    """The fitted estimator, and the warnings it gave."""
    from ..estimators.mixture.estimator import GaussianMixture

    mixture = GaussianMixture(
        options.components, n_init=options.starts, random_state=options.seed, verbose=1
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            mixture.fit(X)
        except LrvbError:
            raise
        except ValueError as error:  # scikit-learn's own checks
            raise InvalidData(str(error).partition("\n")[0]) from error
    return mixture, [in_options(str(w.message)) for w in caught if isinstance(w.message, LrvbError)]


def _write(
    out: Path,
    mixture: Any,
    X: pd.DataFrame,
    left_out: dict[str, str],
    remarks: list[str],
    options: argparse.Namespace,
) -> Path:
    from .. import __version__
    from ..report import html

    tables = _tables(mixture, X)
    for name, table in tables.items():
        write_csv(table, out / f"{name}.csv")
    mixture.posterior_.save(out / "posterior.npz", local=False)
    figures = _figures(out, mixture, X)
    left = f" Left out: {', '.join(left_out)}." if left_out else ""
    headline, sound = _headline(mixture.posterior_)
    _say(headline)
    body = [
        html.paragraph(headline, "" if sound else "bad"),
        *(html.paragraph(f"Warning: {remark}", "bad") for remark in remarks),
        *(html.figure(path, caption) for path, caption in figures),
        html.section("Weights", [html.table(tables["weights"])]),
        html.section("Standard deviations within each component", [html.table(tables["sds"])]),
    ]
    if options.check:
        _say("Checking priors and rows")
        body.append(checked(mixture, out))
    if "correlations" in tables:
        body.append(html.section("Correlations", [html.table(tables["correlations"])]))
    body.append(
        html.section(
            "All parameters",
            [
                html.paragraph(
                    "Means μ, precision matrices Λ and log weights, with 94 % intervals; sd is by "
                    "linear response, mfvb_sd by mean field alone; verdict says how far each row can "
                    "be trusted."
                ),
                html.table(tables["parameters"]),
                html.paragraph(_trust(mixture.posterior_)),
            ],
        )
    )
    return html.write_page(
        out / "index.html",
        f"{options.data.name}: a mixture of {count(options.components, 'normal')}",
        f"{len(X)} rows, columns {', '.join(map(str, X.columns))}.{left} "
        f"ELBO {mixture.elbo_:.6g} after {mixture.n_iter_} iterations, best of "
        f"{count(options.starts, 'start')}. The component of every row is in rows.csv.",
        body,
        f"lrvb {__version__}, seed {options.seed}.",
    )


def _headline(posterior: Any) -> tuple[str, bool]:
    """How many quantities have which verdict, why the worst has its own, and whether all are sound."""
    table = posterior.verdicts
    found = table["verdict"].value_counts()
    listed = ", ".join(f"{found[word]} {word}" for word in WORST_FIRST if word in found)
    worst = next(word for word in WORST_FIRST if word in found)
    if worst in SOUND:
        return f"Verdicts of {count(len(table), 'quantity', 'quantities')}: {listed}.", True
    why = table.loc[table["verdict"] == worst, "why"].iloc[0]
    return f"Verdicts of {count(len(table), 'quantity', 'quantities')}: {listed}. {why}", False


def _trust(posterior: Any) -> str:
    """Where the verdicts come from, in words."""
    found, note = posterior.certificate, getattr(posterior.summary(), "note", "")
    if found is None:
        return f"Verdicts: {note}"
    words = f"Verdicts by {len(found.weights)} draws of the exact posterior ({found.method}, k-hat "
    words += f"{found.k_hat:.2f}, {found.ess:.0f} effective), local to one labelling. {note}"
    return words.strip()


def _tables(mixture: Any, X: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every table that is written, by the name of its file."""
    probabilities = mixture.predict_proba(X)
    rows = pd.DataFrame(probabilities, index=pd.RangeIndex(len(X), name="row"))
    rows.columns = pd.Index([f"probability[{k}]" for k in range(probabilities.shape[1])])
    rows.insert(0, "component", probabilities.argmax(axis=1))
    tables = {
        "parameters": mixture.posterior_.summary(),
        "weights": mixture.component_weights(),
        "sds": mixture.component_sds(),
        "rows": rows,
    }
    if X.shape[1] > 1:
        tables["correlations"] = mixture.component_correlations()
    return tables


def _figures(out: Path, mixture: Any, X: pd.DataFrame) -> list[tuple[Path, str]]:
    """Pairs of the first columns, or the one column there is, with captions."""
    from ..report.mixture_figures import line, plane

    if X.shape[1] == 1:
        path = line(mixture, X, out / "components.png")
        return [(path, "The rows' distribution, and the density of the mixture by component.")]
    figures = []
    for a, b in itertools.combinations(X.columns[:MOST_COLUMNS], 2):
        i, j = X.columns.get_loc(a), X.columns.get_loc(b)
        caption = (
            f"{a} and {b}: rows in the colour of their component, the region of 90 % of its rows, and "
            "the 95 % region of its mean, filled by linear response and dashed by mean field."
        )
        figures.append((plane(mixture, X, (i, j), out / f"components-{i}-{j}.png"), caption))
    return figures


def _say(message: str) -> None:
    print(message, file=sys.stderr)
