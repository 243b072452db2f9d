"""What a user reads when something is wrong: what, where (file, line, caret), why, and what to write instead."""

from __future__ import annotations

import os
import random
import re
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import (
    DifferentiationError,
    JitadError,
    ShapeError,
    TypeInferenceError,
    UnsupportedError,
    grad,
    hessian,
    jit,
    jvp,
)

pytestmark = pytest.mark.any_level

A = np.ones(3)


def written(a):
    a[0] = 0.0


def growing(n):
    out = []
    for i in range(n):
        out.append(i * 2.0)
    return out


def draws(x):
    return x + np.random.rand()


def rolls(x):
    return x + random.randint(1, 6)


def clocked(x):
    return x + time.perf_counter()


def listed(a):
    return [x * x for x in a]


def transforms(a):
    return np.fft.fft(a)


def größer(x):
    return "größer", print(x)


def prints(x):
    print(x)


def tries(x):
    try:
        return 1 / x
    except ZeroDivisionError:
        return 0.0


def one_more(x):
    xs = [x]
    if x > 0:
        xs.append(x)
    return xs


def mismatched(x):
    return np.zeros((3, 2)) + np.zeros((4, 2)) + x


def square(x):
    return x * x


def truncated(x):
    return int(x)


# the function, its arguments; the error, what it says, the marked piece of source
REFUSED = [
    (jit(written), (A,), UnsupportedError, "it belongs to the caller", "a[0]", "`b = a.copy()`"),
    (jit(growing), (3,), UnsupportedError, "a list of length 0 or 1", "out.append(i * 2.0)", "`out = np.zeros(n)`"),
    (jit(draws), (1.0,), UnsupportedError, "rand is not supported", "np.random.rand()", "jitad.random.default_rng"),
    (jit(rolls), (1.0,), UnsupportedError, "something else at each", "random.randint(1, 6)", "jitad.random"),
    (jit(clocked), (1.0,), UnsupportedError, "something else at each", "time.perf_counter()", "call it outside"),
    (jit(listed), (A,), UnsupportedError, "a list or tuple of a length that is only known", "a", "`out[i] = x`"),
    (jit(transforms), (np.ones(2),), UnsupportedError, "fft is not supported", "np.fft.fft(a)", "a loop"),
    (jit(prints), (1.0,), UnsupportedError, "`print`", "print(x)", "return the value"),
    (jit(größer), (1.0,), UnsupportedError, "`print`", "print(x)", "return the value"),
    (jit(tries), (1.0,), UnsupportedError, "`try`", "t", "`if`"),
    (jit(one_more), (1.0,), UnsupportedError, "a list of length 2 or 1", "xs.append(x)", "`out = np.zeros(n)`"),
    (jit(mismatched), (1.0,), ShapeError, "(3, 2) (4, 2)", "np.zeros((3, 2)) + np.zeros((4, 2))", ""),
    (jit(square), (np.ones(2, complex),), TypeInferenceError, "argument x: arrays of dtype complex128", "d", "float64"),
    (jit(square, static="x"), ([1],), TypeInferenceError, "argument x: a static argument must be hashable", "d",
     "tuple"),
    (jit(square, grad=True).grad, (3,), DifferentiationError, "an int, which holds no float", "d", "pass a float"),
    (jit(square, grad=True).grad, (A,), DifferentiationError, "its result is f64[?]", "d", "sum or mean"),
    (grad(truncated), (3.0,), DifferentiationError, "its result is i64", "d", "return a float"),
    (grad(square, argnums=2), (3.0,), DifferentiationError, "no argument number 2", "d", "one of x"),
    (grad(square, argnums="y"), (3.0,), DifferentiationError, "no argument named 'y'", "d", "one of x"),
    (hessian(square), (3,), DifferentiationError, "an int, which holds no float", "d", "pass a float"),
    (lambda: jvp(square, (1.0,), (1.0, 2.0)), (), DifferentiationError, "1 arguments and 2 tangents", "d", ""),
]


@pytest.mark.parametrize(("fun", "args", "kind", "what", "marked", "instead"), REFUSED, ids=[r[3] for r in REFUSED])
def test_refused(monkeypatch, fun: Callable[..., Any], args: tuple[Any, ...], kind: type[JitadError], what: str,
                 marked: str, instead: str) -> None:
    monkeypatch.delenv("JITAD_DEBUG", raising=False)    # it shows all frames
    with pytest.raises(kind) as info:
        fun(*args)
    head, where, source, carets, *hint = str(info.value).splitlines()
    assert what in head
    assert f'File "{__file__}", line ' in where
    start = carets.index("^")
    assert source[start:start + carets.count("^")] == marked
    assert instead in "".join(hint) and bool(instead) == bool(hint)
    frames = traceback.extract_tb(info.value.__traceback__)
    assert not {"compile", "trace"} & {f.name for f in frames}


@jit
def third(a, i):
    return a[0] + a[i] * 2


def test_a_run_time_error_ends_at_the_users_line_and_column() -> None:
    for _ in range(2):                                  # the call that compiles, and one of compiled code
        with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3") as info:
            third(A, 3)
        last = traceback.extract_tb(info.value.__traceback__)[-1]
        assert (last.filename, last.name, last.line) == (__file__, "third", "return a[0] + a[i] * 2")
        assert "    return a[0] + a[i] * 2"[last.colno:last.end_colno] == "a[i]"


def test_errors_of_numpys_own_kinds() -> None:
    with pytest.raises(np.exceptions.AxisError, match="axis 2 is out of bounds for array of dimension 1"):
        jit(lambda a: np.sum(a, axis=2))(A)
    with pytest.raises(ValueError, match=r"cannot reshape array of size 3 into shape \(2,2\)"):
        jit(lambda a: a.reshape(2, 2))(A)
    with pytest.raises(ValueError, match=r"cannot reshape array of size 3 into shape \(2,5\)"):
        jit(lambda a, n: a.reshape(2, n))(A, 5)
    with pytest.raises(ValueError, match=r"cannot reshape array of size 3 into shape \(2,-1\)"):
        jit(lambda a: a.reshape(2, -1))(A)


def test_a_function_that_raises_for_certain_has_a_gradient_that_does() -> None:
    def missing(w):
        return w["a"] * w["b"]
    for f in (jit(missing), grad(missing), jitad.value_and_grad(missing), lambda w: jvp(missing, (w,), (w,))):
        with pytest.raises(KeyError, match="b") as info:
            f({"a": 1.0})
        assert traceback.extract_tb(info.value.__traceback__)[-1].line == 'return w["a"] * w["b"]'


def test_messages_of_the_users_own() -> None:
    def checked(x, limits):
        assert x.shape == (3,), f"shape {x.shape} of {limits}: {x[0]:.2f}"
        return x
    with pytest.raises(AssertionError, match=r"^shape \(2,\) of \[1, 2.5\]: 1.00$"):
        jit(checked)(np.ones(2), [1, 2.5])
    with pytest.raises(UnsupportedError, match="at most four numbers"):
        jit(checked)(np.ones(2), [1, 2.5, 3])
    with pytest.raises(UnsupportedError, match="at most four numbers"):
        jit(checked)(np.ones(2), np.ones(2))


def formatted(x, n, width):
    if n == 0:
        raise ValueError("x=" + f"{x:.2f}" + f", {n} {{}}" + "{}")
    if n == 1:
        raise ValueError(f"{'abc':>{8}}|{n:0{4}d}|{x:{8}.{3}f}")
    raise ValueError(f"{x:{width}.2f}")


def test_texts_put_together() -> None:
    weights = jit(lambda x: {f"w{i:0{2}d}" + "!": x * i for i in range(2)})(2.0)
    assert weights == {"w00!": 0.0, "w01!": 2.0}
    for n in (0, 1):
        with pytest.raises(ValueError, match=".") as expected:
            formatted(1.2345, n, 8)
        with pytest.raises(ValueError, match=f"^{re.escape(str(expected.value))}$"):
            jit(formatted, static="n")(1.2345, n, 8)
    with pytest.raises(UnsupportedError, match="a format that is only known at run time"):
        jit(formatted, static="n")(1.2345, 3, 8)
    with pytest.raises(UnsupportedError, match="at most 4 numbers"):
        jit(lambda a, b, c, d, e: missing_message(a, b, c, d, e))(1.0, 2.0, 3.0, 4.0, 5.0)


@pytest.mark.parametrize("fun", [
    lambda n: f"{n}" == "3", lambda n: f"{n}" != "3", lambda n: f"k{n}" < "k4", lambda n: f"{n}" in ("1", "3"),
    lambda n: "k" in f"k{n}", lambda n: f"{n}".startswith("3"), lambda n: len(f"{n}"), lambda n: int(f"{n}"),
    lambda n: f"{n}"[0], lambda n: f"{n}" * 2,
])
def test_what_a_text_says_is_not_known(fun: Callable[..., Any]) -> None:
    """It was taken for a value of another class, which equals no string."""
    with pytest.raises(UnsupportedError, match="run-time values|known at run time"):
        jit(fun)(3)


def test_a_text_is_a_string() -> None:
    assert jit(lambda n: (isinstance(f"{n}", str), type(f"{n}") is str, f"{n}" is None))(3) == (True, True, False)


def missing_message(a, b, c, d, e):
    head = f"{a} {b} {c} {d}"
    assert a > b, f"{e} {head}"
    return a


def test_a_static_parameter_that_is_not_there() -> None:
    for wrong in ("m", 3):
        with pytest.raises(TypeError, match=rf"square\(\) has no parameter {wrong!r}: there are x"):
            jit(square, static=(wrong,))(1.0)
    assert jit(lambda x, **options: x, static="mode")(1.0, mode="fast") == 1.0


def test_a_type_that_is_none() -> None:
    with pytest.raises(ValueError, match="types look like f64"):
        jitad.spec("f63[:]")


PROGRAM = """
import numpy as np
from jitad import jit

@jit
def f(a):
    return a.foo

f(np.ones(3))
"""


@pytest.mark.parametrize("debug", ["0", "1"])
def test_the_compilers_frames_are_shown_when_asked_for(tmp_path, debug: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], capture_output=True, text=True,
                          env={**os.environ, "JITAD_DEBUG": debug}, timeout=60)
    lines = done.stderr.splitlines()
    assert lines[-4:] == ["AttributeError: an array has no attribute 'foo'",
                          f'while tracing File "{tmp_path}/program.py", line 7, in f',
                          "    return a.foo", "           ^^^^^"]
    assert ("frontend" in done.stderr) == (debug == "1")


def test_no_message_points_into_jitad() -> None:
    """Where a transform is of a function that is not the user's, there is no line of theirs."""
    refused = jitad.custom_vjp(lambda x: x)
    for call, message in ((lambda: grad(np.fft.fft)(A), "fft"),
                          (lambda: jitad.vmap(np.fft.fft)(np.ones((2, 2))), "fft"),
                          (lambda: grad(statistics.mean)(A), "statistics.mean"),
                          (lambda: grad(refused)(1.0), "without a rule"),
                          (lambda: grad(jitad.custom_jvp(np.sum))(A), "without a rule"),
                          (lambda: jitad.check_grads(lambda x: x, (2,)), "holds no float"),
                          (lambda: grad(str)(1.0), "`str`")):
        with pytest.raises(JitadError, match=message) as caught:
            call()
        assert os.path.dirname(jitad.__file__) not in str(caught.value)
    with pytest.raises(DifferentiationError, match="test_messages.py"):
        grad(refused)(1.0)
    with pytest.raises(TypeError, match="interpret takes a function, not 3"):
        jitad.interpret(3, 1.0)
    assert grad(float)(2.0) == 1.0
