"""Files that are whole or absent: written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import InvalidData
from .tables import shortened

SUFFIX = ".tmp"


def file_path(path: Any) -> Path:
    """The path of a file as the user gave it, as text or a path."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise InvalidData(
            f"The path {shortened(path)} must be text that names a file, such as 'fit.npz'."
        )
    return Path(path)


def new_file(path: Any) -> Path:
    """The path of a file that will be written: asked before there is work to lose."""
    path = file_path(path)
    if not path.parent.is_dir():
        raise unwritable(path, "there is no such folder")
    if path.is_dir():
        raise unwritable(path, "it is a folder")
    return path


def unwritable(path: Path, why: str) -> InvalidData:
    """The error of a file that cannot be written."""
    return InvalidData(
        f"The posterior cannot be written to '{path}' ({why}); give the name of a file in a folder "
        "that exists and may be written to."
    )


@contextlib.contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, a file or a folder, that becomes `path` when all went well.

    After an error or an interruption nothing is left, and what processes that were killed have
    left beside `path` is removed. A folder already at `path` is replaced.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}{SUFFIX}")
    try:
        yield temporary
        if temporary.is_dir() and path.is_dir():
            shutil.rmtree(path)
        temporary.replace(path)
    finally:
        _remove(temporary)


@contextlib.contextmanager
def whole_set(folder: Path) -> Iterator[Path]:
    """A temporary folder whose files appear in `folder` together, when all of them are written.

    Files that are in `folder` already and not written again stay. After an error or an
    interruption `folder` is as it was.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(folder)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.{secrets.token_hex(4)}{SUFFIX}")
    temporary.mkdir()
    try:
        yield temporary
        with _uninterrupted():
            if not folder.exists() or not any(folder.iterdir()):
                temporary.replace(folder)
            else:
                for file in sorted(temporary.iterdir()):
                    file.replace(folder / file.name)
    finally:
        _remove(temporary)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ctrl-C comes too late for a step that takes no time and must not be left half done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _remove_abandoned(path: Path) -> None:
    """Remove what a process that no longer runs has left of an earlier attempt at `path`."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{SUFFIX}"):
        number = left.name[len(path.name) + 2 :].partition(".")[0]
        if number.isdigit() and not _runs(int(number)):
            _remove(left)


def _runs(process: int) -> bool:
    """Whether a process of this number is there; on systems that cannot be asked, yes."""
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


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
