"""Reductions of ``map``, ``zip``, ``enumerate``, ``reversed`` and ranges whose length is only known at run time."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest

from jitad import UnsupportedError, grad, jit
from tests import tracing
from tests.small_programs import Program, check, check_compiled, refuses

pytestmark = pytest.mark.any_level

PROGRAMS: list[Program] = []
A = np.array([0.3, -0.6, 1.1])


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


def some(x: Any) -> Any:
    """An array whose length depends on ``x``: 5 or 8."""
    return np.sin(np.arange(2 + int(x * 5))) * x


@jit
def cube(v):
    return v ** 3


# --- map ------------------------------------------------------------------------------------------------

@program
def sum_of_map(x):
    return sum(map(lambda v: v * x, some(x))) + sum(map(cube, some(x)), start=x)


@program
def map_of_several(x):
    return sum(map(lambda a, b, i: a * b * i, some(x), some(x * 2), range(1, 100)))


@program
def map_of_a_closure(x):
    def scaled_by(k):
        return lambda v: math.sin(k * v)
    return sum(map(scaled_by(x), some(x)))


@program
def map_of_a_lambda_chosen_at_run_time(x):
    f = (lambda v: v * x) if x > 1 else (lambda v: v * v)
    return sum(map(f, some(x))) + max(map(f, some(x)))


@program
def map_over_an_array_chosen_at_run_time(x):
    return sum(map(lambda v: v * x, some(x) if x > 1 else A))


@program
def map_of_rows(x):
    m = np.outer(some(x), A)
    return sum(map(lambda row: row * x, m))[2] + sum(map(sum, m))


@program
def map_that_keeps_count(x):
    calls = [0]

    def scaled(v):
        calls[0] += 1
        return v * x
    return sum(map(scaled, some(x))) * calls[0]


@program
def map_of_map(x):
    return sum(map(lambda i, v: i * v, range(50), map(lambda v: v * x, reversed(some(x)))))


@program
def walked_once(x):
    m = map(lambda v: v * x, some(x))
    return sum(m) + sum(m)


@program
def walked_to_its_end(x):
    m = map(lambda v: v * x, some(x))
    s = 0.0
    for v in enumerate(m):
        if v[0] == 1:
            continue
        s += v[1]
    for v in m:
        s += v
    g = (v * x for v in some(x))
    for w in zip([x, 1.0], [x, 2.0]):
        if w[0] * x > 1:
            break
    return s + sum(g) + sum(g) + w[1]


@program
def map_of_a_long_constant_range(x):
    return sum(map(lambda i: math.cos(i * x), range(200)))


# --- zip, enumerate, reversed, range ----------------------------------------------------------------

@program
def greatest_pair(x):
    v, i = max(zip(some(x), range(50)))
    return v * x + i


@program
def greatest_by_number(x):
    i, v = max(enumerate(some(x)), key=lambda pair: pair[1])
    return v * i


@program
def sum_of_reversed(x):
    return sum(reversed(some(x))) * x + max(reversed(some(x))) + sum(range(int(x * 5)), x)


@program
def products(x):
    return math.prod(map(lambda v: v + 2.0, some(x))) + math.prod(v * x for v in A) + math.prod(reversed(some(x) + 1))


@program
def products_from_a_start(x):
    return math.prod(range(1, int(x * 6)), start=x) + math.prod((v for v in some(x) if v > 0), start=x)


@program
def float_sums(x):
    return math.fsum(map(cube, some(x))) + math.fsum(v * x for v in A) + math.fsum(range(int(x * 5))) * x


@program
def extremes_of_map(x):
    f = functools.partial(lambda a, v: (v - a) ** 2, x)
    return min(map(f, some(x))) + max(map(f, some(x))) * x


@program
def extremes_by_key(x):
    a = some(x)
    near = min(a, key=lambda v: abs(v - 0.2)) + min(map(cube, a), key=lambda v: abs(v - 0.2))
    return near * a[max(range(len(a)), key=lambda i: a[i])] + max((v * x for v in a), key=lambda v: -v)


@program
def extremes_of_nothing(x):
    nothing = np.zeros(int(x * 0.1))
    by_key = min(map(cube, nothing), key=abs, default=x)
    return min(map(cube, nothing), default=x * x) + by_key + max(reversed(nothing), default=3.0)


@program
def sums_of_nothing(x):
    nothing = np.zeros(int(x * 0.1))
    empty = any(map(cube, nothing)) + all(map(cube, nothing))
    return sum(map(cube, nothing), x) + math.prod(map(cube, nothing)) * x + empty * x


@program
def reduced_map(x):
    return functools.reduce(lambda a, b: a * 0.5 + b * x, map(cube, some(x)))


# --- any and all stop -------------------------------------------------------------------------------

@program
def any_and_all_of_map(x):
    near = any(map(lambda v: v > 0.9 * x, some(x)))
    return x * x if near and all(map(lambda a, b: a < b + 2, some(x), some(x))) else x


def counted(x, reduce):
    """Counts evaluations of conditions, of elements, and of elements of ``map``."""
    calls = [0, 0, 0]

    def count(k, v):
        calls[k] += 1
        return v
    a = some(x)
    one = reduce(count(1, v > 0.5 * x) for v in a if count(0, v > -5))
    two = reduce(count(1, u * v > 0) for u in a if count(0, u != 0) for v in a if count(0, v < 5))
    three = reduce(map(lambda v: count(2, v > 0.5 * x), a))
    four = reduce(count(1, v * x > 0) for v in (1.0, -1.0, 2.0) if count(0, v < 5 * x))
    return x * x * (calls[0] + 100 * calls[1] + 10000 * calls[2]) + one + two * x + three + four


@program
def any_evaluates(x):
    return counted(x, any)


@program
def all_evaluates(x):
    return counted(x, all)


@program
def conditions_narrow(x):
    y = None if x > 1 else x
    seen = all(v * v < 1 for v in (y, x) if v is not None) + any(v > 0 for v in (y, x) if v is not None if v < 1)
    found = any((w := v * x) < 5 for v in some(x) if (u := v + x) > -5 if u < 9)
    return x * seen + x * x * found * w


@program
def any_of_a_stream_chosen_at_run_time(x):
    calls = [0]

    def count(v):
        calls[0] += 1
        return v > 0
    a = some(x) + 0.1
    return any(map(count, a) if x > 1 else a) * x + x * x * calls[0] + all(count(v) for v in (a if x > 1 else A)) * x


@program
def any_before_an_error(x):
    a = some(x) + 1 - np.arange(2 + int(x * 5))
    found = any(math.sqrt(v) > 0 for v in a if math.log(v) < 5)
    return x * x if found and not all(map(lambda v: math.sqrt(v) > 5, a)) else x


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f: Program) -> None:
    check(f)


@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS)


def test_gradient_for_an_array() -> None:
    def f(a):
        return sum(map(lambda u, v: u * v, a, reversed(a))) + math.prod(map(math.cos, a)) + max(map(cube, a))
    a, h = np.array([0.3, 0.5, 1.2, 0.8]), 1e-6
    steps = [(f(a + h * e) - f(a - h * e)) / (2 * h) for e in np.eye(4)]
    assert grad(f)(a) == pytest.approx(steps, rel=1e-6)
    assert jit(f)(a) == pytest.approx(f(a))


def test_refused() -> None:
    refuses(lambda x: tuple(zip(some(x), A))[0][0], "a list or tuple of a length", "np.zeros")


def left(x, stop):
    m = map(lambda v: v * x, some(x))
    stop(m)
    return sum(m)


def first(m):
    for v in m:
        return v
    return 0.0


def left_by_break(m):
    for v in m:
        if v > 0:
            break


def test_a_stream_that_is_left_midway_is_not_walked_again() -> None:
    for stop in (any, all, first, left_by_break, lambda m: any(v > 0 for v in m), lambda m: sum(zip(m, m))):
        refuses(lambda x, stop=stop: left(x, stop), "may have been walked before", "list")
    for stop in (any, left_by_break):
        def over_a_list(x, stop=stop):
            z = zip([x, 1.0], [x, 2.0])
            stop(v > 0 for v, _ in z)
            return sum(a * b for a, b in z)

        def generator(x, stop=stop):
            g = (v for v in (x, 1.0))
            stop(g)
            return sum(g)
        refuses(lambda x: (x in (m := map(abs, [x, 2.0]))) + sum(m), "may have been walked before", "list")
        refuses(lambda x: sum(itertools.islice(m := map(abs, [x, 2.0]), 1)) + sum(m), "may have been walked before")
        refuses(over_a_list, "may have been walked before", "list")
        refuses(generator, "may have been walked before", "list")


def test_errors_are_pythons() -> None:
    for f in (lambda x: min(map(cube, some(x)[9:])), lambda x: max(reversed(some(x)[9:]), key=abs),
              lambda x: functools.reduce(max, map(cube, some(x)[9:])), lambda x: sum(zip(some(x), some(x))),
              lambda x: sum(map(math.sqrt, some(x)))):
        with pytest.raises((ValueError, TypeError)) as expected:
            f(0.7)
        with pytest.raises(type(expected.value)) as found:
            tracing.run(tracing.trace(f, 0.7), 0.7)
        if isinstance(expected.value, ValueError):
            assert str(found.value).startswith(str(expected.value).split(",")[0]), found.value


def test_an_iterator_goes_on_where_what_took_some_of_it_stopped() -> None:
    def sliced(x: float) -> float:
        it = iter([x, 2 * x, 3 * x])
        return sum(itertools.islice(it, 2)) * 100 + sum(it)

    def while_small(x: float) -> float:
        it = iter([1, 2, 5, 3])
        return sum(itertools.takewhile(lambda v: v < 3, it)) * x + sum(it)

    def found(x: float) -> float:
        it = iter([x, 2 * x, 3 * x])
        return sum(it) if x in it else 0.0
    for program in (sliced, while_small):
        assert jit(program)(1.0) == program(1.0)
    with pytest.raises(UnsupportedError, match="walked by `in` as well"):
        jit(found)(1.0)


def test_how_much_another_function_took_of_a_stream_is_not_known() -> None:
    def all_of(items: Any) -> float:
        return sum(items)

    def first_of(items: Any) -> float:
        return next(items)
    for taker in (all_of, first_of):
        def program(x: float, taker: Any = taker) -> float:
            made = zip([x, 1.0], [2.0, x])
            return taker(a * b for a, b in made) + len(list(made))
        refuses(program, "may have been walked before")


# --- as many as there are names -------------------------------------------------------------------------

def of_a_generator(a):
    r, g, b = (v * v + 1 for v in a)
    return r + 2 * g + 3 * b


def of_zip(a):
    (r, x), (g, y), (b, z) = zip(a, a[::-1])
    return r + 2 * g + 3 * b + 4 * x + 5 * y + 6 * z


def of_enumerate(a):
    (i, r), (j, g), (k, b) = enumerate(a)
    return r + i + 2 * g * j + 3 * b * k


def of_map(a):
    r, g, b = map(lambda v, w: v * w, reversed(a), a)
    return r + 2 * g + 3 * b


def of_a_range(a):
    i, j, k = range(len(a))
    return a[i] + 2 * a[j] + 3 * a[k]


def of_a_comprehension(a):
    r, g, b = [v * v for v in a]
    return r + 2 * g + 3 * b


def of_a_chosen_map(a):
    r, g, b = map(abs if a[0] > 1 else math.sin, a)
    return r + 2 * g + 3 * b


@pytest.mark.parametrize("f", (of_a_generator, of_zip, of_enumerate, of_map, of_a_range, of_a_comprehension,
                               of_a_chosen_map), ids=lambda f: f.__name__)
def test_the_names_say_how_many_elements_there_are(f: Program) -> None:
    compiled = jit(f)
    for a in (A, A + 1):
        assert compiled(a) == pytest.approx(f(a), rel=1e-14)
        step = np.array([1e-6, 0.0, 0.0])
        assert grad(f)(a)[0] == pytest.approx((f(a + step) - f(a - step)) / 2e-6, rel=1e-6)
    for n in (0, 2, 4):
        if f is not of_a_chosen_map or n:
            with pytest.raises(ValueError) as expected:
                f(np.ones(n))
            with pytest.raises(ValueError) as found:
                compiled(np.ones(n))
            if f is not of_a_comprehension:              # which makes a list, that is unpacked as an array is
                assert str(found.value).split("\n")[0] == str(expected.value)


def test_elements_before_the_missing_one_are_evaluated() -> None:
    def f(a: Any) -> float:
        r, g, b = (math.sqrt(v) for v in a)
        return r + g + b
    with pytest.raises(ValueError, match="expected 3, got 2"):
        jit(f)(np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="math domain error|nonnegative"):
        jit(f)(np.array([1.0, -2.0]))


def test_nothing_is_left_of_what_was_unpacked() -> None:
    def twice(a: Any) -> float:
        g = (v * v for v in a)
        r, s, t = g
        return r + s + t + sum(g)

    def again(a: Any) -> float:
        z = map(abs, a)
        r, s, t = z
        (u,) = z
        return r + s + t + u

    def columns(a: Any) -> float:
        z = zip(a, a)
        r, s, t = (v * w for v, w in z)
        return r + s + t + sum(v for v, _ in z)
    for f in (twice, columns):
        assert jit(f)(A) == pytest.approx(f(A))
    with pytest.raises(ValueError, match="expected 1, got 0"):
        jit(again)(A)
