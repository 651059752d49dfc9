"""Memory that is freed and asked for again at once, as by every line of arithmetic on arrays."""

from __future__ import annotations

import numpy as np

_LARGEST = 32_000_000  # bytes: what the C library of Linux learns from is no larger than 2²⁵


def keep_freed() -> None:
    """Have the C library keep what is freed, up to some 64 MB, for the next array of a megabyte or so.

    By default it gives such memory back to the system, which hands it out anew in pages, each with an
    interrupt: more time than the arithmetic takes. glibc keeps blocks no larger than the largest that it has
    seen freed; other libraries take no notice. Nothing is touched, so that this costs nothing.
    """
    np.empty(_LARGEST, dtype=np.uint8)
