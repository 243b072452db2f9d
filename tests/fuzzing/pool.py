"""Worker processes that check programs: a crash, or a program that does not end, costs one worker.

Workers are forked, so they have the parent's state (its patched functions, in ``planted.py``).  Each gets one job at a
time.  If it does not answer in time, crashes, or needs too much memory, this is the verdict on the job.

A worker does not collect garbage, which would take a tenth of the time; it is replaced before it has grown large.
"""

from __future__ import annotations

import gc
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzzing.check import Verdict
from tests.fuzzing.plain import memory

TIME_LIMIT = 60.0               # seconds of processor time for one job
IDLE = 5                        # factor for wall-clock time: a worker that waits
JOBS = 400                      # jobs of one worker before it is replaced: compiled code and garbage stay in memory
LARGE, TOO_LARGE = 800, 4000    # MiB: above the first a worker is replaced, above the second the job is wrong
TICKS = os.sysconf("SC_CLK_TCK")
FORK = multiprocessing.get_context("fork")


@dataclass
class _Worker:
    process: Any
    pipe: multiprocessing.connection.Connection
    job: Any = None
    since: float = 0.0          # wall-clock time
    before: float = 0.0         # processor time at the start of the job
    done: int = 0

    def seconds(self) -> float:
        """The processor time so far."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / TICKS

    def memory(self) -> float:
        """MiB in use."""
        return memory(self.process.pid or 0)


class Pool:
    """``work(job)`` in ``count`` processes."""

    def __init__(self, work: Callable[[Any], Any], count: int, nice: int = 0, time_limit: float = TIME_LIMIT) -> None:
        self.work, self.nice, self.time_limit = work, nice, time_limit
        self.workers = [self._start() for _ in range(count)]

    def _start(self) -> _Worker:
        here, there = FORK.Pipe()
        process = FORK.Process(target=self._serve, args=(there, here), daemon=True)
        process.start()
        there.close()
        return _Worker(process, here)

    def _serve(self, pipe: multiprocessing.connection.Connection,
               others: multiprocessing.connection.Connection) -> None:
        others.close()                                           # so that the end of the parent ends this process
        for number in (signal.SIGINT, signal.SIGTERM):           # only the parent handles these
            signal.signal(number, signal.SIG_IGN)
        os.nice(self.nice)
        gc.freeze()
        gc.disable()
        while True:
            try:
                job = pipe.recv()
            except EOFError:
                os._exit(0)
            pipe.send(self.work(job))

    def run(self, jobs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """Yields (job, outcome) as jobs end: the worker's answer, or a ``Verdict`` on a crash or an exceeded limit."""
        todo = iter(jobs)
        busy = [w for w in self.workers if self._give(w, todo)]
        while busy:
            ready = multiprocessing.connection.wait([w.pipe for w in busy], timeout=0.5)
            for w in list(busy):
                answer = self._answer(w) if w.pipe in ready else self._given_up(w)
                if answer is None:
                    continue
                yield w.job, answer
                if isinstance(answer, Verdict) or w.done >= JOBS or w.memory() > LARGE:
                    self._replace(w)
                if not self._give(w, todo):
                    busy.remove(w)

    def _give(self, w: _Worker, todo: Iterator[Any]) -> bool:
        for w.job in todo:
            w.since, w.before = time.monotonic(), w.seconds()
            w.pipe.send(w.job)
            return True
        return False

    @staticmethod
    def _answer(w: _Worker) -> Any:
        try:
            w.done += 1
            return w.pipe.recv()
        except (EOFError, ConnectionError):
            w.process.join(5)
            return Verdict("wrong", "crash", f"exit status {w.process.exitcode}")

    def _given_up(self, w: _Worker) -> Verdict | None:
        """The verdict on a job that exceeds a limit, or None."""
        if w.seconds() - w.before > self.time_limit or time.monotonic() - w.since > IDLE * self.time_limit:
            return Verdict("wrong", "no end", f"after {self.time_limit:.0f} s")
        if w.memory() > TOO_LARGE:
            return Verdict("wrong", "memory", f"over {TOO_LARGE} MiB")
        return None

    def _replace(self, w: _Worker) -> None:
        self._end(w)
        new = self._start()
        w.process, w.pipe, w.done = new.process, new.pipe, 0

    @staticmethod
    def _end(w: _Worker) -> None:
        w.pipe.close()
        w.process.kill()
        w.process.join()

    def close(self) -> None:
        for w in self.workers:
            self._end(w)

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
