"""NVIDIA's driver through ``cuda.bindings.driver`` of cuda-python: loading it, and its errors as exceptions.

Each function of the driver returns a tuple: a status, then its results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import DeviceError, Loc

_HINT = ("target='cuda-sim' runs the same kernels on the CPU, and inspect('ptx', …) shows them; "
         "for a GPU, {}")
_STICKY = frozenset(("CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_TIMEOUT",
                     "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_ASSERT",
                     "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC", "CUDA_ERROR_HARDWARE_STACK_ERROR",
                     "CUDA_ERROR_ECC_UNCORRECTABLE"))
"""Errors after which the driver refuses every further call of the process."""


def _driver() -> Any:
    from cuda.bindings import driver
    return driver


def load(importer: Callable[[], Any] = _driver) -> Any:
    """The module ``cuda.bindings.driver`` with a driver that has been initialised and has a device.

    Raises a ``DeviceError`` that names what is missing: the package, the driver, or a device.
    """
    try:
        cuda = importer()
    except ImportError as error:
        raise missing(f"the package cuda-python is not there ({error})", "pip install 'jitad[cuda]'") from None
    try:
        status = cuda.cuInit(0)[0]
    except RuntimeError as error:                           # the library libcuda cannot be loaded
        raise missing(f"there is no NVIDIA driver on this machine ({_line(error)})",
                      "install NVIDIA's driver, which contains libcuda.so.1") from None
    if status:
        raise missing(f"NVIDIA's driver does not start ({text(cuda, status)})",
                      "see whether nvidia-smi lists a device, and CUDA_VISIBLE_DEVICES does not hide it")
    status, count = cuda.cuDeviceGetCount()
    if status or count == 0:
        raise missing("NVIDIA's driver knows no device",
                      "see whether nvidia-smi lists a device, and CUDA_VISIBLE_DEVICES does not hide it")
    return cuda


def missing(problem: str, remedy: str) -> DeviceError:
    return DeviceError(f"target='cuda' needs a GPU of NVIDIA: {problem}", hint=_HINT.format(remedy))


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def text(cuda: Any, status: Any) -> str:
    """The name and the description of a status, such as ``CUDA_ERROR_OUT_OF_MEMORY: out of memory``."""
    name, description = (_decoded(f(status)) for f in (cuda.cuGetErrorName, cuda.cuGetErrorString))
    return f"{name}: {description}" if name and description else f"status {int(status)}"


def _decoded(answer: tuple[Any, ...]) -> str:
    status, found = answer
    if status or found is None:
        return ""
    return found.decode() if isinstance(found, bytes) else str(found)


def error(cuda: Any, status: Any, call: str, loc: Loc | None = None) -> Exception:
    """The exception for a status: ``MemoryError`` if memory is exhausted, else ``DeviceError``.

    ``call``: a description of what failed; ``loc``: the user's line that it comes from, if it is known.
    """
    described = text(cuda, status)
    if status == cuda.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        return MemoryError(f"{call}: {described}")
    hint = ""
    if is_lasting(cuda, status):
        hint = "start a new process: after this error the driver refuses all calls"
        if loc is None:
            hint += "; JITAD_DEBUG=1 waits for each kernel, and names the line of the one that failed"
    return DeviceError(f"{call}: {described}", loc, hint)


def is_lasting(cuda: Any, status: Any) -> bool:
    """True for an error after which the driver refuses every further call of the process."""
    return text(cuda, status).partition(":")[0] in _STICKY
