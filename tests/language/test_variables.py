"""Variables: closures, scopes, the order of evaluation, and iterators, which can be consumed once."""

from __future__ import annotations

import numpy as np
import pytest

import jitad
from jitad import jit
from tests import tracing
from tests.small_programs import Program, check, check_compiled, refuses

pytestmark = pytest.mark.any_level

PROGRAMS: list[Program] = []


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


# --- variables and the order of evaluation ----------------------------------------------------------

@program
def nonlocal_variable(x):
    total = 0.0

    def add(v):
        nonlocal total
        total += v * x
    for i in range(4):
        add(x * i)
    return total


@program
def nonlocal_beside_a_list(x):
    n = 0
    acc = []

    def push(v):
        nonlocal n
        n += 1
        acc.append(v * n)
    push(x)
    push(x * x)
    push(1.0)
    return sum(acc) + n


@program
def nonlocal_in_a_loop(x):
    n = 0.0

    def add(v):
        nonlocal n
        n = n * x + v
    for i in range(5):
        add(i)
    return n


@program
def nonlocal_through_two_functions(x):

    def outer():
        v = x

        def mid():
            nonlocal v

            def inner():
                nonlocal v
                v *= x
            inner()
            v += 1
        mid()
        return v
    return outer()


@program
def closures_that_share_a_variable(x):

    def make():
        n = 0.0

        def inc(v):
            nonlocal n
            n += v
            return n

        def get():
            return n
        return (inc, get)
    inc, get = make()
    inc2, get2 = make()
    inc(x)
    inc(x)
    inc2(1.0)
    return get() * get2() + get()


@program
def closures_that_share_a_list(x):
    log = []

    def f(v):
        log.append(v)
        return v * v
    y = f(x) + f(x + 1)
    return y * log[0] * log[1]


@program
def late_binding(x):
    fs = [lambda: i * x for i in [1, 2, 3]]                # noqa: B023
    return fs[0]() + fs[1]() * x


@program
def late_binding_in_a_loop(x):
    fs = []
    for k in (1.0, 2.0, 3.0):
        fs.append(lambda v: v * k)                         # noqa: B023
    return fs[0](x) * fs[2](x)


@program
def defaults_are_evaluated_once(x):
    y = x

    def f(v, w=y * 2):
        return v * w
    y = 100.0
    return f(x)


@program
def a_default_that_is_a_list(x):

    def f(v, acc=[]):                                  # noqa: B006
        acc.append(v)
        return sum(acc)
    f(x)
    return f(x * x)


@program
def comprehensions_have_a_scope(x):
    i = 5.0
    s = [i * x for i in range(3)]
    return s[2] * i


@program
def position_in_a_recursive_parser(x):
    tokens = np.array([1, 2, 0, 1, 2, 2, 0, 0])
    at = 0

    def expression():
        nonlocal at
        kind = tokens[at]
        at += 1
        if kind == 1:
            return expression() + expression() * 2.0
        if kind == 2:
            return expression() * x
        return x * x + at
    return expression() + at


@program
def sums_and_products_that_call_each_other(x):
    tokens = np.array([5, 1, 3, 5, 2, 5, 1, 5, 4, 2, 5])
    at = [0]

    def product():
        value = factor()
        while at[0] < len(tokens) and tokens[at[0]] == 2:
            at[0] += 1
            value *= factor()
        return value

    def total():
        value = product()
        while at[0] < len(tokens) and tokens[at[0]] == 1:
            at[0] += 1
            value += product()
        return value

    def factor():
        at[0] += 1
        if tokens[at[0] - 1] != 3:
            return x + 0.1 * at[0]
        value = total()
        at[0] += 1
        return value
    return total()


@program
def counts_of_recursive_calls(x):
    counts = {"calls": 0, "sum": 0.0}
    best = 0.0

    def search(k, s):
        nonlocal best
        counts["calls"] += 1
        counts["sum"] += s
        best = max(best, s)
        if k < 3:
            search(k + 1, s + x)
            search(k + 1, s * 0.5)
    search(0, x)
    return counts["calls"] * x + counts["sum"] + best


class _Visits:
    def __init__(self):
        self.count, self.weight = 0, 1.0

    def walk(self, k, x):
        self.count += 1
        self.weight *= x
        return x if k == 0 else self.walk(k - 1, x) + self.count * self.walk(k // 2, x)


@program
def attributes_that_change_in_recursive_calls(x):
    visits = _Visits()
    return visits.walk(4, x) + visits.weight * visits.count


@program
def nested_comprehensions(x):
    triangle = sum(sum(i * j * x for j in range(i)) for i in range(4))
    return triangle + sum(v for row in [[x, x * x], [1.0, x]] for v in row if True)


@program
def walrus(x):
    if (y := (x * x)) > 1.0:
        return y * x
    return (z := (y + 1)) * z


@program
def walrus_in_a_while_loop(x):
    s = 0.0
    v = x
    while (v := (v * 0.7)) > 0.1:
        s += v * v
    return s


@program
def starred_unpacking(x):
    a, *b, c = [x, x * x, x ** 3, 4.0 * x]
    return a + b[0] * b[1] + c


@program
def starred_and_nested(x):
    (a, [b, *c]), d = ((x, [x * x, x, 2.0]), x ** 3)
    return a * b + c[0] * c[1] * d


@program
def starred_arguments(x):

    def f(a, b, *r, k=1.0, **kw):
        return a * b + sum(r) * k + kw.get("z", 0.0)
    args = [x, x * x, x]
    return f(*args, x, k=x, **{"z": x ** 2})


@program
def chained_comparison_evaluates_once(x):
    n = [0]

    def get(v):
        n[0] += 1
        return v
    r = get(0.0) < get(x) < get(1.0) < get(5.0)
    return n[0] * x + (1.0 if r else 2.0)


@program
def value_before_target(x):
    log = []

    def g(k):
        log.append(k)
        return k
    a = [0.0, 0.0, 0.0]
    a[g(1)] = x * g(2)
    return a[1] * (10 * log[0] + log[1])


@program
def targets_from_left_to_right(x):
    a = [0, 0.0]
    i = 0
    i, a[i] = (1, x)
    return a[1] + a[0] * 2


@program
def assigned_from_left_to_right(x):
    i = 0
    a = [x, x]
    i = a[i] = 1
    return a[1] + a[0] * x + i


@program
def index_before_it_changes(x):
    a = [x, x * x, 2.0]
    i = 0
    a[i], i = (5.0, 2)
    return a[0] * x + i


@program
def augmented_reads_first(x):
    a = [x, 2.0]

    def f():
        a[0] = 10.0
        return 1.0
    a[0] += f()
    return a[0] * x


@program
def index_evaluated_once(x):
    a = [x, x, x]
    i = 0
    a[(i := (i + 1))] += x * x
    return a[1] * i


@program
def deleted_names(x):
    y = x * x
    z = y
    del y
    return z * x


@program
def deleted_on_one_path(x):
    y = x
    if x > 1:
        del y
        y = 2.0 * x
    return y


@program
def else_of_a_loop(x):
    l = [x]
    for _ in range(3):
        l[0] += x
    else:
        l.append(x * x)
    return l[0] * l[1]


@program
def annotated(x):
    y: float = x * x
    z: list[float] = [y]
    return z[0]


# --- iterators are consumed once --------------------------------------------------------------------

@program
def zip_twice(x):
    z = zip([x, 1.0], [2.0, x])
    a = sum((u * v for u, v in z))
    b = sum((u * v for u, v in z))
    return a + b


@program
def map_twice(x):
    m = map(lambda v: v * x, [1.0, 2.0])
    a = list(m)
    b = list(m)
    return a[1] + len(b)


@program
def generator_twice(x):
    g = (v * x for v in [1.0, 2.0])
    return sum(g) + sum(g)


@program
def a_generator_takes_its_source_at_once(x):
    k = 2.0
    xs = [x, 1.0]
    g = (v * k for v in xs)
    k = 3.0
    xs = [5.0]
    return sum(g)


@program
def an_iterator_sees_changes(x):
    xs = [x, 1.0]
    it = iter(xs)
    a = next(it)
    xs[1] = x * x
    return a * next(it)


@program
def streams_cross_calls(x):
    def doubled(items):
        return sum(items) * 2 + len(list(items))

    def pairs(a):
        return zip(a, [2.0, x])

    made = pairs([x, 1.0])
    first = doubled(v * x for v in [1.0, x])
    return first + doubled(a * b for a, b in made)


@program
def map_calls_when_it_is_walked(x):
    log, xs = [], [1.0, 2.0]

    def f(v):
        log.append(v)
        return v * x
    m = map(f, xs)
    xs[0] = 10.0
    before = len(log)
    return sum(m) * (before + 1) + len(log)


@program
def any_stops_at_the_first(x):
    calls = [0]

    def above(v):
        calls[0] += 1
        return v > 0.5
    found = any(above(v) for v in [0.1, x, 2.0])
    none = all(above(v) for v in [x, 0.2, 3.0])
    return calls[0] * x + (1.0 if found else 2.0) + (3.0 if none else 4.0)


@program
def a_new_list_from_an_expression(x):
    chosen = [x] if x > 1 else [x * x]
    chosen.append(1.0)
    return chosen[0] * chosen[1]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f: Program) -> None:
    check(f)


def test_compiled() -> None:
    check_compiled(PROGRAMS)


KEPT = [1.0, 2.0]


def default_of_a_module(v, acc=KEPT):
    acc.append(v)
    return sum(acc)


def global_through_a_name(x):
    mine = KEPT
    mine += [x]
    return mine[0]


def one_iterator_for_both(x):
    it = iter([x, 1.0, 2.0, x])
    return sum(a * b for a, b in zip(it, it))


def left_in_the_middle(x):
    it = iter([x, 1.0, x * x])
    for v in it:
        if v > 1.1:
            break
    return sum(it)


def walked_on_one_path(x):
    pairs = zip([x, 1.0], [2.0, x])
    if x > 1:
        x = sum(a * b for a, b in pairs)
    return x + sum(a for a, _ in pairs)


def test_refused() -> None:
    refuses(default_of_a_module, "changes a list from outside", "copy it first")
    refuses(lambda x: KEPT.append(3.0) or x, "changes a list from outside")
    refuses(global_through_a_name, "which is a constant here")
    assert KEPT == [1.0, 2.0]
    refuses(one_iterator_for_both, "walked by `zip` as well", "list")
    refuses(left_in_the_middle, "depends on the path taken", "list")
    refuses(walked_on_one_path, "may have been walked before", "list")


def test_unbound_is_an_error_as_in_python() -> None:
    def deleted(x):
        y = x
        del y
        return y                                           # noqa: F821

    def deleted_on_a_path(x):
        y = x
        if x > 1:
            del y
        return y

    for f, x in ((deleted, 0.7), (deleted_on_a_path, 1.3)):
        with pytest.raises(UnboundLocalError):
            tracing.run(tracing.trace(f, x), x)
    tracing.check(deleted_on_a_path, 0.7)


def _added(xs):
    total = 0.0
    for i in range(len(xs)):
        total += (xs[i] - 0.5) ** 2
    return total


def _multiplied(xs):
    product, i = 1, 0
    while i < len(xs):
        product *= xs[i]
        i += 1
    return product


@pytest.mark.parametrize("fun", [_added, _multiplied])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_a_python_number_that_a_loop_makes_one_of_numpys(fun, dtype) -> None:
    """It is weak: 0.0 plus f32 values is an f32."""
    xs = np.array([3, 2, 4], dtype)
    expected, found = fun(xs), jit(fun)(xs)
    assert found == expected and type(found) is type(expected.item() if expected.dtype.itemsize == 8 else expected)
    if xs.dtype.kind == "f":
        assert np.array_equal(jitad.grad(fun)(xs), jitad.grad(fun)(xs.astype(float)))
        assert jitad.grad(fun)(xs).dtype == dtype


def _or_three(x, a):
    return (a[1] if x > 0 else 3) % 0


def _after_a_loop(x, a):
    h = 5
    for i in range(int(x)):
        h += a[i]
    return (h - 1) // 0


def _the_least(x, a):
    return min(2, a[int(x)]) % 0


@pytest.mark.parametrize("fun, python, numpy",
                         [(_or_three, -1.0, 1.0), (_after_a_loop, 0.0, 2.0), (_the_least, 3.0, 0.0)],
                         ids=("choice", "loop", "min"))
def test_an_integer_that_may_be_pythons_raises_at_a_division_by_zero(fun, python, numpy):
    a = np.arange(4)
    with pytest.raises(ZeroDivisionError):
        fun(python, a)
    for x in (python, numpy):                       # whether it is Python's is not known at run time
        with pytest.raises(ZeroDivisionError):
            jit(fun)(x, a)


def test_numpy_integers_give_zero_in_a_division_by_zero():
    assert jit(lambda a: (a[1] + 2) % 0 + (3 * a[2]) // 0)(np.arange(4)) == 0


def _in_two_loops(x):
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            total += x[i] - x[j]
    return total


def _on_one_side(x):
    total = 0.0
    for i in range(len(x)):
        if x[i] > 0.3:
            total += x[i]
    return total


def _largest_in_a_while(x):
    best, i = -1.0, 0
    while i < len(x):
        for j in range(i):
            if j != 1:
                best = x[j] if x[j] > best else best
        i += 1
    return best


def _left_at_a_limit(x):
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            total = -(1.0 - total - x[j] * 0.5)
            if total > 2.0:
                break
        total -= 1
    return total


def _from_an_integer(x):
    return sum(abs(v) for v in x for w in x if v > w)


@pytest.mark.parametrize("f", [_in_two_loops, _on_one_side, _largest_in_a_while, _left_at_a_limit, _from_an_integer])
def test_a_constant_before_a_nest_takes_the_dtype_of_what_is_added(f):
    x = np.random.default_rng(0).random(20).astype(np.float32)
    value = jit(f)(x)
    assert type(value) is type(f(x)) is np.float32
    assert value == f(x)


def _root_beside(x):
    t, s = 0.0, np.float32(0)
    for i in range(len(x)):
        s += x[i]
        t = np.sqrt(t + 1.0)
    return t + 0.0 * float(s)


def _wider(x):
    t = 0.0
    for i in range(len(x)):
        for j in range(3):
            t += x[i] * np.float64(0.1) if j == 1 else x[i]
    return t


@pytest.mark.parametrize("f", [_root_beside, _wider])
def test_a_constant_that_becomes_an_f64_is_no_f32_because_there_is_one_nearby(f):
    x = np.random.default_rng(0).random(20).astype(np.float32)
    assert jit(f)(x) == pytest.approx(float(f(x)), rel=1e-15)
