"""Compilation of programs: ours with its options, and C by the system's compiler."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from typing import Any

from bench.case import FAST, HERE, OURS, OUT, UNCHECKED, Case, Program
from jitad import jit

FLAVOURS = {"C": (), "C -ffast-math": ("-ffast-math",)}


def add_ours(case: Case, function: Any, call: Callable[[Any], Program], fast: bool = True, arrays: bool = True,
             **options: Any) -> None:
    """Add ``call(f)`` of the jitted function: as it is, with ``fastmath=True`` (the counterpart of C's flavour), and
    without checks of bounds where the program has ``arrays``.
    """
    flavours: dict[str, dict[str, Any]] = {OURS: {}}
    if fast:
        flavours[FAST] = {"fastmath": True}
    if arrays:
        flavours[UNCHECKED] = {"boundscheck": False}
    for label, more in flavours.items():
        case.add(label, lambda more=more: call(jit(function, **options, **more)))


def compiled(name: str, *flags: str, compiler: str = "gcc") -> ctypes.CDLL:
    """``bench/c/name.c`` as a library, by a compiler at -O3 for the processor of ours (``JITAD_CPU``).

    The linker is given no flag but -fopenmp: for -ffast-math it would add code that takes subnormal numbers for zero
    from the moment when the library is loaded, in all programs of the process.
    """
    processor = os.environ.get("JITAD_CPU") or "native"
    others = [f"-{word}" for word in (compiler, processor) if word not in ("gcc", "native")]
    target = OUT / f"{name}{''.join((*flags, *others))}.so"
    target.parent.mkdir(parents=True, exist_ok=True)
    source = HERE / "c" / f"{name}.c"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        unit = target.with_suffix(".o")
        command = [compiler, "-O3", f"-march={processor}", "-c", "-fPIC", *flags]
        subprocess.run([*command, str(source), "-o", str(unit)], check=True)
        threads = [flag for flag in flags if flag == "-fopenmp"]
        subprocess.run(["gcc", "-shared", *threads, str(unit), "-o", str(target), "-lm"], check=True)
    return ctypes.CDLL(str(target))


def c_call(function: Any, *args: Any) -> Callable[[], float]:
    """A call with its arguments converted once: ints are long, floats double, arrays pointers to their data."""
    function.restype = ctypes.c_double
    converted = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_double(a) if isinstance(a, float)
                 else a.ctypes.data_as(ctypes.c_void_p) for a in args]

    def call(keep: Any = args) -> float:                # the arrays live as long as the call
        return float(function(*converted))
    return call


def add_c(case: Case, source: str, function: str, *args: Any, results: Callable[[float], Any] = lambda value: value,
          flavours: dict[str, tuple[str, ...]] = FLAVOURS, apart: bool = False) -> None:
    """Add ``function`` of ``bench/c/source.c``, strictly compiled and with -ffast-math.

    ``results(value)`` are what is compared: the arrays that the function wrote into, and what it returned.
    """
    for label, flags in flavours.items():
        def make(flags: tuple[str, ...] = flags) -> Program:
            call = c_call(getattr(compiled(source, *flags), function), *args)
            return lambda: results(call())
        case.add(label, make, apart)
