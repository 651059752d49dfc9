"""Imports point left only: the order of the package's parts, read from the source."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "lrvb"

# A part may import the parts of earlier lines and itself. Parts on one line do not know each other.
# A name covers everything beneath it; the longest name wins. "lrvb" is the package's __init__.
ORDER = """
errors
numerics prior
data families likelihoods
statement
collapsed
integrated
engine
posterior
blackbox
models report bridges
estimators plot
lrvb
studies
commands
__main__
"""

# Libraries beyond the core dependencies, and the only parts that may import them.
GUESTS = {
    "matplotlib": ("report", "studies.figures"),
    "arviz": ("bridges.arviz",),
    "dask": ("bridges.dask",),
    "distributed": ("bridges.dask",),
    "psutil": ("bridges.dask",),
    "numpyro": ("studies.reference.nuts", "bridges.numpyro"),
    "funsor": ("bridges.numpyro",),
    "pymc": ("bridges.pymc",),
    "pytensor": ("bridges.pymc",),
    "sklearn": ("estimators",),
}

# Imports to the right that are meant, with their reason. Keep it short.
EXCEPTIONS = {
    (
        "collapsed.partitions",
        "bridges.dask",
    ): "Dask columns are recognised at the door, and Dask opened then",
    (
        "posterior.posterior",
        "bridges.arviz",
    ): "posterior.to_arviz is the door to ArviZ, opened when called",
    (
        "posterior.certificate",
        "bridges.arviz",
    ): "certificate.to_arviz is another door to it",
}

LEVELS = {part: level for level, line in enumerate(ORDER.split("\n")) for part in line.split()}


class Import(NamedTuple):
    """One import found in a module: what it names, and where."""

    target: str
    line: int


def modules() -> dict[str, Path]:
    """Every module by its name inside the package; the package itself is 'lrvb'."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
        found[".".join(parts) or "lrvb"] = path
    return found


MODULES = modules()


def part_of(module: str) -> str | None:
    """The longest entry of ORDER that covers a module."""
    pieces = module.split(".")
    for n in range(len(pieces), 0, -1):
        if (name := ".".join(pieces[:n])) in LEVELS:
            return name
    return None


def imports(path: Path, module: str) -> Iterator[Import]:
    """All imports of a file as absolute names, those under TYPE_CHECKING left out."""
    package = [] if module == "lrvb" else module.split(".")
    if path.name != "__init__.py":
        package = package[:-1]

    def visit(node: ast.AST) -> Iterator[Import]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.orelse:
                yield from visit(child)
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level:
                base = ["lrvb", *package[: len(package) - node.level + 1], *base]
            for alias in node.names:
                yield Import(".".join([*base, alias.name]), node.lineno)
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    yield from visit(ast.parse(path.read_text(encoding="utf-8")))


def ours(target: str) -> str | None:
    """The module of ours that an absolute name comes from, or None for other libraries."""
    pieces = target.split(".")
    if pieces[0] != "lrvb":
        return None
    for n in range(len(pieces), 1, -1):
        if (name := ".".join(pieces[1:n])) in MODULES:
            return name
    return "lrvb"


def core_dependencies() -> set[str]:
    """Import names of what every installation has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = {re.split(r"[<>=!~\[; ]", line)[0] for line in project["dependencies"]}
    return names | {"jaxlib"}  # comes with jax


def points_left(module: str, target: str) -> bool:
    """Whether an import stays inside its part, points left, or is a known exception."""
    here, there = part_of(module), part_of(target)
    if here is None or there is None:
        return False
    return here == there or LEVELS[there] < LEVELS[here] or (module, target) in EXCEPTIONS


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_left(module: str) -> None:
    """STYLE: each part imports only what stands to its left."""
    assert part_of(module), (
        f"{module} is not in ORDER. Add it to the table at the top of tests/test_imports.py, "
        "as far left as its own imports allow."
    )
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{found.line} imports {target}"
        for found in imports(MODULES[module], module)
        if (target := ours(found.target)) and not points_left(module, target)
    ]
    assert not wrong, "These imports point right:\n" + "\n".join(wrong)


@pytest.mark.parametrize("module", MODULES)
def test_core_stays_light(module: str) -> None:
    """Only the core dependencies are imported, and each guest library only where it is at home."""
    core = core_dependencies()
    wrong = []
    for found in imports(MODULES[module], module):
        library = found.target.split(".")[0]
        homes = GUESTS.get(library, ())
        at_home = any(module == home or module.startswith(home + ".") for home in homes)
        if library not in {"lrvb", *sys.stdlib_module_names, *core} and not at_home:
            wrong.append(f"{MODULES[module].relative_to(ROOT)}:{found.line} imports {library}")
    assert not wrong, "Not a core dependency, or not at home here:\n" + "\n".join(wrong)


def test_the_reader_sees_every_kind_of_import(tmp_path: Path) -> None:
    """The tests above are only as good as their reader, so it is checked on a small file."""
    path = tmp_path / "gamma.py"
    path.write_text(
        "import numpy as np\n"
        "from ..numerics.packing import Slot\n"
        "from . import base\n"
        "from lrvb.errors import InvalidModel\n"
        "if TYPE_CHECKING:\n    from ..posterior.posterior import Posterior\n"
        "def late():\n    from ..engine.fitting import fit\n",
        encoding="utf-8",
    )
    assert [found.target for found in imports(path, "families.gamma")] == [
        "numpy",
        "lrvb.numerics.packing.Slot",
        "lrvb.families.base",
        "lrvb.errors.InvalidModel",
        "lrvb.engine.fitting.fit",
    ]
