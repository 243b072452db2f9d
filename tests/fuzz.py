"""Long runs of random differentiable programs: ``python -m tests.fuzz --seconds N --seed S``.

Each program runs in a process of its own, so that a crash or a loop without end is a finding like any other.  What is
found is made small (``--keep`` leaves it as it is): statements go, and blocks, as long as the same goes wrong.
``--file`` checks and shrinks a program that is written down.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import multiprocessing.connection
import re
import time
from collections.abc import Iterator
from pathlib import Path

from . import adcheck, adgen, kernelgen

TIME_LIMIT = 120.0


def outcome(source: str, second: bool) -> str:
    """``adcheck.verdict`` of a source text, found out in a process of its own."""
    here, there = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_tell, args=(source, second, there))
    child.start()
    there.close()
    try:
        if not here.poll(TIME_LIMIT):
            return "wrong, no end"
        return str(here.recv())
    except EOFError:
        child.join()
        return f"wrong, crash: exit status {child.exitcode}"
    finally:
        child.kill()
        child.join()


def _tell(source: str, second: bool, pipe: multiprocessing.connection.Connection) -> None:
    try:
        main = adcheck.load(source, "<random program>")
    except Exception as e:
        pipe.send(f"invalid: {e}")
    else:
        pipe.send(adcheck.verdict(main, second, adcheck.LONG if "N = len(p)" in source else adcheck.INPUTS))


def kind(verdict: str) -> str:
    """A verdict without its numbers and names: what must stay the same while a program shrinks."""
    return re.sub(r"[-+]?\d[\d.e+-]*|'[^']*'|\[.*", "", verdict)[:60]


def shrink(source: str, second: bool, verdict: str) -> str:
    """A smaller program in which the same goes wrong."""
    lines, wanted = source.splitlines(), kind(verdict)
    smaller = True
    while smaller:
        smaller = False
        for shorter in _shorter(lines):
            if kind(outcome("\n".join(shorter) + "\n", second)) == wanted:
                lines, smaller = shorter, True
                break
    return "\n".join(lines) + "\n"


def _shorter(lines: list[str]) -> Iterator[list[str]]:
    """The program without one statement or function (the longest first), or with one block in place of its header."""
    blocks = sorted(((_end(lines, i), i) for i, line in enumerate(lines) if line.strip()), key=lambda b: b[1] - b[0])
    for end, start in blocks:
        yield lines[:start] + lines[end:]
    for end, start in blocks:
        if end > start + 1 and not lines[start].startswith("def"):
            yield lines[:start] + [line[4:] for line in lines[start + 1:end]] + lines[end:]


def _end(lines: list[str], start: int) -> int:
    """Where the statement that begins at a line ends."""
    def depth(line: str) -> int:
        return len(line) - len(line.lstrip())
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or depth(lines[end]) > depth(lines[start])):
        end += 1
    return end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--size", type=int, default=8, help="statements of a program")
    parser.add_argument("--keep", action="store_true", help="do not shrink")
    parser.add_argument("--file", type=Path)
    parser.add_argument("--kernels", action="store_true", help="loops over arrays of any length (kernelgen.py)")
    options = parser.parse_args()
    generate = kernelgen.program if options.kernels else adgen.program
    end, seed = time.monotonic() + options.seconds, options.seed
    counts: collections.Counter[str] = collections.Counter()
    while time.monotonic() < end:
        source = options.file.read_text() if options.file else generate(seed, options.size)
        second = options.file is not None or seed % 3 == 0
        verdict = outcome(source, second)
        counts["wrong" if verdict.startswith("wrong") else verdict[:100]] += 1
        if verdict.startswith("wrong"):
            print(f"\n# seed {seed}: {verdict}", flush=True)
            print(source if options.keep else shrink(source, second, verdict), flush=True)
        if options.file:
            break
        seed += 1
    for verdict, count in counts.most_common():
        print(f"{count:6}  {verdict}")


if __name__ == "__main__":
    main()
