"""A run of many random programs: seeds in, findings out.

A program depends on its seed and on its focus, which depends on the constructs that other programs have covered.  So a
finding includes the program itself.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tests.fuzzing import check
from tests.fuzzing.check import Verdict, verdict
from tests.fuzzing.constructs.features import features
from tests.fuzzing.coverage import Coverage
from tests.fuzzing.generate import Program, generate
from tests.fuzzing.pool import Pool
from tests.fuzzing.shrink import kind, shrink

REGRESSIONS = Path(__file__).parent.parent / "regressions"
PROGRESS = 30.0                         # seconds between progress reports
Report = Callable[[str], None]


@dataclass
class Finding:
    """A program that failed, as generated and reduced."""

    program: Program
    verdict: Verdict
    source: str
    seconds: float = 0.0

    def text(self) -> str:
        """A regression test: the program, with the failure in its docstring."""
        first = str(self.verdict).split("\n")[0][:110]
        return f'"""Seed {self.program.seed}: {_plain(first)}"""\n\n{self.source}'


def _plain(text: str) -> str:
    return text.replace("\\", "/").replace('"""', "'''")


@dataclass(frozen=True)
class Job:
    """A seed to generate a program from, or a source to check."""

    seed: int = 0
    focus: tuple[str, ...] = ()
    source: str = ""
    checks: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()
    size: int | None = None
    always: frozenset[str] = frozenset()        # checks that all programs get


def work(job: Job) -> tuple[Program, Verdict, float]:
    """Runs a job in a worker; the last result is the processor time."""
    start = time.process_time()
    if job.source:
        return Program(job.seed, job.source), verdict(job.source, job.checks), 0.0
    program = generate(job.seed, job.features, job.focus, job.size)
    found = verdict(program.source, check.sample(job.seed) | job.always)
    return program, found, time.process_time() - start


@dataclass
class Options:
    seed: int
    seconds: float = 60.0
    count: int = 0                      # number of programs; 0: as many as time allows
    workers: int = 2
    nice: int = 0
    keep: bool = False                  # do not shrink
    findings: int = 20                  # then it stops
    size: int | None = None             # constructs of a program; None: log-uniform
    focus: tuple[str, ...] = ()         # each program has one of these constructs; by default a rare one
    always: tuple[str, ...] = ()        # checks that all programs get


class Campaign:
    def __init__(self, options: Options, report: Report = print) -> None:
        self.options, self.report = options, report
        self.findings: list[Finding] = []
        self.kinds: dict[tuple[str, ...], int] = {}
        self.done, self.processor = 0, 0.0
        self.start = time.monotonic()
        with Pool(lambda _: features(), 1) as pool:              # in a worker: others are forked from a new process
            ((_, found),) = pool.run([None])
        self.features: frozenset[str] = found
        self.coverage = Coverage(found)

    def run(self) -> list[Finding]:
        """Runs all programs, or until interrupted; returns the findings, one of each kind."""
        o, told = self.options, self.start
        with Pool(work, o.workers, o.nice) as pool, suppress(KeyboardInterrupt):
            for job, answer in pool.run(self._jobs()):
                self._one(job, answer)
                if time.monotonic() - told > PROGRESS:
                    told = time.monotonic()
                    self.report(self.progress())
        return self.findings

    def _jobs(self) -> Iterator[Job]:
        o, r = self.options, random.Random(self.options.seed)
        n = 0
        while len(self.findings) < o.findings and (
                n < o.count if o.count else time.monotonic() - self.start < o.seconds):
            focus = (r.choice(o.focus),) if o.focus else self.coverage.focus(r)
            yield Job(o.seed + n, focus, features=self.features, size=o.size, always=frozenset(o.always))
            n += 1

    def _one(self, job: Job, answer: tuple[Program, Verdict, float] | Verdict) -> None:
        self.done += 1
        if isinstance(answer, Verdict):                          # if the worker is gone, its program is not lost
            program, found = generate(job.seed, job.features, job.focus, job.size), answer
        else:
            program, found, seconds = answer
            self.processor += seconds
        self.coverage.add(program.constructs, program.pairs, found)
        if "excused" in found.counts:                            # excused findings are reported too
            self.report(f"\n--- excused, seed {program.seed}: {found}\n{program.source}")
        if found.what not in ("wrong", "invalid"):
            return
        if found.what == "invalid":
            found = replace(found, check="generator")
        self.kinds[kind(found)] = self.kinds.get(kind(found), 0) + 1
        if self.kinds[kind(found)] == 1:
            self._found(program, found, check.sample(job.seed) | job.always)

    def _found(self, program: Program, found: Verdict, checks: frozenset[str]) -> None:
        seconds = time.monotonic() - self.start
        self.report(f"\n--- after {seconds:.1f} s, seed {program.seed}: {found}")
        source = program.source if self.options.keep else minimal(program.source, found, checks)
        finding = Finding(program, found, source, seconds)
        self.findings.append(finding)
        self.report(finding.text())

    def progress(self) -> str:
        seconds = time.monotonic() - self.start
        rates = f"{self.done / seconds:.1f} a second ({self.done / max(self.processor, 1e-9):.1f} a processor's second)"
        return f"{self.done} programs, {rates}, {len(self.findings)} findings"


def minimal(source: str, found: Verdict, checks: frozenset[str], seconds: float = 90.0) -> str:
    """Reduces a program in a worker of its own."""
    limit = 10.0 if found.check == "no end" else 30.0
    with Pool(work, 1, time_limit=limit) as pool:
        def test(text: str) -> Verdict:
            ((_, answer),) = pool.run([Job(source=text, checks=checks)])
            return answer if isinstance(answer, Verdict) else answer[1]
        return shrink(source, test, found, seconds)
