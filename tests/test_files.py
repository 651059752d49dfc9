"""Files are whole or absent, whoever writes, and whatever stops the writing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrvb
from lrvb.commands import cli
from lrvb.commands.csv_files import read_csv, write_csv
from lrvb.data.files import whole, whole_set


def test_many_threads_write_one_path(tmp_path: Path) -> None:
    path, failures = tmp_path / "one", []

    def write(k: int) -> None:
        try:
            for _ in range(30):
                with whole(path) as temporary:
                    temporary.write_text(str(k) * 1000)
        except Exception as error:  # shown by the test
            failures.append(error)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(set(path.read_text())) == 1
    assert os.listdir(tmp_path) == ["one"]


KILLED = """
import os, signal, sys
from pathlib import Path
from lrvb.data.files import whole
with whole(Path(sys.argv[1])) as temporary:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_what_a_killed_save_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "one"
    subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert len(os.listdir(tmp_path)) == 1
    with whole(path) as temporary:
        temporary.write_text("whole")
    assert os.listdir(tmp_path) == ["one"]


def test_a_set_appears_together_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "out"

    def stopped() -> None:
        with whole_set(folder) as temporary:
            (temporary / "a").write_text("1")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert os.listdir(tmp_path) == []
    for text in ("1", "2"):
        with whole_set(folder) as temporary:
            (temporary / "a").write_text(text)
            assert not folder.exists() or (folder / "a").read_text() == "1"
        assert (folder / "a").read_text() == text
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("old", [True, False])
def test_ctrl_c_while_writing_leaves_nothing(
    old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    data = tmp_path / "data.csv"
    pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)}).to_csv(data, index=False)
    out = tmp_path / "out"
    if old:
        out.mkdir()
        (out / "mine").write_text("kept")

    def stopped(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("lrvb.commands.mixture._figures", stopped)
    assert cli.main(["mixture", str(data), "--components", "1", "--out", str(out)]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == (["data.csv", "out"] if old else ["data.csv"])
    assert not old or os.listdir(out) == ["mine"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_a_spreadsheet_runs_nothing(start: str, tmp_path: Path) -> None:
    evil = f"{start}cmd|' /C calc'!A0"
    table = pd.DataFrame({evil: [evil, "plain"], "n": [-1.5, 2.0]}, index=pd.Index([evil, "b"]))
    write_csv(table, tmp_path / "t.csv", "name")
    back = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    cells = [*back.columns, *back["name"], *back.iloc[:, 1]]
    assert not any(str(cell).startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert back["n"].tolist() == [-1.5, 2.0]
    assert len(read_csv(tmp_path / "t.csv")) == 2


def _fit_in_child(queue: Any) -> None:
    try:
        lrvb.infer(lrvb.models.NormalPoisson(), {"x": [0.0, 1.0], "y": [1, 2]})
        queue.put("fitted")
    except lrvb.LrvbError as error:
        queue.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX's")
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_a_forked_process_says_so_instead_of_waiting() -> None:
    lrvb.infer(lrvb.models.NormalPoisson(), {"x": [0.0, 1.0], "y": [1, 2]})
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_fit_in_child, args=(queue,))
    child.start()
    said = queue.get(timeout=60)
    child.join()
    assert "spawn" in said


def test_ctrl_c_is_heard_again_after_a_set(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    with whole_set(tmp_path / "out") as temporary:
        (temporary / "a").write_text("1")
    assert signal.getsignal(signal.SIGINT) is before
