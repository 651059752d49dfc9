"""Files that are whole or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

SUFFIX = ".tmp"


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, a file or a folder, that becomes `path` when all went well.

    After an error or an interruption nothing is left. A folder already at `path` is replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}{SUFFIX}")
    try:
        yield temporary
        if temporary.is_dir() and path.is_dir():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        _remove(temporary)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files and folders that a killed process has left anywhere below."""
    for leftover in sorted(folder.rglob(f".*{SUFFIX}")):
        _remove(leftover)


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
