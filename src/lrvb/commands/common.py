"""What all commands check before they begin, and the errors they end with."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ..errors import LrvbError

#: Arguments of the estimators by the options that stand for them.
OPTIONS = {
    "missing": "missing",
    "family": "family",
    "factorization": "factorization",
    "weights": "weights",
    "n_components": "components",
    "n_init": "starts",
    "random_state": "seed",
}
_WORDS = {
    "'error' or 'drop'": "error or drop",
    ", and any lrvb.likelihoods.Likelihood.": ".",
    "another init or a larger n_init": "another --seed or more --starts",
}
_GIVEN = re.compile(rf"\b({'|'.join(OPTIONS)})=(?:(['\"])(.*?)\2|([\w.]+))")


def in_options(sentence: str) -> str:
    """A sentence of the library with options in place of arguments: --missing drop for missing="drop"."""

    def option(found: re.Match[str]) -> str:
        value = found[4] if found[2] is None else found[3]
        return f"--{OPTIONS[found[1]]} {value if value else repr(value)}"

    said = _GIVEN.sub(option, sentence)
    for words, others in _WORDS.items():
        said = said.replace(words, others)
    return said


def count(number: int, noun: str, plural: str = "") -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def whole(text: str) -> int:
    """The whole number that an option is given."""
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


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
