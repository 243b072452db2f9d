"""Facts of the listing of a kernel's machine code (SASS): instructions, memory traffic, registers.

Counts are static: each instruction counts once, those of rare cases of functions included.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from jitad.lowering.gpu.image import Image
from jitad.lowering.gpu.ptx import to_ptx
from jitad.lowering.jit.cuda_toolkit import required

from jitad.gpu import assembling

SOURCE = Path(__file__).parent / "kernels.cu"
_SECTION = re.compile(r"^\.text\.(\w+):$", re.M)
_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]+\*/\s+(?:\{ )?(?:@!?U?P\d+ )?\s*([A-Z][\w.]*)(.*?);", re.M)
_CALLED = re.compile(r"^\$\w+\$\w+:", re.M)             # a function that the kernel calls, behind it
_GLOBAL = re.compile(r"(LDG|STG|ATOMG|RED|ATOM)\b")
_WIDTHS = {"128": 16, "64": 8, "U8": 1, "S8": 1, "U16": 2, "S16": 2}
_USED = re.compile(r"entry function '(\w+)'.*?(\d+) bytes spill stores.*?Used (\d+) registers", re.S)


@dataclass(frozen=True)
class Listing:
    """A kernel.

    Not counted: loads of the status, the same word for all threads, and what functions access that a kernel calls: that
    is the report of an exception.
    """

    instructions: int
    loads: int                     # bytes, of one thread, each access once
    stores: int
    registers: int
    spills: int                    # bytes


def nvcc() -> str:
    """The path of NVIDIA's compiler; raises ``DeviceError`` if it is not installed."""
    return str(required("ptxas").parent / "nvcc")


def of_image(image: Image, arch: str) -> dict[str, Listing]:
    """The listings of the kernels of an image."""
    with tempfile.TemporaryDirectory() as folder:
        code, report = assembling.assembled(to_ptx(image, arch), arch, Path(folder))
        return _listings(code, report)


def of_cuda(arch: str) -> dict[str, Listing]:
    """The listings of the kernels of ``kernels.cu``."""
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "kernels.cubin"
        command = [nvcc(), f"-arch={arch}", "-cubin", "-Xptxas", "-v", "-o", str(code), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return _listings(code, done.stderr + done.stdout)


def _listings(code: Path, report: str) -> dict[str, Listing]:
    done = subprocess.run([str(required("nvdisasm")), "-c", str(code)], capture_output=True, text=True, check=True)
    used = registers(report)
    parts = _SECTION.split(done.stdout)[1:]
    return {name: _listing(body, *used[name]) for name, body in zip(parts[::2], parts[1::2]) if name in used}


def registers(report: str) -> dict[str, tuple[int, int]]:
    """Registers and bytes of spills of each kernel, as ``ptxas -v`` reports them."""
    entries = report.split("Compiling entry function")[1:]
    found = (_USED.search("entry function" + e) for e in entries)
    return {m[1]: (int(m[3]), int(m[2])) for m in found if m}


def _listing(body: str, used: int, spills: int) -> Listing:
    body = body.split("\n\t.section", 1)[0]
    code = [(m[1], m[2]) for m in _INSTRUCTION.finditer(body) if m[1] != "NOP"]
    if code and code[-1][0] == "BRA":                     # the last one jumps to itself, behind the end
        code.pop()
    own = [m[1] for m in _INSTRUCTION.finditer(_CALLED.split(body, maxsplit=1)[0])]
    memory = [name for name in own if _GLOBAL.match(name) and "STRONG.SYS" not in name]
    loads = sum(_width(name) for name in memory if name.startswith("LDG"))
    return Listing(len(code), loads, sum(map(_width, memory)) - loads, used, spills)


def _width(name: str) -> int:
    """Bytes of an access."""
    parts = name.split(".")
    return next((n for key, n in _WIDTHS.items() if key in parts), 8 if "F64" in parts else 4)
