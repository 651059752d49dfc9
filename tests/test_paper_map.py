"""Where is the equation? Docstrings carry the paper's labels, and docs/paper_map.md lists them.

`python tests/test_paper_map.py` rewrites the page.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "lrvb"
PAGE = ROOT / "docs" / "paper_map.md"

LABELS = (ROOT / "docs" / "paper_labels.txt").read_text(encoding="utf-8").split()
LABEL = re.compile(r"\b(?:app|eq|fig|lem|prop|sec):[A-Za-z][A-Za-z_]*")
FORMULAS = [label for label in LABELS if not label.startswith(("sec:", "fig:"))]
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


class Check(NamedTuple):
    """A test that cites a label: its file, and its function unless the whole file is meant."""

    path: Path
    function: str

    def __str__(self) -> str:
        return "::".join(filter(None, (self.path.stem, self.function)))


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


@cache
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


def prose(source: str) -> list[tuple[int, str]]:
    """The docstrings and comments of a file, each with the line it starts on."""
    owners = [node for node in ast.walk(ast.parse(source)) if isinstance(node, OWNERS)]
    found = [(node.body[0].lineno, text) for node in owners if (text := ast.get_docstring(node))]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return found + [(t.start[0], t.string) for t in tokens if t.type == tokenize.COMMENT]


def enclosing_test(source: str, line: int) -> str | None:
    """The name of the test function around a line, if there is one."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    tests = [node for node in functions if node.name.startswith("test_")]
    around = (node.name for node in tests if node.lineno <= line <= (node.end_lineno or line))
    return next(around, None)


@cache
def citations() -> dict[str, list[Check]]:
    """Label → the tests whose docstrings or comments cite it, by function where it is one's own."""
    found: dict[str, set[Check]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path == Path(__file__):
            continue
        source = path.read_text(encoding="utf-8")
        for line, text in prose(source):
            for label in LABEL.findall(text):
                found.setdefault(label, set()).add(Check(path, enclosing_test(source, line) or ""))
    for checks in found.values():
        by_function = {check.path for check in checks if check.function}
        checks -= {Check(path, "") for path in by_function}
    return {label: sorted(checks) for label, checks in found.items()}


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
        "other mentions say `See:`. The tests are those that cite the label, anywhere under `tests/`.",
        "This page is written by `python tests/test_paper_map.py`.",
        "",
        "| Label | Home | What is there | Tests |",
        "| --- | --- | --- | --- |",
    ]
    for label in LABELS:
        for home in found.get(label, []):
            checks = citations().get(label, [])
            tests = "<br>".join(link(check.path, f"`{check}`") for check in checks) or "–"
            says = home.says.replace("|", "\\|")
            lines.append(f"| `{label}` | {link(home.path, f'`{home.name}`')} | {says} | {tests} |")
    without = [f"`{label}`" for label in FORMULAS if label not in found]
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
    wrong = [
        f"{path.relative_to(ROOT)}: {label}"
        for folder in ("src", "tests")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for label in LABEL.findall(path.read_text(encoding="utf-8"))
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


def test_every_formula_has_a_test() -> None:
    """What has a home in the code is checked by a test that says so."""
    untested = [label for label in FORMULAS if label in homes() and label not in citations()]
    assert not untested, f"Cite them in the docstring of the test that checks them: {untested}"


def test_errata_are_the_papers() -> None:
    """Errata name labels of the paper."""
    assert {label for label, _, _ in ERRATA} <= set(LABELS)


def test_page_is_current() -> None:
    """docs/paper_map.md equals what the docstrings say."""
    assert PAGE.read_text(encoding="utf-8") == page(), "Run: python tests/test_paper_map.py"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)}")
