"""Shared code of the three programs: updates, the training loop with its progress bar, the final table and plot."""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from jitad import jit

Floats = NDArray[Any]
Params = TypeVar("Params", bound=tuple[Any, ...])          # a NamedTuple of arrays


def momentum(params: Params, gradient: Params, velocity: Params, rate: float,
             decay: float = 0.9, longest: float = 1.0) -> tuple[Params, Params]:
    """Gradient descent with momentum: (new parameters, new velocity); a longer gradient is shortened to ``longest``."""
    length = math.sqrt(sum(float(np.sum(g * g)) for g in gradient))
    rate *= min(1.0, longest / length)
    velocity = type(params)(*(decay * v - rate * g for v, g in zip(velocity, gradient)))
    return type(params)(*(p + v for p, v in zip(params, velocity))), velocity


def adagrad_update(p: Floats, g: Floats, m: Floats, rate: float, clip: float) -> tuple[Floats, Floats]:
    """One array's share of ``adagrad``: (new parameters, new sums of squares)."""
    g = np.clip(g, -clip, clip)
    m = m + g * g
    return p - rate * g / (np.sqrt(m) + 1e-8), m


@jit
def adagrad(params: Params, gradient: Params, memory: Params, rate: float,
            clip: float = math.inf) -> tuple[Params, Params]:
    """One Adagrad step: (new parameters, new memory); ``memory`` holds the sums of squares."""
    pairs = [adagrad_update(p, g, m, rate, clip) for p, g, m in zip(params, gradient, memory)]
    return type(params)(*[p for p, _ in pairs]), type(params)(*[m for _, m in pairs])


@dataclass(frozen=True)
class Value:
    """Seconds of one evaluation of the loss, without its gradient: in plain Python and NumPy, and compiled."""

    python: float
    compiled: float
    part: bool              # measured on a part of the data and extrapolated


@dataclass(frozen=True)
class Run:
    name: str
    what: str
    losses: list[float]
    first_call: float       # seconds, compilation included
    step: float             # median seconds of the later steps
    total: float
    value: Value


def compare(loss: Any, *arguments: Any, scale: float = 1.0) -> Value:
    """Time a compiled function and the same code uncompiled; ``scale`` is the whole work over that of the arguments."""
    loss(*arguments)
    return Value(best(lambda: loss.py_func(*arguments)) * scale, best(lambda: loss(*arguments)) * scale, scale != 1)


def best(evaluate: Callable[[], Any], rounds: int = 5) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        evaluate()
        times.append(time.perf_counter() - start)
    return min(times)


def train(name: str, what: str, steps: int, step: Callable[[int], float], value: Value) -> Run:
    """Call ``step(i)``, which yields the loss, ``steps`` times under a progress bar."""
    losses: list[float] = []
    times: list[float] = []
    columns = (TextColumn("{task.description:>9}"), BarColumn(), TextColumn("{task.completed}/{task.total}"),
               TextColumn("loss {task.fields[loss]:.4f}"), TimeRemainingColumn(elapsed_when_finished=True))
    with Progress(*columns, console=Console(width=100), refresh_per_second=4) as progress:
        task = progress.add_task(name, total=steps, loss=float("nan"))
        for i in range(steps):
            start = time.perf_counter()
            losses.append(float(step(i)))
            times.append(time.perf_counter() - start)
            progress.update(task, advance=1, loss=float(np.mean(losses[-100:])))
    later = times[1:] or times
    return Run(name, what, losses, times[0], float(np.median(later)), sum(times), value)


def smooth(losses: Sequence[float]) -> np.ndarray:
    """A running mean over a fiftieth of the curve."""
    width = max(1, len(losses) // 50)
    return np.convolve(losses, np.ones(width) / width, mode="valid")


def readable(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f} ms" if seconds < 1 else f"{seconds:,.2f} s"


def closing_table(runs: Sequence[Run]) -> Table:
    table = Table(title="A step is value, gradient and update; the last three columns compare the value alone",
                  title_justify="left")
    for heading in ("program", "data", "loss", "first call", "one step", "all steps", "plain Python", "compiled", ""):
        table.add_column(heading, justify="left" if heading in ("program", "data") else "right")
    for r in runs:
        curve, v, note = smooth(r.losses), r.value, "*" if r.value.part else ""
        table.add_row(r.name, r.what, f"{curve[0]:.3f} → {curve[-1]:.3f}", readable(r.first_call), readable(r.step),
                      readable(r.total), readable(v.python) + note, readable(v.compiled) + note,
                      f"{v.python / v.compiled:,.1f}×")
    if any(r.value.part for r in runs):
        table.caption = "* measured on a part of the data and extrapolated to all of it"
        table.caption_justify = "left"
    return table


def plot(runs: Sequence[Run], path: Path) -> None:
    """The loss curves, one panel a program."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4 * len(runs), 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    for i, r in enumerate(runs):
        axes = figure.add_subplot(1, len(runs), i + 1)
        axes.plot(r.losses, alpha=0.25, linewidth=0.7, label="each step")
        curve = smooth(r.losses)
        first = len(r.losses) - len(curve)
        axes.plot(np.arange(len(curve)) + first, curve, linewidth=1.4, label=f"mean of {first + 1}")
        axes.legend(fontsize=8, frameon=False)
        axes.set(title=f"{r.name}: {r.what}", xlabel="step", ylabel="loss")
        axes.title.set_fontsize(8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def close(runs: Sequence[Run], path: Path) -> None:
    """Print the table and save the plot."""
    console = Console(width=150)
    console.print(closing_table(runs))
    plot(runs, path)
    console.print(f"loss curves: {path}")


def cli(*programs: Callable[..., Run], png: str | None = None) -> list[Run]:
    """Run the programs with the options of the command line, then close."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, help="a folder with adbench/, text/ and sst/, used instead")
    parser.add_argument("--steps", type=int, help="training steps, instead of the default")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the plot goes")
    args = parser.parse_args()
    options = {} if args.steps is None else {"steps": args.steps}
    runs = [program(data=args.data, **options) for program in programs]
    close(runs, args.out / (png or f"{runs[0].name}.png"))
    return runs
