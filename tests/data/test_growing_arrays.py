"""Lists of run-time length whose elements are arrays, lists, dicts and objects; elements are stored by their parts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from jitad import jit, value_and_grad, vjp
from jitad.errors import UnsupportedError
from tests import tracing
from tests.small_programs import Program, check, check_compiled

PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


class Particle(NamedTuple):
    position: np.ndarray
    weight: float


@dataclass
class State:
    time: float
    x: np.ndarray
    steps: int = 0


@program
def trajectory(x):
    position, speed = np.array([x, 1.0]), np.zeros(2)
    path = [position.copy()]
    for _ in range(int(9 * x)):
        speed = speed - 0.1 * position
        position = position + 0.1 * speed
        path.append(position)
    return np.sum(np.array(path) ** 2) + path[-1][0] * len(path) + np.stack(path, 1)[1, 2]


@program
def joined(x):
    rows = [np.array([1.0, x, x * v]) for v in np.arange(4.0)]
    rows += [r * x for r in rows if r[2] > 1]
    a = np.vstack(rows)
    return np.linalg.norm(a.T @ a) + np.concatenate(rows)[4] + sum(rows)[1] + np.column_stack(rows)[0, 1]


@program
def lists_and_dicts(x):
    history, records, y = [], [], [x, 0.5]
    for i in range(int(11 * x)):
        y = [y[0] + 0.1 * y[1], y[1] - 0.1 * y[0]]
        history.append(y)
        records.append({"x": y[0] * i, "more": (i, [y[1], x])})
    return history[-1][0] + max(h[1] for h in history) + sum(r["x"] * r["more"][1][0] for r in records)


@program
def objects(x):
    state = State(0.0, np.array([x, 1.0]))
    log = [state]
    while state.time < 1.0 and len(log) < 20:
        state = State(state.time + 0.1 * state.x.sum(), state.x * 0.9, state.steps + 1)
        log.append(state)
    return sum(s.time * s.x[0] for s in log) + log[-1].steps


@program
def changed_in_many_ways(x):
    a, ps = np.array([x, x * x]), []
    for i in range(int(21 * x)):
        if i % 2:
            ps.append(Particle(a * i, float(i)))
    ps.insert(1, Particle(a, 9.0))
    ps[0] = Particle(a * 3, x)
    last = ps.pop()
    del ps[2:4]
    ps[1:2] = [last, Particle(a + x, 2.0)]
    total = last.position[0]
    for p in reversed(ps + ps[:1]):
        total = total * 1.1 + p.position[0] * p.weight
    ps.sort(key=lambda p: -p.weight)
    return total + sum(k * p.weight * p.position[1] for k, p in enumerate(ps))


@program
def on_one_path(x):
    xs = [np.array([x, 1.0]), np.array([2.0, x])]
    if x > 1:
        xs.append(xs[0] + xs[1])
    return sum(v[0] * v[1] for v in xs)


@program
def stack(x):
    left, total = [np.array([x, 1.05])], 0.0
    while left:
        v = left.pop()
        total += v[0]
        if v[1] > 0.1:
            left.append(v * 0.5)
            left.append(np.array([v[0] * x, v[1] - 0.31]))
    return total


def _walk(v, depth, out):
    if depth > 0:
        _walk(v * 0.5, depth - 1, out)
        out.append(v)
        _walk(v + 1.0, depth - 1, out)


@program
def by_recursion(x):
    out = []
    _walk(np.array([x, 2.0]), int(4 * x), out)
    return sum(k * v[0] for k, v in enumerate(out)) + len(out)


@program
def recorded_by_a_closure(x):
    seen, v = [], np.array([x, 1.0])

    def record(v):
        seen.append(v)
        return v * x
    for _ in range(int(8 * x)):
        v = record(v)
    return sum(s.sum() * k for k, s in enumerate(seen))


@program
def of_one_element(x):
    out = []
    for i in range(int(8 * x)):
        out.append(np.array([x * i]))
    return (out[1] + np.arange(3.0) * out[2]).sum()


@pytest.mark.slow
def test_interpreted() -> None:
    for f in PROGRAMS[::3]:
        check(f)


@pytest.mark.slow
def test_interpreted_others() -> None:
    for k, f in enumerate(PROGRAMS):
        if k % 3:
            check(f)


@pytest.mark.long
@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS)


# --- values -----------------------------------------------------------------------------------------

def _powers(a, n):
    out = []
    for _ in range(n):
        a = a * 2
        out.append(a)
    return out


def _pairs(n, x):
    return [(i, [i * x, x]) for i in range(n)]


def _copies(n):
    a, out = np.zeros(2, int), []
    for _ in range(n):
        out.append(a)
        a = a.copy()
        a[0] += 1                                    # one that is in no list yet
    return out, [a] * n, len(out[1:]), out[::-1]


def _joins(a):
    rows = [r for r in a]
    return (np.stack(rows), np.stack(rows, 1), np.stack(rows, -1), np.vstack(rows), np.hstack(rows),
            np.column_stack(rows), np.concatenate(rows), np.concatenate(rows, axis=-1), np.concatenate(rows, axis=None),
            np.concatenate(a), np.stack(rows, dtype=np.float32), np.array(rows), np.mean(rows, axis=0))


def _expect_same(found: Any, want: Any) -> None:
    if isinstance(want, (list, tuple)):
        assert type(found) is type(want)
        assert len(found) == len(want)
        for x, y in zip(found, want):
            _expect_same(x, y)
    else:
        assert np.asarray(found).dtype == np.asarray(want).dtype
        np.testing.assert_allclose(found, want)


@pytest.mark.parametrize(("f", "args"), [
    (_powers, (np.ones((2, 3)), 4)), (_powers, (np.ones(2), 0)), (_pairs, (4, 1.5)), (_copies, (3,)),
    (_joins, (np.arange(12.0).reshape(4, 3),)), (_joins, (np.arange(6).reshape(3, 1, 2),)),
], ids=lambda v: getattr(v, "__name__", ""))
def test_as_python(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    want = f(*copy.deepcopy(args))
    _expect_same(jit(f)(*args), want)
    _expect_same(tracing.run(tracing.trace(f, *args), *args), want)


@pytest.mark.slow
def test_derivative_of_rows() -> None:
    def turn(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    def hull(points):
        out = []
        for p in points[np.argsort(points[:, 0])]:
            while len(out) >= 2 and turn(out[-2], out[-1], p) <= 0:
                out.pop()
            out.append(p)
        return sum(a[0] * b[1] - a[1] * b[0] for a, b in zip(out, out[1:]))
    points = np.random.default_rng(2).normal(size=(30, 2))
    value, slope = value_and_grad(hull)(points)
    assert value == pytest.approx(hull(points))
    step = 1e-6 * np.random.default_rng(3).normal(size=points.shape)
    assert np.sum(slope * step) == pytest.approx((hull(points + step) - hull(points - step)) / 2, rel=1e-5)


@pytest.mark.slow
def test_cotangents_of_lists() -> None:
    """Those of a list of run-time length are given as a list."""
    def f(x, n):
        pairs, places, none = [], [], []
        for i in range(n):
            pairs.append((x * i, [np.array([x, 1.0]) * x, i]))
            places.append(i)
        for _ in range(n - 3):
            none.append(x)
        return pairs, places, none
    ones = ([(1.0, [np.ones(2), None])] * 3, [None] * 3, [])
    assert vjp(f, 2.0, 3)[1](ones) == (18.0, None)
    assert jit(lambda x, ones: vjp(f, x, 3)[1](ones))(2.0, ones) == (18.0, None)
    with pytest.raises(ValueError, match="a tangent has size 0 where its value has size 3"):
        vjp(f, 2.0, 3)[1](([], [], []))


# --- what must not change ---------------------------------------------------------------------------

def _changed_before(n):
    x, out = np.zeros(2), []
    for _ in range(n):
        x[0] += 1.0
        out.append(x)
    return out


def _changed_before_in_a_longer_list(n):
    out, x = [np.ones(2) for _ in range(n)], np.zeros(2)
    for _ in range(n):
        x[0] += 1.0
        out.append(x)
    return out


def _changed_after(n):
    x = np.zeros(2)
    out = [x]
    for i in range(n):
        out.append(x + i)
    x[0] = 5.0
    return out


def _changed_by_a_function(n):
    def bump(x):
        x[0] += 1.0

    def keep(out, x):
        out.append(x)
    x, out = np.zeros(2), []
    for _ in range(n):
        bump(x)
        keep(out, x)
    return out


def _result_that_is_changed(n):
    out = []

    def new():
        out.append(y := np.zeros(2))
        return y
    for _ in range(n):
        new()[0] = 1.0
    return out


def _other_name(n):
    x = y = np.zeros(2)
    out = []
    for _ in range(n):
        y[0] += 1.0
        out.append(x)
        x = x + 1.0
    return out


def _one_of_two(n):
    a, b, out = np.zeros(2), np.ones(2), []
    for i in range(n):
        a[0] += 1
        out.append(a if i % 2 else b)
    return out


def _view(n):
    a, out = np.zeros((n, 2)), []
    for i in range(n):
        a[i] = i
        out.append(a[i])
    return out


def _inner_list(n):
    out, row = [], [0.0, 0.0]
    for _ in range(n):
        row[0] += 1.0
        out.append(row)
    return out


def _replaced(n):
    x, out = np.zeros(2), [np.ones(2) for _ in range(n)]
    out[0] = x
    x[0] = 2.0
    return out


def _by_recursion(n):
    def go(x, depth, out):
        x[0] += 1.0
        out.append(x)
        if depth > 0:
            go(x, depth - 1, out)
    out = []
    go(np.zeros(2), n, out)
    return out


@pytest.mark.parametrize("f", [
    _changed_before, _changed_before_in_a_longer_list, _changed_after, _changed_by_a_function, _result_that_is_changed,
    _view, _inner_list, _replaced, _by_recursion, _one_of_two, _other_name])
def test_what_a_list_holds_does_not_change(f: Callable[[int], Any]) -> None:
    with pytest.raises(UnsupportedError, match="in a long list, whose elements cannot|one of which has changed since|"
                                                 "reads a list that has been put into a list of lists"):
        tracing.trace(f, 3)


def test_arrays_of_one_shape() -> None:
    def triangle(n):
        out = []
        for i in range(n):
            out.append(np.zeros(i))
        return out
    with pytest.raises(ValueError, match="must all have one shape in compiled code: sizes 0 and 1"):
        jit(triangle)(3)
