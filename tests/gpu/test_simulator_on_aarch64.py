"""The simulator's scheduler and its switch of stacks on another processor, under an emulator."""

from __future__ import annotations

import shutil
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from jitad.lowering.simulator import fibers, scheduler, state

from tests.aot.test_c_interface import run
from tests.aot.test_platforms import ZIG, needs_zig

TRIPLE = "aarch64-unknown-linux-musl"
OURS = {"save", "restore", "signals", "shared", "stacks"}       # are other names in the C program


def header() -> str:
    names = {name + ("_" if name in OURS else ""): k for k, name in enumerate(state.FIELDS)}
    lines = [f"enum {{ {', '.join(f'{name} = {k}' for name, k in names.items())} }};",
             f"enum {{ FIELDS = {len(state.FIELDS)}, RECORD = {len(state.RECORD)}, STRIDE = {fibers.STRIDE} }};"]
    return "\n".join(lines)


def assembly() -> tuple[str, str]:
    """The scheduler, by LLVM, and the switch, for which LLVM would need a parser of assembly."""
    lines = scheduler.text(TRIPLE).split("\n")
    switch = [line.split('"')[1] for line in lines if line.startswith("module asm")]
    text = "\n".join(line for line in lines if not line.startswith("module asm"))
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(TRIPLE).create_target_machine(opt=2, reloc="pic")
    unit = llvm.parse_assembly(f'target triple = "{TRIPLE}"\n{text}')
    unit.verify()
    return str(machine.emit_assembly(unit)), "\n".join(["  .globl gpu.switch", *switch, ""])


@pytest.mark.long
@pytest.mark.slow
@needs_zig
@pytest.mark.skipif(not shutil.which("qemu-aarch64"), reason="qemu-aarch64 (qemu-user) is not on the path")
def test_barriers_and_shuffles(tmp_path: Path) -> None:
    for name, text in zip(("runtime.s", "switch.s"), assembly()):
        (tmp_path / name).write_text(text)
    (tmp_path / "fields.h").write_text(header())
    compiler, program = [*ZIG, "cc", "-target", "aarch64-linux-musl"], Path(__file__).parent / "callers" / "barriers.c"
    run(*compiler, "-O2", "-c", "-I.", program, "-o", "barriers.o", cwd=tmp_path)
    # Without a level, so that the C library is the one that ``test_platforms`` has made.
    run(*compiler, "-static", "barriers.o", "runtime.s", "switch.s", "-o", "barriers", cwd=tmp_path)
    told = run("qemu-aarch64", "./barriers", cwd=tmp_path)
    expected = [2 * t + 4 * (3 * ((t + 1) % 64) + 3) + 1000 * (t + (t % 32 < 31)) for t in range(64)]
    assert told.split() == [*map(str, expected), "failure", "0"]

