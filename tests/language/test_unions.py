"""Values of different kinds in one variable: ``None`` and numbers, classes, tuples of different lengths, strings.

Each program is compared with CPython, its derivatives with finite differences and with each other (see ``choices``).
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from jitad import DifferentiationError, UnsupportedError, grad, interpret, jit, jvp, vjp, vmap
from tests import choices, tracing
from tests.choices import differentiable, program, refused

pytestmark = pytest.mark.any_level

A = np.array([3.0, -1.0, 2.0, 5.0])


@dataclass
class Circle:
    r: float

    def area(self):
        return math.pi * self.r ** 2


@dataclass
class Rect:
    w: float
    h: float

    def area(self):
        return self.w * self.h

    @property
    def diagonal(self):
        return math.hypot(self.w, self.h)


@dataclass
class Empty:
    pass


class Point(NamedTuple):
    x: float
    y: float


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


def shape(x, n):
    if n == 0:
        return Circle(x)
    if n == 1:
        return Rect(x, 2.0 * x)
    if n == 2:
        return Empty()
    return None


# --- None --------------------------------------------------------------------------------------------

@program((A, 0.0), (A, 100.0), (A[:0], 0.0))
def none_until_one_is_found(a, least):
    best = None
    for v in a:
        if v > least and (best is None or v < best):
            best = v
    return best


@differentiable((A, 0.0), (A, 100.0))
def the_least_above(a, least):
    best = None
    for v in a:
        if v > least and (best is None or v < best):
            best = v
    if best is None:
        return a[0] * 7.0
    return best * best


@differentiable((1.5, 1), (1.5, 0))
def optional_by_or(x, n):
    y = x if n else None
    y = y or 2.0 * x
    return y * x


@differentiable((1.5, 1), (1.5, 0))
def not_none_and(x, n):
    y = x if n else None
    if y is not None and y > 1.0:
        return y * y
    return x


@differentiable((1.5, 1), (1.5, 0))
def a_default_that_is_filled_in(x, n):
    def f(a, b=None):
        if b is None:
            b = a * 2.0
        return a * b
    return f(x, x + 1.0 if n else None)


@differentiable((1.5, 1),)
def an_assertion_tells(x, n):
    y = x if n else None
    assert y is not None
    return y * y


@program((1.5, 1), (1.5, 0))
def adding_none(x, n):
    y = x if n else None
    return y + 1.0


@program((1.5, 1), (1.5, 0))
def none_has_no_attribute(x, n):
    s = Circle(x) if n else None
    return s.area()


@program((1.5, 1), (1.5, 0))
def none_is_not_less(x, n):
    y = x if n else None
    return y < 1.0


@program((1.5, 1), (1.5, 0))
def none_has_no_elements(x, n):
    y = [x, x] if n else None
    return y[1]


@program((1.5, 1), (1.5, 0))
def none_is_not_unpacked(x, n):
    y = (x, 2.0) if n else None
    a, b = y
    return a + b


@program((1.5, 1), (1.5, 0))
def none_has_no_length(x, n):
    y = (x, 2.0) if n else None
    return len(y)


@program((1.5, 1), (1.5, 0))
def sine_of_none(x, n):
    y = x if n else None
    return math.sin(y)


@differentiable((A, 1), (A, 0))
def an_array_or_none(a, n):
    b = a * 2.0 if n else None
    total = 0.0
    for i in range(3):
        if b is not None:
            total += np.sum(b) * i
            b[i] = total
        else:
            b = a.copy()
    return total + np.sum(b)


# --- classes -----------------------------------------------------------------------------------------

@differentiable((1.5, 0), (1.5, 1), (1.5, 2), (1.5, 3))
def by_isinstance(x, n):
    s = shape(x, n)
    if isinstance(s, Circle):
        return s.r * x
    elif isinstance(s, Rect):
        return s.w * s.h
    elif s is None:
        return x
    return 2.0 * x


@differentiable((1.5, 0), (1.5, 1), (1.5, 2), (1.5, 3))
def by_match(x, n):
    match shape(x, n):
        case Circle(r):
            return r * r
        case Rect(w=w, h=h) if w > 100.0:
            return w - h
        case Rect(w, h):
            return w * h
        case None:
            return x
        case _:
            return 3.0 * x


@differentiable((1.5, 0), (1.5, 1))
def methods_and_fields(x, n):
    s = Circle(x) if n == 0 else Rect(x, 3.0)
    t = s.area()
    if hasattr(s, "diagonal"):
        t = t + s.diagonal
    return t * x


@program((1.5, 0), (1.5, 1))
def by_type(x, n):
    s = Circle(x) if n == 0 else Rect(x, 3.0)
    if type(s) is Circle:
        return s.r
    return s.w + s.h


@differentiable((1.5, 5), (0.2, 8))
def changes_class_in_a_loop(x, n):
    s = Circle(x)
    for i in range(n):
        if isinstance(s, Circle):
            s = Rect(s.r, s.r + i) if i % 3 == 1 else Circle(s.r * 1.1)
        elif s.w > 0.1:
            s = Circle(s.w * s.h)
    return s.area()


@program((1.5, 0), (1.5, 1))
def fields_are_written(x, n):
    s = Circle(x) if n == 0 else Rect(x, 3.0)
    if isinstance(s, Circle):
        s.r = 2.0 * s.r
    else:
        s.h = s.w
    return s


@program((1.5, 1), (1.5, 0))
def a_field_that_one_class_lacks(x, n):
    s = Circle(x) if n else Rect(x, 1.0)
    return s.r


@differentiable((1.5, 3), (1.5, 0))
def a_union_inside_a_union(x, n):
    inner = shape(x, n)
    s = Holder(inner) if n > 0 else inner
    match s:
        case Holder(Rect(w, h) | Holder(Rect(w, h))):
            return w * h
        case Holder(None):
            return x * x
        case Circle() as c:
            return c.area()
    return 0.0 * x


@dataclass
class Holder:
    inside: object


@differentiable((1.5, 0), (1.5, 1))
def a_field_that_is_optional(x, n):
    h = Holder(None)
    if n:
        h.inside = x * x
    return x if h.inside is None else h.inside


def evaluate(e, x):
    match e:
        case ("x",):
            return x
        case ("const", c):
            return c
        case ("add", a, b):
            return evaluate(a, x) + evaluate(b, x)
        case ("mul", a, b):
            return evaluate(a, x) * evaluate(b, x)
    raise ValueError(f"no such expression: {len(e)}")


@differentiable((1.5, 0), (1.5, 1))
def an_interpreter(x, n):
    e = ("add", ("mul", ("x",), ("x",)), ("const", 3.0)) if n else ("mul", ("const", x), ("x",))
    return evaluate(e, x)


@differentiable((1.5, 0), (1.5, 1))
def passed_to_functions(x, n):
    def size(s, k):
        if k > 0:
            return size(s, k - 1) + 1.0
        return s.area()
    return size(shape(x, n), n + 2)


@differentiable((1.5, 0), (1.5, 1), (1.5, 2))
def the_derivative_with_respect_to_a_union(x, n):
    def area(s):
        match s:
            case Circle(r):
                return r * r * x
            case Rect(w, h):
                return w * h * h
        return 0.0
    match grad(area)(shape(x, n % 2)):
        case Circle(r):
            return r
        case Rect(w, h):
            return w * h
    return 0.0


# --- tuples, lists, dicts ----------------------------------------------------------------------------

@differentiable((1.5, 0), (1.5, 1))
def tuples_of_different_lengths(x, n):
    t = (x, 2.0) if n else (x,)
    total = 0.0
    for v in t:
        total += v * v
    if len(t) == 2:
        total *= t[1]
    return total * len(t) + t[-1]


@differentiable((1.5, 0), (1.5, 1), (1.5, 2))
def sequence_patterns(x, n):
    t = [x, 2.0, 3.0] if n == 2 else (x, x) if n == 1 else x
    match t:
        case [a, b]:
            return a * b
        case [a, *rest]:
            return a * rest[1]
        case float(y):
            return y * y * y
    return 0.0


@differentiable((1.5, 0), (1.5, 1))
def dicts_with_different_keys(x, n):
    d = {"a": x, "b": 2.0} if n else {"a": x * x, "c": x}
    match d:
        case {"b": b, "a": a}:
            return a * b
        case {"a": a, **rest}:
            return a * rest["c"]
    return 0.0


@differentiable((1.5, 0), (1.5, 1))
def points_and_numbers(x, n):
    p = Point(x, 2.0) if n else x
    match p:
        case Point(x=0):
            return 0.0
        case Point(a, b):
            return a * a * b
        case int() | float():
            return p * 5.0
    return x


@differentiable((1.5, 0), (1.5, 1))
def lists_and_tuples(x, n):
    t = [x, 1.0] if n else (x, x, x)
    if isinstance(t, list):
        t.append(x * 3.0)
    return t[0] * t[2] + sum(t)


@differentiable((1.5, 0), (1.5, 2), (1.5, -1))
def an_index_at_run_time(x, n):
    xs, fs = [x, 2.0, x * x], (math.sin, lambda v: v * x, math.exp)
    xs[n] = xs[n] + 1.0
    total = 0.0
    for i in range(3):
        total += fs[i](xs[i - 1])
    return total


MOVES = ((1, 0.5), (-1, 2.0), (0, -1.5))
RULES = ((math.sin, ("plus", 2.0)), (math.exp, ("minus", 3.0)))


@differentiable((1.5, 0), (1.5, 2), (1.5, -3))
def a_table_of_tuples(x, n):
    total = 0.0
    for i in range(3):
        step, slope = MOVES[n]
        total += step * i + slope * x * sum(MOVES[(n + i) % 3])
    return total


@differentiable((1.5, 0), (1.5, 1))
def a_table_of_functions_and_names(x, n):
    f, (sign, factor) = RULES[n]
    return f(x) * factor if sign == "plus" else -f(x) * factor


@program((1.5, 1), (1.5, 0), (1.5, 3))
def a_table_of_tuples_that_do_not_fit(x, n):
    a, b = ((1, 2, 3), (4, 5), (6, 7))[n]
    return a * x + b


@program((1.5, 5), (1.5, -4))
def an_index_that_is_too_large(x, n):
    return [x, None][n]


@program((1.5, 1), (1.5, 4), (1.5, 3))
def a_number_as_a_key(x, n):
    return {1: x, 4: "four"}[n]


@differentiable((1.5, 1), (1.5, 0))
def iterations_over_either(x, n):
    a = (x, 2.0) if n else [x, 3.0, 4.0]
    total = sum(a) + max(a) + np.sum(np.array([v * v for v in a]))
    for i, (u, v) in enumerate(zip(a, reversed(a))):
        total += u * v * i
    return total


# --- strings and other constants ----------------------------------------------------------------------

@differentiable((1.5, 0), (1.5, 1), (1.5, 2))
def strings(x, n):
    mode = "square" if n == 0 else "cube" if n == 1 else "half"
    if mode == "square":
        return x * x
    if mode in ("cube", "other"):
        return x * x * x
    return x / 2 + len(mode)


@differentiable((1.5, 0), (1.5, 1))
def a_key_that_is_chosen(x, n):
    key = "a" if n else "b"
    table = {"a": x, "b": 3.0 * x, "c": 0.0}
    fs = {"a": math.sin, "b": lambda v: v * x}
    return table[key] * fs[key](x) + table.get(key, 1.0)


@program((1.5, 0), (1.5, 1))
def a_key_that_may_be_missing(x, n):
    return {"a": x}["a" if n else "b"]


@differentiable((1.5, 0), (1.5, 1))
def members_of_an_enum(x, n):
    mode = Mode.FAST if n else Mode.SLOW
    match mode:
        case Mode.FAST:
            return x * x
        case Mode.SLOW:
            return x
    return 0.0


@program((0, 1.0), (1, 1.0), (7, 1.0))
def match_on_numbers(n, x):
    match n:
        case 0 | 1:
            return x
        case 7 if x > 0:
            return 2.0
        case k:
            return k * x


@program((1.5, 0), (1.5, 1))
def a_string_in_a_message(x, n):
    mode = "up" if n else "down"
    error = ValueError if n else KeyError
    raise error(f"{mode} {x}")


@differentiable((1.5, 0), (1.5, 1))
def arrays_of_different_ranks(x, n):
    a = np.ones(3) * x if n else np.ones((2, 2)) * x
    return a.sum() * a.ndim + np.exp(a).sum() * a.shape[0]


@program((1.5, 0), (1.5, 1))
def setting_an_attribute_of_none(x, n):
    c = Circle(x) if n else None
    c.r = 3.0
    return c.r


@program((True,), (False,))
def identity_of_truth_values(b):
    c = not b
    match c:
        case True:
            return 1.0
    return 2.0 if c is False else 3.0


@program((1.0, 1), (1.0, 0))
def a_state_by_name(x, n):
    state, total = "start", 0.0
    for i in range(6):
        match state:
            case "start":
                state = "even" if n else "odd"
            case "even":
                total += x
                state = "odd"
            case "odd":
                total += 10 * x
                state = "even" if i < 4 else "end"
    return total, state


# --- results -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("n", range(4))
def test_a_union_is_returned(n):
    assert jit(shape)(1.5, n) == shape(1.5, n)


@program((1.0, 0), (1.0, 1))
def unions_inside_a_result(x, n):
    y = x if n else None
    return {"a": (y, Circle(x) if n else "nothing"), "b": [1, y]}, (np.ones(2) * x if n else (x, x))


@pytest.mark.parametrize("n", (0, 1))
def test_unions_inside_a_result(n):
    choices.same_result(jit(unions_inside_a_result)(1.0, n), unions_inside_a_result(1.0, n))


@pytest.mark.parametrize("fun, args", [(the_least_above, (A, 0.0)), (by_match, (1.5, 1)),
                                       (changes_class_in_a_loop, (0.2, 8)), (an_array_or_none, (A, 1)),
                                       (the_derivative_with_respect_to_a_union, (1.5, 1))])
def test_machine_code(fun, args):
    choices.check_compiled(fun, args)


def test_what_a_branch_tells_is_used():
    """Inside ``isinstance`` and ``match`` no exception is possible, and no tag is tested again."""
    for fun in (by_isinstance, by_match):
        text = jit(fun).inspect("optimized", 1.5, 1)
        assert "raise" not in text and "check" not in text


def a_loss_with_a_gap(x, n):
    if n > 0:
        return x * x * n


@dataclass
class Beside:
    x: Any
    k: int


def test_what_a_dataclass_holds_besides_constants() -> None:
    """A union, a list, a dict: known only at run time, at any depth."""
    def union(x: float, n: int) -> float:
        held = Beside(np.array([x, 1.0]), 2)
        if n == 0:
            held.x = x
        g = grad(lambda h: np.sum(h.x * x) * h.k)(held)
        same, pull = vjp(lambda h: h, held)
        return np.sum(g.x) + np.sum(same.x) + np.sum(pull(same)[0].x)

    def containers(x: float) -> float:
        held = Beside([x, {"a": (x * x, 1)}], 2)
        g = grad(lambda h: h.x[0] * h.x[1]["a"][0] * h.k)(held)
        mapped = vmap(lambda z: Beside([z], 3))(np.array([x, 1.0]))
        return g.x[0] + g.x[1]["a"][0] + mapped.x[0].sum()
    for n, expected in ((0, 2.8), (1, 2.8 + 3.4)):
        assert jit(union)(0.7, n) == pytest.approx(expected)
    assert jit(containers)(0.7) == pytest.approx(2 * 0.49 + 1.4 + 1.7)


def test_a_loss_that_is_none_on_some_path():
    f = jit(grad(a_loss_with_a_gap))
    assert f(3.0, 2) == 12.0
    with pytest.raises(TypeError, match="returns one float, not None"):
        f(3.0, 0)


# --- cotangents and tangents ---------------------------------------------------------------------------

def a_float_or_none(x, n):
    return x * x if n else None


def a_float_or_an_int(x, n):
    return [x * x if n else n, x]


def all_or_none(a, n):
    return a * a if n else None


def of_rank_one_or_two(a, n):
    return a * a if n else np.ones((2, 2)) * a[0]


def a_circle_or_a_rect(x, n):
    return Circle(x * x) if n else Rect(x, 3.0 * x)


ONES = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("fun, x, n, ct, expected", [
    (a_float_or_none, 1.5, 1, 2.0, 6.0), (a_float_or_an_int, 1.5, 1, [2.0, 10.0], 16.0),
    (a_float_or_an_int, 1.5, 0, [2.0, 10.0], 10.0), (all_or_none, A, 1, A[::-1], 2 * A * A[::-1]),
    (of_rank_one_or_two, A, 1, A[::-1], 2 * A * A[::-1]), (of_rank_one_or_two, A, 0, ONES, np.array([10.0, 0, 0, 0])),
    (a_circle_or_a_rect, 1.5, 1, Circle(2.0), 6.0), (a_circle_or_a_rect, 1.5, 0, Rect(1.0, 10.0), 31.0),
    (a_circle_or_a_rect, 1.5, 0, None, 0.0)])
def test_a_cotangent_of_one_kind(fun, x, n, ct, expected):
    """It belongs to the variant that is present at run time."""
    def program(x, n, ct):
        return vjp(fun, x, n)[1](ct)[0]
    for pulled in (vjp(fun, x, n)[1](ct)[0], jit(program)(x, n, ct), interpret(program, x, n, ct)):
        np.testing.assert_allclose(pulled, expected, rtol=1e-14)


@pytest.mark.parametrize("fun, x, n, ct", [
    (a_float_or_none, 1.5, 0, 2.0), (all_or_none, A, 0, A), (of_rank_one_or_two, A, 0, A),
    (a_circle_or_a_rect, 1.5, 0, Circle(2.0)), (a_circle_or_a_rect, 1.5, 1, Rect(1.0, 10.0))])
def test_a_cotangent_of_what_is_not_there(fun, x, n, ct):
    for pulled in (lambda x, n, ct: vjp(fun, x, n)[1](ct), jit(lambda x, n, ct: vjp(fun, x, n)[1](ct))):
        with pytest.raises(ValueError, match="the cotangent does not fit the value that there is, of .* or "):
            pulled(x, n, ct)


def test_a_cotangent_that_fits_no_variant_or_two():
    with pytest.raises(DifferentiationError, match="another structure than its value, Circle"):
        vjp(a_circle_or_a_rect, 1.5, 1)[1]((1.0, 2.0))
    with pytest.raises(UnsupportedError, match="fits more than one variant"):
        vjp(lambda a, n: a if n else a.astype(np.float32), A, 1)[1](A)


def test_a_cotangent_whose_variants_come_in_another_order():
    def f(x, n, m):
        y, pull = vjp(a_float_or_none, x, n)
        ct = None if m else y * x if y is not None else 1.0
        return pull(ct)[0]

    def g(x, n, m):
        return vjp(a_circle_or_a_rect, x, n)[1](Rect(x, 10.0) if m else Circle(x))[0]
    for run in (jit(f), lambda *args: interpret(f, *args)):
        assert run(1.5, 1, 0) == 2 * 1.5 ** 4
        for n, m in ((1, 1), (0, 0)):
            with pytest.raises(ValueError, match="does not fit the value that there is"):
                run(1.5, n, m)
    for run in (jit(g), lambda *args: interpret(g, *args)):
        assert (run(1.5, 1, 0), run(1.5, 0, 1)) == (4.5, 31.5)
        for n in (0, 1):
            with pytest.raises(ValueError, match="does not fit the value that there is"):
                run(1.5, n, n)
    assert grad(g)(1.5, 1, 0) == pytest.approx(6.0)
    assert grad(f)(1.5, 1, 0) == pytest.approx(8 * 1.5 ** 3)


def test_a_tangent_of_one_kind():
    def pushed(x, n):
        return jvp(lambda s: s.r * x if isinstance(s, Circle) else s.w * s.h, (shape(x, n),), (Circle(10.0),))[1]
    assert jit(pushed)(1.5, 0) == interpret(pushed, 1.5, 0) == 15.0
    with pytest.raises(ValueError, match="does not fit the value that there is"):
        jit(pushed)(1.5, 1)


def test_derivatives_of_a_pullback_of_a_union():
    def f(x, n, ct):
        return vjp(a_float_or_an_int, x, n)[1]([ct * x, ct])[0] * x
    h = 1e-6
    for n in (0, 1):
        assert grad(f)(1.5, n, 0.7) == pytest.approx((f(1.5 + h, n, 0.7) - f(1.5 - h, n, 0.7)) / (2 * h), rel=1e-7)
        assert jvp(f, (1.5, n, 0.7), (1.0, None, 0.0))[1] == pytest.approx(grad(f)(1.5, n, 0.7), rel=1e-12)


def float_or_array(x, p):
    y = p * x                                          # is there, under another name, where a float is returned
    if x > 0.5:
        return None
    return x * p[0] if x > 0 else y


def square(y):
    return 0.0 if y is None else np.sum(y * y)


def cotangent_is_its_value(x, p):
    y, pull = vjp(lambda x: float_or_array(x, p), x)
    return pull(y)[0]


def pulled_back_twice(x, p):
    y, pull = vjp(lambda y: y, [float_or_array(x, p)])
    return 0.5 * square(pull(pull(y)[0])[0][0])


def pushed_forward(x, p):
    y = float_or_array(x, p)
    return 0.5 * jvp(square, (y,), (y,))[1] if y is not None else 0.0


def pulled_back_where_it_is_a_float(x, p):
    return vjp(lambda x: [float_or_array(x, p), p * x], x)[1]([x * p[0], np.zeros(3)])[0]


P = np.array([0.5, 0.75, -0.25])


@pytest.mark.slow
@pytest.mark.parametrize("x", (0.4, -0.4, 0.8))
def test_cotangents_of_variants_that_are_not_there_are_nothing(x):
    """Neither their sizes, nor the arbitrary contents of their columns."""
    h = 1e-6
    slope = (square(float_or_array(x + h, P)) - square(float_or_array(x - h, P))) / (4 * h)
    value = 0.5 * square(float_or_array(x, P))
    for fun, want in ((cotangent_is_its_value, slope), (pulled_back_twice, value), (pushed_forward, 2 * value)):
        found = tracing.meant_and_made(fun, x, P)
        assert found == pytest.approx([want, want], rel=1e-7)
        bent = (jit(fun)(x + h, P) - jit(fun)(x - h, P)) / (2 * h)
        assert tracing.meant_and_made(grad(fun), x, P) == pytest.approx([bent, bent], rel=1e-7)
    if 0 < x < 0.5:
        assert tracing.meant_and_made(pulled_back_where_it_is_a_float, x, P) == pytest.approx([x * P[0] ** 2] * 2)


# --- refusals ----------------------------------------------------------------------------------------

@refused("one of several arrays", A, 1.0)
def writes_what_may_be_either(a, x):
    b, c = a.copy(), a * 2.0
    d = b if x > 0 else c
    e = None if x > 5 else d
    if e is not None:
        e[0] = 1.0
    return b[0]


@refused("how many elements depends on the path", 1.0)
def spreads_what_has_no_length(x):
    t = (x, 2.0) if x > 0 else (x,)
    return max(*t)


@refused("they do not stack", A)
def mapped_to_either(a):
    return vmap(lambda v: v if v > 1.0 else None)(a)


@differentiable((A, 2.5))
def mapped_with_either_inside(a, least):
    def one(v):
        r = None
        if v > least:
            r = v * v
        return 0.5 * v if r is None else r
    return vmap(one)(a).sum()


@program((True,), (False,))
def a_constant_of_numpys_by_a_union(x):
    """It has its own type: an int of Python's would have to fit the other operand's."""
    return np.uint32(2 ** 32 - 1) // (127 if x else np.uint16(65535)) % np.int8(127)


@pytest.mark.parametrize("fun, args", choices.cases(__name__, "value", "derivative"))
def test_value(fun, args):
    choices.check_value(fun, args)


@pytest.mark.long
@pytest.mark.parametrize("fun, args", choices.cases(__name__, "derivative"))
def test_derivatives(fun, args):
    choices.check_derivatives(fun, args)


@pytest.mark.parametrize("fun, args, message", choices.cases(__name__))
def test_refused(fun, args, message):
    choices.check_refused(fun, args, message)
