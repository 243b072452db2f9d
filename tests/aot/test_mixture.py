"""The gradient of ADBench's Gaussian mixture as a library, called from C on several machines and under checkers."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from examples.gmm import Floats, Mixture, Prior, gmm_objective
from jitad import aot, jit
from tests.aot.test_c_interface import needs, run
from tests.aot.test_platforms import ZIG, needs_zig

CALLER = Path(__file__).parent / "callers" / "mixture.c"
SIGNATURE = (Mixture("f64[k]", "f64[k, d]", "f64[k, w]"), "f64[n, d]", Prior("f64", "i64"))     # type: ignore[arg-type]
ALL_WELL = "2 2 2 1 1 1 5\n0 of 8 threads have other digits\nno more memory\n"
COMPILER = ("gcc", "-g", "-std=c11", "-Wall", "-Wextra", "-Werror", CALLER, "-I.", "-L.", "-lgmm", "-pthread",
            "-Wl,-rpath,$ORIGIN", "-o", "mixture")


def export() -> list[aot.Export]:
    return [aot.export(gmm_objective, SIGNATURE, name="gmm", grad=0)]


def problem(components: int, d: int, n: int) -> tuple[Mixture, Floats, Prior]:
    rng = np.random.default_rng(components)
    factors = rng.normal(size=(components, d + d * (d - 1) // 2)) / d
    mixture = Mixture(rng.normal(size=components), rng.normal(size=(components, d)), factors)
    return mixture, rng.normal(size=(n, d)), Prior(1.0, 2)


def written(folder: Path, given: tuple[Mixture, Floats, Prior]) -> str:
    """The problem as a file for ``mixture.c``."""
    mixture, points, prior = given
    numbers = np.concatenate([*(a.ravel() for a in mixture), points.ravel(), prior])
    sizes = " ".join(map(str, (*mixture.means.shape, len(points))))
    (folder / "problem.txt").write_text("\n".join([sizes, *map(repr, map(float, numbers))]))
    return "problem.txt"


def of_the_jit(given: tuple[Mixture, Floats, Prior]) -> Floats:
    value, gradient = jit(gmm_objective, grad=True).value_and_grad(*given)
    return np.concatenate([[value], *(a.ravel() for a in gradient)])


def numbers(told: str) -> Floats:
    return np.array([float(x) for x in told.split()])


@pytest.mark.long
@pytest.mark.slow
@needs("gcc")
def test_the_digits_of_the_jit_and_wrong_calls(tmp_path: Path) -> None:
    """Digits, errors, threads and 20,000 calls, also under AddressSanitizer."""
    aot.build(tmp_path / "libgmm.so", export(), header=tmp_path / "gmm.h", blas=False)
    run(*COMPILER, cwd=tmp_path)
    for large, rtol in ((problem(5, 6, 300), 0.0), (problem(5, 4, 300), 1e-12)):    # for 4, ``jit`` has a version
        found = numbers(run("./mixture", written(tmp_path, large), cwd=tmp_path))
        np.testing.assert_allclose(found, of_the_jit(large), rtol=rtol)
    small = written(tmp_path, problem(3, 2, 2))
    assert run("./mixture", small, "20000", cwd=tmp_path) == ALL_WELL
    run(*COMPILER, "-fsanitize=address,undefined", "-fno-sanitize-recover=all", cwd=tmp_path)
    assert run("./mixture", small, "1000", cwd=tmp_path) == ALL_WELL


@pytest.mark.slow
@needs("gcc")
@needs("valgrind")
@needs("ldd")
def test_libm_alone_and_under_valgrind(tmp_path: Path) -> None:
    """A library for an older processor, since Valgrind knows no AVX-512, and without vector functions of libmvec."""
    aot.build(tmp_path / "libgmm.so", export(), header=tmp_path / "gmm.h", cpu="x86-64-v2", blas=False, libmvec=False)
    needed = {line.split()[0].split("/")[-1].split(".")[0] for line in
              run("ldd", "libgmm.so", cwd=tmp_path).splitlines()}
    assert needed == {"linux-vdso", "libm", "libc", "ld-linux-x86-64"}
    run(*COMPILER, cwd=tmp_path)
    checked = run("valgrind", "-q", "--leak-check=full", "--error-exitcode=9", "./mixture",
                  written(tmp_path, problem(3, 2, 2)), "300", cwd=tmp_path)
    assert checked == ALL_WELL


@pytest.mark.long
@pytest.mark.slow
@needs("gcc")
@needs("qemu-x86_64")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="code for several processors is made on x86-64 only")
def test_several_processors_in_one_library(tmp_path: Path) -> None:
    """Each machine gets the digits that a library for its processor alone has there, which differ from the others'."""
    levels = {"x86-64-v2": "Nehalem", "x86-64-v3": "Haswell", "x86-64-v4": ""}
    plain = {"blas": False, "libmvec": False}
    for level in levels:
        (tmp_path / level).mkdir()
        aot.build(tmp_path / level / "libgmm.so", export(), cpu=level, **plain)         # type: ignore[arg-type]
    aot.build(tmp_path / "libgmm.so", export(), header=tmp_path / "gmm.h", cpu=",".join(reversed(levels)),
              **plain)                                                                  # type: ignore[arg-type]
    run(*COMPILER, cwd=tmp_path)
    file, seen = written(tmp_path, problem(5, 4, 300)), []
    for level, machine in levels.items():
        if level == "x86-64-v4" and not dict(llvm.get_host_cpu_features()).get("avx512vl"):
            continue
        emulated = ("qemu-x86_64", "-cpu", machine) if machine else ()
        seen.append(run(*emulated, "./mixture", file, cwd=tmp_path))
        alone = run("env", f"LD_LIBRARY_PATH={level}", *emulated, "./alone", file, cwd=alone_in(tmp_path))
        assert seen[-1] == alone, level
    assert len({*seen}) == len(seen)
    assert run("./mixture", written(tmp_path, problem(3, 2, 2)), "1000", cwd=tmp_path) == ALL_WELL
    with pytest.raises(ValueError, match="several of x86-64"):
        aot.build(tmp_path / "libgmm.so", export(), cpu="x86-64-v2,znver4")


def alone_in(folder: Path) -> Path:
    """The folder, with a program that looks for its library where the environment says."""
    if not (folder / "alone").exists():
        run(*[str(c).replace("-Wl,-rpath,$ORIGIN", "-g") for c in COMPILER[:-1]], "alone", cwd=folder)
    return folder


# With threads that compile in the background, Node 20 crashes at times after the program has returned.
NODE = ("node", "--no-warnings", "--single-threaded", CALLER.parent / "wasi.mjs")


@pytest.mark.long
@pytest.mark.slow
@needs_zig
@pytest.mark.parametrize("target, machine", [("aarch64-linux-musl", ("qemu-aarch64",)),
                                             ("wasm32-wasi", NODE)])
def test_other_machines(target: str, machine: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(machine[0]) is None:
        pytest.skip(f"{machine[0]} is not on the path")
    aot.build(tmp_path / "gmm.o", export(), emit="obj", target=target, header=tmp_path / "gmm.h")
    run(*ZIG, "cc", "-target", target, *(["-static"] if "linux" in target else []), CALLER, "gmm.o", "-I.", "-lm",
        "-o", "mixture", cwd=tmp_path)
    given = problem(5, 4, 300)
    found = numbers(run(*machine, "./mixture", written(tmp_path, given), cwd=tmp_path))
    np.testing.assert_allclose(found, of_the_jit(given), rtol=1e-12, atol=1e-12)
