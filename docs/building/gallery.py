"""Runs the pages of the gallery and puts the figure that each of them saves beside the others.

Every page ends by saving one figure under its own name, doctor.md as doctor.png; `make docs` runs this.
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
    target = DOCS / "images" / "gallery"
    target.mkdir(parents=True, exist_ok=True)
    for page in sorted((DOCS / "gallery").glob("*.md")):
        if page.stem == "index" or (names and page.stem not in names):
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            run(page)
            shutil.copy(f"{page.stem}.png", target / f"{page.stem}.png")
            os.chdir(DOCS)
        print(f"gallery/{page.stem}.md has its figure")


if __name__ == "__main__":
    main(sys.argv[1:])
