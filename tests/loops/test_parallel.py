"""``jit(parallel=True)``: loops that run on several threads, equality with one thread, and errors."""

from __future__ import annotations

import ctypes
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jitad.lowering.jit.invoke import invoke
from jitad.lowering.llvm import context
from jitad.lowering.threads import parallel_nests

from jitad import check_grads, grad, jit, vmap
from jitad.ir.evaluate.interp import Interpreter
from jitad.passes.parallel import outline
from tests.kernels.test_lowering_arrays_random import COLUMNS, ROWS, programs
from tests.several_threads import little_work

RNG = np.random.default_rng(0)
X = RNG.integers(-9, 9, 50).astype(float)          # whole numbers: their sums are exact in any order
K = RNG.integers(0, 5, 50)


def use_threads(count: int) -> None:
    for known, _ in context._all:
        known.threads, known.workers = count, 0


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three threads, even for little work."""
    monkeypatch.setattr(context, "threads", lambda: 3)
    use_threads(3)
    with little_work():
        yield
    use_threads(1)


def report(f: Callable[..., Any], *args: Any, grad: Any = False) -> list[str]:
    """The report on each loop."""
    jitted = jit(f, grad=grad, parallel=True)
    text: str = (jitted if grad is False else jitted.grad).inspect("parallel", *args)
    return [line.split(": ", 1)[1] for line in text.splitlines()]


def same(x: Any, y: Any) -> bool:
    return bool(np.array_equal(x, y, equal_nan=True))


# --- programs whose loops are independent ---------------------------------------------------------

def squares(x: Any, k: Any) -> Any:
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = x[i] * x[i] + x[k[i] % len(x)]
    return out


def neighbours(x: Any, k: Any) -> Any:
    """Reads elements that no iteration writes; some iterations write nothing."""
    out = np.zeros(len(x))
    for i in range(1, len(x) - 1):
        if x[i] > 0:
            out[i] = x[i - 1] + x[i + 1]
    return out


def in_place(x: Any, k: Any) -> Any:
    out = x.copy()
    for i in range(len(x)):
        out[i] = out[i] * 2 + k[i]
        if out[i] > 3:
            out[i] -= 1
    return out


def pairs(x: Any, k: Any) -> Any:
    """Two elements per iteration."""
    out = np.zeros(2 * len(x))
    for i in range(len(x)):
        out[2 * i] = x[i]
        out[2 * i + 1] = -x[i]
    return out


def backwards(x: Any, k: Any) -> Any:
    n = len(x)
    out = np.zeros(n)
    for i in range(n - 1, -1, -1):
        out[n - 1 - i] = x[i]
    return out


def table(x: Any, k: Any) -> Any:
    out = np.zeros((len(x), 4))
    for i in range(len(x)):
        for j in range(4):
            out[i, j] = x[i] * j
        out[i] += k[i]
    return out


def columns(x: Any, k: Any) -> Any:
    out = np.zeros((3, len(x)))
    for i in range(len(x)):
        out[0, i] = x[i]
        out[2, i] = out[0, i] + 1
    return out


def scratch(x: Any, k: Any) -> Any:
    """Each iteration has an array of its own."""
    out = np.zeros(len(x))
    for i in range(len(x)):
        own = np.zeros(5)
        own[k[i]] = x[i]
        own[0] += 1
        out[i] = own.sum()
    return out


def reductions(x: Any, k: Any) -> Any:
    s, least, most, count, every = 0.0, 100.0, -100.0, 0, True
    for i in range(len(x)):
        s -= x[i]
        if x[i] > 2:
            s += 1
        least = min(least, x[i])
        most = max(most, x[i])
        count += k[i]
        every = every & (x[i] < 8)
    return s, least, most, count, every


def with_nan(x: Any, k: Any) -> Any:
    """A NaN is not the best value, unless it comes first."""
    least, most = 100.0, -100.0
    for i in range(len(x)):
        v = x[i] if k[i] != 2 else math.nan
        least = min(least, v)
        most = max(most, v)
    return least, most


def last_if_none(x: Any, k: Any) -> Any:
    """A NaN replaces the best value."""
    least = 100.0
    for i in range(len(x)):
        v = x[i] if k[i] != 2 else math.nan
        least = least if least < v else v
    return least


def product(x: Any, k: Any) -> Any:
    p = 1.0
    for i in range(len(x)):
        p *= 2.0 if x[i] > 0 else 0.5
    return p


def histogram(x: Any, k: Any) -> Any:
    bins = np.zeros(5)
    counts = np.zeros(5, np.int64)
    for i in range(len(x)):
        bins[k[i]] += x[i]
        counts[k[i]] += 1
    return bins, counts


def small_bins(x: Any, k: Any) -> Any:
    """An array that may live in the stack frame."""
    bins = np.array([1.0, 2.0, 3.0])
    for i in range(len(x)):
        bins[k[i] % 3] += x[i]
    return bins


def left_behind(x: Any, k: Any) -> Any:
    s, last = 0.0, 0.0
    for i in range(len(x)):
        last = x[i] * 2
        s += last
    return s, last


def counter_left_behind(x: Any, k: Any) -> Any:
    s, at, last = 0.0, -1, -1
    for i in range(len(x)):
        s += x[i]
        at, last = i, k[i] - i
    return s, at, last


def recursive(n: Any) -> Any:
    return 1.0 if n < 2 else recursive(n - 1) + recursive(n - 2)


def calls(x: Any, k: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = recursive(k[i] + 3)
    return out


def halves(x: Any) -> Any:
    """The number of times that ``x`` can be halved."""
    n = 0
    while abs(x) > 0.1:
        x, n = x / 2, n + 1
    return x + n


def mapped(x: Any, k: Any) -> Any:
    return vmap(halves)(x)


def after_time(x: Any, k: Any) -> Any:
    """A serial loop around an independent one."""
    u = x.copy()
    for _ in range(3):
        v = np.zeros(len(u))
        for i in range(len(u)):
            v[i] = u[i] + u[(i + 1) % len(u)]
        u = v
    return u


PROGRAMS = [squares, neighbours, in_place, pairs, backwards, table, columns, scratch, reductions, product, histogram,
            small_bins, left_behind, counter_left_behind, calls, mapped, after_time]


@pytest.mark.long
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_the_same_as_one_thread(f: Callable[..., Any]) -> None:
    said = report(f, X, K)
    assert any("several threads" in line for line in said), said
    alone, several = jit(f), jit(f, parallel=True)
    for n in (50, 7, 3, 2, 1, 0):
        expected, got = alone(X[:n], K[:n]), several(X[:n], K[:n])
        for e, g in zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]:
            assert same(e, g), (n, e, g)


@pytest.mark.slow
def test_sums_of_nothing_and_of_minus_zero() -> None:
    def f(x: Any, k: Any) -> Any:
        s, bins, rows = -0.0, np.full(5, -0.0), np.full((3, 2), -0.0, np.float32)
        for i in range(len(x)):
            s += x[i]
            bins[k[i]] += x[i]
            rows += np.float32(x[i])
        return s, bins, rows
    assert report(f, X, K)[0].startswith("several threads")
    for x in (np.full(50, -0.0), np.full(50, 0.0), np.full(1, -0.0)):
        for got, expected in zip(jit(f, parallel=True)(x, K[:len(x)] % 4), f(x, K[:len(x)] % 4)):
            np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))

    def wide(x: Any, n: Any) -> Any:
        total = np.zeros(n)
        for i in range(len(x)):
            total += x[i]
        return total
    assert report(wide, X, 3)[0] == "several threads: total: add"
    several = jit(wide, parallel=True)
    for n in (0, 1, 2, 17):
        assert same(several(X, n), wide(X, n))


@pytest.mark.slow
def test_the_best_where_some_are_no_number() -> None:
    for n in (50, 7, 3):
        assert same(jit(with_nan, parallel=True)(X[:n], K[:n]), with_nan(X[:n], K[:n]))
        assert same(jit(last_if_none, parallel=True)(X[:n], K[:n]), last_if_none(X[:n], K[:n]))
    assert report(with_nan, X, K) == ["several threads: least: lt, most: gt"]


# --- loops that stay as they are ------------------------------------------------------------------

def prefix(x: Any, k: Any) -> Any:
    out = x.copy()
    for i in range(1, len(x)):
        out[i] += out[i - 1]
    return out


def scattered(x: Any, k: Any) -> Any:
    out = np.zeros(5)
    for i in range(len(x)):
        out[k[i]] = x[i]
    return out


def overlapping(x: Any, k: Any) -> Any:
    out = np.zeros(2 * len(x) + 2)
    for i in range(len(x)):
        out[2 * i] = x[i]
        out[2 * i + 2] = -x[i]
    return out


def crossing(x: Any, k: Any) -> Any:
    """Rows and columns of one table."""
    out = np.zeros((len(x), len(x)))
    for i in range(len(x)):
        out[i, 0] = x[i]
        out[0, i] = 1.0
    return out


def running(x: Any, k: Any) -> Any:
    """A sum that is read in each iteration."""
    out, s = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        s += x[i]
        out[i] = s
    return out


def restarting(x: Any, k: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        if x[i] > 5:
            s = 0.0
        s += x[i]
    return s


def one_before(x: Any, k: Any) -> Any:
    s, before = 0.0, 0.0
    for i in range(len(x)):
        before = s
        s += x[i]
    return before, s


def improving(x: Any, k: Any) -> Any:
    """True if the last value was the best."""
    best, better = 100.0, False
    for i in range(len(x)):
        better = x[i] < best
        best = x[i] if better else best
    return best, better


def first_large(x: Any, k: Any) -> Any:
    for i in range(len(x)):
        if x[i] > 6:
            return i
    return -1


def doubling(x: Any, k: Any) -> Any:
    s = 1.0
    for i in range(len(x)):
        s += s * x[i] * 0.0 + 1.0
    return s


def swapping(x: Any, k: Any) -> Any:
    a, b = x.copy(), x * 2
    for i in range(len(x)):
        a, b = b, a
        a[i] = 3.0
    return a, b


def looked_at(x: Any, k: Any) -> Any:
    out = x.copy()
    for i in range(len(x)):
        out[i] = out.sum() % 8 - 3                 # without the remainder sums double, and are soon not exact
    return out


def through_other_rows(x: Any, k: Any) -> Any:
    n = len(x)
    out = np.zeros((n, 3))
    for i in range(n):
        out[i, 0] = x[i]
        out[i, 1] = out[n - 1 - i, 0]
    return out


@pytest.mark.parametrize("f", [prefix, scattered, overlapping, crossing, running, restarting, one_before,
                               improving, first_large, doubling,
                               swapping, looked_at, through_other_rows], ids=lambda f: f.__name__)
def test_dependent_iterations_stay_in_order(f: Callable[..., Any]) -> None:
    said = report(f, X, K)
    assert said and all(line.startswith("one thread: ") for line in said), said
    expected, got = jit(f)(X, K), jit(f, parallel=True)(X, K)
    assert np.max(np.abs(expected)) < 2 ** 53, "sums in another order may differ"
    assert same(expected, got) and same(f(X, K), got)


def test_the_report_names_the_line_and_the_reason() -> None:
    line = prefix.__code__.co_firstlineno
    text = jit(prefix, parallel=True).inspect("parallel", X, K)
    assert f"test_parallel.py:{line + 2}: one thread: several iterations may use the same element of out" in text
    assert f"line {line + 3}" in text


# --- random loops ---------------------------------------------------------------------------------

INDICES = ["i", "i + 1", "n - 1 - i", "2 * i", "2 * i + 1", "k[i]", "i % 7", "i // 2"]


def random_program(seed: int) -> str:
    """A loop that reads and writes two arrays, a table and a sum by random indices."""
    rng = np.random.default_rng(seed)

    def index() -> str:
        return str(rng.choice(INDICES, p=[0.45, *[0.55 / 7] * 7]))

    def term() -> str:
        at = index()
        return str(rng.choice([f"x[{at}]", f"a[{at}]", f"t[{at}, {rng.integers(3)}]", f"k[{at}]", "i", "2"]))
    own = [index() for _ in range(2)]
    lines = []
    for _ in range(rng.integers(1, 4)):
        at, other = str(rng.choice(own)), f"{term()} - {term()}"
        lines.append(str(rng.choice([f"a[{at}] = {other}", f"a[{at}] += {other}", f"t[{at}, 1] = {other}",
                                     f"t[{at}] = {other}", f"s += {other}", f"b[{index()}] += {other}",
                                     f"if x[i] > 0:\n            a[{at}] = {other}"])))
    body = "".join(f"        {line}\n" for line in lines)
    return ("def f(x, k):\n    n = len(k) // 2 - 1\n    a, b, t, s = np.zeros(2 * n + 2), np.zeros(2 * n + 2), "
            f"np.zeros((2 * n + 2, 3)), 0.0\n    for i in range(n):\n{body}    return a, b, t, s\n")


@pytest.mark.slow
def test_random_loops(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_OPT", "0")
    x, k, cut = np.arange(1.0, 60.0), RNG.integers(0, 25, 52), 0
    for seed in range(30):
        file = tmp_path / f"program{seed}.py"
        file.write_text(random_program(seed))
        space: dict[str, Any] = {"np": np}
        exec(compile(file.read_text(), str(file), "exec"), space)
        several = jit(space["f"], parallel=True)
        got = several(x, k)
        for e, g in zip(space["f"](x, k), got):
            assert same(e, g), file.read_text() + several.inspect("parallel")
        cut += "several threads" in several.inspect("parallel")
    assert cut > 6


# --- array expressions ----------------------------------------------------------------------------

def shifted(x: Any, k: Any) -> Any:
    """Slices of an array into itself."""
    out = x.copy()
    out[1:] = out[:-1]
    out[:-1] += 2 * out[1:]
    return out[::-1] * 2


def tabled(x: Any, k: Any) -> Any:
    t = x[:, None] * k[None, :] + 1
    return t, t.sum(0), t.sum(1), t.max(), t.min(1), (t > 3).any(), (t > 3).all(1), t.sum()


def gathered(x: Any, k: Any) -> Any:
    out = np.zeros(5)
    np.add.at(out, k, x)
    out[k] = x
    return out, x[k] + x, np.cumsum(x)


def fused(x: Any, k: Any) -> Any:
    a = x * x + k
    b = np.where(a > 5, a - x, a)
    return a, b, (a * b).sum(), b.max(), k.sum(), np.abs(x).prod()


@pytest.mark.parametrize("f", [shifted, tabled, gathered, fused], ids=lambda f: f.__name__)
def test_array_expressions(f: Callable[..., Any]) -> None:
    several = jit(f, parallel=True)
    for n in (50, 7, 5):
        expected, got = f(X[:n], K[:n] % n), several(X[:n], K[:n] % n)
        for e, g in zip(expected, got) if isinstance(expected, tuple) else [(expected, got)]:
            assert same(e, g), (n, e, g)
    if f is not gathered:
        assert "jitad.walk" in several.inspect("llvm")


def test_sizes_that_are_empty_or_no_number() -> None:
    several = jit(lambda x: (x * 2, (x + 1).sum(), (x > 0).all()), parallel=True)
    assert len(several(np.empty(0))[0]) == 0 and several(np.empty(0))[1:] == (0.0, True)
    x = np.ones(9)
    x[4] = np.nan
    most = jit(lambda x: ((x * 2).max(), (x - 1).min()), parallel=True)
    assert all(map(math.isnan, most(x)))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(0, 40, 2))
def test_random_array_programs(seed: int) -> None:
    module = programs(seed)
    if module is None:
        pytest.skip("no legal program for this seed")
    module.parallel = True
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=ROWS), rng.normal(size=COLUMNS), rng.normal(size=(ROWS, COLUMNS)),
            rng.integers(0, ROWS, ROWS), 0.7]
    want = Interpreter(module).run("f", args)
    for got, w in zip(invoke(module, "f", args), want, strict=True):
        np.testing.assert_allclose(got, w, rtol=1e-9, atol=1e-9)


# --- derivatives ----------------------------------------------------------------------------------

def loss(w: Any, x: Any, k: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        total += (math.tanh(w[0] * x[i] + w[1] * w[k[i]]) - 0.1) ** 2
    return total


def chained(w: Any, x: Any, k: Any) -> Any:
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i] = math.sin(w[k[i]] * x[i])
    total = 0.0
    for i in range(len(x)):
        total += out[i] * out[i]
    return total


def forces(w: Any, x: Any, k: Any) -> Any:
    """Pairs, each once: the inner loop's length varies."""
    e = 0.0
    for i in range(len(w)):
        for j in range(i + 1, len(w)):
            e += 1.0 / (1.0 + (w[i] - w[j]) ** 2)
    return e


def in_arrays(w: Any, x: Any, k: Any) -> Any:
    return (np.tanh(x * w[0] + w[k]) ** 2 + np.exp(-x)).sum() * w.sum()


def mapped_loss(w: Any, x: Any, k: Any) -> Any:
    return vmap(lambda v: math.exp(-v * v * w[0]))(x).sum() * w[1]


def rows_first(w: Any, x: Any, k: Any) -> Any:
    """The values that the reverse sweep needs of an iteration have no fixed size, and are needed before it."""
    e = np.zeros(len(w))
    for i in range(len(w)):
        for j in range(i + 1, len(w)):
            e[i] += 1.0 / (1.0 + (w[i] - w[j]) ** 2)
    total = 0.0
    for i in range(len(w)):
        total += e[i] * e[i] * w[0]
    return total


def newton(m: Any, e: Any) -> Any:
    x, step = m, 1.0
    while abs(step) > 1e-12:
        step = (x - e * math.sin(x) - m) / (1 - e * math.cos(x))
        x = x - step
    return x


def mapped_newton(w: Any, x: Any, k: Any) -> Any:
    solved = vmap(newton)(x + 2, 0.5 * x * w[0])
    return (solved * solved * x).sum()


W = RNG.uniform(0.2, 1.0, 5)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("f", [loss, chained, forces, in_arrays, mapped_loss, rows_first, mapped_newton],
                         ids=lambda f: f.__name__)
def test_derivatives(f: Callable[..., Any]) -> None:
    x = RNG.uniform(-1, 1, 30)
    said = report(f, W, x, K[:30], grad=0)
    assert f is in_arrays or any("several threads" in line for line in said), said
    assert not any("on a stack" in line for line in said), said
    alone, several = jit(f, grad=(0, 1)), jit(f, grad=(0, 1), parallel=True)
    (value, bars), (v, bs) = alone.value_and_grad(W, x, K[:30]), several.value_and_grad(W, x, K[:30])
    assert math.isclose(value, v, rel_tol=1e-12)
    for e, g in zip(bars, bs):
        np.testing.assert_allclose(g, e, rtol=1e-11, atol=1e-13)
    check_grads(jit(lambda w: f(w, x, K[:30]), parallel=True), (W,), order=2)


@pytest.mark.slow
def test_a_regular_nest_saves_in_rows() -> None:
    """The values of an inner loop of the same length everywhere: no loop runs twice, and no stack orders iterations."""
    def paths(w: Any, x: Any, m: int) -> Any:
        total = 0.0
        for i in range(len(x)):
            s = x[i]
            for j in range(m):
                s = math.sin(s) * w[j] + s
            total += s
        return total * total * w[0]
    said = report(paths, W, X[:30], 5, grad=0)
    assert sum("several threads" in line for line in said) == 2, said
    assert any("total: add, frames: each" in line for line in said), said
    alone, several = jit(paths, grad=(0, 1)), jit(paths, grad=(0, 1), parallel=True)
    for n, m in ((30, 5), (30, 1), (30, 0), (1, 5), (0, 5)):
        (value, bars), (v, bs) = alone.value_and_grad(W, X[:n], m), several.value_and_grad(W, X[:n], m)
        for e, g in zip((value, *bars), (v, *bs), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-11, atol=1e-13)


def shares(w: Any, x: Any, m: int) -> Any:
    """Each iteration makes an array, and needs it twice: filled in a loop, as a whole, or of two dimensions."""
    bins = np.zeros(m)
    for i in range(len(x)):
        part = np.zeros(m)
        total = 0.1
        for k in range(m):
            part[k] = math.exp(-(x[i] - w[k]) ** 2)
            total += part[k]
        for k in range(m):
            bins[k] += part[k] / total
    return (bins * bins).sum() + w[0] * bins.sum()


def shares_by_arrays(w: Any, x: Any, m: int) -> Any:
    bins = np.zeros(m)
    for i in range(len(x)):
        part = np.exp(-(x[i] - w[:m]) ** 2)
        table = np.outer(part, np.sin(part))
        bins += part / (part.sum() + 0.1) + table.sum(axis=0) * table[:, 0]
    return (bins * bins).sum() + w[0] * bins.sum()


def shares_updated(w: Any, x: Any, m: int) -> Any:
    """The array that is saved is overwritten behind."""
    bins = np.zeros(m)
    for i in range(len(x)):
        part = np.exp(-(x[i] - w[:m]) ** 2)
        total = (part * part).sum() + 0.1
        for k in range(m):
            part[k] = math.sin(part[k] / total)
        bins += part * part
    return (bins * bins).sum() + w[0] * bins.sum()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", [shares, shares_by_arrays, shares_updated], ids=lambda f: f.__name__)
def test_arrays_of_iterations_are_saved_in_rows(f: Callable[..., Any]) -> None:
    said = report(f, W, X[:30], 5, grad=0)
    assert any("frames: each" in line for line in said), said
    assert not any("on a stack" in line for line in said), said
    alone, several = jit(f, grad=(0, 1)), jit(f, grad=(0, 1), parallel=True)
    for n, m in ((30, 5), (30, 1), (1, 5), (0, 5)):
        (value, bars), (v, bs) = alone.value_and_grad(W, X[:n], m), several.value_and_grad(W, X[:n], m)
        for e, g in zip((value, *bars), (v, *bs), strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-11, atol=1e-13)
    check_grads(jit(lambda w: f(w, X[:9], 5), parallel=True), (W,), order=2)


def walks(z: Any, drift: Any) -> Any:
    total = 0.0
    for i in range(len(z)):
        v = 1.0
        for t in range(z.shape[1]):
            v = v + drift * v * z[i, t]
        total += v * v
    return math.exp(-drift) * total / len(z)


@pytest.mark.slow
def test_iterations_for_lanes_are_recomputed_on_several_threads_too() -> None:
    """Saved states would be rows of arrays, to which lanes do not store: 7 times the time of one thread."""
    f = jit(walks, grad=(0, 1), parallel=True)
    z = np.random.default_rng(2).standard_normal((64, 9))
    told = str(f.value_and_grad.inspect("parallel", z, 0.1))
    assert told.count("several threads") == 1 and "frames" not in told
    value, (by_z, by_drift) = f.value_and_grad(z, 0.1)
    plain, (z_alone, drift_alone) = jit(walks, grad=(0, 1)).value_and_grad(z, 0.1)
    np.testing.assert_allclose(value, plain)
    np.testing.assert_allclose(by_z, z_alone)
    np.testing.assert_allclose(by_drift, drift_alone)


@pytest.mark.slow
def test_a_gradient_of_a_gradient() -> None:
    def slope(w: Any, x: Any, k: Any) -> Any:
        return (grad(loss)(w, x, k) ** 2).sum()
    x = RNG.uniform(-1, 1, 40)
    expected = jit(slope, grad=0).grad(W, x, K[:40])
    np.testing.assert_allclose(jit(slope, grad=0, parallel=True).grad(W, x, K[:40]), expected, rtol=1e-11)


# --- exceptions -----------------------------------------------------------------------------------

def checked(x: Any, k: Any) -> Any:
    s = 0.0
    for i in range(len(x)):
        if x[i] > 7:
            raise ValueError(f"{i} is too large")
        s += x[k[i]]
    return s


def told(x: Any, k: Any) -> Any:
    """The message has a value that the iteration computes."""
    s = 0.0
    for i in range(len(x)):
        v = x[i] * 2
        if v > 30:
            raise ValueError(f"{v} is too much")
        s += math.sqrt(v + 20)
    return s


def watched(x: Any, k: Any) -> Any:
    """Reads the state so far."""
    fine = True
    for i in range(len(x)):
        fine = fine & (x[i] < 9)
        assert fine
    return fine


def test_exceptions_and_what_is_carried() -> None:
    assert report(told, X, K) == ["several threads: s: add"] and report(checked, X, K) == ["several threads: s: add"]
    several = jit(told, parallel=True)
    assert math.isclose(several(X, K), jit(told)(X, K))
    x = X.copy()
    x[[20, 40]] = 16.0, 17.0
    with pytest.raises(ValueError, match="^32.0 is too much"):
        several(x, K)
    assert jit(watched, parallel=True)(X, K) is True
    assert report(watched, X, K)[0].startswith("one thread")


def test_the_first_failing_iteration_is_told() -> None:
    several = jit(checked, parallel=True)
    for bad in range(0, 60, 7):
        x = np.zeros(60)
        x[bad:] = 8
        with pytest.raises(ValueError, match=f"^{bad} is too large"):
            several(x, np.zeros(60, np.int64))
        k = np.zeros(60, np.int64)
        k[bad:] = 1000 + np.arange(60 - bad)
        with pytest.raises(IndexError, match="index 1000 "):
            several(np.zeros(60), k)
        assert several(np.zeros(60), np.zeros(60, np.int64)) == 0.0


def over_time(x: Any, k: Any) -> Any:
    """Loops and array operations in a serial loop, where a step may fail."""
    u, total, seen = x.copy(), 0.0, np.zeros(7)
    for t in range(4):
        v = np.zeros(len(u))
        for i in range(len(u)):
            if u[i] > 50:
                raise ValueError(f"{u[i]} at {i} in step {t}")
            v[i] = 2 * u[i] + k[i]
            seen[k[i]] += u[i]
        u = v - (v > 90) * 45
        total += (u * u).sum()
    return u, total, seen


def eliminated(x: Any) -> Any:
    """Serial loops in one another, each around a loop for threads whose time it does not change."""
    a = x.copy()
    for k in range(len(a)):
        for j in range(len(a)):
            a[k, j] *= 0.5
        for i in range(k + 1, len(a)):
            f = a[i, k]
            for j in range(k, len(a)):
                a[i, j] -= f * a[k, j]
    return a


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("enough", [0, 1 << 50], ids=["on threads", "in place"])
def test_loops_in_a_serial_loop(monkeypatch: pytest.MonkeyPatch, enough: int) -> None:
    """A run-time test decides between the threads and the loop as it is: results and exceptions are the same."""
    monkeypatch.setattr(outline, "ENOUGH", enough)
    monkeypatch.setattr(parallel_nests, "ENOUGH", enough)
    assert "several threads: seen: add, v: each" in report(over_time, X, K)
    alone, several = jit(over_time), jit(over_time, parallel=True)
    for n in (50, 7, 1, 0):
        for e, g in zip(alone(X[:n] / 8, K[:n]), several(X[:n] / 8, K[:n]), strict=True):
            assert same(e, g)
    x = np.zeros(50)
    x[[22, 40]] = 20.0, 25.0
    with pytest.raises(ValueError, match="^80.0 at 22 in step 2"):
        alone(x, K * 0)
    with pytest.raises(ValueError, match="^80.0 at 22 in step 2"):
        several(x, K * 0)
    square = np.add.outer(X[:6], X[:6] ** 2) / 100
    assert np.allclose(jit(eliminated, parallel=True)(square), eliminated(square))


@pytest.mark.slow
def test_a_share_has_iterations_for_all_lanes() -> None:
    """Fewer would have no vectors: the matrix of covariances of 24 series took six times as long on two threads."""
    def products(x: Any, n: int) -> Any:
        out = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                s = 0.0
                for t in range(len(x)):
                    s += x[t] * (i - j)
                out[i, j] = s
        return out
    several = jit(products, parallel=True)
    for n in (24, 70):
        assert same(several(X, n), products(X, n))
    assert "lanes = True" in several.inspect("optimized")


def row_told(x: Any, w: Any) -> Any:
    """In an iteration that the reverse sweep recomputes, outside the loop, for an array in it."""
    s = 0.0
    for i in range(len(x)):
        t = np.zeros(3)
        for j in range(3):
            t[j] = x[i, j] * w[j] + j
        s += (t * t).sum()
        if x[i, 0] > 10:
            raise ValueError(f"row {i} of {len(x)}")
    return s


def total_told(x: Any, w: Any) -> Any:
    """In an inner loop, with its state so far."""
    s = 0.0
    for i in range(len(x)):
        t = 0.0
        for j in range(3):
            t += x[i, j] * w[j]
            if t > 100:
                raise ValueError(f"{t} in column {j}")
        s += t * t
    return s


def bound_told(x: Any, w: Any) -> Any:
    """A value that is known before the loop, but not after it."""
    s = 0.0
    for i in range(len(x)):
        least = w[0] - 20
        s += math.sin(x[i, 0]) * w[1]
        if x[i, 0] < least or x[i, 0] > 10:
            raise ValueError(f"not above {least}")
    return s


def sides_told(x: Any, w: Any) -> Any:
    """One of three paths."""
    def never(t: Any) -> Any:
        raise ValueError(f"never {t}")
    ways = [math.sin, never, lambda t: t * t]
    s = 0.0
    for i in range(len(x)):
        t = 0.0
        for j in range(3):
            t += x[i, j] ** 2 * w[j]
        s += ways[int(x[i, 0] > 10) if x[i, 0] > 0 else 2](t) * t
    return s


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("f", [row_told, total_told, bound_told, sides_told], ids=lambda f: f.__name__)
def test_exceptions_of_iterations_that_are_run_again(f: Callable[..., Any], several: bool) -> None:
    x, w = X[:48].reshape(-1, 3).copy(), np.array([2.0, 1.0, 3.0])
    compiled = jit(f, grad=1, parallel=several)
    numeric = [(f(x, w + h) - f(x, w - h)) / 2e-6 for h in np.eye(3) * 1e-6]
    np.testing.assert_allclose(compiled.grad(x, w), numeric, rtol=1e-6, atol=1e-5)
    x[7], x[12] = 1e3, 2e3
    with pytest.raises(ValueError) as wanted:
        f(x, w)
    for run in (compiled.grad, compiled.value_and_grad):
        with pytest.raises(ValueError) as got:
            run(x, w)
        assert str(got.value).partition(" ")[2] == str(wanted.value).partition(" ")[2]


@pytest.mark.slow
def test_recursion_and_memory_run_out_on_any_thread() -> None:
    def deep(n: Any) -> Any:
        return 0.0 if n == 0 else 1.0 + deep(n - 1) * 1.5

    def runs(x: Any, depth: Any) -> Any:
        s = 0.0
        for i in range(len(x)):
            s += deep(depth[i])
        return s
    several = jit(runs, parallel=True)
    for at in (0, 5, 11):
        depth = np.zeros(12, np.int64)
        depth[at] = 10**9
        with pytest.raises(RecursionError):
            several(np.zeros(12), depth)

    def fills(sizes: Any) -> Any:
        s = 0.0
        for i in range(len(sizes)):
            s += np.ones(sizes[i]).sum()
        return s
    sizes = np.full(12, 10)
    assert jit(fills, parallel=True)(sizes) == 120.0
    sizes[9] = 2**45
    with pytest.raises(MemoryError):
        jit(fills, parallel=True)(sizes)


def spins(n: Any, busy: Any) -> Any:
    out = np.zeros(len(busy))
    for i in range(len(busy)):
        v = 1.0
        for _ in range(n if busy[i] else 1):
            v = math.sin(v) + 1.0
        out[i] = v
    return out


@pytest.mark.slow
@pytest.mark.parametrize("where", ["everywhere", "first", "last"])
def test_an_interrupt_ends_all_threads(where: str) -> None:
    """Also if the thread that handles signals has no work left."""
    busy = np.ones(40, bool)
    if where != "everywhere":
        busy[:] = False
        busy[0 if where == "first" else -1] = True
    several = jit(spins, parallel=True)
    several(10, busy)
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)  # SIGINT may be ignored
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.15)
        with pytest.raises(KeyboardInterrupt):
            several(10**11, busy)
        assert len(several(10, busy)) == 40
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


# --- threads, processes ---------------------------------------------------------------------------

@pytest.mark.slow
def test_results_do_not_vary_from_run_to_run() -> None:
    x = RNG.uniform(-1, 1, 1000)
    several = jit(loss, grad=0, parallel=True).value_and_grad
    for count in (2, 3, 4):
        use_threads(count)
        value, bar = several(W, x, RNG.integers(0, 5, 1000) * 0 + 1)
        for _ in range(100):
            v, b = several(W, x, np.ones(1000, np.int64))
            assert v == value and same(b, bar)


def test_a_loop_in_a_loop_of_another_function() -> None:
    def inner(x: Any) -> Any:
        return recursive(3) * sum(x[j] for j in range(len(x)))

    def outer(x: Any, k: Any) -> Any:
        out = np.zeros(len(x))
        for i in range(len(x)):
            out[i] = inner(x) + k[i]
        return out
    assert same(jit(outer)(X, K), jit(outer, parallel=True)(X, K))


def test_python_threads_call_at_once() -> None:
    several = jit(histogram, parallel=True)
    expected, wrong = jit(histogram)(X, K), []

    def work() -> None:
        for _ in range(50):
            if not all(map(same, several(X, K), expected)):
                wrong.append(1)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def run_alone(file: Path, program: str, **env: str) -> str:
    file.write_text(textwrap.dedent(program))
    done = subprocess.run([sys.executable, str(file)], env=os.environ | env, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.long
def test_a_call_waits_for_no_thread_that_has_not_begun() -> None:
    """The workers of these contexts have no threads, as if the processors were busy with other work."""
    f = jit(squares, parallel=True)
    expected = f(X, K)
    for known, _ in list(context._all):
        known.threads, known.workers = 3, 0
        context.hire(ctypes.addressof(known))
    for _ in range(3):
        assert same(f(X, K), expected)
    with pytest.raises(IndexError, match="index 77 is out of bounds"):
        jit(picked, parallel=True)(X, np.array([1, 77, 99, 2]))


def picked(x: Any, k: Any) -> Any:
    out = np.empty(len(k))
    for i in range(len(k)):
        out[i] = x[k[i]]
    return out


@pytest.mark.slow
def test_a_forked_process_makes_its_own_threads(tmp_path: Path) -> None:
    """The child does not have those of its parent."""
    out = run_alone(tmp_path / "forks.py", """
        import os, numpy as np
        from jitad import jit
        from jitad.passes.parallel import outline
        outline.ENOUGH = 0
        def f(x):
            s = 0.0
            for i in range(len(x)):
                s += x[i]
            return s
        g, x = jit(f, parallel=True), np.ones(100)
        assert g(x) == 100
        child = os.fork()
        if child == 0:
            os._exit(7 if g(x) == 100 and jit(lambda x: f(x) + 1, parallel=True)(x) == 101 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), g(x))
    """, JITAD_NUM_THREADS="3")
    assert out.split() == ["7", "100.0"]


def test_the_environment_tells_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for given, count in (({"JITAD_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3), ({"OMP_NUM_THREADS": "2,1"}, 2),
                         ({"OMP_NUM_THREADS": "no"}, len(os.sched_getaffinity(0)))):
        with monkeypatch.context() as m:
            for name in ("JITAD_NUM_THREADS", "OMP_NUM_THREADS"):
                m.delenv(name, raising=False)
            for name, value in given.items():
                m.setenv(name, value)
            assert context.threads() == count


# --- short loops -------------------------------------------------------------------------------------

@pytest.mark.slow
def test_a_short_loop_wakes_no_thread_unless_others_come_soon(tmp_path: Path) -> None:
    """The caller adds up the time of short loops for which it has woken nobody; the sum is the same in any case."""
    out = run_alone(tmp_path / "short.py", """
        import math, time, numpy as np
        from jitad import jit
        from jitad.lowering.llvm import context
        def total(x):
            s = 0.0
            for i in range(len(x)):
                s += math.sin(x[i]) * x[i]
            return s
        f, x = jit(total, parallel=True), np.linspace(0, 1, 10_000)
        values = {f(x)}
        known = [c for c, _ in context._all if c.workers]
        missed = []
        for _ in range(20):
            time.sleep(0.02)
            values.add(f(x))
            missed.append(known[0].missed)
        print(len(known), len(values), max(missed) > 0, known[0].needed >= 50_000_000)
        """, JITAD_NUM_THREADS="2")
    assert out.split() == ["1", "1", "True", "True"]


def sums_before(x: Any) -> Any:
    s = np.zeros(len(x))
    for i in range(1, len(x)):
        for k in range(i):
            s[i] += s[k] * x[k]
        s[i] += x[i]
    return s


def test_a_short_loop_whose_length_depends_on_a_serial_one_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert any("several threads" in line for line in report(sums_before, X))
    monkeypatch.setattr(outline, "ENOUGH", 15_000_000)
    assert "one thread: it is short" in "\n".join(report(sums_before, X))


def grown(x: Any, p: Any) -> Any:
    a, f = p.copy(), 0.2
    while f < 1.0:
        f = f * 1.4 + 0.09
        a[::-1] *= a[len(p) % 2]
    return x + a @ p


def stepped(x: Any, p: Any) -> Any:
    a, b = p.copy(), p * x
    for _ in range(4):
        new = np.zeros(len(p))
        for i in range(len(p)):
            new[i] = a[i] * a[i - 1] + 0.5 * b[i]
        a, b = new, a
    return np.sum(a * b)


@pytest.mark.slow
@pytest.mark.parametrize("f", [grown, stepped])
def test_arrays_of_serial_loops_in_gradients(f: Callable[..., Any]) -> None:
    """They are not rows of one array, which need a trip count, and serve threads."""
    p = np.array([0.9, -1.2, 0.4])
    several, alone = jit(f, grad=(0, 1), parallel=True), jit(f, grad=(0, 1))
    for x in (0.3, 2.0):
        for e, g in zip(alone.value_and_grad(x, p)[1], several.value_and_grad(x, p)[1], strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-14)
