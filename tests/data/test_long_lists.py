"""Long lists as arguments: columns in compiled code, Python's lists in results.  Results agree with Python's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from jitad import UnsupportedError, check_grads, custom_vjp, grad, interpret, jit, jvp, spec, value_and_grad, vjp, vmap
from jitad.frontend.columns.list_columns import LONG

pytestmark = pytest.mark.any_level

N = LONG + 8
FLOATS = [math.sin(i) + 1.5 for i in range(N)]
INTS = [(7 * i) % 11 - 3 for i in range(N)]
BOOLS = [i % 3 == 0 for i in range(N)]
PAIRS = [(x, k) for x, k in zip(FLOATS, INTS)]
ROWS = [[x, 2.0 * x, 1.0] for x in FLOATS]
ARRAYS = [np.array([x, x * x, 1.0]) for x in FLOATS]


class Point(NamedTuple):
    x: float
    at: tuple[float, int]


@dataclass
class Particle:
    mass: float
    place: np.ndarray
    name: str = "p"


POINTS = [Point(x, (2 * x, k)) for x, k in PAIRS]
PARTICLES = [Particle(x, np.array([x, 1.0])) for x in FLOATS]
NESTED = [[float(i * j % 5) for i in range(N)] for j in range(N + 1)]


def same(a: Any, b: Any) -> bool:
    if type(a) is not type(b) and not (isinstance(a, np.generic) or isinstance(b, np.generic)):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and np.allclose(a, b, rtol=1e-12)
    if isinstance(a, Particle):
        return same((a.mass, a.place, a.name), (b.mass, b.place, b.name))
    return bool(a == b) if not isinstance(a, float) else math.isclose(a, b, rel_tol=1e-12)


# --- values -----------------------------------------------------------------------------------------

def squares(xs):
    s = 0.0
    for x in xs:
        s += x * x
    return s


def by_index(xs):
    s = 0.0
    for i in range(len(xs)):
        s += xs[i] * xs[-1 - i]
    return s


def zipped(xs):
    s = 0.0
    for i, (x, y) in enumerate(zip(xs, reversed(xs))):
        s += i * x - y
    return s


def reduced(xs):
    return sum(xs), max(xs), min(xs), sum(xs, 5), math.fsum(xs), max(xs, key=lambda x: -x), sum(x for x in xs if x > 1)


def decided(xs):
    return any(x > 2 for x in xs), all(xs), bool(xs), len(xs), isinstance(xs, list), type(xs) is list


def sliced(xs):
    return xs[2:5], xs[::-2], xs[-3:], xs[:0], len(xs[3:]), xs[1:][0]


def as_arrays(xs):
    a = np.array(xs)
    return a, np.sum(xs), np.mean(xs), np.dot(xs, xs), np.sin(xs), a + xs, xs * a, np.asarray(xs)[1]


def handed_on(xs):
    return squares(xs[1:]) + squares(list(xs)), xs


def chosen(xs):
    ys = xs if xs[0] > 1 else xs[1:]
    return sum(y * y for y in ys), ys[0]


def in_order(xs):
    return sorted(xs), sorted(xs, reverse=True)[0], xs + xs[1:], 4 in xs, xs[2] in xs, 99.5 in xs, "a" not in xs


@pytest.mark.parametrize("f", [squares, by_index, zipped, reduced, decided, sliced, as_arrays, handed_on, chosen,
                               in_order], ids=lambda f: f.__name__)
@pytest.mark.parametrize("xs", [FLOATS, INTS], ids=["floats", "ints"])
def test_as_in_python(f: Callable[..., Any], xs: list[Any]) -> None:
    compiled = jit(f)
    for given in (xs, [*xs, xs[3]]):
        assert same(compiled(given), f(given))
        assert same(interpret(f, given), f(given))
    assert compiled.stats["compilations"] == 1
    assert "list[" in compiled.signatures[0]


def test_numbers_stay_what_they_are() -> None:
    last = jit(lambda xs: xs[-1])
    for xs in (FLOATS, INTS, BOOLS, [np.float32(x) for x in FLOATS], [np.float64(x) for x in FLOATS],
               [np.int32(k) for k in INTS]):
        assert last(xs) == xs[-1]
    assert [type(last(xs)) for xs in (FLOATS, INTS, BOOLS)] == [float, int, bool]
    assert type(last([np.float32(x) for x in FLOATS])) is np.float32
    half = np.ones(2, np.float32)
    assert jit(lambda xs, a: xs[0] * a)(FLOATS, half).dtype == np.float32                  # Python's floats are weak
    assert jit(lambda xs, a: xs[0] * a)([np.float64(x) for x in FLOATS], half).dtype == np.float64
    for xs in (BOOLS, [np.int32(k) for k in INTS], [np.float32(x) for x in FLOATS], [np.float64(x) for x in FLOATS]):
        back = jit(lambda xs: xs)(xs)
        assert back == xs and type(back[0]) is type(jit(lambda xs: xs[0])(xs))


def test_mixed_lists_are_taken_element_by_element() -> None:
    mixed: list[Any] = [*FLOATS, 3]
    compiled = jit(lambda xs: (sum(xs), xs))
    total, back = compiled(mixed)
    assert math.isclose(total, sum(mixed)) and type(back[-1]) is int and type(back[0]) is float
    assert "list[" not in compiled.signatures[0]
    assert compiled([*FLOATS, True])[1][-1] is True
    assert compiled(FLOATS)[1] == FLOATS and compiled.stats["compilations"] == 3
    assert jit(lambda xs: xs[0])([None] * N) is None


def test_the_limit() -> None:
    compiled = jit(squares)
    for n in (LONG - 1, LONG, LONG + 1, LONG + 2, 10 * LONG, 0, 1):
        assert same(compiled(FLOATS[:1] * n), squares(FLOATS[:1] * n))
    assert compiled.stats["compilations"] == 5                           # a long list, and the short ones each


def test_an_integer_that_is_too_large() -> None:
    compiled = jit(lambda xs: sum(xs))
    assert compiled(INTS) == sum(INTS)
    for _ in range(2):
        with pytest.raises(OverflowError):
            compiled([*INTS, 2**63])
    assert compiled([2**40, -(2**63), *INTS]) == sum([2**40, -(2**63), *INTS])


def test_out_of_range() -> None:
    compiled = jit(lambda xs, i: xs[i])
    assert compiled(FLOATS, -N) == FLOATS[0]
    for i in (N, -N - 1):
        with pytest.raises(IndexError, match="list index out of range"):
            compiled(FLOATS, i)
    with pytest.raises(TypeError, match="list indices"):
        jit(lambda xs, i: xs[i])(FLOATS, 1.0)


# --- elements of several numbers --------------------------------------------------------------------

def of_pairs(ps):
    return sum(x * k for x, k in ps), ps[3], ps[-1][1], ps


def of_rows(rows):
    s = 0.0
    for row in rows:
        for v in row:
            s += v * row[0]
    return s, rows[5], np.array(rows).shape, np.sum(rows)


def of_arrays(arrays):
    s = arrays[0]
    for a in arrays[1:]:
        s = s + a * a
    return s, arrays[4], np.array(arrays).shape


def of_points(points):
    return sum(p.x * p.at[0] + p.at[1] for p in points), points[2], [points[0]]


def of_particles(ps):
    return sum(p.mass * np.sum(p.place) for p in ps), ps[1].name, ps[N // 2].mass


def of_nested(rows):
    return sum(sum(row) * row[1] for row in rows), rows[2], len(rows), len(rows[0]), np.array(rows)[1, 2]


@pytest.mark.parametrize(("f", "xs"), [(of_pairs, PAIRS), (of_rows, ROWS), (of_arrays, ARRAYS), (of_points, POINTS),
                                       (of_particles, PARTICLES), (of_nested, NESTED)], ids=lambda v: getattr(
                                           v, "__name__", ""))
def test_elements(f: Callable[..., Any], xs: list[Any]) -> None:
    compiled = jit(f)
    for _ in range(2):
        assert same(compiled(xs), f(xs))
        assert same(interpret(f, xs), f(xs))
    assert same(compiled([*xs, xs[0]]), f([*xs, xs[0]])) and compiled.stats["compilations"] == 1


def test_elements_of_different_shapes_are_arguments_of_their_own() -> None:
    uneven: list[Any] = [np.ones(2 + i % 2) for i in range(N)]
    compiled = jit(lambda xs: sum(np.sum(x) for x in xs))
    assert compiled(uneven) == sum(map(np.sum, uneven))
    assert "list[" not in compiled.signatures[0]
    tuples: list[Any] = [(1.0, 2.0)[:1 + i % 2] for i in range(N)]
    assert jit(lambda xs: sum(x[-1] for x in xs))(tuples) == sum(x[-1] for x in tuples)
    names = [(1.0, "a"), (2.0, "b")] * N
    assert jit(lambda xs: [name for _, name in xs])(names) == [name for _, name in names]


def test_large_arrays_are_not_copied() -> None:
    compiled = jit(lambda ws, x: sum(np.sum(w @ x) for w in ws))
    for size, long in ((3, True), (40, False)):
        ws = [np.eye(size) * k for k in range(N)]
        assert math.isclose(compiled(ws, np.ones(size)), np.sum(ws))
        assert any("list[" in s for s in compiled.signatures) == long
        compiled.recompile()


def test_the_elements_are_the_callers() -> None:
    @jit
    def written(arrays):
        arrays[1][0] = 5.0
        return arrays[0]

    @jit
    def changed(rows):
        rows[1].append(5.0)
        return rows[0]
    with pytest.raises(UnsupportedError, match="writes into an array"):
        written(ARRAYS)
    with pytest.raises(UnsupportedError, match="changes a list"):
        changed(ROWS)
    found = jit(lambda xs: xs)(ARRAYS)
    found[0][0] = -1.0
    assert ARRAYS[0][0] == FLOATS[0] and found[1][0] == FLOATS[1]


# --- operations on single elements -------------------------------------------------------------------

def appended(xs):
    ys = list(xs)
    ys.append(xs[0])
    ys[2] = 7.0
    return ys


def unpacked(xs):
    first, *rest = xs
    return first, rest[0], len(rest)


def sorted_by(xs):
    return sorted(xs, key=lambda x: -x)[:3]


def added(xs):
    return xs + [1.0]


def compared(xs):
    return xs == [1.0], xs == list(xs), xs is None, xs != 3


def matched(xs):
    match xs:
        case [a, b]:
            return a + b
        case [first, *rest]:
            return first - rest[0]
    return 0.0


def put_together(xs):
    out = []
    for x in xs:
        if isinstance(x, float):
            out.append(x * 2)
    return out


def beside_a_tuple(xs):
    return [x * y for x, y in zip(xs, (1.0, 2.0, 3.0))]


ONE_BY_ONE = [appended, unpacked, sorted_by, added, compared, matched, put_together, beside_a_tuple]


@pytest.mark.parametrize("f", ONE_BY_ONE, ids=lambda f: f.__name__)
def test_element_by_element(f: Callable[..., Any]) -> None:
    compiled = jit(f)
    for _ in range(3):
        assert same(compiled(FLOATS), f(FLOATS))
    assert compiled.stats["compilations"] == 1
    assert same(interpret(f, FLOATS), f(FLOATS))
    assert same(compiled(FLOATS[1:]), f(FLOATS[1:]))
    assert "func" in jit(f).inspect("ir", FLOATS)


@pytest.mark.slow
def test_functions_of_sequences() -> None:
    for f in (np.vstack, np.hstack, np.column_stack, np.stack, np.concatenate, lambda a: np.stack(a, axis=1)):
        assert same(jit(f)(ARRAYS), f(ARRAYS))
    for wrong in (float, math.sin, lambda xs: -xs, lambda xs: xs.real):
        with pytest.raises((TypeError, AttributeError)):
            jit(lambda xs, wrong=wrong: wrong(xs), static=("wrong",))(FLOATS)


OF_ARRAYS = [
    lambda a: [2.0 * x for x in a], lambda a: [(x, i) for i, x in enumerate(a) if x > 0],
    lambda a: np.array([x * a[i] for i, x in enumerate(a[::-1])]), lambda a: [i for i in range(len(a)) if a[i] > 0],
    lambda a: [[x, x * x] for x in a], lambda a: np.array([x - y for x, y in zip(a[1:], a)]),
    lambda a: sum([math.exp(x) for x in a], 0.0), lambda a: sorted([x * x for x in a]),
    lambda a: len([x for x in a if x > 1]),
]


@pytest.mark.parametrize("f", OF_ARRAYS)
def test_comprehensions_over_arrays(f: Callable[..., Any]) -> None:
    """Their length is not known either."""
    fast = jit(f)
    for n in (2, 7, 40, 0):
        a = np.array(FLOATS)[:n] - 1.5
        with np.errstate(all="ignore"):
            assert same(fast(a), f(a))


@pytest.mark.slow
def test_derivatives_of_comprehensions_over_arrays() -> None:
    def f(a: Any, b: Any) -> Any:
        pairs = [(x * y, k) for k, (x, y) in enumerate(zip(a, b)) if x > 0]
        return sum([p * p * k for p, k in pairs]) + np.sum(np.array([math.sin(x) * b[0] for x in a]))
    a = np.array(FLOATS)[:9] - 1.5
    check_grads(f, (a, a[::-1].copy()))
    assert np.array_equal(jit(lambda a: np.array([x * a for x in a]))(a), a[:, None] * a)


def test_a_list_that_is_too_long_for_that_is_refused() -> None:
    compiled = jit(matched)
    with pytest.raises(UnsupportedError, match="a pattern of a list of a length that is only known"):
        compiled(FLOATS * 1000)
    assert same(compiled(FLOATS), matched(FLOATS))
    with pytest.raises(UnsupportedError, match="`with`"):                # an error in both ways is reported once
        jit(_with_statement)(FLOATS)


def _with_statement(xs):
    with np.errstate(all="ignore"):
        return xs[0]


# --- derivatives ------------------------------------------------------------------------------------

DIFFERENTIABLE = [
    (squares, FLOATS), (by_index, FLOATS), (zipped, FLOATS), (lambda ps: sum(x * x * k for x, k in ps), PAIRS),
    (lambda rows: of_rows(rows)[0], ROWS), (lambda arrays: np.sum(of_arrays(arrays)[0]), ARRAYS),
    (lambda ps: sum(p.x * p.at[0] * p.at[1] for p in ps), POINTS),
    (lambda ps: sum(p.mass * np.sum(p.place) for p in ps), PARTICLES),
    (lambda rows: sum(sum(row) * row[1] for row in rows), NESTED),
    (lambda xs: max(xs) * np.sum(np.sin(xs)) * xs[3], FLOATS), (lambda xs: sum(appended(xs)) * xs[1], FLOATS),
]


@pytest.mark.long
@pytest.mark.parametrize(("f", "xs"), DIFFERENTIABLE, ids=range(len(DIFFERENTIABLE)))
def test_gradients(f: Callable[..., Any], xs: list[Any]) -> None:
    check_grads(f, (xs,), order=1 if xs is NESTED else 2)
    found = jit(f, grad=True).grad(xs)
    assert type(found) is list and len(found) == len(xs)
    assert same(found, interpret(grad(f), xs))


def test_the_gradient_has_the_structure_of_the_list() -> None:
    assert jit(lambda ps: sum(x * k for x, k in ps), grad=True).grad(PAIRS) == [(float(k), None) for _, k in PAIRS]
    both = grad(lambda xs, ks: sum(x * k for x, k in zip(xs, ks)), (0, 1))(FLOATS, INTS)
    assert both == ([float(k) for k in INTS], [None] * N)
    value, found = value_and_grad(lambda given: sum(given["xs"]) * given["w"])({"xs": FLOATS, "w": 2.0})
    assert found == {"xs": [2.0] * N, "w": sum(FLOATS)} and value == 2.0 * sum(FLOATS)
    inner = jit(lambda xs: grad(squares)(xs)[3] + sum(grad(squares)(xs)))(FLOATS)
    assert math.isclose(inner, 2 * FLOATS[3] + 2 * sum(FLOATS))
    particles = jit(lambda ps: sum(p.mass * np.sum(p.place) for p in ps), grad=True).grad(PARTICLES)
    assert type(particles[0]) is Particle and particles[0].name is None
    assert np.allclose(particles[1].place, FLOATS[1]) and math.isclose(particles[1].mass, FLOATS[1] + 1)


def test_other_derivatives() -> None:
    ones = [1.0] * N
    out, slope = jvp(squares, (FLOATS,), (ones,))
    assert math.isclose(out, squares(FLOATS)) and math.isclose(slope, 2 * sum(FLOATS))
    twice, back = vjp(lambda xs: xs[1:], FLOATS)
    assert twice == FLOATS[1:] and back(ones[1:]) == ([0.0, *ones[1:]],)
    made, back = vjp(lambda x: [x * k for k in range(N)], 2.0)
    assert made == [2.0 * k for k in range(N)] and back(ones) == (float(sum(range(N))),)

    @custom_vjp
    def clipped(xs):
        return sum(xs)
    clipped.defvjp(lambda xs: (sum(xs), len(xs)), lambda n, ct: (np.ones(n) * ct,))
    plain = custom_vjp(squares)
    plain.defvjp(lambda xs: (squares(xs), xs), lambda xs, ct: ([3 * x * ct for x in xs],))
    assert np.allclose(grad(plain)(FLOATS), [3 * x for x in FLOATS])


def test_vmap_takes_the_elements_of_a_list_for_arrays() -> None:
    stacked = [np.arange(3.0) + i for i in range(N)]
    found = vmap(lambda xs: sum(xs))(stacked)
    assert np.allclose(found, sum(stacked))


# --- calls ------------------------------------------------------------------------------------------

def test_other_kinds_compile_anew() -> None:
    compiled = jit(lambda xs: xs[0])
    for xs in (FLOATS, INTS, PAIRS, ROWS, ARRAYS, POINTS, PARTICLES, NESTED, BOOLS):
        for _ in range(2):
            found = compiled(xs)
            assert same(found, xs[0])
    assert compiled.stats["compilations"] == 9


def test_named_and_nested_arguments() -> None:
    compiled = jit(lambda a, *, b: sum(a["xs"]) + sum(b[1]) + b[0])
    for n in (N, N + 5):
        assert math.isclose(compiled({"xs": FLOATS[:1] * n}, b=(1.0, INTS)), n * FLOATS[0] + sum(INTS) + 1.0)
    assert compiled.stats["compilations"] == 1
    assert jit(lambda xs: sum(xs), static_shapes=True)(FLOATS) == pytest.approx(sum(FLOATS))
    with pytest.raises(TypeError):
        jit(squares)([spec("f64")] * N)


def test_a_list_is_read_as_it_is_at_the_call() -> None:
    xs = list(FLOATS)
    compiled = jit(squares)
    assert same(compiled(xs), squares(xs))
    xs[3] = 100.0
    xs.append(5.0)
    assert same(compiled(xs), squares(xs))
    xs[4] = 3
    assert same(compiled(xs), squares(xs)) and compiled.stats["compilations"] == 2


# --- comprehensions ---------------------------------------------------------------------------------

COMPREHENSIONS: list[tuple[Callable[..., Any], list[Any]]] = [
    (lambda xs: [x * x for x in xs], FLOATS), (lambda xs: [x * x for x in xs[:2]], FLOATS),
    (lambda xs: [x * x for x in xs[:0]], INTS), (lambda xs: sum([x * y for x, y in zip(xs, xs[1:])]), FLOATS),
    (lambda xs: [(i, [x, None]) for i, x in enumerate(reversed(xs))], FLOATS),
    (lambda xs: np.array([x * 2 for x in xs]), INTS), (lambda ps: [p.x + p.at[0] for p in ps], POINTS),
    (lambda ps: [p for p in ps], POINTS), (lambda xs: [x > 1 for x in xs], FLOATS),
    (lambda xs: [1 for _ in xs], FLOATS),
    (lambda arrays: [np.sum(a) for a in arrays], ARRAYS), (lambda rows: [sum(row) for row in rows], NESTED),
    (lambda xs: [y + 1 for y in [x * x for x in xs]][3], FLOATS),
    (lambda xs: [x * x for x in xs if x > 1.5], FLOATS), (lambda xs: [x for x in xs if x > 1 if x < 2], FLOATS),
    (lambda xs: [(1 / x, i) for i, x in enumerate(xs) if x != 0], INTS), (lambda xs: [x for x in xs if x > 1e9], INTS),
    (lambda ps: sum([p.x for p in ps if p.at[1] > 0]), POINTS), (lambda xs: [x for x in xs if len(xs) > 1], FLOATS),
    (lambda xs: len([x for x in [y for y in xs if y > 1] if x < 2]), FLOATS),
    (lambda xs: [squares(xs[:i]) for i, _ in enumerate(xs)], FLOATS),
]


@pytest.mark.parametrize(("f", "xs"), COMPREHENSIONS, ids=range(len(COMPREHENSIONS)))
def test_comprehensions(f: Callable[..., Any], xs: list[Any]) -> None:
    compiled = jit(f)
    assert same(compiled(xs), f(xs)) and same(interpret(f, xs), f(xs))
    assert same(compiled([*xs, xs[0]]), f([*xs, xs[0]]))
    assert compiled.stats["compilations"] == 1


def test_comprehensions_with_effects_are_written_out() -> None:
    def noted(xs):
        seen = np.zeros(1)

        def note(x):
            seen[0] += x
            return x
        return [note(x) for x in xs], seen

    def named(xs):
        return [(last := x) for x in xs][0] + last

    def shared(xs):
        a = np.zeros(2)
        found = [a for _ in xs]
        found[0][0] = 1.0
        return found[1]
    for f in (noted, named, shared):
        assert same(jit(f)(FLOATS), f(FLOATS))


@pytest.mark.long
@pytest.mark.slow
def test_gradients_of_comprehensions() -> None:
    check_grads(lambda xs: sum([x * x * y for x, y in zip(xs, xs[1:])]), (FLOATS,))
    check_grads(lambda ps: sum(a * b for a, b in [(p.x * p.at[0], p.x) for p in ps]), (POINTS,))
    check_grads(lambda xs: sum([x * x * y for x, y in zip(xs, xs[1:]) if x > 1.6]), (FLOATS,))
    check_grads(lambda xs: sum([x * x for x in [y * y for y in xs if y > 1.6] if x < 4]) * xs[0], (FLOATS,))
    assert jit(lambda xs: sum([x for x in xs if x > 1e9]), grad=True).grad(FLOATS) == [0.0] * N
    squared, back = vjp(lambda xs: [x * x for x in xs], FLOATS)
    assert same(back([1.0] * N)[0], [2 * x for x in FLOATS])


LISTED: list[Callable[[Any], Any]] = [
    lambda a: sum(sorted(a)[:2]), lambda a: sorted(a, reverse=True)[0] - sorted(a)[0],
    lambda a: sum(list(x * 2 for x in a if x > 0)), lambda a: sum(x * y for x, y in list(zip(a, a[1:]))),
    lambda a: list(map(lambda x: x * x, a))[-1] * len(list(a)), lambda a: sorted(x * x for x in a)[1],
    lambda a: list(range(len(a)))[2] * a[0], lambda a: np.sum(np.array(list(a)) * a)]


@pytest.mark.slow
@pytest.mark.parametrize("f", LISTED, ids=range(len(LISTED)))
def test_lists_of_arrays(f: Callable[[Any], Any]) -> None:
    a = np.random.default_rng(4).normal(size=7)
    compiled = jit(f, grad=True)
    for n in (7, 4):
        assert math.isclose(compiled(a[:n]), f(a[:n]), rel_tol=1e-13)
    check_grads(compiled, (a,), order=1)


def starred(a: Any) -> Any:
    first, *middle, last = a
    *rest, _, end = a
    return first * last + sum(middle) * len(rest) + end


def test_what_a_star_takes_of_an_array() -> None:
    a = np.random.default_rng(4).normal(size=7)
    f = jit(starred, grad=True)
    for n in (7, 3, 2):
        assert math.isclose(f(a[:n]), starred(a[:n]), rel_tol=1e-13)
    check_grads(f, (a,), order=1)
    with pytest.raises(ValueError, match=r"not enough values to unpack \(expected at least 2, got 1\)"):
        f(a[:1])


def test_a_list_of_an_array_does_not_change_with_it() -> None:
    def f(a: Any) -> Any:
        before, a = list(a), a.copy()
        a[0] = 9.0
        return before[0]
    assert jit(f)(np.ones(3)) == 1.0


# --- constants --------------------------------------------------------------------------------------

def weighted(x):
    total = 0.0
    for w in FLOATS:
        total += w * x
    return total


def linked(x):
    return sum(w * x ** k for w, k in PAIRS) + sum(w * k for w, k in zip(FLOATS, INTS))


def indexed(x):
    total = 0.0
    for k in range(len(INTS) - 1):
        total += x * FLOATS[INTS[k]] + FLOATS[k]
    return total + FLOATS[3] + len(FLOATS)


def needs_them_known(x):
    total = ()
    for k in INTS:
        total = (*total, k * x)
    return sum(total)


@pytest.mark.parametrize("f", [weighted, linked, indexed, needs_them_known], ids=lambda f: f.__name__)
def test_constant_lists(f: Callable[..., Any]) -> None:
    compiled = jit(f, grad=True)
    assert math.isclose(compiled(1.5), f(1.5)) and math.isclose(interpret(f, 1.5), f(1.5))
    check_grads(f, (1.5,))
    assert len(compiled.inspect("ir", 1.5).split("\n")) < 200 or f is needs_them_known
