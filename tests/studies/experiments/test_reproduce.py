"""`lrvb reproduce --quick` as a whole: stopped, taken up again, and its page looked at."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from html.parser import HTMLParser

from matplotlib.image import imread

from lrvb.studies.experiments.catalog import NAMES, named
from lrvb.studies.experiments.store import read_table

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "chrome"))), None)


def command(out, *words):
    return [sys.executable, "-m", "lrvb", "reproduce", "--quick", "--out", str(out), *words]


def hear_interrupts():
    """A process started in the background of a shell inherits that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def saved(out):
    """The tasks on disk, with the time of their writing."""
    return {p: p.stat().st_mtime_ns for p in out.glob("parts/*/*/task.json")}


def reproduce(out):
    """A run that is interrupted after a few tasks, then run to its end."""
    first = subprocess.Popen(
        command(out), stderr=subprocess.PIPE, text=True, preexec_fn=hear_interrupts
    )
    while first.poll() is None and len(saved(out)) < 3:
        time.sleep(0.05)
    first.send_signal(signal.SIGINT)
    stopped = first.communicate()[1]
    before = saved(out)
    left = [p.name for p in out.rglob(".*")]
    second = subprocess.run(command(out), capture_output=True, text=True)
    return {
        "out": out,
        "status": (first.returncode, second.returncode),
        "stopped": stopped,
        "said": second.stdout,
        "errors": second.stderr,
        "left": left,
        "before": before,
    }


class Page(HTMLParser):
    """Sections with their numbers of figures, tables and checks, and every link."""

    def __init__(self, text):
        super().__init__()
        self.sections, self.links, self.current = {}, [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.links += [attributes[k] for k in ("href", "src") if k in attributes]
        if tag == "section":
            self.current = self.sections.setdefault(attributes["id"], {})
        elif tag in ("img", "table", "blockquote", "details") and self.current is not None:
            self.current[tag] = self.current.get(tag, 0) + 1


def check_an_interrupted_run_says_how_to_go_on(reproduction):
    assert reproduction["status"] == (130, 0), reproduction["errors"]
    last = reproduction["stopped"].splitlines()[-1]
    assert last == (
        f"lrvb: Stopped. What is finished is saved in {reproduction['out']}; the same command goes on "
        "from there."
    )
    assert "Traceback" not in reproduction["stopped"]
    assert reproduction["left"] == []


def check_finished_tasks_are_not_run_again(reproduction):
    before, after = reproduction["before"], saved(reproduction["out"])
    assert len(before) >= 3
    assert {p: after[p] for p in before} == before
    assert len(after) > len(before)


def check_the_command_ends_with_where_the_page_is(reproduction):
    lines = reproduction["said"].splitlines()
    assert lines[-1] == f"The page is at {reproduction['out'] / 'index.html'}"
    assert [line.split()[0] for line in lines if "checks hold" in line] == list(NAMES)


def check_every_section_is_whole(reproduction):
    """Claim, all figures, the numbers, settings and provenance; no link leaves the page."""
    page = Page((reproduction["out"] / "index.html").read_text(encoding="utf-8"))
    assert list(page.sections) == list(NAMES)
    for name, found in page.sections.items():
        assert found["img"] == len(named(name).figures)
        assert found["blockquote"] == 1
        assert found["table"] == 3
        assert found["details"] == 2
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)


def check_every_figure_shows_something(reproduction):
    """Each PNG can be decoded, is large enough to read, and is not of one colour."""
    for name in NAMES:
        for figure in named(name).figures:
            pixels = imread(reproduction["out"] / "figures" / f"{name}-{figure.name}.png")
            assert pixels.shape[0] >= 300
            assert pixels.shape[1] >= 500
            assert (pixels[..., :3].min(axis=2) < 0.9).mean() > 0.005, (name, figure.name)


def check_tables_and_findings(reproduction, name):
    """Tables are not empty; every number of ours is there; nothing differs, and checks hold.

    Seconds depend on what else the machine does, so the checks of a timed experiment are not asked.
    """
    tables = reproduction["out"] / "tables"
    provenance = json.loads((tables / f"{name}.json").read_text(encoding="utf-8"))
    content = {t: read_table(tables / f"{name}_{t}.csv") for t in provenance["tables"]}
    assert all(len(table) for table in content.values())
    experiment = named(name)
    findings = experiment.findings(content, provenance["settings"])
    assert findings.numbers["ours"].notna().all()
    assert {"published", "ours"} <= set(findings.numbers.columns)
    assert findings.reason
    assert findings.checks
    if not experiment.timed:
        assert [words for words, holds in findings.checks.items() if not holds] == []


def check_nothing_is_wider_than_the_screen(reproduction, tmp_path, width):
    """In a real browser, with every detail open, inside a frame as wide as a phone or a laptop."""
    page = (reproduction["out"] / "index.html").read_text(encoding="utf-8")
    (tmp_path / "page.html").write_text(page.replace("<details>", "<details open>"))
    (tmp_path / "frame.html").write_text(
        f"<iframe src='page.html' style='width:{width}px;height:800px;border:0'></iframe><script>"
        "onload = () => { const page = frames[0].document.documentElement;"
        "document.title = page.clientWidth + ' ' + page.scrollWidth; }</script>"
    )
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=5000",
            "--dump-dom",
            (tmp_path / "frame.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    inner, needed = map(int, title.split())
    assert width - 20 <= inner <= width
    assert needed <= inner


def test_quick_run(tmp_path):
    """One test, so that the run is made once however the tests are shared out."""
    reproduction = reproduce(tmp_path / "out")
    check_an_interrupted_run_says_how_to_go_on(reproduction)
    check_finished_tasks_are_not_run_again(reproduction)
    check_the_command_ends_with_where_the_page_is(reproduction)
    check_every_section_is_whole(reproduction)
    check_every_figure_shows_something(reproduction)
    for name in NAMES:
        check_tables_and_findings(reproduction, name)
    for width in (360, 1280) if CHROMIUM is not None else ():
        check_nothing_is_wider_than_the_screen(reproduction, tmp_path, width)
