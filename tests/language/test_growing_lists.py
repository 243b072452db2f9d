"""Lists whose length depends on run-time values: changed in loops, on one path, in recursive calls; differentiated."""

from __future__ import annotations

import bisect
import copy
import heapq
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitad import check_grads, jit
from jitad.errors import UnsupportedError
from tests import tracing
from tests.small_programs import Program, check, check_compiled, refuses

PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


# --- append -----------------------------------------------------------------------------------------

@program
def in_each_iteration(x):
    out = []
    for i in range(int(9 * x)):
        out.append(i * x * x)
    return sum(out) + len(out)


@program
def in_some_iterations(x):
    out = [x]
    for i in range(20):
        if math.sin(i * 1.3) > 0.2:
            out.append(math.sin(i * x))
        if i > 14:
            break
    return out[-1] * out[2] + out[len(out) // 2]


@program
def by_the_last_element(x):
    history = [x]
    while history[-1] < 9:
        history.append(history[-1] * 1.5 + 0.1)
    return history[-1] + sum(h * h for h in history)


@program
def in_a_nest(x):
    out = []
    for i in range(6):
        out.append(x)
        for j in range(i):
            out.append(x * i + out[j])
        out.append(out[i] * x)
    return np.mean(np.array(out))


@program
def several_times(x):
    out, other = [0], [1.0]
    for i in range(7):
        out.append(x * i)
        out.append(x * x)
        if i % 3 == 0:
            out.append(out[-1] * out[i])
            other.append(i)
        out.extend([x, 2 * x])
        out += [x * i]
    return sum(v * k for k, v in enumerate(out)) + other[-1]


@program
def on_one_path(x):
    out = [x]
    if x > 1:
        out.append(x * x)
    return out[-1] * len(out) + sum(out)


@program
def tuples(x):
    out = []
    for i in range(5):
        out.append((i, x * i, (i > 2, x)))
    total = 0.0
    for i, v, (late, w) in out:
        if late:
            total += v * i + w
    k, v, _ = out[-2]
    return total + k * v


@program
def that_is_bound_anew(x):
    out = []
    for i in range(5):
        out = out + [x * i]
        row = []
        for v in out:
            row.append(v * x)
        out[0] += sum(row)
    return sum(out)


@program
def beside_a_list(x):
    weights, out = [x, 2.0, x * x], 0.0
    for (w, k), v in zip(zip(weights, range(int(9 * x))), np.arange(1.0, 5.0) * x):
        out += w * v + k
    return out + sum(w * v for w, v in zip(weights, np.ones(2) * x)) + sum([w * v for w, v in zip(weights, np.ones(2))])


@program
def in_order_of_keys(x):
    pairs = []
    for i in range(9):
        pairs.append((math.sin(i * x), x * i))
    pairs.sort(key=lambda p: p[0])
    many = sorted([math.sin(1.3 * i + x) for i in range(70)])
    return sum(k * b for k, (_, b) in enumerate(pairs)) + many[3] * many[40]


@program
def sides_of_a_nest(x):
    return sum([i * x + j for i in range(int(9 * x)) for j in range(i)]) + sum([v for v in (x, x * x, 1.0) if v > 0.6])


def _append_twice(out, v):
    out.append(v)
    out.append(v * v)


@program
def in_a_function(x):
    out = []
    for i in range(5):
        _append_twice(out, x * i)
    other = out
    other.append(x)
    return sum(v * i for i, v in enumerate(out))


# --- recursion --------------------------------------------------------------------------------------

def _in_order(k, x, out):
    if k < 12:
        _in_order(2 * k + 1, x * 0.9, out)
        out.append(x * k)
        _in_order(2 * k + 2, x + 0.1, out)


@program
def by_a_recursive_function(x):
    out = []
    _in_order(0, x, out)
    return sum(i * v for i, v in enumerate(out))


@program
def by_a_recursive_closure(x):
    out = []

    def visit(k, w):
        if k < 9:
            visit(2 * k + 1, w * x)
            out.append(w * k)
            visit(2 * k + 2, w + x)
    visit(0, 1.0)
    return sum(v * v for v in out)


# --- stacks, queues, tables -------------------------------------------------------------------------

@program
def depth_first(x):
    stack, total = [(0, 1.0)], 0.0
    while stack:
        k, w = stack.pop()
        total += w * math.sin(x * k)
        for c in (2 * k + 1, 2 * k + 2):
            if c < 15:
                stack.append((c, w * x))
    return total


@program
def breadth_first(x):
    queue, total = [0], 0.0
    while len(queue) > 0:
        k = queue.pop(0)
        total = total * x + k
        if k < 4:
            queue.append(2 * k + 1)
            queue.append(2 * k + 2)
    return total


@program
def table(x):
    n = int(8 * x)
    best = [0.0] * (n + 1)
    pairs = [1.0, x] * n
    for i in range(n):
        best[i + 1] = max(best[i], best[i - 1] * 0.5 + x * math.sin(i)) + pairs[i]
    return best[-1]


@program
def comprehension_changed(x):
    n = int(8 * x)
    ys = [x * i for i in range(n)]
    for i in range(1, len(ys)):
        ys[i] += ys[i - 1] * 0.3
    ys.append(x)
    del ys[0]
    return sum(ys) + max(ys)


@program
def windows(x):
    a, out = [math.sin(x * i) for i in range(int(12 * x))], []
    for i in range(len(a)):
        near = []
        for j in range(max(0, i - 2), min(len(a), i + 3)):
            near.append(a[j])
        near.sort()
        out.append(near[len(near) // 2])
    return sum(v * v for v in out)


@pytest.mark.long
@pytest.mark.slow
def test_interpreted() -> None:
    for f in PROGRAMS[::3]:
        check(f)


@pytest.mark.slow
def test_interpreted_others() -> None:
    for k, f in enumerate(PROGRAMS):
        if k % 3:
            check(f)


@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS[::4])


@pytest.mark.long
@pytest.mark.slow
def test_compiled_all() -> None:
    check_compiled(PROGRAMS)


# --- with arrays ------------------------------------------------------------------------------------

def _positive(a):
    out = []
    for v in a:
        if v > 0:
            out.append(v * v)
    return np.sum(np.array(out) * np.arange(len(out)))


def _differences(a):
    out = []
    for i in range(1, len(a)):
        out.append(a[i] - a[i - 1])
    return sum(d * d for d in out)


def _shortest_path(w):
    """From 0 to 40, where from each k there are edges to three others."""
    n = len(w) // 3
    dist = np.full(n, np.inf)
    dist[0] = 0.0
    heap = [(0.0, 0)]
    while heap:
        d, k = heapq.heappop(heap)
        if d > dist[k]:
            continue
        for e in range(3):
            to = (k * (2 + e) + 1 + e) % n
            if d + w[3 * k + e] < dist[to]:
                dist[to] = d + w[3 * k + e]
                heapq.heappush(heap, (dist[to], to))
    return sum(k * d for k, d in enumerate(dist) if d < 100)


@pytest.mark.long
@pytest.mark.slow
def test_derivative_of_shortest_paths() -> None:
    w = np.random.default_rng(5).uniform(0.1, 1.0, 150)
    assert jit(_shortest_path)(w) == pytest.approx(_shortest_path(w), rel=1e-12)
    check_grads(_shortest_path, (w,))


@pytest.mark.slow
@pytest.mark.parametrize("f", [_positive, _differences])
def test_derivatives_with_arrays(f: Callable[..., Any]) -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 40):
        a = rng.normal(size=n)
        assert jit(f)(a) == pytest.approx(f(a), rel=1e-12)
        check_grads(f, (a,))
    compiled = jit(f, grad=True)
    for n in (3, 300, 5):
        a = rng.normal(size=n)
        assert compiled(a) == pytest.approx(f(a), rel=1e-12)
    assert compiled.stats["compilations"] == 1


def _filtered(a):
    return [(i, v) for i, v in _indexed(a) if v > 0]


def _indexed(a):
    out = []
    for i, v in enumerate(a):
        out.append((i, float(v)))
    return out


def _sieve(n):
    prime, out = [True] * (n + 1), []
    prime[0] = prime[1] = False
    for i in range(2, n + 1):
        if prime[i]:
            out.append(i)
            for j in range(i * i, n + 1, i):
                prime[j] = False
    return out


def _runs(a):
    out, i = [], 0
    while i < len(a):
        j = i
        while j < len(a) and a[j] == a[i]:
            j += 1
        out.append((int(a[i]), j - i))
        i = j
    return out


def _from_int_to_float(a):
    out = [0]
    for v in a:
        out.append(v * 0.5)
    return sum(out), len(out)


def _methods(n):
    a = []
    for i in range(n):
        a.append(i * 7 % 5)
    a.insert(2, 100)
    a.insert(-1, 200)
    a.insert(1000, 300)
    del a[0]
    x, y = a.pop(3), a.pop()
    a.reverse()
    b, c = a[1:4], a.copy()
    c.remove(200)
    a += b
    a.extend([1, 2])
    d = a + c + [5]
    del c[2:]
    e = [1] + d
    e.clear()
    first, *rest = b
    return (a, b, c, d, e, x, y, a.index(200), a.count(1), len(d), 200 in a, 77 in a, d[-2:], list(reversed(a)),
            [v + 1 for v in a], list(zip(a, b)), max(a), min(a), sorted(a, reverse=True), bool(c), not e, first, rest)


def _elements_replaced_while_walked(n):
    a = []
    for i in range(n):
        a.append(i)
    total = 0
    for i, v in enumerate(a):
        total += v
        if i + 1 < n:
            a[i + 1] = v + 2
    return total, a


def _heaps(n):
    h, out, ascending = [], [], []
    for i in range(n):
        h.append(i * 37 % 101)
    heapq.heapify(h)
    a, b = heapq.heappushpop(h, 50), heapq.heappushpop(h, -1)
    c = heapq.heapreplace(h, 3)
    heapq.heappush(h, 7)
    for _ in range(n // 2):
        out.append(heapq.heappop(h))
    for i in range(n):
        bisect.insort(ascending, i * 37 % 19)
        bisect.insort_left(ascending, i)
    places = bisect.bisect_left(ascending, 7), bisect.bisect(ascending, 7), bisect.bisect_left(ascending, 7, 3, 5)
    return h, a, b, c, out, ascending, places


def _heap_of_pairs(a):
    h = []
    for i, v in enumerate(a):
        heapq.heappush(h, (v, i))
    out = []
    while h:
        out.append(heapq.heappop(h)[1])
    return out


def _of_integers(a):
    out = [0]
    for v in a:
        out.append(v)
    return out, sum(out)


def _squares(n):
    out = []
    for i in range(n):
        out.append(i * i)
    return out


def _of_a_function(n):
    out = []
    for k in range(n):
        out.extend(_squares(k))
        out.append(len(_squares(k)))
    other = []
    other += out
    other += range(n)
    last = [0.5]
    last.extend(np.arange(n) * 0.5)
    return out, other, last


def _of_one_element(x, n):
    a = [i * x for i in range(n)]
    b, c = a[:1], list(a[0:1])
    for _ in range(n):
        b.append(x)
    while len(c) < n:
        c.insert(0, c[-1] + x)
    return b, c


def _slices_changed(n, x):
    xs, zs = [x, 1.0, 2.0], [1.0, x, 3.0, 4.0]
    ys = [float(i) for i in range(n)]
    xs[1:2] = ys
    ys[n // 2:] = [5.0, 6.0]
    zs[1:n - 4] = (7.0,)
    us, vs, ws = [x, 2.0, 3.0, 4.0], [x, 2.0, 3.0, 4.0], list(xs)
    del us[n - 5:n - 3]
    del vs[n - 5]
    del ws[2:5], ws[:1], ws[-2:], ws[4:2], ws[1:-1]
    return xs, ys, zs, us, vs, ws, [x, 2.0, 3.0][:n - 4]


def _sorted_by_keys(a):
    xs = []
    for i, v in enumerate(a):
        xs.append((int(10 * v) % 3, v, [i, v]))
    xs.sort(key=lambda t: t[0])
    ys = sorted(xs, key=operator.itemgetter(0), reverse=True)
    rows = [[i % 3, i] for i in range(len(a))]
    return xs, ys, sorted(a, key=abs), sorted(a, key=abs, reverse=True), sorted(rows), sorted(rows, reverse=True)


def _searched(n):
    known = [3, 1, 2, 1]
    removed = list(known)
    removed.remove(n)
    return known.index(n), known.count(n), removed


def _comprehensions(n, a):
    return ([i * j for i in range(n) for j in range(i)], [(i, v) for i in range(n) for v in a if (i + v) % 3 < 1],
            [v for v in (a[0], a[1], 2) if v > 0], [k * v for k in (1, 2) for v in a if v != k],
            list(v for v in (a[0], 4) if v > 1), [k for k in range(3) if k != 1])


def _beside_arrays(a):
    both = [(u, v) for u, v in zip((10, 20, 30), a)]
    counted, functions = 0.0, [math.sin, math.cos, abs]
    for i, (u, v) in enumerate(zip((10, 20, 30), a), 1):
        if v > 6:
            break
        if v == 1:
            continue
        counted += i * u * v
    else:
        counted += 1000
    for f, v in zip(functions, a):
        counted += f(v)
    largest = max((u - v for u, v in zip((10, 20, 30), a)), default=-1)
    mapped = float(sum(map(lambda f, v: f(v), functions, a)))
    return both, counted, mapped, float(largest), any(u > 20 for u, _ in zip((20, 30), a))


def _place_at_run_time(n):
    out = [1, 2, 3]
    out.insert(n, 4)
    removed = out.pop(n - 1)
    return out, removed


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (_filtered, (np.linspace(-1, 1, 9),)), (_sieve, (60,)), (_runs, (np.array([1, 1, 2, 3, 3, 3, 1]),)),
    (_runs, (np.array([], dtype=int),)), (_from_int_to_float, (np.linspace(0, 1, 5),)), (_methods, (12,)),
    (_elements_replaced_while_walked, (7,)), (_heaps, (20,)), (_heaps, (3,)), (_of_integers, (np.arange(4),)),
    (_heap_of_pairs, (np.array([3, 1, 2, 1, 5, 4]),)), (_of_a_function, (6,)), (_place_at_run_time, (2,)),
    (_of_one_element, (2.0, 4)), (_slices_changed, (6, 1.5)), (_sorted_by_keys, (np.sin(np.arange(40.0) ** 2),)),
    (_searched, (1,)), (_searched, (3,)), (_comprehensions, (5, np.array([1, -2, 3]))),
    *((_beside_arrays, (np.arange(n),)) for n in (0, 1, 3, 5)), (_beside_arrays, (np.arange(7, 9),)),
]


def _expect_same(found: Any, want: Any) -> None:
    """Lists and tuples of the same structure with the same numbers, bools and floats told apart from integers."""
    if isinstance(want, (list, tuple)):
        assert type(found) is type(want)
        assert len(found) == len(want)
        for x, y in zip(found, want):
            _expect_same(x, y)
    else:
        assert np.asarray(found).dtype == np.asarray(want).dtype
        assert found == want


@pytest.mark.parametrize(("f", "args"), CASES, ids=lambda v: getattr(v, "__name__", ""))
def test_as_python(f: Callable[..., Any], args: tuple[Any, ...]) -> None:
    want = f(*copy.deepcopy(args))
    _expect_same(jit(f)(*args), want)
    _expect_same(tracing.run(tracing.trace(f, *args), *args), want)


# --- errors -----------------------------------------------------------------------------------------

def _wrong(n, k):
    a = []
    for i in range(n):
        a.append(i)
    if k == 0:
        return a[n]
    if k == 1:
        return a[-n - 1]
    if k == 2:
        a.clear()
        a.pop()
    if k == 3:
        return a.index(1000)
    if k == 4:
        a.remove(1000)
    if k == 5:
        return a.pop(n)
    if k == 6:
        a[n] = 1
    if k == 7:
        del a[n]
    return 0


def test_errors_are_pythons() -> None:
    compiled = jit(_wrong)
    for k in range(8):
        with pytest.raises((IndexError, ValueError)) as want:
            _wrong(5, k)
        with pytest.raises(want.type) as got:
            compiled(5, k)
        assert str(got.value) == str(want.value)
    assert compiled(5, 8) == 0


def _grows_while_walked(x):
    out = [x]
    for i in range(3):
        out.append(i * x)
    for v in out:
        if v > 1:
            out.append(v)
    return out[-1]


def _different_kinds(x):
    out = []
    for i in range(int(5 * x)):
        out.append(x)
        out.append((x, i))
    return len(out)


def test_refused() -> None:
    refuses(_grows_while_walked, "changes the length of the list it walks", "list(xs)")
    refuses(_different_kinds, "a list of length 0 or 2, depending on the path", "of as many numbers")
    refuses(lambda x: [[0] * (n + 1) for n in range(int(9 * x))], "a list of lists, of lengths", "np.zeros((n, m))")
    refuses(lambda x: [[] for _ in range(int(9 * x))], "without a number in its elements", "arrays")
    refuses(lambda x: sorted([[np.ones(2), i] for i in range(int(9 * x))])[0][1], "by what are neither numbers nor",
            "a `key`")
    with pytest.raises(UnsupportedError, match="a slice with a step"):
        jit(_slice_with_a_step)(3)


def _slice_with_a_step(n):
    a = [0.0] * n
    a[::2] = [1.0, 2.0]
    return a
