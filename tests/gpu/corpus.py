"""All programs of the tests and the benchmarks, with their gradients, as kernels that ``ptxas`` assembles.

``python -m tests.gpu.corpus`` assembles every kernel for every architecture, and prints the numbers of kernels and the
spills; with ``--run`` it also runs each program in the simulator, with checked accesses, and compares with the
interpreter of the IR.  That takes some 20 minutes.  ``--every N`` takes each Nth program only.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jitad.lowering.gpu.image import Image
from jitad.lowering.gpu.ptx import ARCHITECTURES, to_ptx

from bench.gpu.listing import registers
from bench.ordinary import FIELDS
from jitad import JitadError, value_and_grad
from jitad.gpu import assembling
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu.programs import compare, compiled
from tests.gpu.small import PROGRAMS
from tests.loop_level.test_programs import programs, smaller

Entry = tuple[str, Any, tuple[Any, ...]]


def corpus() -> Iterator[Entry]:
    """Names, functions and arguments."""
    for name, (fun, args) in PROGRAMS.items():
        yield name, fun, args
    from tests.gpu.test_corpus import bench_programs
    for name, (fun, args) in bench_programs().items():
        yield name, fun, args
    with pytest.MonkeyPatch.context() as patch:
        for field in FIELDS:
            for p in programs(field, patch):
                for label, f in {"": p.function, **p.formulations}.items():
                    name = f"{field}: {p.name}" + (f" ({label})" if label else "")
                    args = tuple(map(smaller, p.others.get(label, p.args)))
                    yield name, f, args
                    if p.grad:
                        yield f"{name}, gradient", value_and_grad(f, p.grad), args


def assembled(image: Image, arch: str, folder: Path, ptx: str = "") -> dict[str, tuple[int, int]]:
    """The registers and the bytes of spills of each kernel."""
    _, report = assembling.assembled(ptx or to_ptx(image, arch), arch, folder)
    found = registers(report)
    assert len(found) == len(image.kernels), f"{len(image.kernels)} kernels, of which {len(found)} are assembled"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.corpus", description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--from", type=int, default=0, dest="start")
    parser.add_argument("--one-ptx", action="store_true", help="PTX for the oldest architecture alone, for all of them")
    parser.add_argument("--run", action="store_true", help="also in the simulator, against the interpreter")
    options = parser.parse_args()
    taken, kernels, spilling, wrong, start = 0, 0, 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, fun, args) in enumerate(corpus()):
            if number < options.start or (number - options.start) % options.every:
                continue
            case = compiled(fun, *args)
            image = case.program.image
            taken += 1
            if options.run:
                try:
                    compare(case, SimulatedDriver(checked=True), 1e-8)
                except (AssertionError, JitadError) as error:
                    wrong += 1
                    print(f"{name}: {error}", flush=True)
            if not image.kernels:
                continue
            kernels += len(image.kernels)
            ptx = to_ptx(image, ARCHITECTURES[0]) if options.one_ptx else ""
            for arch in ARCHITECTURES:
                spills = {k: x[1] for k, x in assembled(image, arch, Path(folder), ptx).items() if x[1]}
                spilling += len(spills)
                for kernel, size in spills.items():
                    print(f"{name}: {kernel} spills {size} bytes on {arch}", flush=True)
            print(f"{number} {name}: {kernels} kernels so far, {spilling} with spills on some architecture, "
                  f"{time.monotonic() - start:.0f} s", flush=True)
    print(f"{taken} programs, {kernels} kernels, assembled for {', '.join(ARCHITECTURES)}: {spilling} spill"
          + (f"; {wrong} programs are wrong in the simulator" if options.run else ""))


if __name__ == "__main__":
    main()
