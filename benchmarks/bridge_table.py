"""What `bridge.py` measured, as tables: errors and seconds of everyone, and what NUTS takes for our error.

python benchmarks/bridge_table.py FILE      # a file of results, as `--store` keeps them, as Markdown
"""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

LONG = {"NUTS": 1000, "NUTS, 8000 draws": 8000}


def same_error(table: pd.DataFrame, case: str) -> tuple[float, float] | None:
    """Draws and seconds with which NUTS would have our worst error, by its runs of 1000 and 8000 draws.

    Its errors are c/√draws, c the root mean square of both runs', and its seconds a constant and as many for
    each draw. An error of ours below the reference's own makes the draws too few, never too many.
    """
    own = table[table["case"] == case].set_index("method")
    if not {"lrvb", *LONG} <= set(own.index):
        return None
    error = own[["mean", "log sd"]].max(axis=1)
    few, many = LONG
    n = np.array([LONG[few], LONG[many]])
    c = np.sqrt(np.mean(error[[few, many]].to_numpy() ** 2 * n))
    each = max(own.loc[many, "cpu"] - own.loc[few, "cpu"], 0.0) / (n[1] - n[0])
    draws = float((c / error["lrvb"]) ** 2)
    return draws, float(own.loc[few, "cpu"] + each * (draws - n[0]))


def _same_error(case: str, table: pd.DataFrame) -> str:
    found = same_error(table, case)
    if found is None:
        return ""
    ours = float(table[(table["case"] == case) & (table["method"] == "lrvb")]["cpu"].iloc[0])
    times = f"{found[1] / ours:.0f} times ours"
    return f"{case}: NUTS has our error after {found[0]:.0f} draws and {found[1]:.0f} s, {times}"


def report(table: pd.DataFrame) -> None:
    """Everyone's errors and seconds case by case, and their medians and worst."""
    for column in ("mean", "log sd", "cpu"):
        wide = table.pivot(index="case", columns="method", values=column)
        wide = wide[[method for method in dict.fromkeys(table["method"]) if method in wide]]
        print(f"\n{column}\n{wide.round(2).to_string(na_rep='–')}")
    print("\nthe same error")
    for case in sorted(set(table["case"])):
        print(_same_error(case, table) or f"{case}: not both runs of NUTS and ours")
    groups = table.groupby("method", sort=False)[["mean", "log sd", "cpu", "gradients"]]
    print(f"\nmedians\n{groups.median().round(3).assign(cases=groups.size())}")
    print(f"\nworst\n{groups.max().round(3)}")


def page(table: pd.DataFrame) -> str:
    """Markdown, a row a case: mean error / log sd error / seconds of every method, then NUTS at our error."""
    methods = list(dict.fromkeys(table["method"]))
    lines = [
        ["mean error / log sd error / seconds", *(f"`{m}`" if "lrvb" in m else m for m in methods)]
    ]
    lines += [["---"] * len(lines[0])]
    for case, own in table.groupby("case", sort=False):
        found = own.set_index("method")
        lines.append([str(case), *(_cell(found, method) for method in methods)])
    lines += [
        [],
        ["the same error", "draws", "seconds", "times ours", "gradients of `lrvb`", "of NUTS"],
    ]
    lines += [["---"] * len(lines[-1])]
    for case in dict.fromkeys(table["case"]):
        lines.append([str(case), *_same_cells(case, table)])
    return "\n".join(f"| {' | '.join(cells)} |" if cells else "" for cells in lines)


def _cell(found: pd.DataFrame, method: str) -> str:
    if method not in found.index:
        return "–"
    row = found.loc[method]
    if np.isnan(row["mean"]):
        return "failed"
    mean, log_sd = (f"{row[part]:.2f}".removeprefix("0") for part in ("mean", "log sd"))
    return f"{mean} / {log_sd} / {row['cpu']:.1f}"


def _same_cells(case: str, table: pd.DataFrame) -> list[str]:
    found = same_error(table, case)
    if found is None:
        return ["–"] * 5
    own = table[table["case"] == case].set_index("method")
    draws, seconds = found
    each = own.loc[list(LONG), "gradients"].to_numpy()
    steps = each[0] + (each[1] - each[0]) / 7000 * (draws - 1000)
    times = seconds / own.loc["lrvb", "cpu"]
    ours = own.loc["lrvb", "gradients"]
    return [f"{draws:,.0f}", f"{seconds:.0f}", f"{times:.0f}", f"{ours:,.0f}", f"{steps:,.0f}"]


if __name__ == "__main__":
    print(page(pd.read_json(sys.argv[1], lines=True)))
