"""Calls on a device: what they cost in calls of the driver, scalars that stay on the device, entries in machine code,
several threads."""

import gc
import signal
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.host.runtime import idle

import jitad
from jitad import gpu, grad, jit, value_and_grad
from jitad.calling.dispatch import SHAPE_AFTER
from jitad.calling.handle import dispatcher
from jitad.gpu.arrays import DeviceArray
from jitad.gpu.drivers import driver_of, using
from jitad.gpu.recording import RecordingDriver
from jitad.gpu.simulated import SimulatedDriver
from tests.gpu import simulated_cuda

pytestmark = pytest.mark.any_level

X = np.linspace(-1.0, 2.0, 300)
RNG = np.random.default_rng(3)


def perceptron(w: Any, x: Any, y: Any) -> Any:
    return np.mean((np.tanh(x @ w[0]) @ w[1] - y) ** 2)


def cross_entropy(w: Any, x: Any, label: Any) -> Any:
    """A mean, a division by a scalar that the device computes, and indices that the device checks."""
    z = x @ w
    z = z - np.max(z, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=1)) - z[np.arange(len(label)), label])


def recurrent(w: Any, xs: Any) -> Any:
    """A loop of the host that carries a scalar of the device."""
    h, err = np.zeros(w.shape[0]), 0.0
    for t in range(len(xs)):
        h = np.tanh(w @ h + xs[t])
        err += np.sum(h * h)
    return err / len(xs)


def normalized(x: Any) -> Any:
    return x / np.sqrt(np.sum(x * x)), np.argmax(x), x[np.argmax(x)]


W = [RNG.normal(size=(8, 16)), RNG.normal(size=(16, 1))]
PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...], int]] = [
    (value_and_grad(perceptron), (W, RNG.normal(size=(64, 8)), RNG.normal(size=(64, 1))), 1),
    (value_and_grad(cross_entropy), (RNG.normal(size=(8, 10)), RNG.normal(size=(64, 8)), np.arange(64) % 10), 1),
    (value_and_grad(recurrent), (RNG.normal(size=(40, 40)) / 7, RNG.normal(size=(5, 40))), 1),
    (normalized, (X,), 1),
    (grad(lambda w: np.sum(np.tanh(w)) / np.sqrt(np.sum(w * w))), (X,), 0),
    (lambda x: x if np.sum(x) > 1 else 2 * x, (X,), 1),          # a branch needs the sum at once
]


def moved(args: Any, target: str) -> Any:
    return jitad.pytree.map_leaves(lambda v: gpu.asarray(v, target) if isinstance(v, np.ndarray) else v, args)


def agree(found: Any, expected: Any) -> None:
    for a, b in zip(jitad.pytree.flatten(found)[0], jitad.pytree.flatten(expected)[0], strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_scalars_stay_on_the_device(number: int) -> None:
    """A call waits for the device once at most, at its end, unless a branch depends on a result."""
    fun, args, waits = PROGRAMS[number]
    driver = RecordingDriver(SimulatedDriver(checked=True))
    with using("cuda-sim", driver):
        f, given = jit(fun, target="cuda-sim"), moved(args, "cuda-sim")
        for _ in range(2):
            before = driver.count("download")
            found = f(*given)
            assert driver.count("download") - before == waits
            agree(found, jit(fun)(*args))
        assert len(idle(driver)) == 1
        before = driver.count("allocate")
        fills = driver.count("fill")
        f(*given)
        if number == 4:                              # memory of the status is that of the calls before
            assert driver.count("fill") == fills
        assert driver.count("allocate") > before
        del found, given
        gc.collect()
    driver.finish()


# --- graphs ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("number", range(3))
def test_a_training_step_with_its_loss_is_one_graph(number: int) -> None:
    fun, args, _ = PROGRAMS[number]
    expected = jit(fun)
    with simulated_cuda.device():
        step = jit(fun, target="cuda")
        update = jit(lambda w, g: w - 0.05 * g, target="cuda")
        w, *data = moved(args, "cuda")

        def train() -> Any:
            loss, slope = step(w, *data)
            for x, g in zip(*(jitad.pytree.flatten(v)[0] for v in (w, slope))):
                x.assign(update(x, g))
            return loss
        graph = gpu.graph(train)
        assert isinstance(graph.result, DeviceArray) and graph.result.shape == ()
        here = [np.array(x) for x in args[0]] if isinstance(args[0], list) else args[0].copy()

        def train_here() -> float:
            loss, slope = expected(here, *args[1:])
            for x, g in zip(*(jitad.pytree.flatten(v)[0] for v in (here, slope))):
                x -= 0.05 * g
            return float(loss)
        losses = [train_here() for _ in range(4)]
        data.clear()                                 # the graph keeps what its kernels read
        gc.collect()
        for n in range(3):
            graph()
            graph.check()
            assert np.isclose(float(graph.result), losses[1 + n])
        agree(w, here)
        assert losses[-1] < losses[0]


def test_a_graph_holds_little_but_kernels() -> None:
    """Programs that cannot fail share one status; each replay reads pinned copies of the host's arrays."""
    with simulated_cuda.device() as driver:
        f, given = jit(lambda x, y, n: (x + y, np.sum(x) * n), target="cuda"), [gpu.asarray(X, "cuda")]
        held = X.copy()
        graph = gpu.graph(lambda: [f(given[0], held, n) for n in range(5)])
        held[:] = 0.0
        fake = driver.cuda                           # type: ignore[attr-defined]
        if not simulated_cuda.REAL:
            before = len(fake.launched), fake.calls.count("cuMemsetD8Async")
            again = gpu.graph(lambda: [f(given[0], given[0], n) for n in range(5)])
            kernels, fills = len(fake.launched) - before[0], fake.calls.count("cuMemsetD8Async") - before[1]
            assert kernels >= 20 and fills == 1
            del again
        given[0].assign(2 * X)
        for n, (shifted, total) in enumerate(graph()):
            np.testing.assert_allclose(shifted.numpy(), 3 * X)
            assert np.isclose(float(total), 2 * X.sum() * n)
        del shifted, total
        given.clear()                                # the graph keeps it
        gc.collect()
        graph()
        graph.check()
        del graph
        gc.collect()
        assert simulated_cuda.REAL or len(fake.pinned) <= 1


def test_a_result_of_a_graph_is_no_number_while_it_is_recorded() -> None:
    with simulated_cuda.device():
        total, d = jit(lambda x: np.sum(x), target="cuda"), gpu.asarray(X, "cuda")
        with pytest.raises(jitad.DeviceError, match="reads a result back"):
            gpu.graph(lambda: float(total(d)))
        graph = gpu.graph(total, d)
        d.assign(2 * X)
        assert np.isclose(float(graph()), 2 * X.sum())


# --- entries --------------------------------------------------------------------------------------

FACTOR, TABLE = 2.0, X


def affine(x: Any, a: float, n: int, flag: bool) -> Any:
    return FACTOR * x * a + (TABLE if flag else -TABLE) * n


def test_calls_reach_machine_code(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some calls Python's dispatch is not reached, until an argument or captured state is something else."""
    global FACTOR, TABLE
    FACTOR, TABLE = 2.0, gpu.asarray(X, target)
    f, d = jit(affine, target=target), gpu.asarray(X, target)
    for _ in range(SHAPE_AFTER + 1):
        agree(f(d, 1.5, 3, True), 2 * X * 1.5 + X * 3)
    made = dispatcher(f)
    assert len(made.entries.entries) == 1 and f.signatures
    reached = []
    launch = made.launch

    def noted(*args: Any) -> Any:
        reached.append(args)
        return launch(*args)
    monkeypatch.setattr(made, "launch", noted)
    agree(f(d, 0.5, -4, True), X - 4 * X)
    FACTOR = 3.0                                     # a captured float is read anew
    agree(f(d, 1.0, 0, True), 3 * X)
    TABLE = gpu.asarray(2 * X, target)               # as is an array of the same kind
    agree(f(f(d, 1.0, 0, True), 1.0, 1 << 40, True), 9 * X + 2 * X * 2.0 ** 40)
    agree(f(d, 1.0, 1, False), X)
    agree(f(X, 1.0, 1, True), 5 * X)                 # arrays of NumPy are copied
    TABLE = X
    agree(f(d, 1.0, 1, True), 4 * X)
    assert not reached
    TABLE = gpu.asarray(2 * X, target)
    for call, expected in (
            (lambda: f(gpu.asarray(np.stack([X, X], 1), target)[:, 0], 1.0, 1, True), 5 * X),
            (lambda: f(np.stack([X, X], 1)[:, 0], 1.0, 1, True), 5 * X), (lambda: f(d, 2, 1, True), 8 * X),
            (lambda: f(d, 1.0, n=1, flag=True), 5 * X)):
        before = len(reached)
        agree(call(), expected)                      # type: ignore[no-untyped-call]
        assert len(reached) == before + 1
    with pytest.raises(OverflowError):
        f(d, 1.0, 1 << 63, True)
    FACTOR = 4                                       # type: ignore[assignment]
    agree(f(d, 1.0, 0, True), 4 * X)
    with jitad.debug_nondifferentiable():            # calls are diverted to the interpreter
        agree(f(d, 1.0, 0, True), 4 * X)
    made.forget()
    agree(f(d, 1.0, 0, True), 4 * X)
    reached.clear()
    TABLE = X


def test_arrays_of_numpy_reach_machine_code(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an array of the device too; other kinds of arrays get code of their own."""
    f = jit(lambda x, y: x * y + x[0], target=target)
    for _ in range(SHAPE_AFTER + 1):
        agree(f(X, X), X * X + X[0])
    made, reached = dispatcher(f), []
    launch = made.launch
    monkeypatch.setattr(made, "launch", lambda *args: reached.append(args) or launch(*args))
    fixed = X.copy()
    fixed.flags.writeable = False
    large = np.linspace(0.0, 1.0, 20000)             # more than goes through staging memory
    for x, y in ((X, 2 * X), (fixed, X), (X[:7], X[7:14]), (large, large[::-1].copy())):
        agree(f(x, y), x * y + x[0])
    assert not reached
    counts = np.arange(9, dtype=np.int32)
    for x in (X[::2], counts, X[:1], X.astype(">f8"), np.arange(5), counts):
        agree(f(x, x), x * x + x[0])
    assert len(reached) == 6
    with pytest.raises(IndexError):
        f(X[:0], X[:0])
    with pytest.raises(ValueError, match="broadcast"):
        f(X, X[:3])
    agree(f(X, X), X * X + X[0])


def test_exceptions_through_an_entry(target: str) -> None:
    f = jit(lambda a, i: jitad.vmap(lambda k: a[k])(i), target=target)
    a, good, bad = (gpu.asarray(x, target) for x in (X, np.array([1, 2]), np.array([1, 300])))
    for _ in range(SHAPE_AFTER + 1):
        agree(f(a, good), X[1:3])
    assert dispatcher(f).entries.entries
    for _ in range(2):
        with pytest.raises(IndexError, match="index 300 is out of bounds") as caught:
            f(a, bad)
        assert "runtime.py" not in str(caught.getrepr(style="short")).split("\n")[-2]
        agree(f(a, good), X[1:3])


@pytest.mark.slow
def test_threads_and_signal_handlers_call_one_function() -> None:
    """Each run has its own status and numbers, and each launch its own memory for arguments."""
    with simulated_cuda.device():
        f = jit(lambda x, a: (np.sum(x * a), x + a), target="cuda")
        d = gpu.asarray(X, "cuda")
        f(d, 1.0)
        wrong: list[Any] = []

        def work(a: float) -> None:
            for _ in range(30):
                total, shifted = f(d, a)
                if not np.isclose(total, X.sum() * a) or not np.allclose(shifted.numpy(), X + a):
                    wrong.append((a, total))
        threads = [threading.Thread(target=work, args=(float(a),)) for a in range(4)]
        before = signal.signal(signal.SIGALRM, lambda *_: work(7.0))
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.002)
            for t in threads:
                t.start()
            work(9.0)
            for t in threads:
                t.join()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert not wrong
        assert len(idle(driver_of("cuda"))) <= 6
