"""Small arrays that become scalars: programs over them mean what they meant, and so do their derivatives."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import check_grads, grad, hessian, interpret, jit
from jitad.cps import check_cps, to_cps
from jitad.ir.verify import verify
from jitad.passes.cleanup.inline import inline
from jitad.passes.shapes import array_sroa
from jitad.passes.shapes.shape_specialise import shape_specialise
from tests.ir import irgen

Program = Callable[[Any, Any, int], Any]

X, Y = np.array([0.3, -0.8, 1.1]), np.array([0.5, 0.2, -0.4])


@pytest.fixture(autouse=True)
def quickly_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_OPT", "0")


def slope(s: Any, p: Any) -> Any:
    return np.array([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])


def lorenz(s: Any, p: Any, n: int) -> Any:
    for _ in range(n):
        k1 = slope(s, p)
        k2 = slope(s + 0.05 * k1, p)
        s = s + 0.05 * (k1 + k2)
    return s[0] + s[1] * s[2]


def pendulum(y: Any, w: Any, n: int) -> Any:
    """A product with a matrix of known size tells that of the state."""
    a = np.array([[0.0, 1.0], [-w, -0.1]])
    for _ in range(n):
        y = y + 0.1 * (a @ np.sin(y))
    return y @ y


def two_bodies(x: Any, v: Any, n: int) -> Any:
    """Two states of three, whose sizes are known together."""
    pull = np.zeros(3)
    for _ in range(n):
        d = np.array([x[0], x[1], x[2]])
        pull = -d / np.linalg.norm(d) ** 3
        v = v + 0.1 * pull
        x = x + 0.1 * v
    return np.dot(x, v) + np.cross(x, pull)[2]


def writes(x: Any, v: Any, n: int) -> Any:
    """Updates in place, through views too, and reads of what they see."""
    a = np.zeros((2, 3))
    top, flat = a[0], a.reshape(-1)
    for i in range(n):
        top[1] += x[0] * i
        a[1] = top * v[1] + 0.5
        flat[5] = flat[1] * x[2]
        a[:, 0] -= a[:, 2]
    return (a * a).sum() + top[0]


def branches(x: Any, v: Any, n: int) -> Any:
    """An array that differs by the path, one of them made before."""
    y = np.array([x[0], v[0]])
    for i in range(n):
        if y[0] > 0.2:
            y = np.stack([y[1], y[0] * 0.9])
        elif i > 2:
            y[1] = 0.3
        else:
            y = y - np.array([0.1, 0.2]) * y.sum()
    return y.prod() + y[1]


def while_loop(x: Any, v: Any, n: int) -> Any:
    """An uncounted loop whose condition reads the state."""
    y, i = np.array([x[0], x[1], 1.0]), 0
    while np.abs(y).max() > 0.05 and i < n:
        y = y * 0.7 + 0.1 * np.roll(y, 1) * v[1]
        i += 1
    return y.sum() + np.linalg.norm(y)


def indexed(x: Any, v: Any, n: int) -> Any:
    """An array read and written at indices known at run time stays one; what is made of it does not."""
    y = np.array([x[0], x[1], x[2], v[0]])
    for i in range(n):
        y[i % 4] += 0.1 * y[(i + 1) % 4]
        z = y[:2] * y[2:] + 1.0
        y[3] = z[0] - z[1]
    return y.sum()


def matrices(x: Any, v: Any, n: int) -> Any:
    a = np.array([[x[0], v[0]], [0.3, x[1]]])
    b = np.eye(2)
    for _ in range(n):
        b = 0.5 * (a @ b + b.T) + np.outer(a[0], b[:, 1])
    return np.trace(b) + np.cumsum(b[0])[1] + np.where(b > 0.2, b, -b).sum()


def table(x: Any, v: Any, n: int) -> Any:
    """Rows written into a larger array, and read again."""
    out = np.zeros((7, 3))
    y = np.array([x[0], x[1], v[2]])
    for i in range(n):
        y = y * 0.9 + np.array([0.1, x[2], v[1]])
        out[i] = y
        out[i + 1:i + 2, 1:] += y[:2]
    return (out * out).sum()


def descend(y: Any, depth: int) -> Any:
    """A recursion that hands arrays on."""
    if depth == 0:
        return y * y[0]
    return descend(np.array([y[1] * 0.8, y[0] + 0.1]), depth - 1) + 0.5 * y


def recursion(x: Any, v: Any, n: int) -> Any:
    return descend(np.array([x[0], v[0]]), n).sum()


def mapped(x: Any, v: Any, n: int) -> Any:
    def one(a: Any) -> Any:
        y = np.array([a, v[0], a * v[1]])
        for _ in range(n):
            y = y + 0.1 * np.cross(y, x)
        return y
    return (jitad.vmap(one)(x) * x).sum()


def chosen(x: Any, v: Any, n: int) -> Any:
    """Elements chosen by lists of indices, one of which is met in memory."""
    y, order = np.array([x[0], v[0], x[1]]), np.array([2, 0, -2])
    for i in range(n):
        y = y[[1, -1, 0]] * 0.5 + y[order] * order[i % 3]
    return y @ y[[2, 2, 1]]


def asserted(x: Any, v: Any, n: int) -> Any:
    """What the program asserts is known."""
    assert x.shape == (3,) and len(v) == 3
    for _ in range(n):
        x = x + 0.1 * v * np.linalg.norm(x)
        v = v - 0.1 * x
    return x @ v


def one_element(x: Any, v: Any, n: int) -> Any:
    """Sizes of one broadcast."""
    y = np.array([x[0]])
    for _ in range(n):
        y = (y + np.array([x[1], v[0]])).sum(keepdims=True) * 0.3
    return y[0]


PROGRAMS = [lorenz, two_bodies, writes, branches, while_loop, indexed, matrices, table, recursion, mapped, chosen,
            asserted, one_element]
IN_MEMORY = {indexed, chosen, table, recursion, mapped}             # in part, for what they are there for


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_values(f: Program, n: int) -> None:
    expected = f(X.copy(), Y.copy(), n)
    assert np.isclose(jit(f)(X, Y, n), expected, rtol=1e-13)
    assert np.isclose(interpret(f, X, Y, n), expected, rtol=1e-13)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives(f: Program) -> None:
    """Against differences, to second order, in both modes; and the modes against each other."""
    check_grads(lambda x, v: f(x, v, 4), (X, Y), order=2, rtol=1e-4, atol=1e-5)
    forward = jit(lambda x, v, n: tuple(jitad.jacfwd(f, i)(x, v, n) for i in (0, 1)))
    for a, b in zip(jit(f, grad=(0, 1)).grad(X, Y, 3), forward(X, Y, 3)):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"boundscheck": False}, {"static_shapes": True}, {"fastmath": True}], ids=str)
def test_options(options: dict[str, Any]) -> None:
    for f in (lorenz, writes, matrices):
        plain, other = (jit(f, grad=(0, 1), **o).value_and_grad(X, Y, 4) for o in ({}, options))
        for a, b in zip((plain[0], *plain[1]), (other[0], *other[1])):
            np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("f", [f for f in PROGRAMS if f not in IN_MEMORY], ids=lambda f: f.__name__)
def test_no_arrays_are_left_in_loops(f: Program) -> None:
    text = jit(f).inspect("optimized", X, Y, 3)
    loop = text[text.index("^loop("):text.index("^exit")]
    assert "f64[" not in loop, loop


def test_their_adjoints_and_what_is_kept_are_scalars() -> None:
    """What each step keeps is in arrays by iteration, nothing on a stack, and no array is made for a step."""
    f = jit(lorenz, grad=0)
    f.grad(X, Y, 3)
    text = f.grad.inspect("optimized")
    assert "push" not in text and "add_slice" not in text
    back = text[text.index("^loop_bar("):].partition("\n^")[0]
    assert "f64[3]" not in back and "set" not in back


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("n", [0, 1, 3])
@pytest.mark.parametrize("f", [lorenz, pendulum, two_bodies], ids=lambda f: f.__name__)
def test_other_sizes_raise_what_they_raised(f: Program, size: int, n: int) -> None:
    """The check in the first iteration is asked before the loop, what comes before it is not left out."""
    x, w = np.full(size, 0.5), (2.0 if f is pendulum else Y)
    try:
        expected: Any = interpret(f, x, w, n)
    except (IndexError, ValueError) as e:
        with pytest.raises(type(e), match=re.escape(str(e))):
            jit(f)(x, w, n)
        with pytest.raises(type(e), match=re.escape(str(e))):
            jit(f, grad=0).grad(x, w, n)
    else:
        assert np.isclose(jit(f)(x, w, n), expected, rtol=1e-13)


@pytest.mark.slow
def test_a_known_size_of_each_of_two_states() -> None:
    check_grads(lambda y, w: pendulum(y, w, 4), (np.array([0.4, 0.1]), 2.0), order=2, rtol=1e-4, atol=1e-5)


def turning(r: Any, w: Any, n: int) -> Any:
    """Both sizes of a matrix are known by what is added to it."""
    k = np.array([[0.0, -w], [w, 0.0]])
    for _ in range(n):
        r = r + 0.1 * (r @ k) + 0.01 * k
    return (r * r).sum() + r[0, 1]


@pytest.mark.slow
@pytest.mark.long
def test_both_sizes_of_a_matrix() -> None:
    r = np.array([[1.0, 0.2], [-0.3, 0.8]])
    check_grads(lambda r, w: turning(r, w, 3), (r, 0.7), order=2, rtol=1e-4, atol=1e-5)
    text = jit(turning).inspect("optimized", r, 0.7, 3)
    assert "f64[" not in text[text.index("^loop("):text.index("^exit")]
    for shape in ((2, 3), (3, 2), (3, 3)):
        with pytest.raises(ValueError, match="matmul|broadcast"):
            jit(turning)(np.ones(shape), 0.7, 3)


def of_two_sizes(x: Any, n: int) -> Any:
    """Of three elements, or it raises; what is done with two of them is bound to."""
    s = x @ np.ones(3)
    for i in range(n):
        if i > 2:
            s = s * 0.5 + x @ np.ones(2)
            s = s + (np.ones((2, 2)) @ x)[i]
        else:
            s = s * 0.9 + (x * np.ones(3))[i]
    return s * s


@pytest.mark.slow
def test_sizes_that_do_not_agree_where_nobody_comes() -> None:
    calls = [jit(of_two_sizes), jit(grad(of_two_sizes)), jit(jitad.jacfwd(of_two_sizes)), jit(hessian(of_two_sizes))]
    for call in calls:
        with pytest.raises(ValueError, match="axis 0 of size 3 and axis 0 of size 2"):
            call(X, 4)
        with pytest.raises(ValueError, match="axis 0 of size 2 and axis 0 of size 3"):
            call(X[:2], 0)
    assert np.isclose(calls[0](X, 3), of_two_sizes(X, 3))
    check_grads(lambda x: of_two_sizes(x, 3), (X,))
    for call, meaning in zip(calls[1:], (grad, jitad.jacfwd, hessian)):
        assert np.allclose(call(X, 3), interpret(meaning(of_two_sizes), X, 3))


def test_an_index_out_of_bounds_is_found() -> None:
    @jit
    def f(n):
        y = np.array([1.0, 2.0, 3.0])
        for i in range(n):
            y = y * 2.0
            if i == 5:
                return y[3]
        return y[i]
    assert f(3) == 24.0
    for n in (5, 7):
        with pytest.raises(IndexError, match="out of bounds for axis 0 with size 3"):
            f(n)


def test_nan_and_infinity_go_where_they_went() -> None:
    def f(x):
        y = np.array([x[0], x[1], x[2]])
        for _ in range(2):
            y = y * np.array([0.0, 1.0, 2.0]) + np.maximum(y, 0.5)
        return y.sum(), y.max(), y, np.isnan(y).any(), (y > 1.0).sum()
    for x in (np.array([np.nan, 1.0, 2.0]), np.array([np.inf, 1.0, -np.inf]), np.array([-0.0, 0.0, 1e308])):
        with np.errstate(all="ignore"):
            for a, b in zip(jit(f)(x), f(x)):
                np.testing.assert_array_equal(a, b)


def test_equal_extremes_share_the_derivative() -> None:
    """The largest of three that are equal has a third from each, as when they are an array."""
    f = jit(lambda a, b, c: np.array([a, b, c]).max() + np.array([a, b]).min(), grad=(0, 1, 2))
    np.testing.assert_allclose(f.grad(1.0, 1.0, 1.0), (1 / 3 + 0.5, 1 / 3 + 0.5, 1 / 3), rtol=1e-14)


def test_arrays_are_what_the_caller_gets() -> None:
    """Built once, when the loop has ended, with a memory of their own."""
    @jit
    def f(x, n):
        y = np.array([x, 2.0 * x])
        kept = y
        for _ in range(n):
            y = y * 0.5 + 1.0
        return y, kept, y[::-1]
    y, kept, turned = f(3.0, 2)
    np.testing.assert_array_equal(y, [2.25, 3.0])
    np.testing.assert_array_equal(kept, [3.0, 6.0])
    np.testing.assert_array_equal(turned, [3.0, 2.25])
    y[:] = 7.0
    np.testing.assert_array_equal(turned, [3.0, 2.25])


def test_sizes_and_types_of_all_kinds() -> None:
    def f(k, x):
        a = np.array([k, k + 1, k * k])
        b, c = np.array([x, -x], np.float32), np.zeros((2, 2), np.int32)
        for i in range(k):
            a = a * 3 % 7 + np.array([i, 1, 0])
            b = np.where(b > 0, b, b * 2) + np.float32(0.5)
            c[0] += 2
            c[:, 1] -= c[0, 0]
        return a, b, c, a.astype(np.float64) / 2, a > 3, b.sum(), c.T[1]
    for got, want in zip(jit(f)(4, 0.3), f(4, 0.3)):
        np.testing.assert_array_equal(got, want)
        assert np.asarray(got).dtype == np.asarray(want).dtype


def test_the_code_grows_with_the_program_and_no_faster() -> None:
    """A function in which arrays would become very many scalars keeps them."""
    def text(statements: int) -> str:
        source = "\n".join(["def f(x):", "    y = np.zeros(16)", "    y[0] = x",
                            *(f"    y = np.sin(y) * {i}.5 + y[::-1]" for i in range(statements)),
                            "    return y[3] + y.sum()"])
        name, scope = f"<{statements} statements>", {"np": np}
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        exec(compile(source, name, "exec"), scope)
        return jit(scope["f"]).inspect("optimized", 0.5)
    assert "f64[16]" not in text(10)
    assert "f64[16]" in text(120)


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_taken_apart_entirely(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it does not pay, so that every op and every border between memory and registers is met."""
    monkeypatch.setattr(array_sroa, "ROUNDS", 0)
    module, args = irgen.generate(seed, 14, small=True), irgen.arguments(seed, small=True)
    before = irgen.outcome(module, args)
    for run_pass in (inline, to_cps, shape_specialise, lambda m: array_sroa.array_sroa(m, derived=seed % 2 == 0)):
        run_pass(module)
        verify(module, linear=False)
    for func in module.functions.values():
        check_cps(func)
    assert irgen.same(before, irgen.outcome(module, args), 1e-9)
