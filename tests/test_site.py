"""The documentation as a site: it builds without the network, and every link leads somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import lrvb

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = ROOT / "docs" / "reference"
FENCE = re.compile(r"^```.*?^```\s*$", re.MULTILINE | re.DOTALL)


class Page(HTMLParser):
    """What a page loads, where it links to, its anchors, and its headings as (level, anchor)."""

    def __init__(self, path: Path):
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.headings: list[tuple[str, str]] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag in ("script", "img", "iframe") and "src" in found:
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.loads.append(found["href"])
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((tag, found.get("id", "")))


def test_reference_states_every_public_name_once() -> None:
    """The pages of docs/reference name what `lrvb.__all__` names, each on one of them."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted(REFERENCE.glob("*.md")))
    stated = re.findall(r"^::: (.*)$", text, re.MULTILINE)
    assert sorted(stated) == sorted(f"lrvb.{name}" for name in lrvb.__all__)


def build(folder: Path) -> dict[Path, Page]:
    """Every page of the site, built with all warnings as errors and no way to the network."""
    nowhere = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **nowhere, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {path: Page(path) for path in folder.rglob("*.html") if path.name != "404.html"}


def broken(path: Path, target: str, pages: dict[Path, Page]) -> bool:
    """Whether a relative address leads to no file, or to no anchor of its page."""
    address, _, anchor = unquote(target).partition("#")
    file = (path.parent / address.split("?")[0]).resolve() if address else path
    if file in pages:
        return bool(anchor) and anchor not in pages[file].anchors
    return not file.is_file()


def test_site(tmp_path: Path) -> None:
    """It builds, loads nothing from elsewhere, has no dead link, and lists every public name."""
    for tool in ("mkdocs", "material", "mkdocstrings", "griffe"):
        pytest.importorskip(tool, reason="The site needs MkDocs: pip install 'lrvb[docs]'.")
    folder = tmp_path.resolve() / "site"
    pages = build(folder)

    remote = [
        load for page in pages.values() for load in page.loads if re.match("[a-z]*:?//", load)
    ]
    assert not remote, f"Loaded from elsewhere: {sorted(set(remote))}"
    dead = [
        f"{path.relative_to(folder)}: {target}"
        for path, page in pages.items()
        for target in [*page.links, *page.loads]
        if not re.match("[a-z]+:", target) and broken(path, target, pages)
    ]
    assert not dead, "These lead nowhere:\n" + "\n".join(dead)

    for source in (ROOT / "docs").glob("*.md"):  # no block of code swallows what is below it
        prose = "".join(FENCE.split(source.read_text(encoding="utf-8")))
        stated = len(re.findall("^#{1,6} ", prose, re.MULTILINE))
        assert len(pages[folder / f"{source.stem}.html"].headings) == stated, source.name

    reference = {path: page for path, page in pages.items() if path.parent.name == "reference"}
    names = sorted(f"lrvb.{name}" for name in lrvb.__all__)
    index = reference.pop(folder / "reference" / "index.html")
    top = [name for page in reference.values() for tag, name in page.headings if tag == "h2"]
    assert sorted(top) == names
    listed = {link.partition("#")[2] for link in index.links if ".html#lrvb." in link}
    assert sorted(listed) == names
