"""Timing in turns, compiling C, printing, writing JSON."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
OUT = HERE.parent / "out" / "bench"
Program = Callable[[], Any]


def options() -> Any:
    """The command line: where the data lie, how many rounds."""
    parser = ArgumentParser()
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data")
    parser.add_argument("--rounds", type=int, default=9)
    return parser.parse_args()


def has(module: str) -> bool:
    """Whether a peer is installed; a missing one is said so, and left out."""
    if importlib.util.find_spec(module) is not None:
        return True
    print(f"({module} is not installed: left out)", file=sys.stderr)
    return False


def agree(results: dict[str, Any], rtol: float) -> None:
    """Raise unless all results equal the first one's, entry by entry."""
    (first, expected), *others = results.items()
    for name, got in others:
        for a, b in zip(leaves(expected), leaves(got), strict=True):
            np.testing.assert_allclose(b, a, rtol=rtol, atol=rtol * max(1e-30, float(np.max(np.abs(a)))),
                                       err_msg=f"{name} differs from {first}")


def leaves(x: Any) -> list[np.ndarray]:
    if isinstance(x, (tuple, list)):
        return [leaf for part in x for leaf in leaves(part)]
    return [np.asarray(x)]


def turns(programs: dict[str, Program], rounds: int = 9, least: float = 0.01) -> dict[str, float]:
    """Median seconds of one call; a round calls each program for at least ``least`` seconds."""
    counts = {}
    for name, program in programs.items():
        program()
        count, spent = 1, seconds(program, 1)
        while spent < least:
            count = max(2 * count, int(1.2 * count * least / max(spent, 1e-9)))
            spent = seconds(program, count)
        counts[name] = count
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            times[name].append(seconds(program, counts[name]) / counts[name])
    return {name: statistics.median(ts) for name, ts in times.items()}


def seconds(program: Program, count: int) -> float:
    repeated = range(count)
    start = time.perf_counter()
    for _ in repeated:
        program()
    return time.perf_counter() - start


def readable(t: float) -> str:
    for unit, scale in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if t * scale >= 1:
            return f"{t * scale:.3g} {unit}"
    return f"{t * 1e9:.3g} ns"


def report(name: str, rows: dict[str, dict[str, float]], against: str = "jitad") -> None:
    """Print a line for each row, times and what the others take over ``against``, and write out/bench/name.json."""
    for row, times in rows.items():
        unit = times.get(against)
        ratios = {k: f" ({t / unit:.2f}×)" if unit and k != against else "" for k, t in times.items()}
        print(f"{name} {row}: " + " | ".join(f"{k} {readable(t)}{ratios[k]}" for k, t in times.items()), flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n")


def compiled(name: str, *flags: str) -> ctypes.CDLL:
    """``bench/c/name.c`` as a library, by gcc at -O3 for this machine."""
    OUT.mkdir(parents=True, exist_ok=True)
    target = OUT / f"{name}{''.join(flags)}.so"
    source = HERE / "c" / f"{name}.c"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        command = ["gcc", "-O3", "-march=native", "-shared", "-fPIC", *flags, str(source), "-o", str(target), "-lm"]
        subprocess.run(command, check=True)
    return ctypes.CDLL(str(target))


def c_call(function: Any, *args: Any) -> Callable[[], float]:
    """A call with its arguments converted once: ints are long, floats double, arrays pointers to double."""
    function.restype = ctypes.c_double
    converted = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_double(a) if isinstance(a, float)
                 else a.ctypes.data_as(ctypes.c_void_p) for a in args]

    def call(keep: Any = args) -> float:                # the arrays live as long as the call
        return float(function(*converted))
    return call
