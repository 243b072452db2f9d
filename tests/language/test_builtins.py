"""Builtins, ``functools``, ``operator`` and ``itertools`` in differentiated programs."""

from __future__ import annotations

import bisect
import collections
import copy
import functools
import heapq
import itertools
import math
import operator
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jitad import jit
from jitad.testing import check_grads
from tests import tracing
from tests.small_programs import Program, check, check_compiled, refuses

pytestmark = pytest.mark.any_level

PROGRAMS: list[Program] = []
A = np.array([0.3, -0.6, 1.1])


def program(f: Program) -> Program:
    PROGRAMS.append(f)
    return f


@functools.lru_cache
def fibonacci(n):
    return 1 if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.cache
def square(v):
    return v * v


@dataclass
class Box:
    a: Any

    def twice(self):
        return 2 * self.a


# --- map, zip, enumerate, reversed ------------------------------------------------------------------

@program
def map_sum(x):
    return sum(map(lambda v: v * x, [1.0, x, 3.0]))


@program
def map_two(x):
    return sum(map(operator.mul, [x, 2.0], (3.0, x)))


@program
def zip_mixed(x):
    s = 0.0
    for a, b, i in zip(A, A * x, range(5)):
        s += a * b * i
    for a, b in zip([x, 1.0], [2.0, x * x]):
        s += a * b
    return s


@program
def zip_star(x):
    a, b = zip(*[(x, 1.0), (x * x, 2.0)])
    return a[0] * a[1] + b[1]


@program
def enum_start(x):
    s = 0.0
    for i, v in enumerate(A, 1):
        s += i * v * x
    for i, v in enumerate([x, x * x], start=2):
        s += i * v
    return s


@program
def nested_enumerate(x):
    s = 0.0
    for i, (a, (j, b)) in enumerate(zip([x, x * x], enumerate([1.0, x]))):
        s += i * a + j * b * x
    return s


@program
def reversed_ranges_arrays_lists(x):
    s = 0.0
    for i in reversed(range(4)):
        s = s * x + i
    for v in reversed(A):
        s = s * 0.5 + v * x
    for v in reversed([x, x * x]):
        s = s * 2 + v
    return s


@program
def reversed_list(x):
    s = 0.0
    for i, v in reversed(list(enumerate([x, x * x, 1.0]))):
        s = s * x + i * v
    return s


# --- generator expressions --------------------------------------------------------------------------

@program
def over_an_array(x):
    return sum(v * x for v in A * x)


@program
def over_a_run_time_range(x):
    n = int(x * 5)
    return sum(math.sin(i * x) for i in range(n))


@program
def nested_with_a_condition(x):
    return sum(i * x + j for i in range(3) for j in range(i) if (i + j) % 2)


@program
def nested_over_arrays(x):
    return sum(u * v * x for u in A for v in A if v > 0)


@program
def least_and_greatest(x):
    return min(v * x for v in A) + max(abs(v) * x for v in A)


@program
def least_with_a_default(x):
    return min((v * x for v in [x] if False), default=x * x)


@program
def collected(x):
    t = tuple(v * x for v in (1, 2))
    l = list(v * x for v in (1, 2))
    d = dict((k, k * x) for k in (1, 2))
    return t[1] + l[0] + d[2]


@program
def any_and_all(x):
    return x * x if any(v > 1 for v in A) and all(v < 2 for v in A * x) else x


# --- min, max, sorted, sum --------------------------------------------------------------------------

@program
def sum_start(x):
    return sum([x, x * x], 1.0) + sum((v for v in [x]), start=2.0)


@program
def sum_lists(x):
    return sum([[x], [x * x]], [])[1]


@program
def sum_of_rows(x):
    return sum(sum(r) for r in np.ones((2, 3)) * x)


@program
def min_key(x):
    return min([x, -2.0, x * x], key=lambda v: abs(v - 1)) * x + max(x, 1.0, key=lambda v: -v)


@program
def least_of_tuples_by_key(x):
    a, b = min([(x, 1.0), (x * x, 2.0)], key=lambda t: t[0])
    return a * b


@program
def least_of_tuples(x):
    return min((x, 1.0), (x * x, 2.0))[1] * x


@program
def greatest_of_greatest(x):
    return max(max(r) for r in [[x, 1.0], [x * x, 0.5]]) * x


@program
def sorted_constants(x):
    return sum(k * x for k in sorted([3, 1, 2])) + sorted(["b", "a"]).index("b") * x


@program
def sorted_by_a_constant_key(x):
    r = sorted([("b", x), ("a", x * x)], key=lambda t: t[0])
    return r[0][1] * 2 + r[1][1]


@program
def sorted_numbers(x):
    r = sorted([x, 1.0, x * x])
    return r[0] + 2 * r[1] + 3 * r[2]


@program
def sorted_by_key_in_reverse(x):
    r = sorted([x, -1.5, x * x], key=abs, reverse=True)
    return r[0] + 2 * r[1] + 3 * r[2]


@program
def sort_method(x):
    r = [x, 1.0, x * x]
    r.sort()
    return r[0] + 2 * r[1] + 3 * r[2]


# --- numbers ----------------------------------------------------------------------------------------

@program
def quotient_and_remainder(x):
    q, r = divmod(x * 7, 2.0)
    a, b = divmod(7, int(x * 3))
    return q * x + r + a * b * x


@program
def rounded(x):
    return round(x * 10, 1) * x + round(x * 3) * x


@program
def absolute(x):
    return abs(-x) * abs(int(-x * 4))


@program
def conversions(x):
    return float(int(x * 3)) * x + bool(x) * x + int(True) * x


@program
def bits(x):
    return int(x * 100).bit_length() * x


@program
def methods_of_constants(x):
    return 5 .bit_length() * x + 4.0.is_integer() * x


@program
def isinstance_of_numbers(x):
    return x * x if isinstance(x, float) and (not isinstance(x, int)) and isinstance(x, (int, float)) else x


@program
def powers(x):
    return pow(int(x * 10.3), 13, 7) * x + pow(x, 2) + pow(2, 5, 13) * x


# --- functools and operator -------------------------------------------------------------------------

@program
def reduced(x):
    return functools.reduce(lambda a, b: a * b + x, [x, 2.0, x * x]) + functools.reduce(operator.add, [x], 1.0)


@program
def reduced_array(x):
    return functools.reduce(lambda a, b: a * 0.5 + b * x, A, 0.0)


@program
def reduced_range(x):
    return functools.reduce(lambda a, b: a * 0.5 + b * x, range(int(5 * x)), 0.0)


@program
def partial_application(x):
    f = functools.partial(lambda a, b, c=1.0: a * b + c, x, c=x * x)
    return f(2.0) + f(x, c=1.0)


@program
def cached_functions(x):
    return fibonacci(10) * x + square(x)


@program
def arithmetic_of_operator(x):
    o = operator
    total = o.add(x, 1) + o.mul(x, x) + o.sub(x, 2) + o.truediv(x, 3) + o.neg(x) + o.pow(x, 2) + o.abs(x)
    return total + o.floordiv(x, 1) + o.mod(x, 1) + o.pos(x)


@program
def comparisons_of_operator(x):
    o = operator
    return x * x if o.lt(x, 1) or o.ge(x, 5) or (o.eq(x, 2) and o.not_(x)) else x


@program
def items_of_operator(x):
    o = operator
    g = o.itemgetter(1)
    l = [x, x * x]
    o.setitem(l, 0, 5.0 * x)
    return g(l) * o.getitem(l, 0) + o.itemgetter(0, 1)((x, 2.0))[1]


@program
def attributes_of_operator(x):
    q = Box(x)
    return operator.attrgetter("a")(q) * operator.methodcaller("twice")(q)


@program
def in_place_of_operator(x):
    return operator.iadd(x, x) * operator.matmul(np.ones(2) * x, np.ones(2)) + operator.truth(x) * x


# --- itertools --------------------------------------------------------------------------------------

@program
def it_product(x):
    pairs = sum(a * b * x for a, b in itertools.product([1, 2], [x, 3]))
    return pairs + sum(i * j * x for i, j in itertools.product(range(2), repeat=2))


@program
def it_chain(x):
    return sum(v * x for v in itertools.chain([x, 1.0], (2.0,))) + sum(itertools.chain.from_iterable([[x], [x * x]]))


@program
def it_pairwise(x):
    return sum(((b - a) ** 2 for a, b in itertools.pairwise([x, x * x, 1.0])))


@program
def it_accumulate(x):
    return sum(itertools.accumulate([x, x * x, 1.0])) + list(itertools.accumulate([x, 2.0], lambda a, b: a * b))[1]


@program
def it_combinations(x):
    pairs = sum(a * b for a, b in itertools.combinations([x, 2.0, x * x], 2))
    return pairs + sum(a * b * c for a, b, c in itertools.permutations([x, 2.0, x * x]))


@program
def it_starmap(x):
    return sum(itertools.starmap(lambda a, b: a * b, [(x, 2.0), (x, x)]))


@program
def it_zip_longest(x):
    return sum((a * b for a, b in itertools.zip_longest([x, x], [2.0], fillvalue=1.0)))


@program
def it_takewhile(x):
    return sum(itertools.takewhile(lambda v: v < 3, [1, 2, 5])) * x


@program
def filtered(x):
    return sum(filter(None, [1.0, 0, 2])) * x + sum(filter(lambda v: v > 1, [1, 2, 3])) * x


@program
def first_of_a_generator(x):
    calls = [0]

    def scaled(v):
        calls[0] += 1
        return v * x
    found = next(scaled(v) for v in (1, 2, 3, 4) if v > 1)
    return found * x + next((v for v in (1, 2) if v > 5), x) + calls[0]


@program
def stepped(x):
    it = iter([x, x * x])
    a = next(it)
    return a * next(it)


# --- ranges and containers --------------------------------------------------------------------------

@program
def slices_as_values(x):
    s = slice(0, 2)
    return sum([x, x * x, 1.0][s]) * A[s].sum()


@program
def ranges(x):
    return len(range(0, 10, 3)) * x + range(5)[2] * x + (3 in range(5)) * x


@program
def ranges_at_run_time(x):
    n = int(x * 10)
    r = range(1, n, 2)
    return len(r) * x + r[1] * x


@program
def views_of_dicts(x):
    d = {"a": x, "b": x * x}
    return sum(d.values()) + len(d.keys()) * x + max(d.values()) * x + sum((v for k, v in d.items() if k in d.keys()))


@program
def constant_sets(x):
    return x * len({1, 2} | {2, 3}) + x * (2 in {1, 2})


@program
def jitted_inside(x):
    @jit
    def scaled(y):
        return y * x

    @jit(static="n", fastmath=True)
    def power(y, n=2):
        return y ** n
    return scaled(2.0) * jit(lambda y: y + x)(1.0) + power(x) + power(x, 3) + jit(math.sin)(x) + jit(scaled)(x)


RATES = {"ab": 2.0, "cd": 3.0}
WEIGHTS = {"w": A, "deep": {"b": np.array([2.0])}, "list": [A, 2.0]}
LAYERS = [A, A * 2.0]


SHARES = {0: 0.5, 1: 2.5, 7: -1.0}


COEFFICIENTS = [1.0, -0.5, 2.0]
ORDER = [3, 1, 2]


@program
def a_list_from_outside_in_a_loop(x):
    total = 0.0
    for i in range(len(COEFFICIENTS)):
        total += COEFFICIENTS[i] * x ** i + (LAYERS[i - 1] * x)[0]
    return total + COEFFICIENTS[-int(x + 1)] * x


@dataclass
class Held:
    x: Any
    items: list


NESTED, KNOWN, OBJECT = [[1.0], (2.0,)], {"a": 1.0, "b": [1.0, 2.0]}, Held(1.0, [2.0])


@program
def comparisons_with_what_is_outside(x):
    equal = [[3, 1, 2] == ORDER, ORDER == [3, 1, x], NESTED == [[1.0], (2.0,)], [[x], (2.0,)] == NESTED, [3, 0] < ORDER,
             KNOWN == {"b": [1.0, 2.0], "a": 1.0}, {"a": x, "b": [1.0, 2.0]} == KNOWN, OBJECT == Held(1.0, [2.0]),
             list(ORDER) == ORDER, KNOWN != dict(KNOWN), ORDER in [[3, 1, 2]], (ORDER,) == ([3, 1, 2],)]
    return sum(2 ** i * e for i, e in enumerate(equal)) * x


@program
def deep_copies_of_what_is_outside(x):
    nested, known, held = copy.deepcopy(NESTED), copy.deepcopy(KNOWN), copy.deepcopy(OBJECT)
    nested[0][0], known["b"][1], held.items[0] = x, x * x, 2.0 * x
    flat = copy.copy(ORDER)
    flat.append(x)
    total = nested[0][0] + known["b"][1] * held.items[0] + sum(flat)
    return total * (NESTED[0][0] + KNOWN["b"][1] + OBJECT.items[0] + len(ORDER))


@program
def letters_by_number(x):
    return sum((("abc"[i] == "b") + ("abc"[-i] == "c")) * i * x for i in range(3))


@program
def extremes_of_what_is_known(x):
    best = max(ORDER, key=lambda v: -v) + min((1, 5), (2, 1), key=lambda v: v[1])[0]
    return best * x + len(max("abc", "d", key=lambda s: -len(s))) + max(LAYERS, key=lambda a: a[0])[0] * x


@program
def dicts_asked_for_run_time_numbers(x):
    total, n = 0.0, int(2 * x)
    own = {0: x, 1: x * x, "s": 5.0}
    for i in range(4):
        total += own.get(i, 3.0 * x) + SHARES.get(i, x) * (i in SHARES) + (i in own) * x + (own.get(i) is None)
    return total + SHARES[n - 1] * x + (own[n] if n in own else -x) + (x in own) + {}.get(n, x) * (n not in SHARES)


@program
def copies_of_a_dict_from_outside(x):
    made = [dict(RATES), {**RATES, "e": x}, RATES | {"ab": x}, {"ab": x} | RATES, RATES.copy(), dict(RATES, ab=x)]
    for d in made:
        d["cd"] = d["cd"] * x
    return sum(d["ab"] * d["cd"] + len(d) * x for d in made) + RATES["cd"]


@program
def arrays_in_a_dict_from_outside(x):
    made = [dict(WEIGHTS), {**WEIGHTS}, WEIGHTS | {"z": x}, WEIGHTS.copy()]
    made[0].update(WEIGHTS)
    return sum((d["w"] * x).sum() + d["deep"]["b"][0] * x + (d["list"][0] * x)[1] for d in made)


@program
def copies_of_a_list_from_outside(x):
    made = [list(LAYERS), [*LAYERS], LAYERS + [], [] + LAYERS, LAYERS[:], LAYERS.copy(), LAYERS * 2]
    for layers in made:
        layers[1] = layers[1] * x
        layers.append(x)
    words = "a b".split()
    words.append("c")
    return sum((layers[0] * layers[1]).sum() * layers[-1] for layers in made) * len(words) + LAYERS[1][0]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_program(f: Program) -> None:
    check(f)


@pytest.mark.slow
def test_compiled() -> None:
    check_compiled(PROGRAMS)


# --- refused --------------------------------------------------------------------------------------------

def taken_and_summed(x):
    g = (v * x for v in (1.0, 2.0))
    return next(g) + sum(g)


def test_refused() -> None:
    refuses(lambda x: sum(a for a, _ in zip(itertools.repeat(x), [1.0])), "itertools.repeat", "np.full")
    refuses(lambda x: sum(i for i, _ in zip(itertools.count(), [x])), "itertools.count", "while True")
    refuses(lambda x: fibonacci(int(x * 10)), "calls itself and keeps its results", "array of results")
    refuses(lambda x: list(filter(lambda v: v > 1, [x]))[0], "`filter` by a condition", "np.where")
    refuses(lambda x: sorted([(x * i,) if i else (x, i) for i in range(65)])[0][0], "more than 64 values", "array")
    refuses(lambda x: sorted([[x], [1.0], [2.0]])[0][0], "sorts lists, dicts or objects", "tuples")
    refuses(lambda x: math.nextafter(x, 2.0), "cannot be called with values that are only known at run time")
    refuses(lambda x: bin(int(x)).count("1"), "`bin` cannot be called with values", "bit_count")
    refuses(lambda x: np.vectorize(lambda v: v * x)(A).sum(), "vectorize", "a loop")
    refuses(lambda x: next(v for v in (x, 1.0) if v > 0.8), "depends on run-time values", "conditional expression")
    refuses(lambda x: jit(lambda y: y * x, grad=True).grad(x), "`jit\\(grad=…\\)` inside of compiled", "`jitad.grad")
    refuses(lambda x: next(zip([x], [1.0]))[0], "`next` of a zip", "break")
    refuses(taken_and_summed, "may have been walked before", "list")


def test_collections_that_change() -> None:
    known, shared = collections.defaultdict(list, a=[1.0]), {"a": [1.0]}
    refuses(lambda x: x + len(known["b"]), "reads what is not in a defaultdict", "`.get`")
    assert list(known) == ["a"]
    refuses(lambda x: x + known[int(x)], "the hash of a value")
    refuses(lambda x: collections.defaultdict(float)["a"] + x, "`collections.defaultdict`", "a dict")
    for change in (lambda xs: list.append(xs, 4.0), lambda xs: xs.__setitem__(0, 5.0), lambda xs: xs.__iadd__(xs)):
        refuses(lambda x, change=change: change(shared["a"]) or x, "changes a list from outside")
    refuses(lambda x: heapq.heappush(shared["a"], 3.0) or x, "changes a list from outside")
    refuses(lambda x: bisect.insort(shared["a"], 3.0) or x, "changes a list from outside")
    assert shared == {"a": [1.0]}
    refuses(lambda x: shared.get("a").append(x), "changes a list from outside", "copy it first")
    refuses(lambda x: (x, 1.0).index(x), "tuple.index of values", "a loop")
    refuses(lambda x: round(int(x), int(x)), "the number of digits must be known", "a constant")


def test_arrays_in_a_list_from_outside_hold_what_they_do_at_the_call() -> None:
    shared = np.array([1.0, 2.0])
    inside = [shared, shared + 1.0]
    for f in (lambda x: np.stack(inside).sum() * x, lambda x: np.concatenate(inside)[0] * x,
              lambda x: sum(inside)[0] * x, lambda x: np.array(inside)[0, 0] * x,
              lambda x: np.mean((inside[0], inside[1])) * x, lambda x: np.asarray(inside).max() * x,
              lambda x: max(inside, key=lambda a: a[0])[0] * x):
        compiled = jit(f)
        for first in (1.0, 50.0):
            shared[0] = first
            assert compiled(2.0) == f(2.0)


def test_a_variable_from_outside_is_not_assigned() -> None:
    n = 0

    def counting(x):
        nonlocal n
        n += 1
        return x + n

    def inner(x):
        def count():
            nonlocal n
            n += 1
        count()
        return x
    refuses(counting, "assignment to `n`, a variable from outside", "return")
    refuses(inner, "assignment to `n`, a variable from outside", "return")


def test_errors_are_pythons() -> None:
    for f in (lambda x: next(iter([])) + x, lambda x: min([]) + x, lambda x: functools.reduce(operator.add, []) + x,
              lambda x: sum(a * b for a, b in zip([x, x], [1.0], strict=True)), lambda x: pow(int(x), 2, 0) * x):
        with pytest.raises((ValueError, TypeError, StopIteration)) as expected:
            f(0.7)
        with pytest.raises(type(expected.value)):
            tracing.run(tracing.trace(f, 0.7), 0.7)


@pytest.mark.parametrize("fun", [
    lambda x, n: x == (x, 2.0), lambda x, n: [x] != x, lambda x, n: (x > 0) == (True,), lambda x, n: n in [(1, 2), n],
    lambda x, n: (x, (x, 2.0)) == (x, x), lambda x, n: n == [],
    lambda x, n: x < (x,), lambda x, n: max([x, [x]]), lambda x, n: sorted([(x,), n]),
])
def test_numbers_are_no_sequences(fun):
    """Python compares its own numbers with whole lists and tuples; NumPy's are compared elementwise."""
    try:
        expected = fun(0.5, 1)
    except TypeError as e:
        with pytest.raises(TypeError, match=re.escape(str(e))):
            jit(fun)(0.5, 1)
    else:
        assert jit(fun)(0.5, 1) is expected or jit(fun)(0.5, 1) == expected
    np.testing.assert_array_equal(jit(lambda a: a[0] == (1.0, 2.0))(np.ones(2)), [True, False])


def of_all_indices(a: Any) -> Any:
    total, places = 0.0, np.zeros_like(a)
    for i, j in np.ndindex(a.shape):
        total += a[i, j] * (i + 2 * j)
    for at, x in np.ndenumerate(a):
        if x < 0:
            continue
        places[at] = x * at[1]
        if at == (2, 1):
            break
    for k, (i, j) in enumerate(np.ndindex(2, 3)):
        total += k * i + j
    return total + np.sum(places ** 2) + sum(1 for _ in np.ndindex(())) + sum(1 for _ in np.ndindex(2, 0))


@pytest.mark.slow
def test_indices_of_a_shape() -> None:
    a = np.random.default_rng(5).normal(size=(4, 3))
    f = jit(of_all_indices, grad=True)
    assert f(a) == pytest.approx(of_all_indices(a), rel=1e-14)
    check_grads(f, (a,), order=1)
    with pytest.raises(ValueError, match="negative dimensions"):
        jit(lambda n: sum(1 for _ in np.ndindex(n, 2)))(-1)
