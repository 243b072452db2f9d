"""Programs by theme: the interpreter's results for the traced IR against CPython's."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from jitad.errors import TypeInferenceError, UnsupportedError
from jitad.frontend.operations.builtin import unroll
from tests import tracing

pytestmark = pytest.mark.any_level

TABLE = np.array([1.0, 2.0, 3.0])
CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []
REFUSED: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = []


def case(*inputs: tuple[Any, ...]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run the function on each of these argument tuples."""
    def note(fun: Callable[..., Any]) -> Callable[..., Any]:
        CASES.extend((fun, args) for args in inputs)
        return fun
    return note


def refused(message: str, *args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Tracing the function for these arguments fails with this message."""
    def note(fun: Callable[..., Any]) -> Callable[..., Any]:
        REFUSED.append((fun, args, message))
        return fun
    return note


def v(*xs: float) -> np.ndarray:
    return np.array(xs, dtype=float)


# --- control flow ---------------------------------------------------------------------------------

@case((2.5, 10), (100.0, 3), (0.5, 0))
def loops_with_an_int_that_becomes_a_float(x, n):
    s = 0
    for i in range(n):
        if x > i:
            s += x * i
        else:
            s -= 1
    while s > 10:
        s = s / 2
    return s


@case((1.0,), (-5.0,), (-0.5,))
def early_returns(x):
    if x > 0:
        return x * 2
    elif x < -1:
        return x
    return 3


@case((v(1, 3, 2, 5),), (v(5, 4),), (v(),))
def breaks_in_nested_loops(a):
    n = len(a)
    s = 0.0
    for i in range(n):
        for j in range(i):
            if a[j] > a[i]:
                break
            s += a[j] * a[i]
        else:
            s += 1
            continue
        s -= 0.5
    return s


@case((4,), (10,))
def continue_break_and_else(n):
    out = np.zeros(n)
    for i in range(n):
        if i % 2:
            continue
        out[i] = i
        if i > 5:
            break
    else:
        out[0] = -1
    return out


@case((100.0,), (3.0,))
def an_endless_loop_left_by_break(x):
    s, i = 0.0, 0
    while True:
        i += 1
        if i % 2 == 0:
            continue
        if i > 10 or s > x:
            break
        s += i
    return s, i


@case((27,), (1,))
def return_from_a_loop(n):
    k = 0
    while True:
        if n == 1:
            return k
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        k += 1


@case((v(0, 1, 2), 5), (v(), 0), (v(1), 3))
def ranges(a, k):
    t = 0.0
    for x in reversed(a):
        t = t * 0.5 + x
    for i in range(k, 0, -2):
        t += i
    for i in reversed(range(k)):
        t -= i * 0.1
    for i in range(1, 10, k + 1):
        t += i
    return t


@case((1.0, 2.0), (4.0, 6.0), (0.5, 0.2))
def chains_and_logic(x, y):
    both = x < y < 3 and x > 0
    return both or y > 5, not both, (x or y), (x > 1 and y), 0 < x <= 1


@case((1,), (3,), (7,))
def match_on_constants(x):
    match x:
        case 1:
            return 10.0
        case 2 | 3:
            return 20.0
        case y if y > 5:
            return 5.0
        case _:
            return 0.0


@case((3,), (0,))
def maybe_unbound_after_a_loop(n):
    for i in range(n):
        y = i * 2
    return y, i


@case((1.0,), (-1.0,))
def maybe_unbound_after_an_if(x):
    if x > 0:
        y = 1.0
    return y


@case((4.0,), (-4.0,), (-1.0,), (11.0,))
def errors_of_the_user(x):
    assert x > -2, f"bad {x}"
    if x > 10:
        raise KeyError("large")
    if x < 0:
        raise ValueError(f"negative: {x:.2f} {{}}")
    return math.sqrt(x)


@case((3.0,), (0.0,))
def certain_errors_on_one_path(x):
    if x > 1:
        return {"a": 1.0}["b"]
    return [x][0]


@case((2.0,))
def unrolled_by_request(x):
    xs = [x, x * x, 1.0]
    s = 0.0
    for i in unroll(range(3)):
        s += xs[i] * i
    return s


@case((10,), (1,))
def generator_expressions(n):
    return (sum(i * i for i in range(n)), max(i % 7 for i in range(n)), any(i > 5 for i in range(n)),
            all(i < 20 for i in range(n)), sum(i for i in range(n) if i % 2), [i * 2 for i in range(3)])


@case((0,))
def empty_extremum(n):
    return max(i % 7 for i in range(n))


# --- functions ------------------------------------------------------------------------------------

def square(x):
    return x * x


@case((3.0,))
def calls(x):
    return square(x) + square(2.0 * x) + square(2)


@case((6,), (1,))
def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


@case((10,))
def fibonacci(n):
    if n < 2:
        return n
    return fibonacci(n - 1) + fibonacci(n - 2)


@case((7,), (8,))
def even(n):
    if n == 0:
        return True
    return odd(n - 1)


def odd(n):
    if n == 0:
        return False
    return even(n - 1)


def power(x, n):
    if n == 0:
        return 1.0
    return x * power(x, n - 1)


@case((2.0,))
def recursion_on_a_static_number(x):
    return power(x, 5)


def tree(i, left, right, value):
    if i < 0:
        return 0.0
    return value[i] + tree(left[i], left, right, value) * tree(right[i], left, right, value)


@case((np.array([1, -1, -1]), np.array([2, -1, -1]), v(1, 2, 3)))
def tree_recursion(left, right, value):
    return tree(0, left, right, value)


@case((2.0,))
def closures(x):
    def g(y):
        return x * y
    h = lambda z: g(z) + x                                               # noqa: E731
    first = h(3.0)
    x = x + 1                                                            # seen by g: late binding
    return first, h(3.0)


@case((2.0, 3))
def nonlocal_state(x, n):
    def add(y):
        nonlocal c
        c += y
        return c
    c = 0.0
    for _ in range(n):
        add(x)
    return c


@case((0.3,))
def functions_in_a_list(x):
    return [f(x) for f in (math.sin, math.cos, lambda z: z * z)]


def twice(f, x):
    return f(f(x))


@case((2.0,))
def functions_as_arguments(x):
    product = functools.reduce(lambda a, b: a * b, [x, x, 2.0])
    return twice(lambda z: z * x, x), functools.partial(power, n=3)(x), product


def with_everything(x, *rest, k=2, **others):
    return x + sum(rest) + k + sum(others.values())


@case((1.0,))
def parameters(x):
    args = (x, 1, 2)
    return with_everything(*args, k=3, m=x), with_everything(x), with_everything(x, **{"k": x})


@case((3.0,))
def captured_constants(x):
    def inner(y):
        return (TABLE * y).sum()
    return inner(x) + TABLE[1], TABLE * x


# --- data -----------------------------------------------------------------------------------------

class Pair(NamedTuple):
    x: float
    y: float


@dataclass
class Point:
    a: float
    b: float = 2.0

    def total(self):
        return self.a + self.b


class Layer:
    def __init__(self, w):
        self.w = w
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return self.w * x

    @property
    def double(self):
        return 2 * self.w


@case((2.0,))
def named_tuples(x):
    p = Pair(x, 2 * x)
    q = Pair(p.y, y=p.x)
    return q.x - q.y, q


@case((1.0,))
def dataclasses_are_mutable(x):
    p = Point(x)
    p.a += 1
    return p.total(), p


@case((2.0,))
def objects(x):
    f = Layer(x)
    return f(3.0) + f(1.0) + f.calls + f.double


@case((1.5,))
def lists_and_dicts(x):
    xs = [x, 2 * x]
    ys = xs
    ys.append(3.0)
    xs[0] = xs[0] + 1
    d = {"a": x, "b": 1}
    d["c"] = x + 1
    first, *rest = xs
    return sum(xs) + d["c"] + d["a"], xs, d, rest, [k for k in d], len(ys)


@case((1.0, 4))
def tuples_as_state(x, n):
    state = (x, 0.0)
    for _ in range(n):
        state = (state[1] + 1, state[0] * 0.5)
    return state


@case((1.0,))
def a_dict_changed_in_a_loop(x):
    d = {"w": x, "b": [1.0, 2.0]}
    for _ in range(3):
        d["w"] = d["w"] * 2
        d["b"][0] += x
    return d


@case((1.0, 2.0), (3.0, 2.0))
def unpacking_a_conditional(x, y):
    a, b = (x, y) if x < y else (y, x)
    return b - a


@case((1.0,))
def static_questions(x):
    return x in (1.0, 2.0), isinstance(x, float), isinstance(x, int), x is None, type(x) is float


# --- arrays and aliasing ----------------------------------------------------------------------------

@case((v(0, 1, 2, 3),))
def two_names_of_one_array(a):
    b = a.copy()
    c = b
    c[0] = 5.0
    r = b[1:]
    r[0] += 10
    c += 1
    return b, c.sum(), r


@case((v(1, 2, 3),))
def views_of_views(a):
    m = np.zeros((3, 3))
    row = m[1]
    row[2] = a[0]
    m.T[0] = 7
    flat = m.reshape(-1)
    flat[8] = 3
    m[0][1:][0] = 9
    return m, row, flat


@case((v(0, 1, 2),))
def a_row_of_a_matrix_in_a_loop(a):
    m = np.zeros((len(a), len(a)))
    for i in range(len(a)):
        row = m[i]
        for j in range(len(a)):
            row[j] = a[i] * a[j]
    return m


def put(a, i, x):
    a[i] = x


def same_one(a, b):
    a[0] = 1.0
    return b


@case((4,), (0,))
def a_callee_that_writes(n):
    z = np.zeros(n)
    for i in range(n):
        put(z, i, i * 1.5)
    return z


@case((2.0,))
def aliasing_through_calls(x):
    a = np.zeros(3)
    b = same_one(a, a)                   # a itself comes back
    b[1] = x
    c = same_one(a, a.copy())
    c[2] = 5.0
    m = np.zeros((2, 3))
    put(m[1], 0, x)                      # written through a view
    return a, b, c, m


@case((0.5, 3), (0.5, 4), (0.5, 0))
def swapped_buffers(x, n):
    u, w = np.zeros(2), np.ones(2)
    for _ in range(n):
        u, w = w, u
        u[0] += x
    return u, w


@case((v(1, 1),), (v(-1, 0),))
def reading_one_of_two(a):
    b, d = np.zeros(3), np.ones(3)
    c = b if a[0] > 0 else d
    return c.sum(), c


@case((v(1, 1),), (v(-1, 0),))
def made_on_both_paths(a):
    if a[0] > 0:
        b = np.zeros(3)
    else:
        b = np.ones(3)
    b[0] = 7.0
    return b


@case((v(1, 5, 2),))
def arg_max_by_hand(a):
    best, k = a[0], 0
    for i, x in enumerate(a):
        if x > best:
            best = x
            k = i
    return best, k


@case((v(0, 1, 2), v(1, 2, 3)), (v(1), v(2)))
def zip_of_arrays(a, b):
    s = 0.0
    for x, y in zip(a, b):
        s += x * y
    return s


@case((0.5, 3))
def a_new_array_each_iteration(x, n):
    h = np.zeros(3)
    for _ in range(n):
        h = np.tanh(h + x)
    return h


@case((np.arange(6.0).reshape(2, 3),))
def writes_reshaped_results_in_order(a):
    b = a.T.copy() * 0.5
    b.reshape(6)[0] = 3
    c = a.T @ a
    c.reshape(-1)[2] = 5
    d = a.T.sum(axis=0)
    d.reshape(2, 1)[0, 0] = 7
    e = np.zeros_like(a.T, order="C")
    e.reshape(-1)[1] = 2
    return b, c, d, e


@case((v(1, -1, 2),), (v(-1, -1, -2),))
def filters(a):
    return [i for i in range(3) if a[i] > 0]


@case((1.0,), (-1.0,))
def several_lengths(x):
    xs = [{"x": x}]
    if x > 0:
        xs.append({"x": 2 * x})
    return xs


@pytest.mark.parametrize("fun, args", CASES, ids=[f"{f.__name__}{i}" for i, (f, _) in enumerate(CASES)])
def test_program(fun: Callable[..., Any], args: tuple[Any, ...]) -> None:
    tracing.check(fun, *args)


# --- what is refused --------------------------------------------------------------------------------

@refused("writes into an array that may not be written: it belongs to the caller", v(1))
def writes_an_argument(a):
    a[0] = 1
    return a


@refused("it is a constant", 1.0)
def writes_a_constant(x):
    TABLE[0] = x
    return x


@refused("it may be one of several arrays", v(1))
def writes_one_of_two(a):
    b, d = np.zeros(3), np.ones(3)
    c = b if a[0] > 0 else d
    c[0] = 3
    return b


@refused("one of which has changed since", v(1))
def reads_one_of_two_after_a_write(a):
    b, d = np.zeros(3), np.ones(3)
    c = b if a[0] > 0 else d
    b[0] = 7
    return c.sum()


@refused("may make it a view or a copy", 2 * np.ones((2, 3)))
def writes_a_reshaped_array_in_another_order(a):
    b = a.T * 0.5                                  # in NumPy in the order of `a`, so that reshape copies
    b.reshape(6)[0] = 3
    return b


@refused("may make it a view or a copy", np.ones((2, 3)), np.array([0, 1]))
def writes_reshaped_columns(a, at):
    b = a[:, at]
    b.reshape(-1)[0] = 3
    return b


@refused("may make it a view or a copy", np.ones((2, 3)))
def writes_reshaped_rows_of_columns(a):
    b = np.concatenate([a.T, a.T])
    b.reshape(-1)[0] = 3
    return b


@refused("may make it a view or a copy", np.ones((2, 3)))
def writes_reshaped_tiles(a):
    b = np.tile(a.T, (1, 1))
    b.reshape(-1)[0] = 3
    return b


@refused("may make it a view or a copy", 3)
def writes_reshaped_columns_of_zeros(n):
    b = np.zeros((2, n), order="F")
    b.reshape(-1)[0] = 3
    return b


@refused("may make it a view or a copy", np.ones((3, 3)), 1)
def writes_what_comes_of_one_of_two(a, k):
    b = a.T if k > 0 else (a * 2).T
    c = b * 2.0
    c.reshape(-1)[0] = 3
    return c


def changes_the_first(a, k):
    if k == 0:
        a.reshape(-1)[0] = 3
        return a.sum()
    return changes_the_first(a, k - 1)


@refused("may make it a view or a copy", 2 * np.ones((2, 3)), 2)
def passes_on_what_is_in_another_order(a, k):
    return changes_the_first(np.zeros_like(a.T), k)


@refused("may make it a view or a copy", 2 * np.ones((2, 3)))
def writes_what_may_be_contiguous(a):
    b = np.ascontiguousarray(a.T)
    b[0, 0] = 3
    return b


@refused("`try` is not supported", 1.0)
def catches(x):
    try:
        return x
    except ValueError:
        return 1


@refused("indexes a list by a value", 1)
def dynamic_index_of_a_long_list(n):
    return [1.0 for i in range(100)][n]


@refused("`print`", 1.0)
def prints(x):
    print(x)
    return x


def endless(x):
    return endless(x) + 1


@refused("calls itself on every path", 1.0)
def recursion_without_an_end(x):
    return endless(x)


@pytest.mark.parametrize("fun, args, message", REFUSED, ids=[f.__name__ for f, _, _ in REFUSED])
def test_refused_with_the_line(fun: Callable[..., Any], args: tuple[Any, ...], message: str) -> None:
    with pytest.raises((UnsupportedError, TypeInferenceError)) as e:
        tracing.trace(fun, *args)
    assert message in str(e.value)
    assert e.value.loc is not None and e.value.loc.file == __file__ and e.value.loc.line


def test_a_function_without_source_is_refused() -> None:
    space: dict[str, Any] = {}
    exec("def f(x): return x", space)
    with pytest.raises(UnsupportedError, match="no source"):
        tracing.trace(space["f"], 1.0)


def test_lambdas_on_one_line_are_told_apart() -> None:
    f, g = (lambda x: x + 1), (lambda x: x * 10)
    assert tracing.check(f, 2.0) == 3.0 and tracing.check(g, 2.0) == 20.0


def test_a_counted_loop_has_the_canonical_shape() -> None:
    traced = tracing.trace(loops_with_an_int_that_becomes_a_float, 1.0, 3)
    header = next(b for b in traced.module.functions[traced.root].blocks if b.name == "loop")
    test = header.ops[-1]
    assert test.name == "lt" and test.operands[0] is header.params[0] and header.params[0].hint == "it"
    assert header.term is not None and header.term.name == "branch"


def test_every_op_knows_its_line() -> None:
    traced = tracing.trace(breaks_in_nested_loops, v(1, 2))
    ops = [op for f in traced.module.functions.values() for op in f.all_ops()]
    assert all(op.loc.file == __file__ and op.loc.line for op in ops)
