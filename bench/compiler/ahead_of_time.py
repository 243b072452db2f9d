"""A library that is built ahead of time beside the JIT: the same digits, and the time of a call.

    python -m bench.compiler.ahead_of_time [--data ../shared/data] [--no-libmvec]

The program is ADBench's Gaussian mixture and its gradient.  Both are called in turn; times are of the processor.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from examples.gmm import Mixture, Prior, gmm_objective, load_adbench
from jitad import aot, jit

SIZES = ("d10_K25", "d32_K50")


def library(folder: Path, **options: Any) -> ctypes.CDLL:
    """The objective and its gradient as a shared library."""
    signature = (Mixture("f64[k]", "f64[k, d]", "f64[k, w]"), "f64[n, d]", Prior("f64", "i64"))     # type: ignore
    path = folder / "libgmm.so"
    aot.build(path, [aot.export(gmm_objective, signature, name="gmm", grad=0)], header=folder / "gmm.h", **options)
    return ctypes.CDLL(str(path))


def caller(loaded: ctypes.CDLL, mixture: Mixture, points: Any, prior: Prior) -> tuple[Callable[[], int], Any, Any]:
    """A call of the gradient with all arguments converted, and the arrays that it writes."""
    value, bars = np.zeros(1), [np.zeros_like(a) for a in mixture]
    words = [w for a in mixture for w in (a.ctypes.data, *a.shape)]
    given = (ctypes.c_int64 * len(words))(*words)
    tail = np.array([(prior.gamma, prior.m)], dtype=[("gamma", "f8"), ("m", "i8")])
    out = (ctypes.c_int64 * 3)(*(a.ctypes.data for a in bars))
    args = (ctypes.byref(given), ctypes.c_void_p(points.ctypes.data), *map(ctypes.c_int64, points.shape),
            ctypes.c_void_p(tail.ctypes.data), ctypes.c_void_p(value.ctypes.data), ctypes.byref(out))
    keep = (mixture, points, tail)

    def call(keep: Any = keep) -> int:
        return int(loaded.gmm_grad(*args))
    return call, value, bars


def seconds(call: Callable[[], Any], times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--no-libmvec", action="store_true")
    options = parser.parse_args()
    jitted = jit(gmm_objective, grad=True)
    with tempfile.TemporaryDirectory() as folder:
        loaded = library(Path(folder), libmvec=not options.no_libmvec)
        for size in SIZES:
            problem = load_adbench(Path(options.data) / f"adbench/gmm/gmm_{size}.txt")
            call, value, bars = caller(loaded, *problem)
            assert call() == 0
            expected = jitted.value_and_grad(*problem)
            equal = value[0] == expected[0] and all(np.array_equal(a, b) for a, b in zip(bars, expected[1]))
            far = max(float(np.max(np.abs(a - b) / (1e-300 + np.max(np.abs(b))))) for a, b in zip(bars, expected[1]))
            times = max(2, int(0.1 / seconds(call, 2)))
            in_memory = partial(jitted.value_and_grad, *problem)
            pairs = [(seconds(call, times), seconds(in_memory, times)) for _ in range(25)]
            ratio = statistics.median(ours / jits for ours, jits in pairs)
            print(f"{size}: the JIT's digits: {equal} (difference {far:.1e}); "
                  f"{1e3 * min(a for a, _ in pairs):.3f} ms, JIT {1e3 * min(b for _, b in pairs):.3f} ms, "
                  f"median ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
