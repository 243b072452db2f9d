"""Costs of gradients: time and saved memory by program length, time by number of inputs.

``python -m bench.compiler.complexity`` measures compiled code, prints each slope of cost against size on logarithmic
scales (fitted to the last two decades), and draws ``docs/_static/complexity.png``.  The test
``tests/project/test_complexity.py`` counts the same quantities.
"""

from __future__ import annotations

import argparse
import functools
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jitad.lowering.jit.invoke import Compiled

from bench import pictures
from bench.case import Bench, Case
from bench.measure import calibrated
from jitad import jit, pipeline, value_and_grad
from jitad.calling.signature import signature
from jitad.compiler import traced
from jitad.frontend.captured.options import Options

TITLE = "Cost of gradients against length and inputs"
OUT = Path(__file__).parent.parent.parent / "docs" / "_static"


# --- the programs -----------------------------------------------------------------------------------

def counted(s: Any, w: Any, n: int) -> Any:
    for _ in range(n):
        s = math.sin(s * w) + w
    return s


def uncounted(s: Any, w: Any, n: int) -> Any:
    left = 1.0 * n
    while left > 0.5:
        s, left = math.sin(s * w) + w, left - 1.0
    return s


def recursive(s: Any, w: Any, n: int) -> Any:
    return s if n == 0 else math.sin(recursive(s, w, n - 1) * w) + w


def updates(s: Any, w: Any, n: int) -> Any:
    """Updates in place of an array of a hundred elements."""
    a = np.full(100, s)
    for i in range(n):
        a[i % 100] = math.sin(a[(i * 7 + 3) % 100] * w) + w
    return a.sum()


def reduction(s: Any, w: Any, n: int) -> Any:
    total = 0.0
    for i in range(n):
        total += math.tanh(w * i + s)
    return total


def elementwise(x: Any) -> Any:
    return np.sum(np.sin(x) * x)


def neighbours(x: Any) -> Any:
    total = 0.0
    for i in range(1, len(x)):
        total += math.tanh(x[i] - x[i - 1]) * x[i]
    return total


def smoothed(x: Any) -> Any:
    y = x.copy()
    for _ in range(3):
        y[1:-1] += 0.1 * (y[:-2] - 2.0 * y[1:-1] + y[2:])
    return y @ y


def factored(a: Any) -> Any:
    """A factorisation in place, by slices."""
    l = a.copy()
    for k in range(len(l)):
        l[k, k] = math.sqrt(l[k, k])
        l[k + 1:, k] /= l[k, k]
        for j in range(k + 1, len(l)):
            l[j:, j] -= l[j:, k] * l[j, k]
    return np.sum(np.log(np.diag(l)))


def pairs(x: Any) -> Any:
    """A sum over pairs of points."""
    energy = 0.0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            d = x[i] - x[j]
            energy += 1.0 / math.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01)
    return energy


def short_loops(x: Any, depth: int) -> Any:
    """Recursion with a short loop in each call."""
    t = 0.0
    for i in range(4):
        t = math.sin(t * x[i] + x[i])
    return t if depth == 0 else t + math.cos(short_loops(x, depth - 1) * t)


# --- measuring --------------------------------------------------------------------------------------

@dataclass
class Curve:
    """Costs by size, and the theoretical slope."""

    label: str
    expected: float
    sizes: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)

    def add(self, size: int, cost: float) -> None:
        self.sizes.append(size)
        self.costs.append(cost)

    def slope(self) -> float:
        """The slope on logarithmic scales, by least squares over the last two decades; 0 without any cost."""
        if not any(self.costs):
            return 0.0
        last = [(n, c) for n, c in zip(self.sizes, self.costs) if n >= self.sizes[-1] / 100]
        sizes, costs = np.log(np.array(last, dtype=float)).T
        return float(np.polyfit(sizes, costs, 1)[0])


def seconds(programs: Sequence[Callable[[], Any]], rounds: int) -> list[float]:
    """Median processor time of one call of each; they alternate."""
    counts, samples = [calibrated(f, 0.01) for f in programs], []
    for _ in range(rounds):
        times = []
        for f, count in zip(programs, counts):
            start = time.thread_time()
            for _ in range(count):
                f()
            times.append((time.thread_time() - start) / count)
        samples.append(times)
    return [float(t) for t in np.median(samples, axis=0)]


def kept(fun: Callable[..., Any], argnums: Any, options: Options, calls: Sequence[tuple[Any, ...]]) -> list[int]:
    """The peak number of bytes in use by compiled value and gradient, for each call."""
    sig, _ = signature(calls[0], {}, frozenset(), False)
    program = traced(value_and_grad(fun, argnums), sig, options)
    pipeline.run(program.module, [program.root])
    compiled, peaks = Compiled(program.module, program.root), []
    for args in calls:
        compiled(*args)
        peaks.append(compiled.peak)
    return peaks


STACK = 1 << 28
"""Bytes, for a recursion depth of 10⁵: the usual eight megabytes end at 128,000."""

STEPS: list[tuple[str, Callable[..., Any], str | None, int, float]] = [
    # label, program, jit(checkpoint=…), most steps as a power of ten, slope of the memory
    ("a loop over a range", counted, None, 7, 1.0),
    ("a while loop", uncounted, None, 7, 1.0),
    ("recursion", recursive, None, 5, 1.0),
    ("updates in place", updates, None, 7, 1.0),
    ("a loop, checkpoint=True", counted, "sqrt", 7, 0.5),
    ("a reduction", reduction, None, 7, 0.0),
]
INPUTS: list[tuple[str, Callable[..., Any]]] = [
    ("np.sum(np.sin(x) * x)", elementwise), ("a loop over neighbours", neighbours), ("smoothing in place", smoothed),
]


def positive(n: int) -> Any:
    b = np.random.default_rng(n).normal(size=(n, n))
    return b @ b.T / n + 2.0 * np.eye(n)


KEPT: list[tuple[str, Callable[..., Any], list[tuple[int, tuple[Any, ...]]]]] = [
    # label, program, sizes (numbers of the input, or calls) with arguments
    ("a factorisation by slices", factored, [(n * n, (positive(n),)) for n in (25, 50, 100, 200, 400)]),
    ("a sum over pairs", pairs, [(3 * n, (np.sin(np.arange(3.0 * n)).reshape(n, 3),)) for n in (30, 100, 300, 1000)]),
    ("recursion, a loop of four", short_loops, [(d, (np.linspace(0.1, 0.4, 4), d)) for d in (100, 1000, 10000)]),
]


def memory_of_inputs() -> list[Curve]:
    """The bytes kept by programs whose work grows faster than their input, or in many short loops."""
    curves = []
    for label, fun, sizes in KEPT:
        curve = Curve(label, 1.0)
        for (size, _), peak in zip(sizes, kept(fun, 0, Options(), [args for _, args in sizes])):
            curve.add(size, peak)
        curves.append(curve)
    return curves


def against_steps(most: int, rounds: int) -> tuple[list[Curve], list[Curve]]:
    times, memory = [], []
    for label, fun, checkpoint, power, expected in STEPS:
        sizes = [10 ** k for k in range(2, min(power, most) + 1)]
        run = jit(fun, grad=("s", "w"), checkpoint=checkpoint)
        seconds_, bytes_ = Curve(label, 1.0), Curve(label, expected)
        peaks = kept(fun, (0, 1), Options(checkpoint=checkpoint), [(0.3, 1.1, n) for n in sizes])
        for n, peak in zip(sizes, peaks):
            seconds_.add(n, seconds([functools.partial(run.value_and_grad, 0.3, 1.1, n)], rounds)[0])
            bytes_.add(n, peak)
        times.append(seconds_)
        memory.append(bytes_)
    return times, memory


def against_inputs(most: int, rounds: int) -> list[Curve]:
    """The time of the gradient over that of the value."""
    curves = []
    for label, fun in INPUTS:
        run, curve = jit(fun, grad=True), Curve(label, 0.0)
        for n in (10 ** k for k in range(0 if fun is not smoothed else 1, most)):
            x = np.sin(np.arange(n) + 1.0)
            value, both = seconds([functools.partial(run, x), functools.partial(run.value_and_grad, x)], rounds)
            curve.add(n, both / value)
        curves.append(curve)
    return curves


# --- plots ------------------------------------------------------------------------------------------

def table(panel: dict[str, Any]) -> None:
    print(f"{panel['title']}, by {panel['x']}")
    for c in panel["curves"]:
        print(f"  {c['label']:26} slope {c['slope']:5.2f}; at {c['sizes'][-1]:,}: {c['costs'][-1]:.4g}")


def draw(panels: list[dict[str, Any]], file: Path) -> None:
    with pictures.scheme("light"):
        figure = pictures.panels(panels)
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=100)
    print(file)


def panel(title: str, x: str, curves: Sequence[Curve], **more: Any) -> dict[str, Any]:
    """Curves as plain data."""
    return {"title": title, "x": x, **more, "curves": [
        {"label": c.label, "sizes": c.sizes, "costs": c.costs, "slope": c.slope()} for c in curves]}


def panels(most: int, rounds: int) -> list[dict[str, Any]]:
    """All measurements of this module; steps go up to ten to the ``most``, inputs to one power less."""
    before = threading.stack_size(STACK)
    try:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_panels, most, rounds).result()
    finally:
        threading.stack_size(before)


def _panels(most: int, rounds: int) -> list[dict[str, Any]]:
    times, memory = against_steps(most, rounds)
    return [panel("value and gradient, seconds", "steps", times),
            panel("kept, bytes (0 drawn as 1)", "steps", memory, range=(1.0, 1e9)),
            panel("gradient with value over value, time", "inputs", against_inputs(most, rounds), range=(0.5, 20)),
            panel("kept, bytes", "numbers of the input, or calls", memory_of_inputs())]


def cases(bench: Bench) -> Iterator[Case]:
    """No cases: the curves are ``panels``."""
    return iter(())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=7, help="steps go up to ten to this, inputs to one power less")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    found = panels(options.most, options.rounds)
    for one in found:
        table(one)
    draw(found, options.out / "complexity.png")


if __name__ == "__main__":
    main()
