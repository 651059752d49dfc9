"""Memory that is freed and asked for again."""

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import resource, sys
import numpy as np
from lrvb.numerics.memory import keep_freed
if sys.argv[1] == "kept":
    keep_freed()
x = np.ones(40_000)
def arithmetic():
    a, b, c, d = x + 1, x + 2, x + 3, x + 4
arithmetic()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    arithmetic()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries take no notice")
def test_arrays_come_from_memory_that_was_freed():
    """400 arrays of 79 pages each: without an interrupt a page where freed memory is kept."""

    def interrupts(how: str) -> int:
        command = [sys.executable, "-c", SCRIPT, how]
        # Dask's clusters leave settings of the C library behind, which then learns nothing.
        own = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
        found = subprocess.run(command, capture_output=True, check=True, text=True, env=own)
        return int(found.stdout)

    kept = interrupts("kept")
    assert kept < 400
    assert interrupts("given back") >= kept
