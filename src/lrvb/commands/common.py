"""What all commands check before they begin, and the errors they end with."""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import LrvbError


class UsageError(LrvbError):
    """The command cannot be carried out as it was given."""


class Interrupted(LrvbError):
    """Ctrl-C; the message says what is saved and how to go on."""


def require_plots() -> None:
    """Refuse to begin without Matplotlib, which draws every figure."""
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            "The figures need Matplotlib, which is not installed: pip install 'lrvb[plot]'."
        )


def writable_folder(path: Path) -> Path:
    """The folder for the results, made if need be and known to be writable."""
    if path.exists() and not path.is_dir():
        raise UsageError(f"--out {path} is a file; give the name of a folder.")
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise UsageError(
            f"The folder {path} cannot be written to ({error.strerror}); choose another with --out."
        ) from error
    return path


@contextlib.contextmanager
def output_folder(path: Path) -> Iterator[Path]:
    """The same folder for the time of a command; one that was made for it goes after a failure."""
    new = not path.exists()
    writable_folder(path)
    try:
        yield path
    except BaseException:
        if new:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
