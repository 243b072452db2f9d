"""``jit(target=…)``: values and gradients as on the CPU, state outside the function, errors with the user's line."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitad
from jitad import DeviceError, UnsupportedError, gpu, grad, jit, vmap
from jitad.gpu import bindings, drivers
from jitad.gpu.arrays import DeviceArray
from jitad.gpu.cuda import CudaDriver
from jitad.gpu.drivers import using
from jitad.gpu.recording import RecordingDriver, failures
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu import simulated_cuda

pytestmark = pytest.mark.any_level

X = np.linspace(-1.0, 2.0, 300)


def host(x: Any) -> Any:
    """The value with NumPy arrays for device arrays, which all arrays in it have to be."""
    def leaf(v: Any) -> Any:
        assert not isinstance(v, np.ndarray), "an array of the host among the results"
        return v.numpy() if isinstance(v, DeviceArray) else v
    return jitad.pytree.map_leaves(leaf, x)


def agree(found: Any, expected: Any) -> None:
    mine, other = (jitad.pytree.flatten(v) for v in (host(found), expected))
    assert mine[1] == other[1]
    for a, b in zip(mine[0], other[0]):
        assert type(a) is type(b), (a, b)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


# --- programs, beside the CPU ---------------------------------------------------------------------

class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Model:
    w: Any
    scale: float


def elementwise(x: Any, a: float) -> Any:
    return np.sin(a * x) * x


def structures(p: dict[str, Any], m: Model) -> Any:
    return {"sum": p["x"] + m.w * m.scale, "pair": Pair(m.scale * 2, [p["n"] + 1, p["x"][0]]), "text": "kept"}


def loss(m: Model, x: Any, y: Any) -> float:
    err = 0.0
    for i in range(len(x)):
        err += (np.tanh(m.w[0] * x[i] + m.w[1]) * m.scale - y[i]) ** 2
    return err


def trajectory(x: float, steps: int) -> float:
    for _ in range(steps):
        x = x - 0.1 * np.sin(x) if x > 0.5 else x + 0.01
    return x


def types(b: Any, i: int) -> Any:
    return b > 0.5, np.float32(2) * b[0], i // 3, i > 2, b[1] > 0.5


PROGRAMS: list[tuple[Any, tuple[Any, ...]]] = [
    (elementwise, (X, 1.5)),
    (structures, ({"x": X[:3], "n": 4}, Model(np.ones(3), 2.5))),
    (loss, (Model(np.array([1.0, 0.5]), 2.0), X, X ** 2)),
    (jitad.value_and_grad(loss), (Model(np.array([1.0, 0.5]), 2.0), X, X ** 2)),
    (grad(lambda m, x, y: loss(m, x, y), 1), (Model(np.array([1.0, 0.5]), 2.0), X, X ** 2)),
    (vmap(trajectory, (0, None)), (X, 20)),
    (vmap(grad(trajectory), (0, None)), (X, 20)),
    (types, (np.array([0.25, 0.75], np.float32), 7)),
    (lambda x: (x, x, None, 3), (X,)),
    (lambda x: np.sum(x.reshape(30, 10) * x[:10], axis=0), (X,)),
    (lambda values: [2 * v for v in values], ([float(v) for v in X],)),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs(number: int, target: str) -> None:
    fun, args = PROGRAMS[number]
    expected, on_device = jit(fun)(*args), jit(fun, target=target)
    agree(on_device(*args), expected)
    moved = jitad.pytree.map_leaves(lambda v: gpu.asarray(v, target) if isinstance(v, np.ndarray) else v, args)
    agree(on_device(*moved), expected)
    assert on_device.stats["compilations"] == 1


def test_derivatives_as_attributes_and_transforms(target: str) -> None:
    f = jit(lambda w, x: np.sum(np.exp(w * x)), grad=("w", 1), target=target)
    w, x = X / 3, gpu.asarray(X, target)
    agree(f.grad(w, x), (X * np.exp(w * X), w * np.exp(w * X)))
    value, gradient = f.value_and_grad(w, x)
    assert type(value) is float and np.isclose(value, np.exp(w * X).sum())
    agree(gradient[0], X * np.exp(w * X))
    agree(grad(f)(w, x), X * np.exp(w * X))                  # a transform of it runs on the device too
    out, pullback = jitad.vjp(f, w, X)
    assert np.isclose(float(out), value)
    np.testing.assert_allclose(np.asarray(pullback(1.0)[1]), w * np.exp(w * X))


def test_calls_of_one_key_and_of_others(target: str) -> None:
    """Calls with numbers and device arrays alone are known by a key, which tells all signatures apart."""
    f = jit(lambda x, a: x * a, target=target)
    d, one = gpu.asarray(X, target), gpu.asarray(np.ones(1), target)
    for _ in range(2):
        agree(f(d, 2), X * 2)
        agree(f(d, 2.5), X * 2.5)
        agree(f(one, 2), np.full(1, 2.0))
        agree(f(d, True), X * True)
        agree(f(gpu.asarray(X.astype(np.float32), target), 2), X.astype(np.float32) * 2)
        agree(f(d[::2], 2), X[::2] * 2)
        agree(f(X, 2), X * 2)
        agree(f(2.0, d), X * 2)
        agree(f(x=d, a=3), X * 3)
        with pytest.raises(OverflowError):
            f(d, 1 << 63)
    assert f.stats["compilations"] == 6


def test_methods_and_options(target: str) -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = X

        @jit(target=target, static=("n",))
        def power(self, x: Any, n: int) -> Any:
            return self.w * x ** n
    layer = Layer()
    agree(layer.power(X, 3), X ** 4)
    layer.w = 2 * X
    agree(layer.power(X, 2), 2 * X ** 3)
    assert jit(lambda a, i: a[i], target=target, boundscheck=False)(X, 3) == X[3]
    shaped = jit(lambda x: x.shape[0] * x, target=target, static_shapes=True)
    agree([shaped(X), shaped(X[:4])], [300 * X, 4 * X[:4]])


# --- state outside the function -------------------------------------------------------------------

OUTSIDE: dict[str, Any] = {}
factor = 2.0


def test_captured_values_are_read_at_each_call(target: str) -> None:
    global factor
    held: Any = X.copy()
    f = jit(lambda x: factor * x + held, target=target)
    factor = 2.0
    agree(f(X), 3 * X)
    held[:] = 0.0
    factor = 5.0
    agree(f(X), 5 * X)
    held = gpu.asarray(X, target)
    agree(f(X), 6 * X)
    held.assign(1.0)
    agree(f(X), 5 * X + 1)
    held = np.ones(1)
    agree(f(X[:5]), 5 * X[:5] + 1)
    held = 3
    agree(f(X), 5 * X + 3)
    assert f.stats["compilations"] == 3


def test_an_array_on_a_device_is_not_read_by_the_cpu(target: str) -> None:
    held = gpu.asarray(X, target)
    with pytest.raises(UnsupportedError, match=r"(?s)held|x\.numpy\(\)"):
        jit(lambda x: x + held)(X)


# --- errors ---------------------------------------------------------------------------------------

def at(a: Any, i: int) -> Any:
    return a[i]


def outside(a: Any, i: Any) -> Any:
    return vmap(lambda k: a[k])(i)


def negative(x: Any) -> Any:
    def root(v: float) -> float:
        if v < -0.9:
            raise ValueError(f"{v} is negative")
        return np.sqrt(np.abs(v))
    return vmap(root)(x)


def asserted(x: Any) -> Any:
    assert np.sum(x) > 1e6, "too small"
    return x


@pytest.mark.parametrize("fun, args, kind, text, line", [
    (at, (X, 300), IndexError, "index 300 is out of bounds for axis 0 with size 300", "return a[i]"),
    (outside, (X, np.array([0, 1, -301, 5])), IndexError, "index -301 is out of bounds", "vmap(lambda k: a[k])(i)"),
    (negative, (X,), ValueError, "-1.0 is negative", "raise ValueError"),
    (asserted, (X,), AssertionError, "too small", "assert np.sum(x) > 1e6"),
], ids=["index", "index-in-a-kernel", "raise-in-a-kernel", "assert"])
def test_exceptions_name_the_line(fun: Any, args: Any, kind: Any, text: str, line: str, target: str) -> None:
    f = jit(fun, target=target)
    with pytest.raises(kind, match=text) as caught:
        f(*args)
    assert line in (traceback.extract_tb(caught.value.__traceback__)[-1].line or "")
    with pytest.raises(kind, match=text):                    # and again
        f(*args)


def test_memory_that_is_exhausted() -> None:
    f = jit(lambda x: np.exp(x) + 1, target="cuda-sim")
    driver = RecordingDriver(SimulatedDriver(), limit=12000)
    with using("cuda-sim", driver):
        agree(f(X), np.exp(X) + 1)
        with pytest.raises(MemoryError):
            f(np.zeros(1000))
        agree(f(X), np.exp(X) + 1)
    driver.finish()


@contextmanager
def recorded(driver: RecordingDriver) -> Iterator[None]:
    with using("cuda-sim", driver):
        yield


def test_failing_calls_of_the_driver_leave_nothing_behind() -> None:
    """Each allocation, upload, launch and download fails in turn."""
    f = jit(jitad.value_and_grad(lambda w, x: np.sum(np.tanh(w * x))), target="cuda-sim")

    def run(driver: RecordingDriver) -> None:
        with recorded(driver):
            value, gradient = f(X, X)
            assert np.isclose(value, np.tanh(X * X).sum()) and gradient.shape == X.shape
    for name, error in (("allocate", MemoryError("none left")), ("upload", DeviceError("no")),
                        ("launch", DeviceError("no")), ("download", DeviceError("no"))):
        assert failures(lambda: RecordingDriver(SimulatedDriver()), run, name, error) >= 1


def test_without_a_device_there_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise ImportError("No module named 'cuda'")
    monkeypatch.setattr(drivers, "_drivers", {})
    monkeypatch.setattr(drivers, "_makers", {"cuda": lambda: CudaDriver(bindings.load(absent))})
    f = jit(lambda x: x + 1, target="cuda")
    with pytest.raises(DeviceError, match=r"(?s)cuda-python is not there.*pip install 'jitad\[cuda\]'"):
        f(X)
    assert ".visible .entry" in f.inspect("ptx", X, arch="sm_90")


def test_no_such_target() -> None:
    with pytest.raises(ValueError, match="there are 'cpu', 'cuda', 'cuda-sim'"):
        jit(lambda x: x, target="rocm")


# --- looking inside -------------------------------------------------------------------------------

@pytest.mark.slow
def test_stages() -> None:
    f = jit(elementwise, target="cuda")
    for arch in ("sm_75", "sm_90"):
        assert f".target {arch}" in f.inspect("ptx", X, 1.0, arch=arch)
    assert "elementwise" in f.inspect("plan", jitad.spec("f64[:]"), 1.0)
    assert "define void @" in f.inspect("llvm", X, 1.0)
    assert all("sin" in f.inspect(stage, X, 1.0) for stage in ("ir", "optimized", "loops"))
    mapped = jit(vmap(trajectory, (0, None)), target="cuda")
    assert ".loop(" in mapped.inspect("optimized", X, 3)     # outlined for a thread an iteration, as on the device
    g = jit(lambda arch: arch * 2.0, target="cuda-sim")
    g(X)
    assert ".entry" in g.inspect("ptx") and g.signatures == ["(f64[?])"]
    with pytest.raises(TypeError, match="stands for an argument of inspect"):
        g(jitad.spec("f64[:]"))
    assert ".target sm_100" in jit(elementwise).inspect("ptx", X, 1.0, arch="sm_100")
    for arch in ("sm_10", "90", "hopper", "sm_9000"):
        with pytest.raises(ValueError, match="no such GPU; write one such as 'sm_90'"):
            jit(elementwise).inspect("ptx", X, 1.0, arch=arch)


def test_kinks_are_reported_for_device_arrays(target: str) -> None:
    f = jit(lambda x: np.sum(np.abs(x)), grad=True, target=target)
    with pytest.warns(jitad.NondifferentiableWarning), jitad.debug_nondifferentiable():
        f.grad(gpu.asarray(np.zeros(2), target))


# --- graphs ---------------------------------------------------------------------------------------

def test_a_training_step_as_a_graph() -> None:
    with simulated_cuda.device():
        step = jit(lambda w, x: w - 0.1 * (w - x), target="cuda", boundscheck=False)
        w, x = gpu.asarray(np.zeros(4), "cuda"), gpu.asarray(np.arange(4.0), "cuda")

        def train() -> Any:
            w.assign(step(w, x))
            return w
        graph = gpu.graph(train)
        expected = 0.1 * np.arange(4.0)                      # of the call that compiles; recording does nothing
        np.testing.assert_allclose(w.numpy(), expected)
        for _ in range(3):
            graph()
            expected = expected - 0.1 * (expected - np.arange(4.0))
        graph.check()
        np.testing.assert_allclose(w.numpy(), expected)
        gpu.synchronize()


def test_a_graph_checks_for_exceptions_later() -> None:
    with simulated_cuda.device():
        picked = jit(outside, target="cuda")
        a, i = gpu.asarray(X, "cuda"), gpu.asarray(np.array([1, 2, 3]), "cuda")
        graph = gpu.graph(picked, a, i)
        graph()
        graph.check()
        np.testing.assert_allclose(graph.result.numpy(), X[1:4])
        i.assign(np.array([0, 400, 1]))
        graph()
        with pytest.raises(IndexError, match="index 400"):
            graph.check()
        with pytest.raises(DeviceError, match="reads a result back"):
            gpu.graph(jit(lambda x: x if np.sum(x) > 0 else -x, target="cuda"), a)
