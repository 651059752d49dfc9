"""`lrvb`: parse the command line, call a command, and turn every error into one sentence."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Sequence
from typing import NoReturn

from .. import __version__
from ..errors import LrvbError
from . import mixed, mixture, reproduce
from .common import Interrupted, in_options

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one sentence."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where to read more."""
        self.exit(2, f"lrvb: {message}; see {self.prog} --help.\n")


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(
        prog="lrvb",
        description="Linear response variational Bayes: fast posterior means with honest "
        "standard deviations and covariances.",
    )
    top.add_argument("--version", action="version", version=f"lrvb {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", required=True)
    for command in (mixture, mixed, reproduce):
        command.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns 0, 2 after bad input or a failure, 130 after Ctrl-C."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    try:
        options = parser().parse_args(arguments)
        options.arguments = arguments
        return options.run(options)
    except Interrupted as stop:
        return _say(stop, 130)
    except KeyboardInterrupt:
        return _say("Stopped; nothing was written.", 130)
    except LrvbError as error:
        return _say(in_options(str(error)), 2)
    except OSError as error:
        return _say(_failure(error), 2)


def _failure(error: OSError) -> str:
    where = f" at {error.filename}" if error.filename else ""
    if error.errno in FULL:
        return (
            f"The disk is full{where} ({error.strerror}). What was finished is saved: make room, and "
            "the same command goes on from there."
        )
    return f"Reading or writing failed{where}: {error.strerror or error}."


def _say(message: object, status: int) -> int:
    print(f"\nlrvb: {message}" if status == 130 else f"lrvb: {message}", file=sys.stderr)
    return status
