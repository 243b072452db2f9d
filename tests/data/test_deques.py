"""``collections.deque``."""

from __future__ import annotations

import collections
import copy
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import jit
from jitad.errors import UnsupportedError
from tests import tracing
from tests.small_programs import Program, check, check_compiled

PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


@program
def waiting_times(x):
    queue, clock, total = deque(), 0.0, 0.0
    for i in range(12):
        clock += 0.3 + 0.1 * (i % 3)
        while queue and queue[0] <= clock:
            queue.popleft()
        start = max(queue[-1] if queue else clock, clock)
        total += start - clock
        queue.append(start + x * (1 + 0.07 * i))
    return total


@program
def last_few(x):
    best, total = deque(maxlen=int(4 * x)), 0.0
    for i in range(9):
        best.append(x * (i * 7 % 5))
        total += max(best) * len(best)
    return total + best[0]


@program
def delay_line(x):
    line, out = deque([0.0] * 4, maxlen=4), 0.0
    for i in range(12):
        out += 0.5 * i * line[0]
        line.append(i + x * line[0])
    return out


@program
def of_known_length(x):
    d = deque([x, 2 * x, 3.0])
    d.append(1.0)
    d.rotate(1)
    first = d.popleft()
    d.appendleft(x * x)
    del d[1]
    other = d.copy()
    other.extend(d)
    other += [5.0]
    return first * sum(other) + other[-2] * len(other) + other.count(5.0)


@program
def of_arrays(x):
    d, total = deque(maxlen=3), 0.0
    for i in range(int(9 * x)):
        d.append(np.array([x, float(i)]))
        total += sum(v[0] * v[1] for v in d)
    return total


@pytest.mark.slow
def test_interpreted() -> None:
    for f in PROGRAMS[::2]:
        check(f)


@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS)


def _steps_from_a_corner(grid):
    n, m = grid.shape
    steps = np.full((n, m), -1)
    steps[0, 0] = 0
    queue = deque([(0, 0)])
    while queue:
        i, j = queue.popleft()
        for di, dj in ((0, 1), (1, 0), (0, -1), (-1, 0)):
            u, v = i + di, j + dj
            if 0 <= u < n and 0 <= v < m and grid[u, v] == 0 and steps[u, v] < 0:
                steps[u, v] = steps[i, j] + 1
                queue.append((u, v))
    return steps


def _at_both_ends(n):
    d = collections.deque()
    for i in range(n):
        if i % 3 == 0:
            d.appendleft(i)
        else:
            d.append(i)
        if i % 5 == 4:
            d.rotate(2)
        if i % 7 == 6:
            d.pop()
        if i % 11 == 10:
            d.popleft()
            d.popleft()
    return list(d), len(d), d[0], d[-1], sum(d), max(d), d.index(d[2])


def _methods(n):
    d = deque(range(3), 10)
    for i in range(n):
        d.appendleft(i)
    d.extend([100, 200])
    d.extendleft((7, 8))
    d[1] = -4
    d.reverse()
    d.remove(d[3])
    d.insert(2, 50)
    e = d + d
    d.clear()
    return list(e), 5 in e, isinstance(e, deque), [2 * x for x in reversed(e)], len(d), [x for x in e if x > 9]


def _last_one_left(n, k):
    d = deque(range(n))
    while len(d) > 1:
        d.rotate(-k)
        d.popleft()
    return d[0]


@pytest.mark.parametrize(("f", "args"), [
    (_steps_from_a_corner, ((np.arange(80) * 7 % 11 == 3).astype(int).reshape(8, 10),)), (_at_both_ends, (100,)),
    (_methods, (20,)), (_methods, (2,)), (_last_one_left, (20, 3)),
], ids=lambda v: getattr(v, "__name__", ""))
@pytest.mark.slow
def test_as_python(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    want = f(*copy.deepcopy(args))
    for found in (jit(f)(*args), tracing.run(tracing.trace(f, *args), *args)):
        assert np.array_equal(found, want) if isinstance(want, np.ndarray) else found == want


def _wrong(n, k):
    d = deque(range(n))
    for _ in range(n - 1):
        d.popleft()
    if k == 0:
        return d[n]
    if k == 1:
        return d[-2]
    d.pop()
    if k == 2:
        d.pop()
    if k == 3:
        d.popleft()
    deque(d, k - 5)
    return 0


@pytest.mark.slow
def test_errors_are_pythons() -> None:
    compiled = jit(_wrong)
    for k in range(5):
        with pytest.raises((IndexError, ValueError)) as want:
            _wrong(5, k)
        with pytest.raises(want.type) as got:
            compiled(5, k)
        assert str(got.value) == str(want.value)
    assert compiled(5, 5) == 0


def test_refused_as_a_result() -> None:
    with pytest.raises(UnsupportedError, match="an object of class deque as a result") as e:
        jit(lambda x: deque([x]))(1.0)
    assert "list(x)" in e.value.hint
