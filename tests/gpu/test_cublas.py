"""Products of matrices by cuBLAS: a stand-in records and checks the calls, and computes.  A device has its own."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jitad import DeviceError, gpu, grad, jit
from jitad.gpu import cublas
from jitad.gpu.drivers import driver_of
from tests.gpu import simulated_cuda
from tests.gpu.fake_cublas import FakeCublas
from tests.gpu.simulated_cuda import REAL

RNG = np.random.default_rng(5)


@pytest.fixture
def library() -> Iterator[FakeCublas]:
    """The library that ``target="cuda"`` finds."""
    if REAL:
        pytest.skip("the stand-in is not on a device")
    with simulated_cuda.device() as driver, pytest.MonkeyPatch.context() as patch:
        fake = FakeCublas(driver.cuda)                           # type: ignore[attr-defined]
        patch.setattr(cublas, "library", lambda: cublas.declared(fake))
        yield fake


def added(a: Any, b: Any, c: Any) -> Any:
    d = 2 * c
    d[0, 0] = 1.0
    return d + a @ b


A, B, SQUARE = RNG.normal(size=(20, 33)), RNG.normal(size=(33, 17)), RNG.normal(size=(40, 40))
STACK = RNG.normal(size=(3, 20, 33)), RNG.normal(size=(3, 33, 17))
CASES: dict[str, tuple[Any, tuple[Any, ...], tuple[str, int, int]]] = {
    "plain": (lambda a, b: a @ b, (A, B), ("cublasDgemm_v2", 0, 0)),
    "f32": (lambda a, b: a @ b, (A.astype(np.float32), B.astype(np.float32)), ("cublasSgemm_v2", 0, 0)),
    "first turned": (lambda a, b: a.T @ b, (A.T.copy(), B), ("cublasDgemm_v2", 0, 1)),
    "second turned": (lambda a, b: a @ b.T, (A, B.T.copy()), ("cublasDgemm_v2", 1, 0)),
    "both turned": (lambda a, b: a.T @ b.T, (A.T.copy(), B.T.copy()), ("cublasDgemm_v2", 1, 1)),
    "blocks": (lambda a: a[3:23, 5:38] @ a[2:35, 4:21], (SQUARE,), ("cublasDgemm_v2", 0, 0)),
    "added": (added, (A, B, RNG.normal(size=(20, 17))), ("cublasDgemm_v2", 0, 0)),
    "stacks": (lambda a, b: a @ b, STACK, ("cublasDgemmStridedBatched", 0, 0)),
    "stacks, turned": (lambda a, b: a @ np.swapaxes(b, 1, 2), (STACK[0], np.swapaxes(STACK[1], 1, 2).copy()),
                       ("cublasDgemmStridedBatched", 1, 0)),
    "matrix, vector": (lambda a, x: a @ x, (A, A[0]), ("cublasDgemv_v2", 1, 33)),
    "turned, vector": (lambda a, x: a.T @ x, (A.T.copy(), A[0]), ("cublasDgemv_v2", 0, 20)),
    "vector, matrix": (lambda x, b: x @ b, (A[0], B), ("cublasDgemv_v2", 0, 17)),
}


@pytest.mark.parametrize("name", CASES)
def test_products(name: str, library: FakeCublas) -> None:
    fun, args, call = CASES[name]
    product = jit(fun, target="cuda")
    rtol = 1e-4 if args[0].dtype == np.float32 else 1e-12
    for _ in range(2):
        np.testing.assert_allclose(product(*args).numpy(), fun(*args), rtol=rtol)
    assert [c[:3] for c in library.calls] == [call] * 2
    assert library.made == [("create",), ("workspace", cublas.WORKSPACE)]            # once
    assert "a product by cuBLAS (libcublas.so.13)" in product.inspect("plan", *args)
    if name == "added":
        assert library.calls[0][11] == 1.0                   # it adds to what is there


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("format, code", [("tf32", 77), ("bf16", 75), ("f16", 74)])
def test_products_that_may_be_rounded(format: str, code: int, library: FakeCublas, monkeypatch: pytest.MonkeyPatch
                                      ) -> None:
    """By option, of f32 alone; also of stacks, which may be turned."""
    monkeypatch.setenv("JITAD_GPU_MATMUL", format)
    for name, args in (("first turned", (A.T.copy(), B)), ("stacks, turned", CASES["stacks, turned"][1])):
        fun, short = CASES[name][0], [x.astype(np.float32) for x in args]
        np.testing.assert_allclose(jit(fun, target="cuda")(*short).numpy(), fun(*short), rtol=1e-4, atol=1e-5)
        assert library.calls.pop() == ("cublasGemmStridedBatchedEx", *CASES[name][2][1:], code)
        jit(fun, target="cuda")(*args)
        assert library.calls.pop()[:3] == CASES[name][2]


def test_arguments_of_a_product(library: FakeCublas) -> None:
    """(20 × 33) @ (33 × 17), along rows, is (17 × 33) @ (33 × 20) along columns."""
    device = [gpu.asarray(x, "cuda") for x in (A, B)]
    out = jit(lambda a, b: a @ b, target="cuda")(*device)
    a, b, c = (x.__cuda_array_interface__["data"][0] for x in (*device, out))
    assert library.calls == [("cublasDgemm_v2", 0, 0, 17, 20, 33, 1.0, b, 17, a, 33, 0.0, c, 17)]
    assert library.stream == int(driver_of("cuda").stream)                           # type: ignore[attr-defined]


@pytest.mark.slow
def test_gradients(library: FakeCublas) -> None:
    def loss(w: Any, x: Any) -> Any:
        return (np.tanh(x @ w) ** 2).sum()
    found = jit(grad(loss), target="cuda")(B, A)
    np.testing.assert_allclose(found.numpy(), jit(grad(loss))(B, A), rtol=1e-10)
    assert [c[:3] for c in library.calls] == [("cublasDgemm_v2", 0, 0), ("cublasDgemm_v2", 0, 1)]


@pytest.mark.slow
def test_generated_kernels_are_taken(library: FakeCublas, monkeypatch: pytest.MonkeyPatch) -> None:
    """For small matrices, integers, empty sums, matrices with gaps both ways; with JITAD_CUBLAS=0 always."""
    product = jit(lambda a, b: a @ b, target="cuda")
    for a, b in ((A[:3], B), (np.ones((20, 0)), np.ones((0, 20))), (np.arange(400).reshape(20, 20),) * 2):
        np.testing.assert_allclose(product(a, b).numpy(), a @ b)
    gaps = jit(lambda a, b: np.tanh(a)[::2, ::2] @ b, target="cuda")
    np.testing.assert_allclose(gaps(SQUARE, SQUARE[:20]).numpy(), np.tanh(SQUARE)[::2, ::2] @ SQUARE[:20], rtol=1e-9)
    made = len(library.calls)
    monkeypatch.setenv("JITAD_CUBLAS", "0")
    other = jit(lambda a, b: a @ b, target="cuda")
    np.testing.assert_allclose(other(A, B).numpy(), A @ B, rtol=1e-12)
    assert len(library.calls) == made and "cuBLAS" not in other.inspect("plan", A, B)


def test_errors(library: FakeCublas) -> None:
    product = jit(lambda a, b: a @ b, target="cuda")
    product(A, B)
    library.fail = cublas.NO_MEMORY
    with pytest.raises(MemoryError, match="cublasDgemm_v2"):
        product(A, B)
    library.fail = 13
    with pytest.raises(DeviceError, match="cublasDgemm_v2: status 13"):
        product(A, B)


def test_graphs(library: FakeCublas) -> None:
    out, a = gpu.asarray(np.zeros((20, 17)), "cuda"), gpu.asarray(A, "cuda")
    product = jit(lambda a, b: a @ b, target="cuda")
    graph = gpu.graph(lambda: out.assign(product(a, B)))
    a.assign(2 * A)
    graph()
    np.testing.assert_allclose(out.numpy(), 2 * A @ B, rtol=1e-12)


def test_the_stand_in_for_a_device_gets_no_real_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed one answers status 1 where there is no device."""
    if REAL:
        pytest.skip("the stand-in is not on a device")
    installed = FakeCublas(None)                                 # type: ignore[arg-type]
    installed.fail = 1
    monkeypatch.setattr(cublas, "library", lambda: cublas.declared(installed))
    with simulated_cuda.device():
        np.testing.assert_allclose(jit(lambda a, b: a @ b, target="cuda")(A, B).numpy(), A @ B, rtol=1e-12)
    assert cublas.name() == "cuBLAS (libcublas.so.13)"           # as before


def test_the_library_that_is_installed() -> None:
    """If there is one, it has all functions under these names; ``declared`` asks for each."""
    found = cublas.library()
    assert found is None or isinstance(found, ctypes.CDLL)
    assert cublas.name() == "" or "cublas" in cublas.name()
