"""Parts of NVIDIA's CUDA toolkit on this machine: ``libdevice``, ``ptxas``, ``nvdisasm``.

They are searched in ``CUDA_HOME`` or ``CUDA_PATH``, in the wheels (``nvidia-nvvm``, ``nvidia-cuda-nvcc``,
``nvidia-cuda-nvdisasm``), where ``cuda.pathfinder`` knows to look (conda), on the path, and in ``/usr/local/cuda*``,
the newest version first.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from ...errors import DeviceError

_BITCODE = "libdevice.10.bc"
_LIBDEVICE = f"nvvm/libdevice/{_BITCODE}"
_WHEELS = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}


def _homes() -> Iterator[Path]:
    """The toolkits that environment variables name."""
    yield from (Path(home) for home in map(os.environ.get, ("CUDA_HOME", "CUDA_PATH")) if home)


def _installed() -> Iterator[Path]:
    """The toolkits in the usual place: the default one, then from the newest version to the oldest."""
    yield Path("/usr/local/cuda")
    yield from sorted(Path("/usr/local").glob("cuda-*"), key=_version, reverse=True)


def _version(home: Path) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", home.name)]


def _wheels(pattern: str) -> Iterator[Path]:
    """The files of NVIDIA's wheels; all of these put their files into the package ``nvidia``."""
    spec = importlib.util.find_spec("nvidia")
    for root in spec.submodule_search_locations or () if spec else ():
        yield from sorted(Path(root).glob(pattern))


def _pathfinder(name: str, *args: str) -> Iterator[Path]:
    """The answer of a function of ``cuda.pathfinder``, if it is installed, has the function and finds the file."""
    try:
        import cuda.pathfinder as pathfinder
        found = getattr(pathfinder, name)(*args)
    except Exception:                                   # old versions lack functions; others raise what they like
        return
    if found:
        yield Path(found)


def _first(places: Iterator[Path]) -> Path | None:
    return next((path for path in places if path.is_file()), None)


@cache
def libdevice() -> Path | None:
    """The path of libdevice, or None if it is not installed."""
    def places() -> Iterator[Path]:
        yield from (home / _LIBDEVICE for home in _homes())
        yield from _wheels(f"**/libdevice/{_BITCODE}")
        yield from _pathfinder("find_bitcode_lib", "device")
        yield from (home / _LIBDEVICE for home in _installed())
    return _first(places())


@cache
def program(name: str) -> Path | None:
    """The path of ``ptxas`` or ``nvdisasm``, or None if it is not installed."""
    def places() -> Iterator[Path]:
        yield from (home / "bin" / name for home in _homes())
        yield from _wheels(f"**/bin/{name}")
        yield from _pathfinder("find_nvidia_binary_utility", name)
        if found := shutil.which(name):
            yield Path(found)
        yield from (home / "bin" / name for home in _installed())
    return _first(places())


def required(name: str, find: Callable[[str], Path | None] = program) -> Path:
    """The path of ``ptxas`` or ``nvdisasm``; raises ``DeviceError`` if it is not installed."""
    found = find(name)
    if found is None:
        raise DeviceError(f"{name}, a program of NVIDIA's CUDA toolkit, is not there",
                          hint=f"pip install {_WHEELS[name]}, or set CUDA_HOME")
    return found
