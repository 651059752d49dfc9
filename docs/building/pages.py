"""What the site adds to docs/: the pages that live elsewhere, and the code they link to.

A link out of docs/ (../CONTRIBUTING.md, ../src/lrvb/numerics/algebra.py) works where the Markdown is
read in the repository. Here its target becomes a page or a file of the site, and so do the targets
that it links to in turn; code is shown as a page of its own.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"(^```.*?^```\s*$)", re.MULTILINE | re.DOTALL)
INFO = re.compile(r"\A(```\w+) .*")
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?P<path>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
TABLE_CODE = re.compile(r"(?<=<code>)[^<]*(?=</code>(?:(?!<td|</table).)*</td>)", re.DOTALL)
SEAM = re.compile(r"(?<=[a-z])([._:]+)(?=[A-Za-z])")


def uri(path: str) -> str:
    """Where a file of the repository is found on the site; README's part is played by index.md."""
    if path == "README.md":
        return "index.md"
    if path.endswith(".py"):
        return f"source/{path}.md"
    return path.removeprefix("docs/").replace("/README.md", ".md")


def linked(markdown: str, path: str) -> set[str]:
    """The files of the repository that a page links to."""
    prose = "".join(FENCE.split(markdown)[::2])
    here = posixpath.dirname(path)
    return {posixpath.normpath(posixpath.join(here, m["path"])) for m in LINK.finditer(prose)}


def relinked(markdown: str, path: str) -> str:
    """A page as the site takes it: links lead to where their targets are, a fence has one word."""
    here, start = posixpath.dirname(path), posixpath.dirname(uri(path)) or "."

    def lead(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(here, match["path"]))
        return posixpath.relpath(uri(target), start) + (match["anchor"] or "")

    parts = FENCE.split(markdown)
    parts[::2] = [LINK.sub(lead, prose) for prose in parts[::2]]
    parts[1::2] = [INFO.sub(r"\1", block) for block in parts[1::2]]
    return "".join(parts)


def listing(path: str) -> str:
    """A page that shows a file of code."""
    code = (ROOT / path).read_text(encoding="utf-8")
    head = "---\nsearch: {exclude: true}\nhide: [toc]\n---\n"
    return f'{head}# {path}\n\n````python linenums="1"\n{code}````\n'


def origin(src: str) -> str:
    """The file of the repository that a page of the site is made of."""
    candidates = [f"docs/{src}", src, src.replace(".md", "/README.md")]
    return next(path for path in candidates if (ROOT / path).is_file())


def on_files(files: Files, config: Any) -> Files:
    """Add what pages link to outside docs/, and what the navigation names there."""
    waiting = [origin(src) for src in re.findall(r"[\w/]+\.md", str(config.nav))]
    waiting += [f"docs/{file.src_uri}" for file in files.documentation_pages()]
    seen: set[str] = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not (ROOT / path).is_file():
            continue
        seen.add(path)
        if path.endswith(".md"):
            waiting += linked((ROOT / path).read_text(encoding="utf-8"), path)
        if files.get_file_from_path(uri(path)):
            continue
        if path.endswith(".py"):
            files.append(File.generated(config, uri(path), content=listing(path)))
        else:
            files.append(File.generated(config, uri(path), abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Lead links to the site's own pages."""
    src = page.file.src_uri
    return markdown if src.startswith("source/") else relinked(markdown, origin(src))


def on_page_content(html: str, **_: Any) -> str:
    """Let long names in tables break after a dot, a colon or an underscore, and nowhere else."""
    return TABLE_CODE.sub(lambda match: SEAM.sub(r"\1<wbr>", match[0]), html)
