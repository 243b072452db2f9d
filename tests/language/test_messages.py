"""Error messages for users: the problem, the location (file, line, caret), the reason, and the alternative."""

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
        out.append([i])
    return out


def draws(x):
    return x + np.random.rand()


def rolls(x):
    return x + random.randint(1, 6)


def clocked(x):
    return x + time.perf_counter()


def listed(a):
    return tuple(x * x for x in a)


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
    xs = [{"x": x}]
    if x > 0:
        xs.append({"y": x})
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
    (jit(growing), (3,), UnsupportedError, "a list of length 0 or 2", "out.append(i * 2.0)", "`out = np.zeros(n)`"),
    (jit(draws), (1.0,), UnsupportedError, "rand is not supported", "np.random.rand()", "jitad.random.default_rng"),
    (jit(rolls), (1.0,), UnsupportedError, "something else at each", "random.randint(1, 6)", "jitad.random"),
    (jit(clocked), (1.0,), UnsupportedError, "something else at each", "time.perf_counter()", "call it outside"),
    (jit(listed), (A,), UnsupportedError, "a list or tuple of a length that is only known", "a", "`out[i] = x`"),
    (jit(transforms), (np.ones(2),), UnsupportedError, "fft is not supported", "np.fft.fft(a)", "a loop"),
    (jit(prints), (1.0,), UnsupportedError, "`print`", "print(x)", "return the value"),
    (jit(größer), (1.0,), UnsupportedError, "`print`", "print(x)", "return the value"),
    (jit(tries), (1.0,), UnsupportedError, "`try`", "t", "`if`"),
    (jit(one_more), (1.0,), UnsupportedError, "a list of length 2 or 1", 'xs.append({"y": x})', "`out = np.zeros(n)`"),
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
    """It was treated as a value of another class, which equals no string."""
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


@pytest.mark.slow
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
    """A transform of a function that is not the user's: there is no line of the user to show."""
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


def prints_inside(x):
    print(x)
    return x


class Printing:
    def __init__(self, x):
        self.x = x

    @property
    def printed(self):
        return prints_inside(self.x)


def calls_it(x):
    return 2 * Printing(x).printed


def through_functions(x):
    return calls_it(x) + 1


def through_transforms(x):
    return grad(lambda x: calls_it(x))(x) + jitad.vmap(calls_it)(np.ones(2)).sum()


def lines_shown(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith("    ") and "^" not in line]


def test_errors_show_the_chain_of_calls() -> None:
    inside = ["return 2 * Printing(x).printed", "return prints_inside(self.x)", "print(x)"]
    for f, calls in ((jit(calls_it), []), (jit(through_functions), ["return calls_it(x) + 1"]),
                     (grad(through_functions), ["return calls_it(x) + 1"]),
                     (lambda x: jitad.vmap(through_functions)(np.ones(2)), ["return calls_it(x) + 1"]),
                     (jit(through_transforms), [lambda_line := "return grad(lambda x: calls_it(x))(x) + "
                                                "jitad.vmap(calls_it)(np.ones(2)).sum()", lambda_line])):
        with pytest.raises(UnsupportedError) as info:
            f(1.0)
        assert lines_shown(str(info.value)) == calls + inside
        assert [c.line for c in (*info.value.calls, info.value.loc)] == [
            int(n) for n in re.findall(r", line (\d+)", str(info.value))]


def test_a_long_chain_of_calls_is_shortened() -> None:
    def chain(depth):
        below = prints_inside if depth == 0 else chain(depth - 1)
        return lambda x: below(x)
    with pytest.raises(UnsupportedError, match="… 19 calls more") as info:
        jit(chain(30))(1.0)
    assert len(info.value.calls) == 31 and len(str(info.value).splitlines()) < 50


def has_no_attribute(x):
    return x.missing


def test_errors_of_python_found_while_tracing_show_the_chain_too() -> None:
    def between(x):
        return has_no_attribute(x)
    with pytest.raises(AttributeError) as info:
        jit(lambda x: between(x) + 1)(1.0)
    assert lines_shown("\n".join(info.value.__notes__)) == [
        "return x.missing", "return has_no_attribute(x)", "jit(lambda x: between(x) + 1)(1.0)"]


def picked(a, i):
    return a[i] * 2


def picks_once(a, i):
    return picked(a, i) + 1


def picks_twice(a, i):
    return picks_once(a, i) + picks_once(a, i + 1)


def solves(a, i):
    return np.linalg.solve(a, a).sum()


def picks_again(a, i):
    return picked(a, 9) if i == 0 else picks_again(a, i - 1)


@pytest.mark.parametrize(("fun", "lines"), [
    (picks_once, ["return picked(a, i) + 1", "return a[i] * 2"]),
    (picks_twice, ["return picked(a, i) + 1", "return a[i] * 2"]),              # from one of two places
    (lambda a, i: solves(a, i), ["(lambda a, i: solves(a, i), [\"(lambda", "return np.linalg.solve(a, a).sum()"]),
    (picks_again, ["return a[i] * 2"]),
], ids=["once", "twice", "solves", "again"])
def test_what_compiled_code_raises_shows_the_calls_that_are_certain(fun: Callable[..., Any], lines: list[str]) -> None:
    for run in (jit(fun), grad(lambda a, i: np.sum(fun(a, i)))):
        for _ in range(2):
            with pytest.raises((IndexError, np.linalg.LinAlgError)) as info:
                run(np.zeros((2, 2)), 5)
            shown = [f.line for f in traceback.extract_tb(info.value.__traceback__) if f.filename == __file__]
            assert all(line.startswith(want) for line, want in zip(shown[-len(lines):], lines)), shown


def test_errors_are_pythons_own_as_well() -> None:
    assert issubclass(ShapeError, ValueError) and issubclass(DifferentiationError, TypeError)
    assert all(issubclass(e, JitadError) for e in (ShapeError, DifferentiationError))
    with pytest.raises(ValueError, match="could not be broadcast"):
        jit(mismatched)(1.0)
    with pytest.raises(TypeError, match="holds no float"):
        grad(square)(3)

    def behind_a_choice(x, flag):                       # neither is reported as an error of one variant
        pair = (x, "a") if flag else ([x], 1)
        return jitad.grad(square)(len(pair))
    with pytest.raises(DifferentiationError):
        jit(behind_a_choice)(1.0, True)


# --- names of Numba and JAX ---------------------------------------------------------------------------

@pytest.mark.parametrize(("call", "error", "instead"), [
    (lambda: jit(square, nopython=True), TypeError, "nothing falls back"),
    (lambda: jit(nogil=True)(square), TypeError, "the lock is let go"),
    (lambda: jit(square, error_model="numpy"), TypeError, "inf or nan"),
    (lambda: jit(square, inline="always"), TypeError, "small functions"),
    (lambda: jit(square, static_argnums=0), TypeError, "`static=0`"),
    (lambda: jit(square, static_argnames="x"), TypeError, "`static="),
    (lambda: jit(square, donate_argnums=0), TypeError, "never overwritten"),
    (lambda: jit(square, backend="cpu"), TypeError, '`target="cpu"`'),
    (lambda: jit(square, device=None), TypeError, '`target="cpu"`'),
    (lambda: jit(square, argnums=0), TypeError, "grad=0"),
    (lambda: jit("f8(f8)"), TypeError, "types come from the arguments"),
    (lambda: grad(square, holomorphic=True), TypeError, "numbers are real"),
    (lambda: jit(lambda x: grad(square, allow_int=True)(x))(1.0), TypeError, "None"),
    (lambda: jit(lambda x: jit(square, nopython=True)(x))(1.0), TypeError, "nothing falls back"),
    (lambda: jitad.vmap(square, axis_name="i"), TypeError, "sum over"),
    (lambda: jitad.vjp(square, 1.0, reduce_axes=()), TypeError, "sum over"),
    (lambda: jitad.custom_vjp(square, nondiff_argnames="x"), TypeError, "positions"),
    (lambda: jitad.checkpoint(square, policy=None), TypeError, "checkpoint="),
    (lambda: jitad.njit, AttributeError, "`jitad.jit`"),
    (lambda: jitad.set_flush_denormal(True), AttributeError, "flush_subnormals=True"),
    (lambda: jitad.prange, AttributeError, "parallel=True"),
    (lambda: jit(lambda n: [i for i in jitad.prange(3)])(1), AttributeError, "parallel=True"),
    (lambda: jitad.lax.scan, AttributeError, "`for`"),
    (lambda: jitad.numpy, AttributeError, "import numpy as np"),
    (lambda: jitad.pmap, AttributeError, "vmap"),
    (lambda: jitad.remat, AttributeError, "`jitad.checkpoint`"),
    (lambda: jitad.random.PRNGKey(0), AttributeError, "default_rng"),
    (lambda: jit(square).inspect_llvm(), AttributeError, "`f.inspect"),
    (lambda: jit(square).lower(1.0), AttributeError, "first called"),
])
def test_names_of_other_libraries_have_a_hint(call: Callable[[], Any], error: type[Exception], instead: str) -> None:
    with pytest.raises(error, match=r"(unexpected keyword argument|has no attribute|takes a function)") as info:
        call()
    assert instead in str(info.value)


def test_names_that_nobody_has_have_none() -> None:
    for call in (lambda: jit(square, nonsense=True), lambda: grad(square, nonsense=True), lambda: jitad.nonsense,
                 lambda: jitad.random.lax, lambda: jit(square).nonsense):
        with pytest.raises((TypeError, AttributeError), match="'nonsense'|'lax'") as info:
            call()
        assert "instead" not in str(info.value)
    assert not hasattr(jitad, "njit") and not hasattr(jit(square), "lower")


def function_of(module: str, name: str) -> Any:
    def function(*args: Any) -> Any:
        return args[0]
    function.__module__, function.__name__, function.__qualname__ = module, name, name
    return function


@pytest.mark.parametrize(("module", "name", "instead"), [
    ("jax._src.numpy.ufuncs", "sin", "`np.sin`"), ("jax.numpy", "einsum", "`np.einsum`"), ("torch", "exp", "`np.exp`"),
    ("jax.lax", "scan", "`for`"), ("jax._src.lax.control_flow.loops", "fori_loop", "`for`"),
    ("jax._src.api", "grad", "`jitad.grad`"), ("jax.random", "normal", "default_rng"),
    ("jax.nn", "relu", "`jitad.relu`"),
    ("jax.tree_util", "tree_map", "a loop or a comprehension"), ("numba.misc.special", "prange", "parallel=True"),
    ("jax.scipy.special", "unheard_of", "NumPy's functions"),
])
def test_functions_of_other_compilers(module: str, name: str, instead: str) -> None:
    foreign = function_of(module, name)
    with pytest.raises(UnsupportedError, match=f"`.*{name}` of .* in compiled code") as info:
        jit(lambda x: foreign(x))(1.0)
    assert instead in str(info.value).splitlines()[-1]


def test_functions_that_numba_compiles() -> None:
    numba = pytest.importorskip("numba")
    compiled = numba.njit(square)
    with pytest.raises(UnsupportedError, match="`square` is a function that Numba compiles"):
        jit(lambda x: compiled(x))(2.0)
    assert jit(lambda x: compiled.py_func(x))(2.0) == 4.0

    def summed(x):
        total = 0.0
        for i in numba.prange(3):
            total += x * i
        return total
    with pytest.raises(UnsupportedError, match="`numba.prange` of Numba"):
        jit(summed)(1.0)
