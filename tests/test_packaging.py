"""Wheel and source distribution: what is in them, and that they work where nothing else is."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path, PurePosixPath

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
DATA = {
    "lrvb/py.typed",
    "lrvb/studies/experiments/data/README.md",
    "lrvb/studies/experiments/data/mnist01.npz",  # `lrvb reproduce` reads it
}
FOLDERS = ("src", "tests", "benchmarks", "docs", "examples", "results")
FILES = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "VISION.md")


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints; the environment names no other place to import from."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "PIP_"))}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def built(kind: str, folder: Path) -> Path:
    """The wheel or the source distribution, without the network; its metadata are complete."""
    for tool in ("build", "hatchling", "twine"):
        pytest.importorskip(tool, reason="Packages need build and twine: pip install 'lrvb[test]'.")
    command = (sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", folder)
    run(*command, ROOT, cwd=folder)
    (package,) = folder.glob("lrvb-*")
    run(sys.executable, "-m", "twine", "check", "--strict", package, cwd=folder)
    return package


def installed(package: Path, folder: Path) -> Path:
    """The folder of commands of a fresh environment with the package, and our own dependencies.

    Those are found through a path file, which does not lead to what is installed editable there.
    """
    venv.create(folder, with_pip=False)
    commands = folder / ("Scripts" if os.name == "nt" else "bin")
    purelib = run(
        commands / "python", "-c", "import sysconfig as s; print(s.get_path('purelib'))", cwd=folder
    )
    borrowed = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    Path(purelib.strip(), "borrowed.pth").write_text("\n".join(borrowed), encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", folder)
    run(*pip, "install", "--no-deps", "--no-index", "--no-build-isolation", package, cwd=folder)
    return commands


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_package_works_where_it_is_installed(kind: str, tmp_path: Path) -> None:
    """Build, check, install and use: a model, a mixed model, and the commands."""
    dist, fresh = tmp_path / "dist", tmp_path / "fresh"
    dist.mkdir()
    package = built(kind, dist)
    check_wheel(package) if kind == "wheel" else check_sdist(package)

    commands = installed(package, fresh)
    run(commands / "python", "-I", ROOT / "tests" / "first_steps.py", cwd=tmp_path)
    assert "reproduce" in run(commands / "lrvb", "--help", cwd=tmp_path)
    rows = np.random.default_rng(0).normal(size=(60, 2)) + 6 * (np.arange(60) % 2)[:, None]
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",", header="a,b", comments="")
    run(commands / "lrvb", "mixture", "data.csv", "--components", "2", cwd=tmp_path)


def check_wheel(package: Path) -> None:
    """It holds the package, its types and MNIST's images: no results, no tests."""
    with zipfile.ZipFile(package) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    modules = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*.py")}
    assert names == modules | DATA


def check_sdist(package: Path) -> None:
    """It holds all that the tests read."""
    with tarfile.open(package) as archive:
        names = {PurePosixPath(*PurePosixPath(name).parts[1:]) for name in archive.getnames()}
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()]
    files += [ROOT / name for name in (*FILES, "mkdocs.yml", "pyproject.toml")]
    here = {PurePosixPath(path.relative_to(ROOT).as_posix()) for path in files}
    absent = {path for path in here - names if path.suffix != ".pyc"}
    assert not absent, f"Not in the source distribution: {sorted(map(str, absent))}"
