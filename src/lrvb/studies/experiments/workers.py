"""Processes that run tasks, each with one thread, so that results do not depend on their number."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

from tqdm import tqdm

from .base import Experiment, ExperimentFailed, Settings, Tables

#: Read by the libraries when they are imported, so set before a worker starts.
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "NPROC": "1",  # XLA's pool of threads
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


class Done(NamedTuple):
    """A finished task: its tables, when it began and how many seconds it took."""

    task: str
    tables: Tables
    started: str
    seconds: float


class _Failed(NamedTuple):
    """A task that raised: the error in one line, and the whole traceback."""

    error: str
    traceback: str


class Workers:
    """Up to `jobs` worker processes, started when needed and stopped when the block ends."""

    def __init__(self, jobs: int):
        self.jobs = jobs
        self._free: list[tuple[Connection, Any]] = []
        self._busy: dict[Connection, tuple[Any, str]] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        """End every worker, whatever it is doing: a task in progress is given up."""
        processes = [p for _, p in self._free] + [p for p, _ in self._busy.values()]
        for connection in [c for c, _ in self._free] + list(self._busy):
            connection.close()
        for process in processes:
            process.terminate()
        for process in processes:
            process.join()
        self._free, self._busy = [], {}

    def run(
        self,
        experiment: Experiment,
        tasks: Sequence[str],
        settings: Settings,
        seed: int,
        most: int,
    ) -> Iterator[Done]:
        """Run the tasks in at most `most` workers; each is given back as soon as it is done.

        `experiment.run` is a function of a module, which the worker imports.
        """
        waiting = list(tasks)[::-1]
        while waiting or self._busy:
            while waiting and len(self._busy) < min(most, self.jobs):
                connection, process = self._free.pop() if self._free else _start()
                task = waiting.pop()
                connection.send((experiment.run, task, settings, seed))
                self._busy[connection] = (process, task)
            answering = wait(list(self._busy))
            for connection in [c for c in self._busy if c in answering]:
                process, task = self._busy[connection]
                answer = _answer(connection, process, experiment.name, task)
                del self._busy[connection]
                self._free.append((connection, process))
                yield answer


def _answer(connection: Connection, process: Any, experiment: str, task: str) -> Done:
    try:
        answer = connection.recv()
    except (EOFError, OSError):
        process.join()
        raise ExperimentFailed(
            f"Experiment '{experiment}' stopped at task '{task}': its process was ended from outside "
            f"(exit code {process.exitcode}). Perhaps memory ran out: try fewer --jobs.",
            experiment=experiment,
            task=task,
        ) from None
    if isinstance(answer, _Failed):
        raise ExperimentFailed(
            f"Experiment '{experiment}' failed at task '{task}': {answer.error}",
            experiment=experiment,
            task=task,
            traceback=answer.traceback,
        )
    return answer


def _start() -> tuple[Connection, Any]:
    """Start a worker that hears nothing of Ctrl-C: whoever started it decides."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    with _environment(ONE_THREAD), _deaf_to_interrupts():
        process.start()
    there.close()
    return here, process


def _serve(connection: Connection) -> None:
    """Run tasks until the other end closes."""
    tqdm.set_lock(threading.RLock())  # bars of one process need no lock that outlives it
    while True:
        try:
            request = connection.recv_bytes()
        except EOFError:
            return
        try:
            answer = _perform(*pickle.loads(request))
        except Exception as error:
            first = str(error).partition("\n")[0]
            answer = _Failed(f"{type(error).__name__}: {first}", traceback.format_exc())
        try:
            connection.send(answer)
        except OSError:  # nobody listens any more
            return


def _perform(run: Any, task: str, settings: Settings, seed: int) -> Any:
    begin, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    tables = dict(run(task, settings, seed))
    return Done(task, tables, started, round(time.perf_counter() - begin, 3))


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Environment variables for processes started inside the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Processes started inside the block do not receive Ctrl-C; here it is only delayed."""
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover - Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
