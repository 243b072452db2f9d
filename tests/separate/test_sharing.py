"""A function that several programs call is compiled once, and means what it means when it is compiled with them."""

from __future__ import annotations

import math
import resource
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jitad import grad, hvp, jit, jvp, pack, vmap


def library() -> Any:
    """A new separate function of an array and a number, with a loop, an array of its own, a branch and two results."""
    @jit(separate=True)
    def mixture(x, s):                              # type: ignore[no-untyped-def]
        w = np.zeros(len(x))
        total = 0.0
        for i in range(len(x)):
            w[i] = math.sin(s * x[i]) if x[i] > 0 else x[i] * s
            total += w[i] * w[i] + math.exp(-s * x[i] ** 2)
        return total / s, w * 2
    return mixture


X = np.array([0.5, -1.0, 2.0, 0.25, -0.125])


@pytest.mark.slow
def test_four_programs_link_to_one_function() -> None:
    f = library()

    @jit(grad=True)
    def first(x, s):                                # type: ignore[no-untyped-def]
        return f(x, s)[0]

    @jit(grad=True)
    def second(x, s):                               # type: ignore[no-untyped-def]
        return 2.0 * f(x * x, s)[0]

    @jit(grad=True)
    def third(x, s):                                # type: ignore[no-untyped-def]
        y, w = f(x, s)
        return y * np.sum(w)

    @jit(grad=True)
    def fourth(x, s):                               # type: ignore[no-untyped-def]
        return f(x, s)[0] + f(x[::-1], s)[0] ** 2
    programs = [first, second, third, fourth]
    got = [p.value_and_grad(X, 1.5) for p in programs]
    assert f.stats["compilations"] == 1 and f.stats["parts"]["separate"] > 0
    assert all(p.value_and_grad.stats["linked"] == [f.__qualname__] for p in programs)
    mean = f.py_func
    plain = [lambda x: mean(x, 1.5)[0], lambda x: 2.0 * mean(x * x, 1.5)[0],
             lambda x: mean(x, 1.5)[0] * np.sum(mean(x, 1.5)[1]),
             lambda x: mean(x, 1.5)[0] + mean(x[::-1], 1.5)[0] ** 2]
    for (value, gradient), p in zip(got, plain):
        assert value == pytest.approx(p(X), rel=1e-13)
        np.testing.assert_allclose(gradient, numerical(p, X), rtol=1e-6)
    f.recompile()
    assert first.value_and_grad(X, 1.5)[0] == got[0][0]                     # it keeps the code that it is linked to


def numerical(p: Callable[[Any], Any], x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    return np.array([(p(x + h * e) - p(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def without(monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any], *args: Any) -> Any:
    """What a new program returns if nothing is compiled separately."""
    with monkeypatch.context() as m:
        m.setenv("JITAD_WITHOUT", "separate")
        return make()(*args)


def programs(f: Any) -> dict[str, Any]:
    """Programs that call ``f`` in ways that need different derivatives of it."""
    def scalar(x: Any, s: Any) -> Any:
        y, w = f(x, s)
        return y + np.sum(w * w)
    v = np.arange(5.0)
    return {
        "value": scalar, "gradient": lambda x, s: grad(scalar, (0, 1))(x, s),
        "forward": lambda x, s: jvp(lambda y: scalar(y, s), (x,), (v,)),
        "over reverse": lambda x, s: hvp(lambda y: scalar(y, s), (x,), (v,)),
        "second": lambda x, s: grad(lambda t: grad(scalar, 1)(x, t))(s),
        "third": lambda x, s: grad(lambda r: grad(lambda t: grad(scalar, 1)(x, t))(r))(s),
        "vmap": lambda x, s: vmap(lambda t: scalar(x, t))(s + v + 1.0),
        "gradient of vmap": lambda x, s: grad(lambda y: np.sum(vmap(lambda t: scalar(y, t))(s + v + 1.0)))(x),
        "vmap of gradient": lambda x, s: vmap(lambda t: grad(scalar)(x, t))(s + v + 1.0),
        "in a loop": lambda x, s: looped(scalar, x, s)}


def looped(scalar: Any, x: Any, s: Any) -> Any:
    total = 0.0
    for i in range(3):
        total += scalar(x, s + i)
    return total


@pytest.mark.long
@pytest.mark.parametrize("kind", programs(None))
def test_derivatives_of_every_kind(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = library()
    found = jit(programs(f)[kind])(X, 1.5)
    assert f.stats["compilations"] > 0
    expected = without(monkeypatch, lambda: jit(programs(library())[kind]), X, 1.5)
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (found, expected)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@dataclass
class Tree:
    left: Tree | None
    right: Tree | None
    value: float


@jit(separate=True)
def weigh(t, w):                                    # type: ignore[no-untyped-def]
    """A recursive function with arrays, which builds a tree too."""
    if t is None:
        return np.ones(len(w)), None
    (a, left), (b, right) = weigh(t.left, w), weigh(t.right, w)
    if t.value > 90.0:
        raise ValueError(f"{t.value} is too heavy")
    h = np.tanh(w @ (a - 0.5 * b) + t.value)
    return h, Tree(left, right, h[0] * t.value)


def total(t: Any) -> Any:
    return 0.0 if t is None else t.value + total(t.left) + total(t.right)


@pytest.mark.slow
def test_recursion_with_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, w = Tree(Tree(None, Tree(None, None, 0.5), -1.0), Tree(None, None, 2.0), 0.25), np.array([[0.5, 1], [-1, 0]])

    def loss(t, w):                                 # type: ignore[no-untyped-def]
        h, made = weigh(t, w)
        return np.sum(h) + total(made)
    before = weigh.stats["compilations"]
    value, (by_tree, by_w) = jit(loss, grad=(0, 1)).value_and_grad(tree, w)
    assert weigh.stats["compilations"] == before + 1
    jit(lambda t, w: loss(t, w) * 2.0, grad=(0, 1)).value_and_grad(pack(tree), w)
    assert weigh.stats["compilations"] == before + 1
    expected, (a, b) = without(monkeypatch, lambda: jit(loss, grad=(0, 1)).value_and_grad, tree, w)
    assert value == pytest.approx(expected, rel=1e-13) and by_tree.left.right.value == pytest.approx(a.left.right.value)
    np.testing.assert_allclose(by_w, b, rtol=1e-12)


@pytest.mark.slow
def test_exceptions_have_their_lines_and_calls() -> None:
    @jit(separate=True)
    def checked(x, i):                              # type: ignore[no-untyped-def]
        return x[i] + 1.0

    @jit
    def outer(t, w, x, i):                          # type: ignore[no-untyped-def]
        assert i != 7, "not seven"
        return checked(x, i) + np.sum(weigh(t, w)[0])
    w = np.eye(2)
    assert outer(None, w, X, 1) == X[1] + 1 + 2
    with pytest.raises(IndexError, match="index 99 is out of bounds for axis 0 with size 5") as caught:
        outer(None, w, X, 99)
    names = [entry.name for entry in caught.traceback]
    assert names[-2:] == ["outer", "checked"]
    with pytest.raises(ValueError, match="91.5 is too heavy"):
        outer(Tree(None, Tree(None, None, 91.5), 1.0), w, X, 1)
    with pytest.raises(AssertionError, match="not seven"):
        outer(None, w, X, 7)


def test_too_deep_recursion() -> None:
    @jit
    def deep(n, x):                                 # type: ignore[no-untyped-def]
        return x if n == 0 else 1.0 + deep(n - 1, x) * 0.5

    @jit(grad=True)
    def program(x, n):                              # type: ignore[no-untyped-def]
        return deep(n, x) * x
    assert program(1.0, 3) == 1.875
    assert program.grad(1.0, 3) == pytest.approx(1.875 + 0.125)
    with pytest.raises(RecursionError):
        program(1.0, 10**9)
    with pytest.raises(RecursionError):
        program.grad(1.0, 10**9)
    assert program(1.0, 3) == 1.875


SCALE, POWER = 3.0, 2


def test_captured_state_of_a_shared_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """A captured float is a parameter; another integer is another function."""
    @jit(separate=True)
    def power(x):                                   # type: ignore[no-untyped-def]
        return SCALE * x ** POWER

    @jit(grad=True)
    def program(x):                                 # type: ignore[no-untyped-def]
        return power(x) + 1.0

    @jit(grad=True)
    def other(x):                                   # type: ignore[no-untyped-def]
        return power(x * 2.0)
    assert (program(2.0), program.grad(2.0), other(2.0)) == (13.0, 12.0, 48.0)
    count = power.stats["compilations"]
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert (program(2.0), program.grad(2.0), other(2.0)) == (21.0, 20.0, 80.0)
    assert power.stats["compilations"] == count
    monkeypatch.setitem(globals(), "POWER", 3)
    assert (program(2.0), program.grad(2.0), other(2.0)) == (41.0, 60.0, 320.0)
    assert power.stats["compilations"] > count


def test_arrays_that_are_written_to_and_returned() -> None:
    """A function may change an array of its caller, return its argument, and take one array twice."""
    @jit(separate=True)
    def change(a, b, i):                            # type: ignore[no-untyped-def]
        a[i] = a[i] * b[i] + 1.0
        return a, b

    @jit(grad=True)
    def program(x):                                 # type: ignore[no-untyped-def]
        a = x.copy()
        one, two = change(a, x, 1)
        one[0] = two[2] * 5.0
        three, _ = change(a, a, 2)
        return np.sum(three * x) + a[0]
    def plain(x):                                   # type: ignore[no-untyped-def]
        a = x.copy()
        one, two = change.py_func(a, x, 1)
        one[0] = two[2] * 5.0
        three, _ = change.py_func(a, a, 2)
        return np.sum(three * x) + a[0]
    assert program(X) == pytest.approx(plain(X))
    np.testing.assert_allclose(program.grad(X), numerical(plain, X), rtol=1e-7)
    assert change.stats["compilations"] > 0


@pytest.mark.slow
def test_a_separate_function_calls_another() -> None:
    f = library()

    @jit(separate=True)
    def middle(x, s):                               # type: ignore[no-untyped-def]
        return f(x * 2.0, s)[0] + s

    def program(x, s):                              # type: ignore[no-untyped-def]
        return middle(x, s) * f(x, s)[0]
    value, gradient = jit(program, grad=True).value_and_grad(X, 1.5)
    assert f.stats["compilations"] == 2 and middle.stats["compilations"] == 1       # of f the value and the sweeps

    def plain(x):                                   # type: ignore[no-untyped-def]
        return (f.py_func(x * 2.0, 1.5)[0] + 1.5) * f.py_func(x, 1.5)[0]
    assert value == pytest.approx(plain(X))
    np.testing.assert_allclose(gradient, numerical(plain, X), rtol=1e-6)


@pytest.mark.slow
def test_threads_and_no_leak() -> None:
    f = library()
    program = jit(lambda x, s: f(x, s)[0] + np.sum(f(x, s)[1]), grad=True)
    expected = program.value_and_grad(X, 1.5)
    wrong: list[Any] = []

    def work() -> None:
        other = jit(lambda x, s: f(x, s)[0] * 2.0, grad=True)
        half = other.grad(X, 1.5)
        for _ in range(200):
            value, gradient = program.value_and_grad(X, 1.5)
            if value != expected[0] or not np.array_equal(gradient, expected[1]):
                wrong.append(value)
            if not np.array_equal(other.grad(X, 1.5), half):
                wrong.append(half)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and f.stats["compilations"] == 1


def test_memory_is_released_in_loops() -> None:
    @jit(separate=True)
    def big(n, x):                                  # type: ignore[no-untyped-def]
        a = np.zeros(n) + x
        return np.cumsum(a)[::-1] * 2.0

    @jit
    def program(n, times):                          # type: ignore[no-untyped-def]
        total = 0.0
        for i in range(times):
            total += big(n, 1.0 * i)[0]
        return total
    n = 100_000
    assert program(n, 3) == 6.0 * n
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert program(n, 1_000) == n * 999_000.0                       # 1.6 GB if nothing were released
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    assert big.stats["compilations"] == 1


def test_what_is_separate_without_the_option() -> None:
    """Recursive functions are, if they have no products of matrices; of the others those of many operations."""
    @jit
    def half(n, x):                                 # type: ignore[no-untyped-def]
        return x if n == 0 else 1.0 + half(n - 1, x) * 0.5

    @jit
    def turned(n, x, w):                            # type: ignore[no-untyped-def]
        return x if n == 0 else w @ turned(n - 1, x, w)

    @jit
    def sine(x):                                    # type: ignore[no-untyped-def]
        return math.sin(x)

    @jit(separate=False)
    def never(n, x):                                # type: ignore[no-untyped-def]
        return x if n == 0 else 2.0 * never(n - 1, x)

    @jit
    def program(n, x, w):                           # type: ignore[no-untyped-def]
        return half(n, sine(x)) + turned(n, w[0], w)[1] + never(n, x)
    w = np.array([[0.5, 2.0], [1.0, -1.0]])
    assert program(2, 0.5, w) == 1.5 + math.sin(0.5) / 4 + (w @ (w @ w[0]))[1] + 2.0
    assert program.stats["linked"] == [half.__qualname__] and half.stats["compilations"] == 1
    assert [f.stats["compilations"] for f in (turned, sine, never)] == [0, 0, 0]
    assert half(2, 1.0) == 1.75 and half.stats["linked"] == []              # it is not separate from itself
