"""Device arrays against NumPy: views, arithmetic, other libraries, ownership."""

import gc
import pickle
import sys
from typing import Any

import numpy as np
import pytest
from jitad.lowering.gpu.host.runtime import release_idle

from jitad import TypeInferenceError, gpu, jit
from jitad.gpu.arrays import DeviceArray, as_device, dlpack
from jitad.gpu.cuda import CudaDriver
from jitad.gpu.drivers import driver_of

pytestmark = pytest.mark.any_level

X = np.arange(24.0).reshape(4, 6)


def check(found: Any, expected: Any) -> None:
    """The same numbers and dtype, on the device if they are an array."""
    assert isinstance(found, DeviceArray) == isinstance(expected, np.ndarray)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-14)
    assert not isinstance(found, DeviceArray) or found.dtype == expected.dtype and found.shape == expected.shape


def test_what_an_array_tells(target: str) -> None:
    for dtype in (np.float64, np.float32, np.int64, np.int32, np.uint8, np.bool_):
        x = (X % 2).astype(dtype)
        d = gpu.asarray(x, target)
        check(d, x)
        assert (d.shape, d.ndim, d.size, d.nbytes, len(d), d.dtype) == ((4, 6), 2, 24, x.nbytes, 4, x.dtype)
        assert gpu.asarray(d, target) is d and d.tolist() == x.tolist()
    d = gpu.asarray(X[:2, :2], target)
    assert repr(d) == f"DeviceArray([[0., 1.],\n             [6., 7.]], dtype=float64, target='{target}')"
    assert [row.tolist() for row in d] == [[0, 1], [6, 7]]
    assert float(d[1, 1]) == 7.0 and int(d[1:, 1:]) == 7 and bool(d[1:, 1:]) and type(d[0, 1]) is np.float64
    assert pickle.loads(pickle.dumps(d)).tolist() == d.tolist()
    empty = gpu.empty((0, 3), np.float32, target)
    assert empty.numpy().shape == (0, 3) and empty[:0].size == 0
    with pytest.raises(ValueError, match="has to be copied"):
        np.asarray(d, copy=False)
    with pytest.raises(TypeError):
        hash(d)


@pytest.mark.parametrize("key", [1, -1, (2, 3), slice(1, 3), (slice(None, None, -2), slice(4, 0, -3)), (..., 2), None,
                                 (slice(None), None, 1), ..., (slice(3, 1), 0), ()], ids=str)
def test_views(key: Any, target: str) -> None:
    d = gpu.asarray(X, target)
    check(d[key], X[key])
    check(d.T[key] if key != (2, 3) else d.T[3, 2], X.T[key] if key != (2, 3) else X.T[3, 2])
    if isinstance(X[key], np.ndarray):
        d[key].assign(-1.0)
        expected = X.copy()
        expected[key] = -1.0
        check(d, expected)


def test_indices_that_are_refused(target: str) -> None:
    d = gpu.asarray(X, target)
    for key in (np.array([0, 1]), [0, 1], True, X > 3, 1.0):
        with pytest.raises(TypeError, match="integers and slices"):
            d[key]
    with pytest.raises(IndexError):
        d[4]


def test_reshape_copy_assign(target: str) -> None:
    d = gpu.asarray(X, target)
    check(d.reshape(2, -1), X.reshape(2, -1))
    check(d.T.reshape((8, 3)), X.T.reshape(8, 3))
    copy = d.copy()
    d.assign(d[::-1, ::-1])                                  # elements are read before they are written
    check(d, X[::-1, ::-1])
    check(copy, X)
    d.assign(np.arange(6))
    check(d, np.broadcast_to(np.arange(6.0), (4, 6)))
    with pytest.raises(ValueError, match="does not broadcast"):
        d.assign(np.zeros(5))
    with pytest.raises(TypeInferenceError, match="float32"):
        d.assign(gpu.asarray(np.zeros(6, np.float32), target))


BINARY = ["x + 1", "1 - x", "y * x", "x / y", "x // 0.7", "x % 0.7", "x ** 2", "2.0 ** x", "x < 5", "x <= y", "x > y",
          "x >= 5", "x == y", "x != y", "-x", "+x", "abs(-x)", "x @ x.T", "x + y[0]", "x[1] * y[2]", "x.T + 1",
          "np.float32(2) * x", "Y * x", "x - Y", "x.sum()", "x.max(0)", "x.min(axis=1)", "x.mean()"]


@pytest.mark.parametrize("part", [0, 1, 2, 3])
def test_arithmetic(part: int, target: str) -> None:
    y = X[::-1] / 3 + 0.5
    mine, theirs = ({"x": make(X), "y": make(y), "Y": y, "np": np, "abs": abs}
                    for make in (lambda v: gpu.asarray(v, target), lambda v: v))
    for text in BINARY[part::4]:
        found, expected = eval(text, mine), eval(text, theirs)
        check(found, expected if isinstance(expected, np.ndarray) else float(expected))
    assert (gpu.asarray(y, target) == None) is False         # noqa: E711


# --- other libraries ------------------------------------------------------------------------------

class Exported:
    """An array of another library: what it gives away is NumPy's memory, or that of a device array."""

    def __init__(self, x: Any, versioned: bool = True) -> None:
        self.x, self.versioned, self.streams = x, versioned, []

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self.x.__dlpack_device__()
        return found

    def __dlpack__(self, **options: Any) -> Any:
        self.streams.append(options.get("stream"))
        if not self.versioned:
            if "max_version" in options:
                raise TypeError("unexpected keyword argument 'max_version'")
            options.pop("max_version", None)
        return self.x.__dlpack__(**options)


@pytest.mark.parametrize("versioned", [True, False])
def test_dlpack_on_the_host(versioned: bool) -> None:
    """Both ways without copying; the memory lives as long as it is used, and no longer."""
    double = jit(lambda x: 2 * x, target="cuda-sim")
    x = X.copy()
    count = sys.getrefcount(x)
    d = as_device(Exported(x, versioned), "cuda-sim")
    x[0, 0] = 5.0
    assert d.address == x.ctypes.data and d[0, 0] == 5.0
    check(double(d), 2 * x)
    check(double(Exported(x[:, ::2], versioned)), 2 * x[:, ::2])
    del d
    gc.collect()
    assert sys.getrefcount(x) == count
    mine = gpu.asarray(X, "cuda-sim")
    view = np.from_dlpack(mine.T)
    mine[1, 2].__class__                                     # noqa: B018
    mine.assign(3.0)
    assert view.shape == (6, 4) and (view == 3).all()
    del mine
    gc.collect()
    assert (view == 3).all()
    given = len(dlpack._given)
    capsule = gpu.asarray(X, "cuda-sim").__dlpack__(max_version=(1, 0) if versioned else None)
    assert len(dlpack._given) == given + 1
    del capsule                                              # nobody has taken it
    assert len(dlpack._given) == given


def test_dlpack_on_a_device(cuda: CudaDriver) -> None:
    mine = gpu.asarray(X, "cuda")
    other = Exported(mine)
    found = as_device(other, "cuda")
    assert found.address == mine.address and found.shape == (4, 6) and other.streams == [int(cuda.stream)]
    check(jit(lambda x: x + 1, target="cuda")(other), X + 1)
    assert mine.__dlpack_device__() == (dlpack.CUDA, 0)
    with pytest.raises(BufferError):
        mine.__dlpack__(dl_device=(dlpack.CPU, 0), copy=False)
    host = jit(lambda x: x + 1, target="cuda")(Exported(X))      # in the host's memory: copied
    check(host, X + 1)


class Interface:
    """An array with ``__cuda_array_interface__``."""

    def __init__(self, x: DeviceArray, **changes: Any) -> None:
        self.x, self.changes = x, changes

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {**self.x.__cuda_array_interface__, **self.changes}


def test_the_cuda_array_interface(cuda: CudaDriver) -> None:
    mine = gpu.asarray(X, "cuda")
    double = jit(lambda x: 2 * x, target="cuda")
    interface = mine.T.__cuda_array_interface__
    assert interface["shape"] == (6, 4) and interface["strides"] == (8, 48) and interface["typestr"] == "<f8"
    found = as_device(Interface(mine.T, stream=int(cuda.stream)), "cuda")
    assert found.address == mine.address and found.strides == (8, 48)
    check(double(Interface(mine.T)), 2 * X.T)
    check(double(Interface(mine, stream=None)), 2 * X)
    with pytest.raises(TypeInferenceError, match="masked"):
        double(Interface(mine, mask=1))
    with pytest.raises(TypeInferenceError, match="complex128"):
        double(Interface(mine, typestr="<c16"))
    with pytest.raises(AttributeError):
        gpu.asarray(X, "cuda-sim").__cuda_array_interface__       # noqa: B018


class OfTorch(Interface):
    """A tensor that requires a gradient."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad.")


def test_arrays_that_are_refused(cuda: CudaDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, double = gpu.asarray(X, "cuda"), jit(lambda x: 2 * x, target="cuda")
    with pytest.raises(TypeInferenceError, match=r"(?s)argument x: .*requires grad.*x.detach\(\)"):
        double(OfTorch(mine))
    with pytest.raises(TypeInferenceError, match="target='cuda-sim' is given to a function of target='cuda'"):
        double(gpu.asarray(X, "cuda-sim"))
    with pytest.raises(TypeInferenceError, match=r"DLPack's device \(2, 0\)"):
        jit(lambda x: x, target="cuda-sim")(Exported(mine))
    with pytest.raises(TypeInferenceError, match="(?s)DeviceArray has no place.*jit\\(target='cuda'\\)"):
        jit(lambda x: 2 * x)(mine)
    monkeypatch.setattr(cuda, "ordinal_of", lambda address: 1)
    with pytest.raises(TypeInferenceError, match="on device 1"):
        double(Interface(mine))


def test_memory_is_freed_with_the_last_array(target: str) -> None:
    driver: Any = driver_of(target)
    d = gpu.asarray(X, target)
    view = d[1:]
    del d
    gc.collect()
    check(view, X[1:])
    scale = jit(lambda x: x * 2, target=target)
    for _ in range(3):
        out = scale(view)
        scale(X)
    check(out, X[1:] * 2)                                    # the fixture looks for what is left
    if target == "cuda-sim":
        release_idle(driver)
        assert len(driver.live) == 2
