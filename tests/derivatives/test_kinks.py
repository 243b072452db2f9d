"""Points without a derivative: the value that is used there, and the report of such points."""

from __future__ import annotations

import importlib.util
import re
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitad
from jitad import (
    NondifferentiableWarning,
    custom_vjp,
    debug_nondifferentiable,
    grad,
    hvp,
    interpret,
    jit,
    jvp,
    stop_gradient,
)
from jitad.ad.derivatives import PARTIALS
from jitad.ir.ops import OPS
from jitad.semantics.kinks import KINKS

pytestmark = pytest.mark.any_level


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NondifferentiableWarning)
        yield


def found(fun: Any, *args: Any) -> list[tuple[str, tuple[float, ...], int]]:
    with debug_nondifferentiable() as report:
        fun(*args)
    return [(kink.op, kink.values, kink.count) for kink in report]


def test_every_op_has_kinks_or_has_none() -> None:
    smooth = {name for name, op in OPS.items() if op.smooth}
    assert set(PARTIALS) == set(KINKS) | smooth
    assert not set(KINKS) & smooth
    assert all(len(KINKS[op]) == len(PARTIALS[op]) for op in KINKS)


# --- the table in the documentation -----------------------------------------------------------------

def rows() -> list[tuple[str, float, float]]:
    """(expression, point, derivative) for each expression of the table in the documentation."""
    text = (Path(__file__).parent.parent.parent / "docs" / "differentiation.md").read_text()
    table = text.split("| function of `x` | at | derivative |\n|---|---|---|\n")[1].split("\n\n")[0]
    found = []
    for line in table.splitlines():
        functions, point, derivative = (cell.strip() for cell in line.strip("|").split("|"))
        found += [(f, float(point), float(derivative)) for f in re.findall(r"`([^`]*x[^`]*)`", functions)]
    return found


@pytest.fixture(scope="module")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The functions of the table in a module, since functions are compiled from their source."""
    file = tmp_path_factory.mktemp("table") / "documented_kinks.py"
    functions = "".join(f"    lambda x: {expression},\n" for expression, _, _ in rows())
    file.write_text(f"import jitad\nimport numpy as np\n\nFUNCTIONS = [\n{functions}]\n")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return tuple(module.FUNCTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("evaluate", [lambda f, x: jit(f)(x), interpret], ids=["compiled", "by definition"])
def test_every_row_of_the_documented_table(documented: Any, evaluate: Any) -> None:
    table = rows()
    points, expected = np.array([p for _, p, _ in table]), [d for _, _, d in table]
    assert len(table) > 50

    def reverse(points: Any) -> Any:
        return tuple(grad(f)(points[i]) for i, f in enumerate(documented))

    def forward(points: Any) -> Any:
        return tuple(jvp(f, (points[i],), (1.0,))[1] for i, f in enumerate(documented))
    for mode in (reverse, forward):
        wrong = [(f, got, want) for (f, _, _), got, want in zip(table, evaluate(mode, points), expected)
                 if not np.array_equal(got, want, equal_nan=True)]
        assert not wrong, mode


# --- reported points ------------------------------------------------------------------------------

@jit(grad=True)
def with_a_hole(x: float) -> float:
    if x == 0:
        return 0.0 * x
    return x


def test_the_branch_that_gives_a_wrong_derivative_is_named() -> None:
    assert with_a_hole.grad(0.0) == 0.0
    with debug_nondifferentiable() as report:
        assert with_a_hole.grad(0.0) == 0.0
        assert with_a_hole.grad(1.0) == 1.0
    (kink,) = report
    assert kink.op == "==" and kink.values == (0.0, 0.0) and kink.count == 1
    assert kink.file == __file__ and kink.function == "with_a_hole"
    assert kink.line == with_a_hole.py_func.__code__.co_firstlineno + 2
    assert "the branch at 0 == 0 has no derivative" in str(report)


def test_warnings_show_the_line() -> None:
    with pytest.warns(NondifferentiableWarning, match="branch at 0 == 0") as caught, debug_nondifferentiable():
        with_a_hole.grad(0.0)
    assert caught[0].filename == __file__ and caught[0].lineno == with_a_hole.py_func.__code__.co_firstlineno + 2


@pytest.mark.parametrize("fun, x, expected", [
    (abs, 0.0, [("abs", (0.0,), 1)]),
    (np.sqrt, 0.0, [("sqrt", (0.0,), 1)]),
    (lambda x: np.maximum(x, 0.0), 0.0, [("maximum", (0.0, 0.0), 1)]),
    (lambda x: np.maximum(x, x), 0.0, []),
    (lambda x: np.floor(x) * x, 2.0, [("floor", (2.0,), 1)]),
    (lambda x: np.round(x) * x, 2.5, [("round", (2.5,), 1)]),
    (lambda x: x // 2 + x % 2, 4.0, [("//", (4.0, 2.0), 1), ("%", (4.0, 2.0), 1)]),
    (lambda x: int(x) * x, 3.0, [("int", (3.0,), 1)]),
    (lambda x: x ** 0.5, 0.0, [("**", (0.0, 0.5), 1)]),
    (lambda x: x ** 2, 0.0, []),
    (lambda x: jitad.relu(x), 0.0, [("<=", (0.0, 0.0), 1)]),
    (lambda x: jitad.relu(x), -1.0, []),
    (lambda x: 2.0 ** x, 0.0, []),
    (lambda x: np.hypot(x, 0.0), 0.0, [("hypot", (0.0, 0.0), 1)]),
    (lambda x: np.log(x), 0.0, [("log", (0.0,), 1)]),
    (lambda x: 1 / x, 0.0, [("/", (1.0, 0.0), 1)]),
    (lambda x: x if x > 1 else 2 * x, 1.0, [(">", (1.0, 1.0), 1)]),
    (lambda x: x if x > 1 else 2 * x, 1.5, []),
    (lambda x: x * abs(stop_gradient(x)), 0.0, []),
    (lambda x: x + 0 * abs(0.0), 0.0, []),
])
def test_of_numbers(fun: Any, x: float, expected: Any) -> None:
    assert found(grad(fun), x) == expected
    assert found(lambda: jvp(fun, (x,), (1.0,))) == expected
    assert found(jit(fun), x) == expected                        # the value too, as if it were differentiated


def test_of_arrays_element_by_element() -> None:
    x = np.array([0.0, 1.0, 0.0, -2.0])
    assert found(grad(lambda x: np.abs(x).sum()), x) == [("abs", (0.0,), 2)]
    assert found(grad(lambda x: np.where(x > 0, x, 0.0).sum()), x) == [(">", (0.0, 0.0), 2)]
    assert found(grad(lambda x: np.max(x * x)), np.array([2.0, -2.0, 1.0])) == [("max", (4.0,), 2)]
    assert found(grad(lambda x: np.max(x)), x) == []


def test_only_what_the_derivative_depends_on() -> None:
    def f(x: float, y: float) -> float:
        unused = abs(x)                                          # noqa: F841
        assert x >= 0
        if y == 0:
            return x * abs(y)
        return x
    assert found(grad(f), 0.0, 0.0) == []
    assert found(grad(f, 1), 0.0, 0.0) == [("==", (0.0, 0.0), 1), ("abs", (0.0,), 1)]


def test_in_loops_calls_recursion_and_derivatives_of_derivatives() -> None:
    def soft(x: float) -> float:
        return abs(x) * x

    def loop(x: float, n: int) -> float:
        total = 0.0
        for i in range(n):
            total += soft(x * i)
        return total

    def deep(x: float, n: int) -> float:
        return x if n == 0 else deep(np.maximum(x, 0.0), n - 1)
    assert found(grad(loop), 1.0, 5) == [("abs", (0.0,), 1)]
    assert found(grad(loop), 0.0, 5) == [("abs", (0.0,), 5)]
    assert found(grad(deep), 0.0, 3) == [("maximum", (0.0, 0.0), 3)]
    assert [op for op, _, _ in found(grad(grad(soft)), 0.0)] == ["abs"]
    assert [op for op, _, _ in found(lambda: hvp(soft, (0.0,), (1.0,)))] == ["abs"]


def test_a_rule_of_its_own_has_no_kinks() -> None:
    @custom_vjp
    def smooth(x: float) -> float:
        return abs(x)
    smooth.defvjp(lambda x: (abs(x), x), lambda x, ct: (ct * np.tanh(x),))
    assert found(grad(smooth), 0.0) == []


# --- the context ----------------------------------------------------------------------------------

def test_calls_before_and_after_are_compiled_ones() -> None:
    f = jit(lambda x: abs(x), grad=True)
    assert f.grad(2.0) == 1.0
    compilations = f.grad.stats["compilations"]
    with debug_nondifferentiable() as report:
        f.grad(0.0)
        with debug_nondifferentiable() as inner:
            f.grad(0.0)
    assert len(inner) == 1 and inner[0].count == 1 and report[0].count == 2
    f.grad(0.0)
    assert report[0].count == 2 and f.grad.stats["compilations"] == compilations


def test_an_exception_ends_it() -> None:
    f = jit(lambda x: abs(x), grad=True)
    with pytest.warns(NondifferentiableWarning), pytest.raises(KeyError), debug_nondifferentiable():
        f.grad(0.0)
        raise KeyError
    assert not found(f.grad, 1.0)


def test_other_threads_are_not_watched() -> None:
    f = jit(lambda x: abs(x), grad=True)
    with debug_nondifferentiable() as report:
        thread = threading.Thread(target=lambda: f.grad(0.0))
        thread.start()
        thread.join()
    assert report == []


def test_what_changes_meanwhile() -> None:
    """Functions are dropped or compiled in the context, by this or other threads; several threads watch."""
    slope = 2.0
    f = jit(lambda x: abs(x) * slope)
    assert f(-1.0) == 2.0
    with debug_nondifferentiable():
        slope = 5.0
        f.recompile()
    assert f(-1.0) == 5.0

    def elsewhere(work: Any) -> None:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with debug_nondifferentiable() as report:
            elsewhere(lambda: f(np.zeros(3)))
            f(np.zeros(3))
        assert [kink.count for kink in report] == [3]
        first, second, entered = debug_nondifferentiable(), debug_nondifferentiable(), []
        with ThreadPoolExecutor(1) as other:
            other.submit(lambda: entered.append(first.__enter__())).result()
            with second as report:
                other.submit(lambda: first.__exit__(None, None, None)).result()
                f(0.0)
        assert len(report) == 1
    called = f.stats["compilations"]
    assert f(np.ones(3)).tolist() == [5.0] * 3 and f(2.0) == 10.0 and f.stats["compilations"] == called


# --- relu -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("x", [2.0, 0.0, -1.5, -0.0, float("nan"), float("inf"), 3, -3, True, np.float32(-2),
                               np.float32(2), np.array([1.0, 0.0, -2.0, np.nan]),
                               np.ones((2, 3), np.float32), np.arange(-2, 2)],
                         ids=str)
def test_relu_of_numbers_and_arrays(x: Any) -> None:
    plain, want = jitad.relu(x), np.maximum(x, 0)
    for got in (plain, jit(jitad.relu)(x), jit(lambda x: jitad.relu(x))(x), interpret(jitad.relu, x)):
        assert type(got) is type(x) and np.asarray(got).dtype == np.asarray(x).dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.slow
def test_the_derivatives_of_relu() -> None:
    for x, d in ((2.0, 1.0), (0.0, 0.0), (-0.0, 0.0), (-3.0, 0.0)):
        assert grad(jitad.relu)(x) == jvp(jitad.relu, (x,), (1.0,))[1] == interpret(grad(jitad.relu), x) == d
        assert grad(grad(lambda x: jitad.relu(x) * x))(x) == 2 * d == hvp(lambda x: jitad.relu(x) ** 2, (x,), (1.0,))
    a = np.array([2.0, 0.0, -1.0])
    np.testing.assert_array_equal(grad(lambda a: jitad.relu(a) @ a)(a), [4.0, 0.0, 0.0])
    np.testing.assert_array_equal(jitad.hessian(lambda a: (jitad.relu(a) ** 2).sum())(a), np.diag([2.0, 0.0, 0.0]))
    np.testing.assert_array_equal(jitad.vmap(grad(jitad.relu))(a), [1.0, 0.0, 0.0])
    assert jit(lambda flag, x: jitad.relu(x if flag else 1))(False, -2.0) == 1
    jitad.check_grads(lambda a: np.tanh(jitad.relu(a)), (np.array([0.5, -0.5]),), order=2)
    fast = jit(lambda a: jitad.relu(a).sum(), grad=True, fastmath=True)
    np.testing.assert_array_equal(fast.grad(a), [1.0, 0.0, 0.0])


def test_relu_refuses_what_is_no_number() -> None:
    with pytest.raises(jitad.TypeInferenceError):
        jit(lambda x: jitad.relu("a") + x)(1.0)
    with pytest.raises(TypeError, match="missing 1 required|takes 1 pos|missing a required"):
        jit(lambda x: jitad.relu() + x)(1.0)


def test_where_a_network_meets_the_kink_is_reported() -> None:
    def loss(w: Any) -> Any:
        return jitad.relu(np.array([w, 0.0 * w, -w])).sum()
    with debug_nondifferentiable() as report:
        assert grad(loss)(1.0) == 1.0
    assert [(k.op, k.count, k.function) for k in report] == [("<=", 1, "loss")]
