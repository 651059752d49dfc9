"""The user's folder of compiled programs: private, and every file signed.

Reading an executable back runs what is in the file. So the folder must belong to the user alone
(mode 0700), and a file is used only with a signature by a key that is kept in it (mode 0600).
`LRVB_CACHE_DIR` moves the folder; `LRVB_CACHE_DIR=off` keeps nothing on disk.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import os
import secrets
import stat
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import CacheRefused

_MAX_FILES = 2048  # 30 to 200 kB each; the oldest go first
_SIGNATURE = 32  # bytes of SHA-256
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Cache:
    """Signed files in a private folder."""

    folder: Path
    key: bytes

    def read(self, name: str) -> bytes:
        """The content of a file that was written here; anything else is an error."""
        path = self.folder / name
        stored = path.read_bytes()
        signature, content = stored[:_SIGNATURE], stored[_SIGNATURE:]
        if not hmac.compare_digest(self._sign(name, content), signature):
            raise ValueError(f"{path} was not written by this user's lrvb")
        path.touch()
        return content

    def write(self, name: str, content: bytes) -> None:
        """Write under a temporary name, then rename; let the oldest files go."""
        path = self.folder / name
        temporary = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}.tmp")
        try:
            temporary.write_bytes(self._sign(name, content) + content)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        files = sorted(self.folder.glob("*.xla"), key=lambda f: f.stat().st_mtime)
        for old in files[:-_MAX_FILES]:
            old.unlink(missing_ok=True)
        for left in self.folder.glob("*.tmp"):  # of a process that was killed
            if time.time() - left.stat().st_mtime > 3600:
                left.unlink(missing_ok=True)

    def _sign(self, name: str, content: bytes) -> bytes:
        return hmac.digest(self.key, name.encode() + b"\0" + content, hashlib.sha256)


def cache_folder() -> Path | None:
    """Where executables are kept; None when switched off."""
    chosen = os.environ.get("LRVB_CACHE_DIR", "")
    if chosen.lower() in {"off", "none", "0"}:
        return None
    if chosen:
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "lrvb"


def open_cache() -> Cache | None:
    """The cache, made where it is not there yet; None when switched off or not private."""
    folder = cache_folder()
    return None if folder is None else _opened(folder)


@functools.cache
def _opened(folder: Path) -> Cache | None:
    """The cache in a folder; one that is not the user's own is left alone, with one warning."""
    try:
        if not folder.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not os.environ.get("LRVB_CACHE_DIR") and _only_readable(folder):
            folder.chmod(0o700)  # our own folder, made before it had to be private
        problem = _exposed(folder, stat.S_ISDIR)
        if problem is None:
            return Cache(folder, _key(folder / "key"))
    except OSError as error:
        problem = f"cannot be used ({error.strerror or error})"
    warnings.warn(
        CacheRefused(
            f"The folder {folder} for compiled programs {problem}, so that every session compiles "
            f"anew. Make it yours alone (chmod 700), or choose another with LRVB_CACHE_DIR; "
            "LRVB_CACHE_DIR=off keeps nothing and says nothing.",
            folder=folder,
        ),
        stacklevel=2,
    )
    return None


def _only_readable(folder: Path) -> bool:
    """Whether a folder is the user's own, and others could look into it but not change it."""
    status = folder.lstat()
    owned = not hasattr(os, "getuid") or status.st_uid == os.getuid()
    return owned and stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o022


def _exposed(path: Path, is_kind: Callable[[int], bool]) -> str | None:
    """Why a folder or file is not the user's alone; None when it is."""
    status = path.lstat()
    if not is_kind(status.st_mode):
        return "is a link or of another kind"
    if not hasattr(os, "getuid"):
        return None  # Windows: the profile's folder is the user's own
    if status.st_uid != os.getuid():
        return "belongs to another user"
    if status.st_mode & _OTHERS:
        return f"is open to others (mode {stat.S_IMODE(status.st_mode):04o})"
    return None


def _key(path: Path) -> bytes:
    """The key by which files are signed, made once."""
    with contextlib.suppress(FileExistsError):
        temporary = path.with_name(f"key.{os.getpid()}.{threading.get_ident()}.tmp")
        if not path.exists():
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(secrets.token_bytes(32))
                try:
                    os.link(temporary, path)  # whoever is first; never half a key
                except FileExistsError:
                    pass
                except OSError:  # a file system without links
                    temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
    problem = _exposed(path, stat.S_ISREG)
    key = path.read_bytes()
    if problem is not None or len(key) != 32:
        raise OSError(f"its file 'key' {problem or 'is damaged; delete it'}")
    return key
