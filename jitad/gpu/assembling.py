"""The device's own instructions, by NVIDIA's assembler ``ptxas`` and its disassembler ``nvdisasm``."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from ..errors import CompileError
from ..lowering.jit.cuda_toolkit import required


def assembled(ptx: str, arch: str, folder: Path) -> tuple[Path, str]:
    """The file of machine code, and what ``ptxas`` says of registers, memory and spills of each kernel."""
    source, code = folder / "kernels.ptx", folder / "kernels.cubin"
    source.write_text(ptx)
    done = _run([str(required("ptxas")), "-v", f"-arch={arch}", "-o", str(code), str(source)])
    return code, done


def sass(ptx: str, arch: str) -> str:
    """The instructions of an architecture; a comment at the head has the report of ``ptxas``."""
    disassembler = str(required("nvdisasm"))
    with tempfile.TemporaryDirectory() as folder:
        code, report = assembled(ptx, arch, Path(folder))
        listing = _run([disassembler, "-c", str(code)])
    return "".join(f"// {line}\n" for line in report.splitlines()) + listing


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CompileError(f"{Path(command[0]).name} refuses the code: {(done.stderr or done.stdout).strip()}")
    return done.stdout + done.stderr
