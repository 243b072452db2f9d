"""``vmap`` equals the loop over an axis: for every kind of program, with every transform, in either order."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitad
from jitad import grad, hessian, interpret, jacfwd, jit, jvp, value_and_grad, vjp, vmap
from jitad.errors import DifferentiationError, UnsupportedError

X = np.array([0.3, 1.1, 2.0, 4.5])
A = np.arange(12.0).reshape(4, 3) / 7


def close(got: Any, expected: Any) -> None:
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)


def wave(x: Any) -> Any:
    return math.sin(x) * x


def root(a: Any) -> Any:
    """Newton's method, with as many steps as needed."""
    x = a
    while abs(x * x - a) > 1e-13 * a:
        x = 0.5 * (x + a / x)
    return 0.5 * (x + a / x)


def power(x: Any, n: Any) -> Any:
    """By recursion."""
    return 1.0 if n == 0 else x * power(x, n - 1)


def energy(v: Any) -> Any:
    return (np.sin(v) * v[0]).sum()


# --- axes -------------------------------------------------------------------------------------------

@pytest.mark.slow
def test_axes() -> None:
    close(vmap(wave)(X), np.sin(X) * X)
    double = vmap(lambda r: r * 2, in_axes=1)
    close(double(A), A.T * 2)
    close(vmap(lambda r: r * 2, in_axes=-1, out_axes=-1)(A), A * 2)
    close(vmap(lambda r: r * 2, 0, 1)(A), A.T * 2)
    cube = np.arange(24.0).reshape(2, 3, 4)
    close(vmap(lambda m: m.T, in_axes=1, out_axes=2)(cube), np.transpose(cube, (2, 0, 1)))
    close(vmap(lambda x, y: x * y, in_axes=(0, None))(X, 2.0), X * 2)
    close(vmap(lambda x, y: x @ y, in_axes=(None, 0))(A, np.ones((5, 3))), np.tile(A.sum(1), (5, 1)))
    close(vmap(lambda x, y: x * y)(X, y=X), X * X)
    close(vmap(lambda n: n * 2)(np.arange(3)), [0, 2, 4])
    assert vmap(lambda x: x > 1)(X).dtype == bool
    assert vmap(lambda x: x * 2)(X.astype(np.float32)).dtype == np.float32
    close(vmap(lambda x: 3.0)(X), np.full(4, 3.0))


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Model:
    w: Any
    b: Any
    name: str = "model"


@pytest.mark.slow
def test_trees() -> None:
    out = vmap(lambda p: {"sum": p["a"] + p["b"][0], "rest": (p["b"][1] * 2, None, "text")})({"a": X, "b": [X, A]})
    close(out["sum"], 2 * X)
    close(out["rest"][0], 2 * A)
    assert out["rest"][1:] == (None, "text")
    tree = {"b": (None, 0), "a": 0}
    part = vmap(lambda p, k: p["a"] * p["b"][0] * k, in_axes=(tree, None))({"a": X, "b": (3.0, A)}, 2)
    close(part, 6 * X)
    assert isinstance(vmap(lambda p: Point(p.x, p.x * p.y))(Point(X, X)), Point)
    model = vmap(lambda m, x: Model(m.w * x, m.b + x), in_axes=(Model(0, None, None), None))(Model(X, 1.0), 2.0)
    close(model.w, 2 * X)
    close(model.b, np.full(4, 3.0))
    pair = vmap(lambda x: (x, x * A[0]), out_axes=(0, 1))(X)
    close(pair[1], np.outer(A[0], X))


def test_what_all_elements_share() -> None:
    scaled, shared = vmap(lambda x, k: (x * k["k"], {"k": k["k"] * A}), (0, None), (0, {"k": None}))(X, {"k": 3.0})
    close(scaled, 3 * X)
    close(shared["k"], 3 * A)
    with pytest.raises(UnsupportedError, match="depends on the element"):
        vmap(lambda x: x, out_axes=None)(X)
    with pytest.raises(UnsupportedError, match="depends on the element"):
        vmap(lambda x, y: y if x > 1 else -y, (0, None), None)(X, 2.0)       # by the path taken
    with pytest.raises(UnsupportedError, match="depends on the element"):
        vmap(power, (None, 0), None)(2.0, np.arange(3))


# --- programs ---------------------------------------------------------------------------------------

@pytest.mark.slow
def test_control_flow() -> None:
    close(vmap(root)(X), np.sqrt(X))
    close(vmap(grad(root))(X), 0.5 / np.sqrt(X))
    close(vmap(grad(grad(root)))(X), -0.25 * X ** -1.5)
    close(vmap(lambda x: x if x > 1 else -x)(X), np.where(X > 1, X, -X))
    close(vmap(power)(X, np.arange(4)), X ** np.arange(4))
    close(vmap(grad(power))(X, np.arange(4)), np.arange(4) * X ** (np.arange(4.0) - 1))

    def count(x: Any) -> Any:
        for i in range(10):
            if i > x:
                return i
        return -1
    close(vmap(count)(X), [1, 2, 3, 5])


def test_in_traced_code() -> None:
    @jit
    def program(x: Any, k: Any) -> Any:
        weights = np.zeros(3)
        weights[1] = k

        def scaled(row: Any) -> Any:                     # it keeps its captured values
            return (row * weights).sum() * k
        return vmap(scaled)(x), vmap(lambda a, b: a * b, in_axes=[0, None])(x, k)
    first, second = program(A, 2.0)
    close(first, 4 * A[:, 1])
    close(second, 2 * A)
    close(grad(lambda k: program(A, k)[0].sum())(2.0), 4 * A[:, 1].sum())


def test_nested() -> None:
    outer = vmap(vmap(lambda x, y: x * y, (None, 0)), (0, None))
    close(outer(X, A[0]), np.outer(X, A[0]))
    close(vmap(vmap(wave))(A), np.sin(A) * A)
    close(vmap(vmap(grad(wave)), in_axes=1, out_axes=1)(A), np.sin(A) + A * np.cos(A))
    close(vmap(lambda x: vmap(lambda y: x * y)(X[:2]).sum())(X), X * X[:2].sum())


# --- transforms -------------------------------------------------------------------------------------

@pytest.mark.slow
def test_gradients_of_and_under_vmap() -> None:
    close(grad(lambda x: vmap(wave)(x).sum())(X), np.sin(X) + X * np.cos(X))
    close(grad(lambda x: (vmap(energy, in_axes=1)(x) ** 2).sum())(A), grad(by_hand)(A))
    value, g = value_and_grad(lambda k: vmap(lambda x: root(x * k))(X).sum())(2.0)
    assert value == pytest.approx(np.sqrt(2 * X).sum()) and g == pytest.approx((X / (2 * np.sqrt(2 * X))).sum())
    values, gradients = vmap(value_and_grad(energy))(A)
    for i, row in enumerate(A):
        close(values[i], energy(row))
        close(gradients[i], grad(energy)(row))
        close(vmap(hessian(energy))(A)[i], hessian(energy)(row))
    close(vmap(jacfwd(lambda v: v * v[0]))(A)[1], jacfwd(lambda v: v * v[0])(A[1]))
    close(hessian(lambda x: vmap(root)(x).sum())(X), np.diag(-0.25 * X ** -1.5))


def by_hand(a: Any) -> Any:
    total = 0.0
    for j in range(a.shape[1]):
        total += energy(a[:, j]) ** 2
    return total


@pytest.mark.slow
def test_forward_mode_and_pullbacks() -> None:
    f = vmap(lambda x, v: (x * v).sum() * x)
    out, tangent = jvp(f, (X, A), (np.ones(4), A))
    close(out, X ** 2 * A.sum(1))
    close(tangent, 2 * X * A.sum(1) + out)
    out, pull = vjp(f, X, A)
    dx, da = pull(np.ones(4))
    close(dx, 2 * X * A.sum(1))
    close(da, np.repeat(X[:, None] ** 2, 3, 1))
    close(vmap(lambda x: jvp(wave, (x,), (1.0,))[1])(X), np.sin(X) + X * np.cos(X))
    jitad.check_grads(lambda k, x: vmap(lambda e: root(e * k) * k)(x), (1.5, X), order=1)


@pytest.mark.slow
def test_callables_whose_parameters_have_no_names() -> None:
    """Pullbacks, linear functions, and builtins without a known signature."""
    def rows(v: Any) -> Any:
        out, pull = vjp(lambda x: x * x[0], v)
        return vmap(pull)(np.eye(len(out)))[0]
    close(jit(rows)(X), jacfwd(lambda x: x * x[0])(X))
    close(jit(lambda v: vmap(jitad.linearize(np.sin, v[0])[1])(v))(X), np.cos(X[0]) * X)
    close(vmap(max)(X, 2 - X), np.maximum(X, 2 - X))
    close(vmap(math.log)(X), np.log(X))
    close(vmap(int)(X), [0, 1, 2, 4])
    with pytest.raises(ValueError, match="mapped axis of 0 has size 4, that of 1 has size 3"):
        vmap(max)(X, A[0])
    with pytest.raises(DifferentiationError, match="no argument named 'y'"):
        grad(math.hypot, "y")(1.0, 2.0)
    with pytest.raises(DifferentiationError, match="no argument number 2"):
        grad(math.hypot, 2)(1.0, 2.0)


def test_perturbations_stay_apart() -> None:
    inner = grad(lambda x: vmap(lambda e: x * e)(X).sum() * x)
    assert inner(2.0) == pytest.approx(4 * X.sum())
    close(vmap(lambda x: x * grad(lambda y: x + y)(1.0))(X), X)
    close(grad(lambda x: vmap(lambda e: grad(lambda z: z * z * x)(e))(X).sum())(1.0), 2 * X.sum())
    close(vmap(grad(lambda x: vmap(lambda e: x * e)(X).sum()))(X), np.full(4, X.sum()))


# --- sizes and refusals -----------------------------------------------------------------------------

def test_no_elements() -> None:
    assert vmap(wave)(X[:0]).shape == (0,)
    assert vmap(lambda r: np.outer(r, r))(A[:0]).shape == (0, 3, 3)
    assert vmap(lambda r, m: np.tanh(m @ r), (0, None))(A[:0], np.ones((5, 3))).shape == (0, 5)
    assert vmap(jacfwd(lambda v: v * v[0]))(A[:0]).shape == (0, 3, 3)
    with pytest.raises(ValueError, match="0 elements"):
        vmap(lambda n: np.zeros(n))(np.zeros(0, int))


def test_sizes_that_only_the_elements_tell() -> None:
    close(vmap(lambda n, x: np.full(n, x))(np.array([2, 2]), X[:2]), np.repeat(X[:2, None], 2, 1))
    with pytest.raises(ValueError, match="size 2 for one element and 3 for another"):
        vmap(lambda n: np.zeros(n))(np.array([2, 3]))


def test_sizes_behind_many_calls() -> None:
    def step(v: Any) -> Any:
        return v + 1.0

    def steps(v: Any) -> Any:
        for _ in jitad.unroll(range(250)):
            v = step(v)
        return v
    close(vmap(steps)(A), A + 250)
    assert vmap(steps)(A[:0]).shape == (0, 3)
    assert "jvp" in jit(jacfwd(steps)).inspect("ir", X)


@pytest.mark.parametrize("body", ["a = f(v); g = np.zeros((len(a) + a.shape[1], len(a)))",
                                  "a = f(v); b = f(v); g = np.zeros((len(a) + b.shape[1], len(b)))"])
def test_sizes_that_each_call_asks_twice_for(body: str, tmp_path: Path) -> None:
    """The requested sizes do not double with each nested call."""
    lines = ["import numpy as np", "def f0(v): return np.zeros((len(v), len(v)))"]
    for k in range(1, 13):
        lines += [f"def f{k}(v):", "    " + body.replace("f(", f"f{k - 1}("), "    return g + v[0]"]
    file = tmp_path / "program.py"
    file.write_text("\n".join(lines))
    space: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), space)
    short, long = (jit(vmap(space[f"f{k}"])).inspect("ir", A).count("\n") for k in (6, 12))
    assert long < 4 * short
    np.testing.assert_array_equal(vmap(space["f3"])(A)[1], space["f3"](A[1]))


def test_errors() -> None:
    def never(x: Any) -> Any:
        raise KeyError("never")
    with pytest.raises(ValueError, match="mapped axis of x has size 4, that of y has size 3"):
        vmap(lambda x, y: x * y)(X, A[0])
    with pytest.raises(ValueError, match="argument y is mapped over axis 0, and holds a number"):
        vmap(lambda x, y: x * y)(X, 2.0)
    with pytest.raises(ValueError, match="axis 2 of argument x, which has 1 axes"):
        vmap(lambda x: x, in_axes=2)(X)
    with pytest.raises(ValueError, match="for 1 arguments"):
        vmap(lambda x: x, in_axes=(0, 0))(X)
    with pytest.raises(ValueError, match="does not fit"):
        vmap(lambda x: x, in_axes=({"a": 0},))(X)
    with pytest.raises(ValueError, match="axis 3 for a result that has 1 axes"):
        vmap(lambda x: x, out_axes=3)(X)
    with pytest.raises(TypeError, match="in_axes takes an integer"):
        vmap(lambda x: x, in_axes="first")
    with pytest.raises(ValueError, match="no argument has an axis"):
        vmap(lambda x: x, in_axes=None)(X)
    with pytest.raises(KeyError, match="never"):
        vmap(never)(X)
    with pytest.raises(ValueError, match="does not return"):
        vmap(never)(X[:0])


@dataclasses.dataclass
class Chain:
    value: float
    rest: Chain | None = None


def test_results_that_do_not_stack() -> None:
    for f, what in ((lambda x: Chain(x, Chain(x)), "returns trees"), (lambda x: x if x > 1 else (x, x), "another kind"),
                    (lambda x: (lambda y: x * y), "a function as a result")):
        with pytest.raises(UnsupportedError, match=what) as caught:
            vmap(f)(X)
        assert caught.value.loc.file == __file__

    def total(c: Any, x: Any) -> Any:
        return 0.0 if c is None else c.value * x + total(c.rest, x * x)
    chain = Chain(2.0, Chain(3.0))
    close(vmap(total, (None, 0))(chain, X), 2 * X + 3 * X * X)
    slopes = grad(lambda c: vmap(total, (None, 0))(c, X).sum())(chain)
    close([slopes.value, slopes.rest.value], [X.sum(), (X * X).sum()])


def test_elements_that_write() -> None:
    total = np.zeros(1)

    def adds(x: Any) -> Any:
        seen = np.zeros(1)
        vmap(lambda e: note(seen, e))(x)
        return seen

    def note(seen: Any, e: Any) -> Any:
        seen[0] += e
        return e

    def overwrite(row: Any) -> Any:
        row[0] = 1.0
        return row
    with pytest.raises(UnsupportedError, match="changes what is not its own"):
        jit(adds)(X)
    with pytest.raises(UnsupportedError, match="vmap maps"):
        vmap(overwrite)(A)
    with pytest.raises(UnsupportedError, match="constant, captured"):
        vmap(lambda e: note(total, e))(X)
    copied = vmap(lambda row: overwrite(row.copy()))(A)
    assert (copied[:, 0] == 1).all() and A[1, 0] != 1


@pytest.mark.slow
def test_the_interpreter_agrees() -> None:
    for f, args in ((vmap(root), (X,)), (vmap(grad(energy)), (A,)), (vmap(grad(energy)), (A[:0],)),
                    (grad(lambda x: vmap(root)(x).sum()), (X,))):
        close(jitad.interpret(f, *args), f(*args))
    assert vmap(wave) is vmap(wave) and vmap(wave) is not vmap(wave, out_axes=-1)


def test_the_number_of_elements_may_be_given() -> None:
    a = np.array([1.0, 2.0])
    np.testing.assert_array_equal(vmap(lambda: 3.0, axis_size=3)(), np.full(3, 3.0))
    np.testing.assert_array_equal(vmap(lambda k: k * 2, in_axes=None, axis_size=np.int64(3))(1.5), np.full(3, 3.0))
    np.testing.assert_array_equal(vmap(lambda x, k: x * k, in_axes=(0, None), axis_size=2)(a, 2.0), a * 2)
    assert vmap(lambda k: k, in_axes=None, axis_size=0)(1.0).shape == (0,)
    assert vmap(lambda k: k, in_axes=None, axis_size=2) is not vmap(lambda k: k, in_axes=None, axis_size=3)
    of_run_time = jit(lambda n, k: vmap(lambda k: k * 2, in_axes=None, axis_size=n)(k))
    for n in (3, 0, 5):
        np.testing.assert_array_equal(of_run_time(n, 1.5), np.full(n, 3.0))
        np.testing.assert_array_equal(interpret(of_run_time, n, 1.5), np.full(n, 3.0))
    assert jit(lambda a: vmap(lambda k: k + a[0], in_axes=None, axis_size=len(a))(1.0))(a).shape == (2,)
    assert grad(lambda k: vmap(lambda k: k * 2, in_axes=None, axis_size=3)(k).sum())(2.0) == 6.0


def test_a_number_of_elements_that_does_not_fit() -> None:
    a = np.array([1.0, 2.0])
    for error, match, call in (
            (ValueError, "axis_size is 3, and the mapped axis of x has size 2",
             lambda: vmap(lambda x: x, axis_size=3)(a)),
            (ValueError, "axis_size is -1", lambda: vmap(lambda: 1.0, axis_size=-1)()),
            (ValueError, "axis_size is -1", lambda: jit(lambda n: vmap(lambda: 1.0, axis_size=n)())(-1)),
            (ValueError, "axis_size is not given", lambda: vmap(lambda x: x, in_axes=None)(a)),
            (TypeError, "axis_size is an integer, not 1.5", lambda: vmap(lambda x: x, axis_size=1.5)(a)),
            (TypeError, "axis_size is an integer", lambda: jit(lambda n: vmap(lambda: 1.0, axis_size=n)())(1.0))):
        with pytest.raises(error, match=match):
            call()
