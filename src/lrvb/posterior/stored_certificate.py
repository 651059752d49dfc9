"""A certificate's part of a file: its draws, their control, and how HMC went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .archive import Archive, require_finite
from .certificate import Certificate
from .control import Control
from .estimate import Estimate
from .polish import Polish
from .rivals import Rivals

CERTIFICATE = (
    *("method", "exact", "k_hat", "ess", "log_evidence", "log_evidence_error"),
    *("chains", "others", "relabelled", "looked"),
)
CONTROL = "certificate/control/shares", "certificate/control/known"
RIVALS = "certificate/rivals/shares", "certificate/rivals/T"
CERTIFICATE_ARRAYS: dict[str, tuple[int, ...]] = {"errors": (2,), "far": ()}
POLISH = (
    "modes",
    "rounds",
    "gradients",
    "seconds",
    "concern",
    "severe",
    "slowest",
    "unanswered",
)
POLISHED = ("r_hat", "ess", "mean_error", "sd_error")
OTHERWISE = ("second", "neck", "tail")  # of a polish, where there are any


def stored(found: Certificate) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What goes into the header, and the arrays."""
    header: dict[str, Any] = {"certificate": {key: getattr(found, key) for key in CERTIFICATE}}
    arrays = {"certificate/T": found.statistics, "certificate/weights": found.weights}
    for name in CERTIFICATE_ARRAYS:
        if getattr(found, name) is not None:
            arrays[f"certificate/{name}"] = getattr(found, name)
    if found.control is not None:
        arrays |= {CONTROL[0]: found.control.shares, CONTROL[1]: found.control.known}
        header["control"] = found.control.size
    if found.rivals is not None:
        arrays |= dict(zip(RIVALS, found.rivals, strict=True))
    if found.polish is not None:
        header["polish"] = {key: getattr(found.polish, key) for key in POLISH}
        for key in (*POLISHED, *OTHERWISE):
            if getattr(found.polish, key) is not None:
                arrays[f"polish/{key}"] = getattr(found.polish, key)
    return header, arrays


def restored(header: Mapping[str, Any], archive: Archive, estimate: Estimate) -> Certificate | None:
    """The certificate of a file, if there was one."""
    if "certificate" not in header:
        return None
    weights = archive.array("certificate/weights")
    T = archive.array("certificate/T", (len(weights), len(estimate.m)))
    require_finite("certificate/T", T)
    q = len(estimate.index)
    more: dict[str, Any] = {
        name: archive.array(f"certificate/{name}", (*rows, q))
        for name, rows in CERTIFICATE_ARRAYS.items()
        if f"certificate/{name}" in archive.names
    }
    return Certificate(
        estimate,
        T,
        weights,
        **header["certificate"],
        polish=_polish(header, archive, estimate),
        control=_control(header, archive, T),
        rivals=_rivals(archive, T.shape[1]),
        **more,
    )


def _control(header: Mapping[str, Any], archive: Archive, T: np.ndarray) -> Control | None:
    """The normal beside a certificate's draws T (n, a), if there was one."""
    if "control" not in header:
        return None
    shares, known = archive.array(CONTROL[0], (len(T),)), archive.array(CONTROL[1])
    size = int(header["control"])
    alike = known.ndim == 2 and known.shape[1] == T.shape[1] and len(known) % 2 == 0
    if not alike or not 1 <= size <= T.shape[1]:
        raise ValueError("the certificate's control and its draws have different shapes")
    require_finite(CONTROL[0], shares)
    require_finite(CONTROL[1], known)
    return Control(shares, known, size)


def _rivals(archive: Archive, a: int) -> Rivals | None:
    """Optima far from the first, if any were found."""
    if RIVALS[0] not in archive.names:
        return None
    shares = archive.array(RIVALS[0])
    if shares.ndim != 1:
        raise ValueError("the shares of other optima are not a list of numbers")
    T = archive.array(RIVALS[1], (len(shares), a))
    require_finite(RIVALS[0], shares)
    require_finite(RIVALS[1], T)
    return Rivals(shares, T)


def _polish(header: Mapping[str, Any], archive: Archive, estimate: Estimate) -> Polish | None:
    """How HMC went, if the certificate was polished by it."""
    if "polish" not in header:
        return None
    q = len(estimate.index)
    stored = header["polish"]
    content: dict[str, Any] = {key: stored[key] for key in POLISH if key in stored}
    content |= {key: archive.array(f"polish/{key}", (q,)) for key in POLISHED}
    for key in OTHERWISE:
        if f"polish/{key}" in archive.names:
            content[key] = archive.array(f"polish/{key}", (q,))
    content["modes"] = tuple(map(float, content["modes"]))
    return Polish(**content)
