"""Where is the equation? Docstrings carry the paper's labels, and docs/paper_map.md lists them.

`python tests/test_paper_map.py` rewrites the page.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "lrvb"
PAGE = ROOT / "docs" / "paper_map.md"

LABELS = (ROOT / "docs" / "paper_labels.txt").read_text(encoding="utf-8").split()
KINDS = "app|eq|fig|lem|prop|sec"
OWNERS = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

CENTRAL = [
    "eq:fixed_pt",
    "eq:lrvb_derivative_defn",
    "eq:spec_lrvb",
    "eq:nuisance_lrvb_est",
    "app:function_covariance",
    "eq:pn_model",
    "app:np_details",
    "app:re_details",
]

# What the paper says, and what is meant; the code follows the latter.
ERRATA = [
    ("app:np_details", "prints −½ log τ in the log joint", "the normal density has +½ log τ"),
    ("app:mvn_details", "writes ∂²H for the second derivatives", "they are ∂²L, and H holds them"),
    (
        "app:mvn_details",
        "puts a Wishart prior with 1 degree of freedom on Λ",
        "it is improper for P ≥ 2, so its normaliser must stay out of the ELBO",
    ),
]


class Home(NamedTuple):
    """Where a label lives: the dotted name, its file, and the first line of its docstring."""

    name: str
    path: Path
    says: str


def docstrings(path: Path) -> list[tuple[str, str]]:
    """Every docstring of a file with the dotted name of its owner."""
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    module = ".".join(part for part in parts[1:] if part != "__init__") or "lrvb"
    found = []

    def visit(node: ast.AST, name: str) -> None:
        if isinstance(node, OWNERS) and (text := ast.get_docstring(node)):
            found.append((name, text))
        for child in ast.iter_child_nodes(node):
            inner = getattr(child, "name", None)
            visit(child, f"{name}.{inner}" if isinstance(inner, str) else name)

    visit(ast.parse(path.read_text(encoding="utf-8")), module)
    return found


def homes() -> dict[str, list[Home]]:
    """Label → the places whose docstring has it in a `Paper:` line."""
    found: dict[str, list[Home]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for name, text in docstrings(path):
            for line in re.findall(r"\bPaper:[ \t]*(.*)", text):
                for label in re.split(r",\s*", line.strip().rstrip(".")):
                    says = text.split("\n")[0].split("Paper:")[0].strip()
                    found.setdefault(label, []).append(Home(name, path, says))
    return found


def checks_of(label: str) -> list[Path]:
    """The tests in tests/paper that name a label."""
    pattern = re.compile(rf"{re.escape(label)}\b")
    paths = sorted((ROOT / "tests" / "paper").rglob("test_*.py"))
    return [path for path in paths if pattern.search(path.read_text(encoding="utf-8"))]


def link(path: Path, text: str) -> str:
    """A Markdown link from the page to a file of the repository."""
    return f"[{text}](../{path.relative_to(ROOT).as_posix()})"


def page() -> str:
    """The text of docs/paper_map.md."""
    found = homes()
    lines = [
        "# Where is the equation?",
        "",
        "The library follows *Linear Response Methods for Accurate Covariance Estimates from",
        "Mean Field Variational Bayes* (Giordano, Broderick and Jordan, 2015). Its formulas are",
        "cited by their LaTeX labels. Each label has one home, whose docstring says `Paper:`;",
        "other mentions say `See:`. This page is written by `python tests/test_paper_map.py`.",
        "",
        "| Label | Home | What is there | Tests |",
        "| --- | --- | --- | --- |",
    ]
    for label in LABELS:
        for home in found.get(label, []):
            tests = ", ".join(link(path, path.stem) for path in checks_of(label)) or "–"
            says = home.says.replace("|", "\\|")
            lines.append(f"| `{label}` | {link(home.path, f'`{home.name}`')} | {says} | {tests} |")
    formulas = [label for label in LABELS if not label.startswith(("sec:", "fig:"))]
    without = [f"`{label}`" for label in formulas if label not in found]
    lines += [
        "",
        "## Not in the code",
        "",
        "Steps of a derivation, proofs, and what is still to come (sections and figures left out):",
        ", ".join(without) + ".",
        "",
        "## Errata",
        "",
        "| Label | The paper | What is meant |",
        "| --- | --- | --- |",
        *(f"| `{label}` | {wrong} | {right} |" for label, wrong, right in ERRATA),
    ]
    return "\n".join(lines) + "\n"


def test_every_label_is_the_papers() -> None:
    """A `Paper:` line names labels of the paper, nothing else."""
    unknown = {
        label: [home.name for home in where]
        for label, where in homes().items()
        if label not in LABELS
    }
    assert not unknown, f"Not in docs/paper_labels.txt: {unknown}"


def test_mentions_are_spelled_right() -> None:
    """Any label mentioned in the source or the tests exists."""
    pattern = re.compile(rf"\b(?:{KINDS}):[A-Za-z][A-Za-z_]*")
    wrong = [
        f"{path.relative_to(ROOT)}: {label}"
        for folder in ("src", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for label in pattern.findall(path.read_text(encoding="utf-8"))
        if label not in LABELS
    ]
    assert not wrong, "Not in docs/paper_labels.txt:\n" + "\n".join(wrong)


def test_no_label_has_two_homes() -> None:
    """One home each; the others say `See:`."""
    doubled = {
        label: [home.name for home in where] for label, where in homes().items() if len(where) > 1
    }
    assert not doubled, f"Keep `Paper:` at one of them and write `See:` at the others: {doubled}"


@pytest.mark.parametrize("label", CENTRAL)
def test_central_formulas_have_a_home(label: str) -> None:
    """The formulas the library is about."""
    assert label in homes(), f"No docstring in src/lrvb says 'Paper: {label}'."


def test_errata_are_the_papers() -> None:
    """Errata name labels of the paper."""
    assert {label for label, _, _ in ERRATA} <= set(LABELS)


def test_page_is_current() -> None:
    """docs/paper_map.md equals what the docstrings say."""
    assert PAGE.read_text(encoding="utf-8") == page(), "Run: python tests/test_paper_map.py"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)}")
