"""Runs the pages that have a figure of their own, and puts what they save among the images.

Each saves one figure under its own name, doctor.md as doctor.png; `make docs` runs this.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```\s*$", re.MULTILINE | re.DOTALL)


def run(page: Path) -> None:
    """Every block of a page, one after another."""
    namespace: dict[str, Any] = {"__name__": "__page__"}
    for match in BLOCK.finditer(page.read_text(encoding="utf-8")):
        exec(compile(match["code"], str(page), "exec"), namespace)


def main(names: list[str]) -> None:
    """The pages named, or all of them."""
    os.environ["MPLBACKEND"] = "Agg"
    gallery = sorted((DOCS / "gallery").glob("*.md"))
    for page in [DOCS / "mixed.md", DOCS / "mixture.md", *gallery]:
        if page.stem == "index" or (names and page.stem not in names):
            continue
        target = DOCS / "images" / page.parent.relative_to(DOCS) / f"{page.stem}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run(page)
            shutil.copy(f"{page.stem}.png", target)
            os.chdir(DOCS)
        print(f"{page.relative_to(DOCS)} has its figure")


if __name__ == "__main__":
    main(sys.argv[1:])
