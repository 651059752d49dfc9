"""Where results come from: the command, the versions, the machine and the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("lrvb", "jax", "jaxlib", "numpy", "scipy", "pandas", "scikit-learn", "matplotlib")


def versions() -> dict[str, str]:
    """Python and the libraries that are installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """The platform and its processors in words."""
    return f"{platform.system()} {platform.machine()}, {cores()} cores"


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - not on Linux


def commit() -> str | None:
    """The commit of the source, marked where files have changed since; None without a checkout."""
    here = Path(__file__).resolve()

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(here.parent), *words], capture_output=True, text=True, timeout=20
        )
        if done.returncode:
            raise OSError(done.stderr)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", here.name)  # ours, not a repository around the install
        changed = git("status", "--porcelain", "--", str(here.parents[2]))
        return git("rev-parse", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
