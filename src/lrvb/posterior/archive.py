"""Reading an archive of arrays: no more memory than its header and its size on disk account for."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

HEADER = 2**26  # bytes of JSON at most: a million labels of 64 bytes
ROOM = 2**26  # bytes that any archive may take
FACTOR = 200  # bytes that it may take for each of its own: matrices of zeros compress so well


class Archive:
    """The members of an .npz file, each read when asked for; sizes are known before."""

    def __init__(self, path: Path):
        self._zip = zipfile.ZipFile(path)
        declared = sum(info.file_size for info in self._zip.infolist())
        if declared > ROOM + FACTOR * path.stat().st_size:
            raise ValueError(
                f"it declares {declared} bytes, far more than a file of its size holds"
            )

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """Of the arrays."""
        return [name.removesuffix(".npy") for name in self._zip.namelist()]

    def header(self) -> dict[str, Any]:
        """The archive's JSON header."""
        if self._zip.getinfo("header.npy").file_size > HEADER:
            raise ValueError("its header is too long")
        header = json.loads(str(self.array("header")))
        if not isinstance(header, dict):
            raise TypeError("its header is not a mapping")
        return header

    def array(self, name: str, shape: tuple[int, ...] | None = None) -> np.ndarray:
        """One array; where its shape is known it must be that, of numbers, before it is read."""
        if shape is not None:
            size = self._zip.getinfo(f"{name}.npy").file_size
            expected = 8 * int(np.prod(shape, dtype=object))
            if not expected <= size <= expected + 4096:
                raise ValueError(f"{name} has {size} bytes, not those of shape {shape}")
        with self._zip.open(f"{name}.npy") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
        if shape is not None and (array.shape != shape or array.dtype != np.float64):
            raise ValueError(f"{name} has shape {array.shape} of {array.dtype}, not {shape}")
        return array


def require_covariance(name: str, S: np.ndarray) -> None:
    """Finite and symmetric, with variances that are not negative."""
    require_finite(name, S)
    if (np.diag(S) < 0).any():
        raise ValueError(f"{name} is no covariance matrix: it has negative variances")
    known = np.diag(S) > 0
    sd = np.sqrt(np.diag(S)[known])
    corr = S[np.ix_(known, known)] / np.outer(sd, sd)
    if (np.abs(corr) > 1 + 1e-6).any() or (np.abs(corr - corr.T) > 1e-9).any():
        raise ValueError(f"{name} is no covariance matrix: it has correlations that cannot be")


def require_finite(name: str, values: np.ndarray) -> None:
    """No NaN and no infinity."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise ValueError(f"{name} holds values that are not finite")


def require_sds(name: str, variables: Mapping[str, np.ndarray]) -> None:
    """Local variables: finite, with sds that are not negative."""
    for key, values in variables.items():
        require_finite(f"{name}/{key}", values)
        if key in ("sd", "mfvb_sd") and (values < 0).any():
            raise ValueError(f"{name}/{key} holds negative values")
