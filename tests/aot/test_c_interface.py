"""The C interface of a library: digits, sizes, null pointers, exceptions, threads, memory."""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitad import aot, jit
from tests.aot import programs

pytestmark = [pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on the path, which links the library"),
              pytest.mark.slow]

OK, NULL, SIZE, MEMORY, RECURSION, INDEX, ZERO, VALUE, ASSERTION = range(9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library ``liball.so`` and what belongs to it."""
    made = tmp_path_factory.mktemp("aot")
    exports = [aot.export(programs.loss, grad=0), aot.export(programs.curve, grad=0, jvp=0, vjp=0, hvp=0, jacobian=0),
               aot.export(programs.pair, vjp=False), aot.export(programs.pick), aot.export(programs.quotient),
               aot.export(programs.depth, grad=1), aot.export(programs.buffers),
               aot.export(programs.merged, grad=0)]
    aot.build(made / "liball.so", exports, header=made / "all.h", cplusplus=made / "all.hpp", blas=False,
              fortran=made / "all.f90", pkg_config=made / "all.pc", cmake=made / "allConfig.cmake")
    return made


@pytest.fixture(scope="module")
def loaded(folder: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(folder / "liball.so"))
    library.jitad_strerror.restype = library.all_strerror.restype = ctypes.c_char_p
    return library


def physical_memory() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def words(*values: Any) -> list[Any]:
    """C arguments: an array as its pointer and sizes, an int as int64_t."""
    out: list[Any] = []
    for v in values:
        if isinstance(v, np.ndarray):
            out += [ctypes.c_void_p(v.ctypes.data), *map(ctypes.c_int64, v.shape)]
        elif type(v) is int:
            out.append(ctypes.c_int64(v))
        else:
            out.append(ctypes.c_double(v) if type(v) is float else v)
    return out


def to(*arrays: np.ndarray) -> list[Any]:
    """Pointers to write through."""
    return [ctypes.c_void_p(a.ctypes.data) for a in arrays]


def text(loaded: ctypes.CDLL, code: int) -> str:
    return str(loaded.all_strerror(code).decode())


W, X = np.array([0.7, 0.1]), np.linspace(-1, 1, 23)
Y = X / (1 + X * X)


def test_value_and_gradient_have_the_digits_of_the_jit(loaded: ctypes.CDLL) -> None:
    value, gradient = np.zeros(1), np.zeros(2)
    assert loaded.curve_grad(*words(W, X, Y), *to(value, gradient)) == OK
    expected = jit(programs.curve, grad=True).value_and_grad(W, X, Y)
    assert value[0] == expected[0]
    np.testing.assert_array_equal(gradient, expected[1])
    assert loaded.curve(*words(W, X, Y), *to(value)) == OK
    assert value[0] == expected[0]


def test_a_list_that_grows(loaded: ctypes.CDLL) -> None:
    x = np.cos(np.arange(40.0)) ** 2
    value, gradient = np.zeros(1), np.zeros_like(x)
    assert loaded.merged_grad(*words(x), *to(value, gradient)) == OK
    assert value[0] == pytest.approx(programs.merged(x), rel=1e-13)
    step = 1e-6 * np.eye(40)
    differences = [(programs.merged(x + h) - programs.merged(x - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6)


def test_other_derivatives(loaded: ctypes.CDLL) -> None:
    gradient = jit(programs.curve, grad=True).grad(W, X, Y)
    along, value, tangent, product = np.array([0.3, -0.2]), np.zeros(1), np.zeros(1), np.zeros(2)
    assert loaded.curve_jvp(*words(W, X, Y), *to(along), *to(value, tangent)) == OK
    assert tangent[0] == pytest.approx(gradient @ along, rel=1e-13)
    assert loaded.curve_vjp(*words(W, X, Y), ctypes.c_double(2.0), *to(value, product)) == OK
    np.testing.assert_allclose(product, 2 * gradient, rtol=1e-13)
    assert loaded.curve_hvp(*words(W, X, Y), *to(along), *to(product)) == OK
    far, near = (jit(programs.curve, grad=True).grad(W + h * along, X, Y) for h in (1e-5, -1e-5))
    np.testing.assert_allclose(product, (far - near) / 2e-5, rtol=1e-7)
    jacobian = np.zeros(2)
    assert loaded.curve_jacobian(*words(W, X, Y), *words(jacobian)) == OK
    np.testing.assert_allclose(jacobian, gradient, rtol=1e-13)
    assert loaded.curve_jacobian(*words(W, X, Y), *words(np.zeros(3))) & 255 == SIZE


class LayerC(ctypes.Structure):
    _fields_ = [("weights", ctypes.c_void_p), ("weights_0", ctypes.c_int64), ("weights_1", ctypes.c_int64),
                ("bias", ctypes.c_void_p), ("bias_0", ctypes.c_int64), ("power", ctypes.c_int64)]


class LayerGradient(ctypes.Structure):
    _fields_ = [("weights", ctypes.c_void_p), ("bias", ctypes.c_void_p)]


def test_structs_and_captured_arrays(loaded: ctypes.CDLL) -> None:
    rng = np.random.default_rng(0)
    layer = programs.Layer(rng.normal(size=(3, 2)), rng.normal(size=2), 4)
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    given = LayerC(layer.weights.ctypes.data, 3, 2, layer.bias.ctypes.data, 2, 4)
    value, weights, bias = np.zeros(1), np.zeros((3, 2)), np.zeros(2)
    out = LayerGradient(weights.ctypes.data, bias.ctypes.data)
    assert loaded.loss_grad(ctypes.byref(given), *words(x, y), *to(value), ctypes.byref(out)) == OK
    expected = jit(programs.loss, grad=True).value_and_grad(layer, x, y)
    np.testing.assert_allclose(value[0], expected[0], rtol=1e-15)
    np.testing.assert_allclose(weights, expected[1].weights, rtol=1e-13)
    np.testing.assert_allclose(bias, expected[1].bias, rtol=1e-13)
    given.bias_0 = 3
    code = loaded.loss_grad(ctypes.byref(given), *words(x, y), *to(value), ctypes.byref(out))
    assert code & 255 == SIZE and "bias" in text(loaded, code)
    assert loaded.loss_grad(None, *words(x, y), *to(value), ctypes.byref(out)) & 255 == NULL


@pytest.mark.parametrize("add", [True, False])
def test_several_results_of_other_types(loaded: ctypes.CDLL, add: bool) -> None:
    x, out, number = np.arange(4, dtype=np.float32), np.zeros(4, np.float32), np.zeros(1, np.int32)
    args = [*words(x), ctypes.c_bool(add), ctypes.c_int32(5)]
    assert loaded.pair(*args, *words(out), *to(number)) == OK
    np.testing.assert_array_equal(out, x + 2 if add else x * 2)
    assert number[0] == (6 if add else 5)
    code = loaded.pair(*args, *words(out[:3]), *to(number))
    assert code & 255 == SIZE and text(loaded, code) == "pair: size 0 of result_0 has to be 4"
    assert loaded.pair(*args, None, ctypes.c_int64(4), *to(number)) & 255 == NULL


@pytest.mark.parametrize("args, kind, said", [
    ((W, X, Y[:-1]), SIZE, "size 0 of y differs from size 0 of x: both are n"),
    ((np.zeros(3), X, Y), SIZE, "size 0 of w is not 2"),
    ((W, X, ctypes.c_void_p(), ctypes.c_int64(23)), NULL, "y is null"),
    ((W, ctypes.c_void_p(X.ctypes.data), ctypes.c_int64(-1), Y), SIZE, "size 0 of x is negative")])
def test_arguments_are_tested(loaded: ctypes.CDLL, args: tuple[Any, ...], kind: int, said: str) -> None:
    value, gradient = np.full(1, 7.0), np.full(2, 7.0)
    code = loaded.curve_grad(*words(*args), *to(value, gradient))
    assert code & 255 == kind and text(loaded, code) == f"curve_grad: {said}"
    assert value[0] == 7 and (gradient == 7).all()
    assert loaded.curve_grad(*words(W, X, Y), None, *to(gradient)) & 255 == NULL
    assert loaded.curve_grad(*words(W, X, Y), *to(value), None) & 255 == NULL


def test_arrays_without_elements_may_be_null(loaded: ctypes.CDLL) -> None:
    value = np.ones(1)
    nothing = (ctypes.c_void_p(), ctypes.c_int64(0))
    assert loaded.curve(*words(W), *nothing, *nothing, *to(value)) == OK and value[0] == 0


@pytest.mark.parametrize("call, kind, said", [
    (("pick", X, 23), INDEX, "index 23 is out of bounds for axis 0 with size 23 (programs.py:"),
    (("pick", X, 77), VALUE, "ValueError: i must not be 77: 100% (programs.py:"),
    (("pick", X, 78), ASSERTION, "AssertionError: not 78 (programs.py:"),
    (("quotient", 1, 0), ZERO, "ZeroDivisionError: "),
    (("depth", 100_000_000, 1.0), RECURSION, "RecursionError: maximum recursion depth exceeded"),
    (("buffers", 1 << 50), MEMORY, "MemoryError: "),
    (("buffers", physical_memory() * 15 // 16 // 8), MEMORY, "MemoryError: ")])       # filling it would end the process
def test_exceptions_of_the_program(loaded: ctypes.CDLL, call: tuple[Any, ...], kind: int, said: str) -> None:
    name, *args = call
    code = getattr(loaded, name)(*words(*args), *to(np.zeros(1)))
    assert code & 255 == kind and said in text(loaded, code)
    again = loaded.quotient(*words(7, -2), *to(out := np.zeros(1, np.int64)))
    assert again == OK and out[0] == -4


def test_texts_of_codes(loaded: ctypes.CDLL) -> None:
    assert text(loaded, 0) == "no error" and text(loaded, NULL) == "a pointer is null"
    for wrong in (200, -1, 1 << 30, (1 << 20) + 3):
        assert text(loaded, wrong) == "unknown error code"
    other: list[str] = []
    code = loaded.pick(*words(X, 55), *to(np.zeros(1)))
    thread = threading.Thread(target=lambda: other.append(text(loaded, code)))
    thread.start()
    thread.join()
    assert "index 55 is" in text(loaded, code) and "index ? is" in other[0]       # its operands are this thread's


def test_many_threads(loaded: ctypes.CDLL) -> None:
    expected = np.zeros(1)
    loaded.curve(*words(W, X, Y), *to(expected))
    found: list[float] = []

    def work() -> None:
        value, gradient = np.zeros(1), np.zeros(2)
        for _ in range(300):
            assert loaded.curve_grad(*words(W, X, Y), *to(value, gradient)) == OK
            assert loaded.pick(*words(X, 24), *to(np.zeros(1))) & 255 == INDEX
        found.append(value[0])
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [expected[0]] * 8


def test_calls_leave_no_memory_behind(loaded: ctypes.CDLL) -> None:
    value = np.zeros(1)
    args = [*words(100_000), *to(value)]

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1])
    if sys.platform != "linux":
        pytest.skip("/proc/self/statm is Linux's")
    for _ in range(20):
        assert loaded.buffers(*args) == OK
    before = resident()
    for _ in range(500):
        loaded.buffers(*args)
    assert resident() - before < 200                       # a call needs about 400 pages


# --- other callers ----------------------------------------------------------------------------------

def run(*command: Any, cwd: Path) -> str:
    # Zig compiles the C library of another system the first time, which takes minutes on a busy machine.
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, cwd=cwd, timeout=600)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def needs(tool: str) -> Callable[..., Any]:
    return pytest.mark.skipif(shutil.which(tool) is None, reason=f"{tool} is not on the path")


C = Path(__file__).parent / "callers"
LINK = ("-L.", "-lall", "-Wl,-rpath,$ORIGIN")


def test_a_c_program_with_threads_of_small_stacks(folder: Path) -> None:
    run("gcc", "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_GNU_SOURCE", C / "threads.c", "-I.",
        "-pthread", *LINK, "-o", "threads", cwd=folder)
    assert run("./threads", cwd=folder) == "8 threads: the same digits\nsmall stack: recursion too deep\n"


@needs("g++")
def test_the_cplusplus_header(folder: Path) -> None:
    run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", C / "caller.cpp", "-I.", *LINK, "-o", "plus", cwd=folder)
    caught = "caught 2: curve_grad: size 0 of y differs from size 0 of x: both are n"
    assert run("./plus", cwd=folder) == f"gradient of 2\n{caught}\n"


@needs("gfortran")
def test_the_fortran_module(folder: Path) -> None:
    run("gfortran", "all.f90", C / "caller.f90", *LINK, "-o", "fortran", cwd=folder)
    value, gradient = jit(programs.curve, grad=True).value_and_grad(np.array([0.5, 0.1]), np.arange(1, 4.0), np.ones(3))
    found = [float(x) for x in run("./fortran", cwd=folder).split()]
    np.testing.assert_allclose(found, [value, *gradient], rtol=1e-14)


@needs("cmake")
def test_the_cmake_package(folder: Path) -> None:
    build = folder / "build"
    build.mkdir()
    (build / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(caller CXX)\nfind_package(all CONFIG REQUIRED)\n"
        f"add_executable(caller {C / 'caller.cpp'})\nset_property(TARGET caller PROPERTY CXX_STANDARD 17)\n"
        "target_link_libraries(caller all::all)\n")
    run("cmake", f"-Dall_DIR={folder}", ".", cwd=build)
    run("cmake", "--build", ".", cwd=build)
    assert run("./caller", cwd=build).startswith("gradient of 2")


@needs("pkg-config")
def test_the_pkg_config_file(folder: Path) -> None:
    flags = run("pkg-config", "--cflags", "--libs", folder / "all.pc", cwd=folder).split()
    run("g++" if shutil.which("g++") else "c++", "-std=c++17", C / "caller.cpp", *flags, "-o", "packaged", cwd=folder)
    assert run("./packaged", cwd=folder).startswith("gradient of 2")


def test_a_python_without_jitad(folder: Path) -> None:
    script = ("import ctypes, sys\nlib = ctypes.CDLL('./liball.so')\nout = ctypes.c_int64()\n"
              "print(lib.quotient(ctypes.c_int64(7), ctypes.c_int64(2), ctypes.byref(out)), out.value, "
              "any(m in sys.modules for m in ('numpy', 'jitad')))")
    assert run(sys.executable, "-I", "-S", "-c", script, cwd=folder) == "0 3 False\n"


def test_cffi(folder: Path) -> None:
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    header = (folder / "all.h").read_text()
    ffi.cdef(header[header.index("int curve_grad("):].partition(";")[0] + ";")
    value, gradient = ffi.new("double *"), ffi.new("double[2]")
    w, x, y = (ffi.from_buffer("double[]", a) for a in (W, X, Y))
    assert ffi.dlopen(str(folder / "liball.so")).curve_grad(w, 2, x, 23, y, 23, value, gradient) == OK
    expected = jit(programs.curve, grad=True).value_and_grad(W, X, Y)
    assert value[0] == expected[0] and list(gradient) == list(expected[1])


@needs("nm")
def test_it_needs_the_c_library_only(folder: Path) -> None:
    undefined = {line.split()[-1] for line in run("nm", "-D", "--undefined-only", "liball.so", cwd=folder).splitlines()}
    python = [name for name in undefined if name.startswith(("Py", "_Py", "npy", "jitad", "scipy", "GOMP", "omp"))]
    assert not python
    defined = {line.split()[-1] for line in run("nm", "-D", "--defined-only", "liball.so", cwd=folder).splitlines()}
    names = {"loss", "loss_grad", "curve", *(f"curve_{d}" for d in ("grad", "jvp", "vjp", "hvp", "jacobian")), "pair",
             "pick", "quotient", "depth", "depth_grad", "buffers", "merged", "merged_grad", "jitad_strerror",
             "all_strerror"}
    assert names <= defined and not {d for d in defined - names if not d.startswith("_")}
    if shutil.which("ldd"):
        needed = {line.split()[0].split("/")[-1] for line in run("ldd", "liball.so", cwd=folder).splitlines()}
        allowed = ("linux-vdso", "libm.so", "libc.so", "libmvec.so", "ld-linux", "libpthread.so", "ld-musl")
        assert all(name.startswith(allowed) for name in needed)


@needs("valgrind")
def test_under_valgrind(folder: Path) -> None:
    """Valgrind knows no AVX-512, so this library is for an older processor."""
    if platform.machine() != "x86_64":
        pytest.skip("the processor's name is that of an x86-64")
    aot.build(folder / "libold.so", [aot.export(programs.curve, grad=0), aot.export(programs.pick)], blas=False,
              header=folder / "old.h", cpu="x86-64-v2")
    run("gcc", "-g", C / "errors.c", "-I.", "-L.", "-lold", "-Wl,-rpath,$ORIGIN", "-o", "errors", cwd=folder)
    told = run("valgrind", "-q", "--leak-check=full", "--error-exitcode=9", "./errors", cwd=folder)
    assert told == "1 2 5 5 1\n"
