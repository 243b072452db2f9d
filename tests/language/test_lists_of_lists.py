"""Lists of lists of run-time length, whose inner lists are written in place; what would need other names is refused."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit
from jitad.errors import UnsupportedError
from tests import tracing
from tests.language.test_growing_lists import _expect_same
from tests.small_programs import Program, check, check_compiled

PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


@program
def edit_distance(x):
    a, b = [math.sin(3 * i + x) for i in range(int(6 * x))], [math.cos(2 * i * x) for i in range(int(9 * x))]
    d = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) + 1):
        d[i][0] = i * 0.83
    for j in range(len(b) + 1):
        d[0][j] = j * 0.71 * x
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i][j] = min(d[i - 1][j] + 0.83, d[i][j - 1] + 0.71 * x, d[i - 1][j - 1] + abs(a[i - 1] - b[j - 1]))
    return d[-1][-1]


@program
def from_integers_to_floats(x):
    n, m = int(5 * x), int(7 * x)
    table = [[0] * m for _ in range(n)]
    for i in range(1, n):
        for k in range(m):
            table[i][k] = max(table[i - 1][k], table[i - 1][k - 1] + x * i)
    return table[n - 1][m - 1] + sum(table[1]) * max(table[-1])


@program
def rows_by_name(x):
    n = int(6 * x)
    grid = [[x * i + j * j for j in range(n)] for i in range(n)]
    above = grid[0]
    for i in range(1, n):
        row = grid[i]
        for j in range(n):
            row[j] += above[j - 1] * x
        above = row
    above[0] *= 2
    return sum(sum(row) * i for i, row in enumerate(grid)) + len(grid[0])


@program
def walked(x):
    grid = [[x] * int(5 * x) for _ in range(int(4 * x))]
    for i, row in enumerate(grid):
        for j, v in enumerate(row):
            grid[i][j] = v * j + (row[j - 1] if j else x)
    return sum(map(sum, grid)) + max(max(row) for row in grid)


@program
def eliminated(x):
    """Gaussian elimination, which exchanges rows."""
    n = int(6 * x)
    a = [[float((i * 7 + j * j * 3) % 11) + x * (i == j) for j in range(n + 1)] for i in range(n)]
    for k in range(n):
        p = k
        for i in range(k, n):
            if abs(a[i][k]) > abs(a[p][k]):
                p = i
        a[k], a[p] = a[p], a[k]
        for i in range(k + 1, n):
            f = a[i][k] / a[k][k]
            for j in range(k, n + 1):
                a[i][j] -= f * a[k][j]
    return sum(a[i][i] for i in range(n))


@program
def three_axes(x):
    n, m = int(4 * x), int(5 * x)
    t = [[[x] * 2 for _ in range(m)] for _ in range(n)]
    for i in range(n):
        for j in range(m):
            t[i][j][1] = t[i - 1][j][0] * x + t[i][j - 1][1]
        middle = t[i][m // 2]
        middle[0] += i
    return sum(sum(v) for v in t[n - 1]) + t[0][m // 2][0]


@program
def short_rows(x):
    n = int(5 * x)
    place, speed = [[x * i, 1.0] for i in range(n)], [[0.0, 0.0] for _ in range(n)]
    for _ in range(3):
        for i in range(n):
            for k in range(2):
                speed[i][k] += 0.1 * (place[i - 1][k] - place[i][k])
        for i in range(n):
            place[i][0] += speed[i][0] * x
            u, v = place[i]
            place[i][1] = v + u
    return place[0][0] * place[n - 1][1]


@program
def two_rows_in_turns(x):
    best = [[x] * int(6 * x) for _ in range(2)]
    for i in range(1, 5):
        for j in range(1, len(best[0])):
            best[i % 2][j] = best[(i - 1) % 2][j - 1] * 0.5 + x * j
    return sum(best[0])


@program
def on_one_path(x):
    t = [[x] * int(4 * x) for _ in range(int(4 * x))]
    if x > 1:
        t[0][0] = x * x
        t.append([1.0] * len(t[0]))
    else:
        t[-1][1] += 1
    return t[0][0] + t[-1][1] * len(t)


def _relax(t, i, row):
    for j in range(len(row)):
        row[j] += t[i - 1][j] * 0.5
    if i + 1 < len(t):
        _relax(t, i + 1, t[i + 1])
    t[i][0] *= 1.1


@program
def in_a_recursive_function(x):
    t = [[x * j for j in range(int(4 * x))] for _ in range(int(5 * x))]
    _relax(t, 1, t[1])
    return sum(sum(row) for row in t)


@program
def in_a_closure(x):
    n = int(5 * x)
    known = [[-1.0] * (n + 1) for _ in range(n + 1)]

    def count(i, j):
        if i == 0 or j == 0:
            return x
        if known[i][j] < 0:
            known[i][j] = count(i - 1, j) + count(i, j - 1) * 0.5
        return known[i][j]
    return count(n, n - 1)


@pytest.mark.slow
@pytest.mark.parametrize("f", PROGRAMS)
def test_interpreted(f: Program) -> None:
    check(f)


@pytest.mark.long
@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS)


def _distance(a, b):
    d = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            d[i][j] = min(d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + abs(a[i - 1] - b[j - 1]))
    return d[len(a)][len(b)]


@pytest.mark.slow
def test_derivatives_with_arrays() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.uniform(0, 3, 9), rng.uniform(0, 3, 7)
    assert jit(_distance)(a, b) == pytest.approx(_distance(a, b), rel=1e-12)
    check_grads(_distance, (a, b))


def test_creating_a_table_takes_no_loop() -> None:
    def table(n, m):
        d = [[0.0] * m for _ in range(n)]
        d[n - 1][m - 1] = 1.0
        return d[0][0]
    traced = tracing.trace(table, 4, 5)
    ops = [op.name for block in traced.module.functions[traced.root].blocks for op in block.ops]
    assert "fill" in ops
    assert ops.count("set") == 1


# --- as Python --------------------------------------------------------------------------------------

def _reads(n, m):
    t = [[float(i * j) for j in range(m)] for i in range(n)]
    t[-1][-1] = -3.0
    r, out = t[1], []
    for v in r:
        out.append(v)
    first, *others = r
    return (sum(r), max(r), min(t[-1]), r[0:2], r[::-1], sorted(r, reverse=True), len(r), 3.0 in r, r.index(2.0),
            r.count(0.0), float(np.array(t).sum()), list(r), out, bool(r), r.copy(), isinstance(r, list), first, others,
            len(t), t[1] is None, [row[1] for row in t], [v for row in t for v in row], [sum(row) for row in t])


def _in_place(n, m):
    t = [[float((i * 7 + j * 5) % 4) for j in range(m)] for i in range(n)]
    t[0].sort()
    t[1].reverse()
    t[2].sort(key=lambda v: -v)
    t[0][1] *= 3
    t[1][0] -= 5
    t[-1][-2] //= 2
    for row in t:
        row[2] += row[1]
    return t


def _names(n, m):
    t = [[0.0] * m for _ in range(n)]
    a, both, d = t[0], (t[1], t[2]), {"t": t, "r": t[3]}
    a[1], t[0][0] = 5.0, 2.0
    both[0][1] = 8.0
    d["r"][0], d["t"][3][1] = 4.0, 7.0
    r = t[0] if n > 4 else t[1]
    r[2] = 1.5
    return t, a[0], r


def _replaced(n, m):
    t = [[0.0] * m for _ in range(n)]
    for i in range(n):
        t[i] = [float(i)] * m
        t[i][i % m] += 1
    t[0] = [v + 1 for v in t[1]]
    t[2] = t[1][:]
    t[2][0] = 9.0
    t[1] = [1.0, 2.0, 3.0, 4.0]
    t[1][1] = 7.0
    t[0], t[1] = t[1], t[0]
    t[0][0] = -1.0
    return t


def _copies(n, m):
    t = [[i * j for j in range(m)] for i in range(n)]
    u, v, w = [row[:] for row in t], [list(row) for row in t], copy.deepcopy(t)
    t[1][1], u[0][0], w[2][0] = 100, 5, 6
    return t, u, v, w, t[1:], list(zip(t[0], u[0]))


def _longer_and_shorter(n, m):
    t = [[0] * m]
    for i in range(n):
        t.append([i] * m)
        t[i][0] = t[i - 1][1] + 1
    r = t.pop()
    r[0] = 9
    t.insert(0, [5] * m)
    t[0][1] = 3
    del t[1]
    t.append([8, 7, 6, 5])
    t.reverse()
    return t, r


class Board:
    def __init__(self, n, m):
        self.cells = [[False] * m for _ in range(n)]

    def put(self, i, j):
        self.cells[i][j] = not self.cells[i][j]


def _attribute(n, m):
    board = Board(n, m)
    for i in range(n):
        board.put(i, i % m)
    board.cells[0][0] = False
    return board.cells, any(board.cells[1]), all(board.cells[0]), sum([1 for row in board.cells if row[1]])


def _in_turns(n, m):
    old, new = [[i * j for j in range(m)] for i in range(n)], [[0] * m for _ in range(n)]
    for _ in range(3):
        for i in range(n):
            for j in range(m):
                new[i][j] = old[i - 1][j] + old[i][j - 1]
        old, new = new, old
    return old, new


def _put(t, row):
    t.append(row)


def _in_a_function(n, m):
    t = []
    for i in range(n):
        _put(t, [i] * m)
        t[i][0] = 5
    return t


def _short_rows_in_rows(n, m):
    t, u = [], [[[i, j] for j in range(m)] for i in range(n)]
    for i in range(n):
        row = []
        for j in range(m):
            row.append([i, j])
        t.append(row)
    t[1][1][0], u[2][0][1] = 9, 8
    return t, u, [[[v, 0.5] for v in range(m)], u[0][1]]


def _as_python(f: Callable[..., Any]) -> None:
    want = f(4, 4)
    _expect_same(jit(f)(4, 4), want)
    _expect_same(tracing.run(tracing.trace(f, 4, 4), 4, 4), want)


@pytest.mark.parametrize("f", [_names, _replaced, _in_a_function])
def test_as_python(f: Callable[..., Any]) -> None:
    _as_python(f)


@pytest.mark.slow
@pytest.mark.parametrize("f", [_reads, _in_place, _copies, _longer_and_shorter, _attribute, _in_turns,
                               _short_rows_in_rows])
def test_others_as_python(f: Callable[..., Any]) -> None:
    _as_python(f)


# --- errors -----------------------------------------------------------------------------------------

def _wrong(n, m, k):
    t = [[0] * m for _ in range(n)]
    if k == 0:
        t[n][0] = 1
    if k == 1:
        t[0][m] = 1
    if k == 2:
        t[0][-m - 1] += 1
    if k == 3:
        return t[-n - 1][0]
    if k == 4:
        return t[0].index(5)
    return 0


def test_errors_are_pythons() -> None:
    compiled = jit(_wrong)
    for k in range(5):
        with pytest.raises((IndexError, ValueError)) as want:
            _wrong(3, 4, k)
        with pytest.raises(want.type) as got:
            compiled(3, 4, k)
        assert str(got.value) == str(want.value)
    assert compiled(3, 4, 5) == 0


def _one_list_twice(n):
    t = [[0.0] * n for _ in range(n)]
    a = t[0]
    t[1] = a
    a[0] = 5.0
    return t[1][0]


def _repeated(n):
    t = [[0.0] * n] * n
    t[0][0] = 5.0
    return t[1][0]


def _read_after_it_was_put_in(n):
    t, row = [], [1.0] * n
    for _ in range(n):
        t.append([2.0] * n)
    t.append(row)
    t[-1][0] = 7.0
    return row[0]


def _short_list_read_after_it_was_put_in(n):
    t = []
    for i in range(n):
        row = [i, i + 1]
        t.append(row)
        t[i][0] = 7
        last = row[0]
    return last


def _put_in_by_a_function(n):
    t, last = [], 0
    for i in range(n):
        row = [i] * n
        _put(t, row)
        t[i][0] = 7
        last += row[0]
    return last


def _used_after_it_was_replaced(n):
    t = [[0.0] * n for _ in range(n)]
    a = t[0]
    t[0] = [1.0] * n
    a[0] = 3.0
    return t[0][0]


def _used_after_an_exchange(n):
    t = [[float(i)] * n for i in range(n)]
    a = t[0]
    t[0], t[1] = t[1], t[0]
    a[0] = 3.0
    return t[1][0]


def _shallow_copy(n):
    t = [[float(i)] * n for i in range(n)]
    u = t[:]
    t[0][0] = 5.0
    return u[0][0]


def _one_of_two(n):
    t, u = [[0.0] * n for _ in range(n)], [[1.0] * n for _ in range(n)]
    a = t if n > 2 else u
    a[0][0] = 5.0
    return t[0][0]


def _made_longer(n):
    t = [[0.0] * n for _ in range(n)]
    row = t[0]
    row += [1.0]
    return len(t[0])


def _triangle(n):
    t = [[1] * (i + 1) for i in range(n)]
    t[1][1] = 2
    return t[1][1]


@pytest.mark.parametrize(("f", "message", "hint"), [
    (_one_list_twice, "so that both would be one list", r"rows[i][:]"),
    (_repeated, "one and the same list", "for _ in range(n)"),
    (_read_after_it_was_put_in, "which other names do not follow", "row[:]"),
    (_short_list_read_after_it_was_put_in, "which other names do not follow", "row[:]"),
    (_put_in_by_a_function, "which other names do not follow", "row[:]"),
    (_used_after_it_was_replaced, "replaced or moved since", "take it out again"),
    (_used_after_an_exchange, "replaced or moved since", "take it out again"),
    (_shallow_copy, "also those of another list", "[row[:] for row in x]"),
    (_one_of_two, "one of several objects", ""),
    (_made_longer, "makes longer or shorter", "of one length"),
    (_triangle, "a list of lists, of lengths", "np.zeros((n, m))"),
])
def test_refused(f: Callable[..., Any], message: str, hint: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as e:
        tracing.trace(f, 4)
    assert e.value.loc is not None and e.value.loc.file == f.__code__.co_filename
    assert hint in e.value.hint


def test_lists_of_different_lengths_are_an_error() -> None:
    def f(n):
        t = []
        for i in range(n):
            t.append([0.0] * i)
        t[0][0] = 1.0
    with pytest.raises(ValueError, match="must all have one length in compiled code: 0 and 1"):
        jit(f)(3)
