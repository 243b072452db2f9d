"""PTX of hand-written images: what becomes of the functions of the device, and that ``ptxas`` takes it."""

import dataclasses
from pathlib import Path

import pytest
from jitad.lowering.gpu.image import Image
from jitad.lowering.gpu.ptx import ARCHITECTURES, to_ptx
from jitad.lowering.jit import cuda_toolkit

from jitad import disk_store
from jitad.errors import CompileError, DeviceError
from jitad.gpu import assembling
from tests.gpu.images import AXPY, EVERYTHING

needs_libdevice = pytest.mark.skipif(cuda_toolkit.libdevice() is None,
                                     reason="libdevice is not there: pip install nvidia-nvvm, or set CUDA_HOME")
needs_ptxas = pytest.mark.skipif(cuda_toolkit.program("ptxas") is None,
                                 reason="ptxas is not there: pip install nvidia-cuda-nvcc, or set CUDA_HOME")


@needs_libdevice
@needs_ptxas
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_images_assemble(arch: str, tmp_path: Path) -> None:
    for image in (AXPY, EVERYTHING):
        ptx = to_ptx(image, arch)
        assert f".target {arch}" in ptx and ptx.count(".visible .entry") == 1 and ".maxntid 128" in ptx
        assert ".extern" not in ptx
        _, report = assembling.assembled(ptx, arch, tmp_path)
        assert "0 bytes spill stores, 0 bytes spill loads" in report


@needs_libdevice
def test_functions_of_the_device_become_instructions() -> None:
    ptx = to_ptx(EVERYTHING, "sm_90")
    for instruction in ("bar.sync", "shfl.sync.down.b32", "shfl.sync.bfly.b32", "vote.sync.ballot", "%tid.x",
                        "%ctaid.x", "%ntid.x", "%nctaid.x", "atom.global.add.f64", "ld.global.nc.b64", "st.shared.b64"):
        assert instruction in ptx, instruction


def test_an_unknown_function_of_the_device_is_refused() -> None:
    with pytest.raises(CompileError, match="@gpu.teleport"):
        to_ptx(Image("declare void @gpu.teleport()\n", ()), "sm_90")


def test_ptx_is_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITAD_CACHE_DIR", str(tmp_path / "cache"))
    made = to_ptx(AXPY, "sm_90")
    assert disk_store.contents().files == 1
    monkeypatch.setattr("jitad.lowering.gpu.ptx.assembly", lambda *args: pytest.fail("compiled again"))
    assert to_ptx(AXPY, "sm_90") == made
    monkeypatch.setattr("jitad.lowering.gpu.ptx.assembly", lambda *args: "other")
    assert to_ptx(AXPY, "sm_80") == "other"
    wider = dataclasses.replace(AXPY.kernels[0], block=256)
    assert to_ptx(dataclasses.replace(AXPY, kernels=(wider,)), "sm_90") == "other"


@pytest.mark.slow
@needs_ptxas
@pytest.mark.skipif(cuda_toolkit.program("nvdisasm") is None,
                    reason="nvdisasm is not there: pip install nvidia-cuda-nvdisasm, or set CUDA_HOME")
def test_sass_shows_instructions_and_registers() -> None:
    text = assembling.sass(to_ptx(AXPY, "sm_90"), "sm_90")
    assert "registers" in text and "DMUL" in text and "DADD" in text and text.startswith("//")


@needs_ptxas
def test_ptx_that_is_refused_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="ptxas refuses"):
        assembling.assembled(".version 7.0\n.target sm_80\nnonsense", "sm_80", tmp_path)


def test_where_the_toolkit_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``CUDA_HOME`` comes first; ``cuda.pathfinder`` is asked if it is there, whatever its version."""
    for path in ("bin/ptxas", "nvvm/libdevice/libdevice.10.bc"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert cuda_toolkit.program.__wrapped__("ptxas") == tmp_path / "bin/ptxas"
    assert cuda_toolkit.libdevice.__wrapped__() == tmp_path / "nvvm/libdevice/libdevice.10.bc"
    assert list(cuda_toolkit._pathfinder("no_such_function", "ptxas")) == []
    assert all(path.is_file() for path in cuda_toolkit._pathfinder("find_nvidia_binary_utility", "nvdisasm"))
    assert cuda_toolkit._version(Path("/usr/local/cuda-13.0")) > cuda_toolkit._version(Path("/usr/local/cuda-9.2"))


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(DeviceError, match="(?s)ptxas.*pip install nvidia-cuda-nvcc"):
        cuda_toolkit.required("ptxas", lambda name: None)
