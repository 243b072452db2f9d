"""``jit`` as ``api.md`` has it: ways to write it, arguments and results of every kind, options, what can be looked
at."""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
import os
import pickle
import subprocess
import sys
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitad
from jitad import TypeInferenceError, UnsupportedError, jit
from tests.calls.entries import same

pytestmark = pytest.mark.any_level


@jit
def square(x):
    """x squared"""
    return x * x


@jit(grad=True)
def cubed(x):
    return x * x * x


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class Constant:
    value: Any


@dataclasses.dataclass
class Line:
    slope: Any
    offset: Any

    @jit
    def at(self, x):
        return self.slope * x + self.offset

    @jit(grad="x")
    def energy(self, x):
        return self.at(x) ** 2

    @jit
    def area(self):
        return self.slope * self.offset

    @staticmethod
    @jit
    def twice(x):
        return x + x


# --- ways to write it -----------------------------------------------------------------------------

def test_bare_with_options_and_as_a_call() -> None:
    assert same(square(3.0), 9.0)
    assert same(jit(lambda x: x + 1.0)(2.0), 3.0)
    assert same(jit(fastmath=True)(lambda x: x + 1.0)(2.0), 3.0)

    @jit
    def outer(x):
        def inner(y):
            return y * x
        return inner(x) + square(x)
    assert same(outer(3.0), 18.0)


def test_it_looks_like_the_function() -> None:
    assert square.__name__ == "square" and square.__doc__ == "x squared" and square.__module__ == __name__
    assert square.__wrapped__ is square.py_func and square.py_func(4) == 16
    assert str(inspect.signature(square)) == "(x)"
    assert "square" in repr(square)
    assert callable(square) and not hasattr(square, "grad")
    with pytest.raises(AttributeError, match="grad=True"):
        square.grad  # noqa: B018


def test_jit_of_jit_is_jit() -> None:
    assert jit(square).py_func is square.py_func


def test_methods() -> None:
    line = Line(2.0, 1.0)
    assert same(line.at(3.0), 7.0) and same(Line.at(line, 3.0), 7.0) and same(Line.twice(2.0), 4.0)
    assert same(line.energy(3.0), 49.0) and same(line.energy.grad(3.0), 28.0)
    assert same(line.energy.value_and_grad(3.0), (49.0, 28.0))
    bound = line.at
    assert same(bound(1.0), 3.0)


def test_bound_methods_are_looked_into_and_jitted_like_functions() -> None:
    line = Line(2.0, 1.0)
    assert same(line.at(3.0), 7.0)
    assert line.at.inspect() == line.at.inspect("ir", 3.0) == Line.at.inspect("ir", line, 3.0)
    assert "f64[?]" in line.at.inspect("optimized", jitad.spec("f64[:]"))
    assert line.at.visualize() == line.at.visualize(3.0) == Line.at.visualize(line, 3.0)
    assert line.at.visualize(3.0, stage="cps") == Line.at.visualize(line, 3.0, stage="cps")
    assert same(line.area(), 2.0) and line.area.inspect() == line.area.inspect("ir") == Line.area.inspect("ir", line)
    assert same(jit(line.at)(3.0), 7.0) and same(jit(line.at, grad=True).grad(3.0), 2.0)
    jitad.check_grads(line.energy, (3.0,))


def test_pickled_and_copied_by_reference() -> None:
    assert pickle.loads(pickle.dumps(square)) is square
    assert pickle.loads(pickle.dumps(cubed.grad)) is cubed.grad
    assert copy.copy(square) is square and copy.deepcopy(square) is square


# --- arguments ------------------------------------------------------------------------------------

def test_types_come_from_the_arguments() -> None:
    double = jit(lambda x: x + x)
    for x in (2.0, 2, True, np.float32(2), np.arange(3.0), np.arange(3, dtype=np.float32), np.arange(3), np.float64(2),
              np.arange(6.0).reshape(2, 3), np.int32(3), np.arange(3, dtype=np.int32)):
        made, expected = double(x), x + x
        assert same(made, expected.item() if isinstance(expected, (np.float64, np.int64)) else expected), x
    assert len(double.signatures) == 11


def test_a_new_size_does_not_compile_anew_but_a_size_of_one_does() -> None:
    total = jit(lambda x: np.sum(x * x))
    for n in (0, 2, 3, 1000):
        assert total(np.ones(n)) == n
    assert len(total.signatures) == 1
    assert total(np.ones(1)) == 1.0
    assert len(total.signatures) == 2
    fixed = jit(lambda x: np.sum(x * x), static_shapes=True)
    assert [fixed(np.ones(n)) for n in (2, 3, 2)] == [2.0, 3.0, 2.0] and len(fixed.signatures) == 2


def test_arrays_in_any_layout_are_converted() -> None:
    total = jit(lambda x: np.sum(x, axis=0))
    a = np.arange(24.0).reshape(4, 6)
    for x in (a, a[:, ::2], a.T, a[::-1], np.asfortranarray(a), a.astype(">f8"), a[1:3], np.broadcast_to(a[0], (4, 6)),
              np.frombuffer(b"\0" + a.tobytes(), np.uint8)[1:].view(float).reshape(4, 6)):
        np.testing.assert_array_equal(total(x), x.sum(axis=0))
    assert len(total.signatures) == 1


def test_narrow_integers_keep_their_dtype_and_0d_arrays_are_scalars() -> None:
    double = jit(lambda x: x + x)
    for dtype in (np.int8, np.uint8, np.int16, np.uint32, np.uint64):
        assert same(double(np.array([1, 2], dtype)), np.array([2, 4], dtype))
    assert same(double(np.array(1.5)), 3.0)
    assert same(double(np.int8(3)), np.int8(6))


def test_what_has_no_place_in_compiled_code() -> None:
    double = jit(lambda x: x + x)
    for x in (np.array([1, "a"], object), np.array(["a"]), np.ones(2, complex), 1j, np.ones(2, np.float16),
              np.ones(2, ">c16"), np.ma.masked_array([1.0, 2.0], [True, False]), {1.0, 2.0}, object(), b"bytes"):
        with pytest.raises(TypeInferenceError):
            double(x)
    with pytest.raises(OverflowError):
        double(2**70)
    assert double(2) == 4


def test_keywords_and_defaults() -> None:
    @jit
    def f(a, b=2.0, *, c=3.0):
        return a + 10.0 * b + 100.0 * c
    assert f(1.0) == 321.0
    for _ in range(20):                          # often enough to get entry points of their own
        assert f(1.0, b=5.0) == f(1.0, 5.0) == f(b=5.0, a=1.0) == 351.0
        assert f(1.0, c=1.0) == 121.0 and f(1.0, c=1.0, b=1.0) == f(1.0, b=1.0, c=1.0) == 111.0
    for args, kwargs in (((), {}), ((1.0, 2.0, 3.0), {}), ((1.0,), {"d": 1.0}), ((1.0,), {"a": 1.0})):
        with pytest.raises(TypeError):
            f(*args, **kwargs)


def test_variadic_functions() -> None:
    @jit
    def f(*args, **kwargs):
        total = 0.0
        for x in args:
            total += x
        return total + kwargs.get("y", 0.0)
    assert f() == 0.0 and f(1.0, 2.0) == 3.0 and f(1.0, y=5.0) == 6.0


def test_static_arguments_that_are_equal_and_not_the_same() -> None:
    first = jit(lambda x, n: n[0], static="n")
    for n in ((0.0,), (-0.0,), (0,), (True,), (1,), (1.0,), ((1,),), ((True,),)):
        assert repr(first(1.0, n)) == repr(n[0])
    signed = jit(lambda x, n: np.copysign(x, n), static="n")
    assert [signed(1.0, n) for n in (0.0, -0.0, 0.0, -0.0)] == [1.0, -1.0, 1.0, -1.0]
    assert len(signed.signatures) == 2
    field = jit(lambda x, n: n.value, static="n")
    for value in (1, 1.0, True, 0.0, -0.0):
        assert repr(field(1.0, Constant(value))) == repr(value)
    size = jit(lambda x, n: len(n), static="n")
    assert size(1.0, frozenset({1, 2})) == size(1.0, frozenset({2, 1})) == 2 and len(size.signatures) == 1


def test_the_order_of_what_kwargs_takes() -> None:
    named = jit(lambda x, **kwargs: [*kwargs.items(), x])
    for _ in range(10):                                  # from the ninth call on in machine code
        assert named(1.0, b=2.0, a=3.0) == [("b", 2.0), ("a", 3.0), 1.0]
        assert named(b=2.0, x=1.0, a=3.0) == [("b", 2.0), ("a", 3.0), 1.0]
        assert named(1.0, a=3.0, b=2.0) == [("a", 3.0), ("b", 2.0), 1.0]
    parameters = jit(lambda *, b, a: (b, a))
    assert parameters(b=1.0, a=2.0) == parameters(a=2.0, b=1.0) and len(parameters.signatures) == 1


def test_what_spec_takes() -> None:
    with pytest.raises(ValueError, match="not a type of arguments: 'stack'"):
        jitad.spec("stack")
    for text in ("f64[:", "f64[]", "f64[::]", "f64[:,]", "f64[-1]", "float64", ""):
        with pytest.raises(ValueError, match="not a type"):
            jitad.spec(text)
    with pytest.raises(TypeError, match="spec takes the text of a type"):
        jitad.spec(3)
    assert repr(jitad.spec(" f32[:, 3] ")) == "spec('f32[?, 3]')"


def test_static_arguments() -> None:
    @jit(static=("n", "op"))
    def power(x, n, op="mul"):
        result = x if op == "mul" else x + 1.0
        for _ in jitad.unroll(range(n - 1)):
            result = result * x
        return result
    assert [power(2.0, n) for n in (1, 3, 3, 1)] == [2.0, 8.0, 8.0, 2.0] and len(power.signatures) == 2
    assert power(2.0, n=3) == power(2.0, 3) == 8.0
    assert power(2.0, 2, "add") == 6.0
    with pytest.raises(TypeInferenceError):
        power(2.0, [1])


@pytest.mark.slow
def test_calls_with_static_values_beside_structures_go_to_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    @jit(static=("act", "n"), grad="ps")
    def net(ps, x, act, n=2):
        for i in range(n):
            x = act(ps[i]["w"] @ x + ps[i]["b"])
        return x.sum()
    ps = [{"w": np.eye(3) / 2, "b": np.ones(3)} for _ in range(3)]
    calls = [(np.tanh, 1), (np.sin, 1), (np.tanh, 2), (np.tanh, 2.0 > 1)]
    expected = [net.py_func(ps, np.ones(3), act, n) for act, n in calls]
    grads = [net.grad(ps, np.ones(3), act, n)[0]["b"] for act, n in calls]
    assert np.allclose([net(ps, np.ones(3), act, n) for act, n in calls], expected, rtol=1e-14)
    monkeypatch.setattr("jitad.calling.dispatch.Dispatcher.__call__", None)
    for _ in range(2):
        assert np.allclose([net(ps, np.ones(3), act, n) for act, n in calls], expected, rtol=1e-14)
        assert np.array_equal([net.grad(ps, np.ones(3), act, n)[0]["b"] for act, n in calls], grads)
    with pytest.raises(TypeError):                             # machine code does not read it: the call goes to Python
        net(ps, np.ones(3), np.cos, 1)


def test_functions_as_arguments() -> None:
    apply = jit(lambda f, x: f(f(x)))
    assert apply(np.sin, 0.5) == np.sin(np.sin(0.5)) or abs(apply(np.sin, 0.5) - np.sin(np.sin(0.5))) < 1e-15
    assert apply(lambda x: x * 3.0, 1.0) == 9.0 and apply(square, 2.0) == 16.0


@pytest.mark.parametrize("value", [
    (1.0, 2), [1.0, [2.0, True]], {"a": 1.0, "b": {"c": np.arange(3.0)}}, Pair(1.0, (2.0, 3)), Line(1.0, 2.0), None, (),
    [], {}, (None, 1.0), ("text", 1.0), {"k": [Line(1.0, [2]), Pair(1, None)]},
], ids=str)
def test_pytrees_come_back_as_they_went_in(value: Any) -> None:
    same_again = jit(lambda x: x)
    for _ in range(3):
        made = same_again(value)
    if isinstance(value, (Line, Pair)) or "Line" in repr(value):
        assert type(made) is type(value) and repr(made) == repr(value)
    else:
        assert same(made, value)


def test_results_are_new_arrays() -> None:
    give = jit(lambda x: (x, x))
    a = np.ones(3)
    x, y = give(a)
    assert x is not a and y is not a and not np.shares_memory(x, a)


# --- options --------------------------------------------------------------------------------------

def test_options_that_are_not_there_yet_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="kept on disk"):
        jit(target="cuda-sim", cache=True)(abs)
    with pytest.raises(ValueError, match="'cuda-sim'"):
        jit(target="abacus")(abs)
    with pytest.raises(TypeError):
        jit(3)


def test_bounds_are_checked_by_default() -> None:
    at = jit(lambda a, i: a[i])
    a = np.arange(5.0)
    assert at(a, 2) == 2.0 and at(a, -1) == 4.0
    for i in (5, -6, 10**12):
        with pytest.raises(IndexError):
            at(a, i)
    assert jit(boundscheck=False)(lambda a, i: a[i])(a, 2) == 2.0


# --- gradients ------------------------------------------------------------------------------------

def test_gradients() -> None:
    assert same(cubed(2.0), 8.0) and same(cubed.grad(2.0), 12.0) and same(cubed.value_and_grad(2.0), (8.0, 12.0))

    def f(x, y):
        return x * x * y
    for grad, expected in ((0, 12.0), ("y", 4.0), (("x", "y"), (12.0, 4.0)), ((1, 0), (4.0, 12.0)), (True, 12.0)):
        g = jit(f, grad=grad)
        assert same(g.grad(2.0, 3.0), expected)
        assert same(g.value_and_grad(2.0, 3.0), (12.0, expected))
    assert same(jit(f, grad="y").grad(2.0, y=3.0), 4.0)


def test_gradients_keep_the_structure() -> None:
    @jit(grad=True)
    def f(p, x):
        return p["w"][0] * x * x + np.sum(p["b"] * p["b"])
    g = f.grad({"w": (3.0, 2), "b": np.arange(3.0)}, 2.0)
    assert g["w"] == (4.0, None) and same(g["b"], 2 * np.arange(3.0))


# --- looking inside -------------------------------------------------------------------------------

@pytest.mark.parametrize("stage, part", [("ir", "func @"), ("cps", "func @"), ("adjoint", "func @"),
                                         ("optimized", "func @"), ("loops", "func @"), ("mlir", "func.func @"),
                                         ("llvm", "define"), ("asm", "ret"), ("ptx", ".func")])
def test_inspect(stage: str, part: str) -> None:
    f = jit(lambda x: np.sin(x) * x)
    with pytest.raises(ValueError, match=r"jitad\.spec"):
        f.inspect(stage)
    assert part in f.inspect(stage, jitad.spec("f64"))
    f(2.0)
    assert part in f.inspect(stage)


def test_inspect_refuses_what_is_not_there() -> None:
    with pytest.raises(ValueError):
        square.inspect("nonsense", 1.0)


def test_spec_stands_for_arguments() -> None:
    f = jit(lambda a, n: a[0] * n)
    assert "f64[?, ?]" in f.inspect("ir", jitad.spec("f64[:, :]"), jitad.spec("i64"))


def test_signatures_stats_and_recompile() -> None:
    f = jit(lambda x: x + 1)
    f(1.0), f(2.0), f(1)
    assert f.signatures == ["(f64)", "(i64)"]
    assert f.stats["compilations"] == 2 and f.stats["seconds"] > 0
    f.recompile()
    assert f.signatures == [] and f(1.0) == 2.0 and f.stats["compilations"] == 3


def test_visualize() -> None:
    text = square.visualize(1.0)
    assert text.startswith("digraph") and "@square" in text


# --- errors and threads ---------------------------------------------------------------------------

def test_nothing_is_left_behind_by_an_error() -> None:
    flag = [True]

    def f(x):
        return np.fft.fft(x) if flag[0] else x
    g = jit(f)
    for _ in range(2):
        with pytest.raises(UnsupportedError):
            g(1.0)
    assert g.signatures == []
    flag[0] = False
    assert g(1.0) == 1.0


def test_threads_compile_once() -> None:
    f = jit(lambda x: np.exp(x) + np.cos(x))
    results: list[float] = []
    threads = [threading.Thread(target=lambda: results.append(f(0.5))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(results)) == 1 and len(results) == 8 and f.stats["compilations"] == 1


def test_a_jitted_function_calls_another_through_python() -> None:
    assert list(map(square, [1.0, 2.0])) == [1.0, 4.0]
    assert functools.reduce(jit(lambda a, b: a + b), [1.0, 2.0, 3.0]) == 6.0


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **env},
                          cwd=os.path.dirname(__file__), timeout=120)


PROGRAM = """
from jitad import jit
seen = []
def noted(x):
    seen.append(type(x).__name__)
    return x * x
g = jit(lambda x: x * x, grad=True)
print(jit(noted)(3.0), g.grad(3.0), g.value_and_grad(3.0), seen[0])
"""


def write(tmp_path: Any, code: str) -> str:
    file = tmp_path / "program.py"
    file.write_text(code)
    return f"import runpy; runpy.run_path({str(file)!r})"


@pytest.mark.slow
def test_disable_jit_runs_python(tmp_path: Any) -> None:
    done = run(write(tmp_path, PROGRAM), JITAD_DISABLE_JIT="1")
    assert done.stdout.split() == ["9.0", "6.0", "(9.0,", "6.0)", "float"], done.stderr


@pytest.mark.slow
def test_dump_prints_stages(tmp_path: Any) -> None:
    code = "from jitad import jit\ndef f(x):\n    return x * x\nprint(jit(f)(3.0))\n"
    done = run(write(tmp_path, code), JITAD_DUMP="ir,optimized,llvm")
    assert done.stdout.strip() == "9.0"
    assert [line for line in done.stderr.splitlines() if line.startswith("; ----")] == [
        "; ---- ir", "; ---- optimized", "; ---- llvm"]


def test_import_loads_no_compiler() -> None:
    """``import jitad`` imports only these modules: they are its cost."""
    code = ("import sys, numpy, llvmlite.binding; known = set(sys.modules); from jitad import jit; "
            "print(*sorted(m for m in set(sys.modules) - known if m.startswith('jitad')))")
    assert run(code).stdout.split() == [
        "jitad", "jitad.api", "jitad.calling", "jitad.calling.handle", "jitad.calling.jitted", "jitad.compiler_threads",
        "jitad.errors", "jitad.ir", "jitad.ir.types", "jitad.locks", "jitad.lowering",
        "jitad.lowering.llvm", "jitad.lowering.llvm.capi", "jitad.lowering.python", "jitad.lowering.python.callable"]


def test_static_values_that_are_equal_and_yet_two() -> None:
    scaled = jit(lambda s, x: (s, math.copysign(x, s)), static="s")
    pair = jit(lambda s, x: (s, x * s[0]), static="s")
    for _ in range(2):
        for s in (0.0, -0.0, 0, False, 1, 1.0):
            value, y = scaled(s, 3.0)
            assert (repr(value), y) == (repr(s), math.copysign(3.0, s))
            value, y = pair((s, "a"), 3)
            assert (repr(value), repr(y)) == (repr((s, "a")), repr(3 * s))


def test_captured_arrays_are_read_at_the_call_however_they_lie() -> None:
    base, narrow = np.arange(12.0).reshape(3, 4), np.arange(6.0)[::2]
    turned, rows, swapped = base.T, base[:, ::2], np.lib.stride_tricks.as_strided(base, (2, 3), (8, 32))

    @jit(grad=True)
    def f(x: Any, k: int = 2) -> Any:
        return (turned[1] * x + rows.sum() + swapped[0, k] + narrow[k]).sum()

    def value(x: float) -> float:
        return float((base[:, 1] * x + base[:, ::2].sum() + base[2, 0] + narrow[2]).sum())
    for n in range(4):
        base += 1.0
        narrow[2] = n
        assert f(2.0) == f(2.0, k=2) == value(2.0) and f.grad(2.0) == base[:, 1].sum()
        assert f.value_and_grad(np.float64(2.0)) == (value(2.0), base[:, 1].sum())
    assert f.stats["compilations"] <= 2


def test_captured_arrays_that_change_their_shape_compile_anew() -> None:
    """Their sizes are compiled in; the program had read beyond an array that became smaller."""
    a, b, c = np.arange(6.0).reshape(2, 3), np.arange(100_000.0), np.ones(4)
    first, total, kind = jit(lambda: a[1, 0] + 0.0), jit(lambda: b.sum()), jit(lambda x: (c + x).sum())
    assert first() == 3.0 and total() == b.sum() and kind(1.0) == 8.0
    for _ in range(2):
        a.shape = (3, 2)
        b.resize(3, refcheck=False)
        c.dtype = np.dtype(np.int64)
        assert first() == 2.0 and total() == 3.0 and kind(1.0) == (c + 1.0).sum()
        a.shape, c.dtype = (2, 3), np.dtype(float)
        assert first() == 3.0 and kind(1.0) == 8.0
    a.shape = (6,)
    with pytest.raises(IndexError):
        first()


def test_jit_inside_of_compiled_code_is_what_it_is_of() -> None:
    """``jit`` itself was traced, and refused with a location in jitad."""
    def f(x: Any) -> Any:
        @jit
        def scaled(y: Any) -> Any:
            return y * x

        @jit(fastmath=True)
        def shifted(y: Any) -> Any:
            return y + x
        return scaled(2.0) + shifted(1.0) + jit(lambda z: z * z, static=())(x)
    assert jit(f)(3.0) == f(3.0) == 19.0 and jitad.grad(f)(3.0) == 9.0
    with pytest.raises(jitad.UnsupportedError, match=r"`jit\(grad=…\)` inside of compiled code"):
        jit(lambda x: jit(lambda z: z * z, grad=True).grad(x))(3.0)


OPTIMISED = """
from jitad import jit
def f(x):
    assert x > 0, "not positive"
    return 1.0 if __debug__ else 2.0
print(f(-1.0), jit(f)(-1.0))
"""


@pytest.mark.slow
def test_assertions_are_left_out_where_python_does(tmp_path: Any) -> None:
    (tmp_path / "program.py").write_text(OPTIMISED)
    done = subprocess.run([sys.executable, "-O", str(tmp_path / "program.py")], text=True, capture_output=True)
    assert done.stdout == "2.0 2.0\n", done.stderr
