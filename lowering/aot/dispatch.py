"""Code for several processors in one library: each export selects, at its first call, what this machine can run.

Each processor's code is a function of its own, ``NAME`` with the processor behind it, and ``NAME`` jumps through a
pointer.  The pointer is that of a function that reads the processor's features at first, so no loader has to support
this.  Threads that select at once store the same value.

::

    i32 @jitad.level()      the number of the newest of these processors whose code this machine can run
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import llvmlite.binding as llvm

from ...errors import CompileError
from ..jit import cpu
from ..llvm.emit import Writer, global_name
from .interface import Interface
from .platforms import Platform

# What each level has beyond the one before, as bits of cpuid's (leaf, register), and of XCR0: the registers that the
# system saves.  From the processor supplement of the System V ABI, section "Micro-Architecture Levels".
_Bits = dict[tuple[int, str], tuple[int, ...]]
_EXTENDED = 0x8000_0001
_NEW: dict[str, tuple[_Bits, int]] = {
    "x86-64": ({}, 0),
    "x86-64-v2": ({(1, "c"): (0, 9, 13, 19, 20, 23), (_EXTENDED, "c"): (0,)}, 0),
    "x86-64-v3": ({(1, "c"): (12, 22, 27, 28, 29), (7, "b"): (3, 5, 8), (_EXTENDED, "c"): (5,)}, 0x6),
    "x86-64-v4": ({(7, "b"): (16, 17, 28, 30, 31)}, 0xe6)}
_OSXSAVE = 27
_DEFINED = re.compile(r"^define [^\n]*\{$", re.MULTILINE)


def symbol(name: str, platform: Platform) -> str:
    """The name of an export's function for one of several processors."""
    return f"{name}.{platform.cpu}"


def for_processor(unit: llvm.ModuleRef, platform: Platform) -> llvm.ModuleRef:
    """The module with this processor as an attribute of its functions, which may then be linked with others."""
    text = str(unit)
    if bare := [line for line in _DEFINED.findall(text) if not re.search(r" #\d+", line)]:
        raise CompileError(f"a function without attributes cannot be compiled for {platform.cpu}: {bare[0]}")
    wanted = f'"target-cpu"="{platform.cpu}" "target-features"="{platform.features}"'
    return cpu.parsed(re.sub(r"^(attributes #\d+ = \{)", rf"\1 {wanted}", text, flags=re.MULTILINE))


def define(writer: Writer, interfaces: Sequence[Interface], platforms: Sequence[Platform]) -> None:
    """Write the exports, which call the functions for these processors; the oldest is first."""
    writer.function("jitad.level", _level([p.cpu for p in platforms]))
    for made in interfaces:
        kinds = ", ".join(p.llvm for p in made.parts())
        params = ", ".join(f"{p.llvm} %p{i}" for i, p in enumerate(made.parts()))
        values = [writer.declare(symbol(made.name, p), "i32", kinds) for p in platforms]
        words = {"name": made.name, "export": global_name(made.name), "params": params, "count": len(values),
                 "table": ", ".join(f"ptr {value}" for value in values)}
        writer.global_(f"jitad.select.{made.name}.chosen",
                       f"internal global ptr @jitad.select.{made.name}, align 8")
        writer.global_(f"jitad.select.{made.name}.table", "internal constant [{count} x ptr] [{table}]".format(**words))
        writer.function(f"jitad.select.{made.name}", _SELECT.format(**words))
        writer.function(made.name, _EXPORT.format(**words))


_SELECT = """define internal i32 @jitad.select.{name}({params}) noinline cold nounwind {{
  %level = call i32 @jitad.level()
  %at = getelementptr inbounds ptr, ptr @jitad.select.{name}.table, i32 %level
  %code = load ptr, ptr %at, align 8
  store atomic ptr %code, ptr @jitad.select.{name}.chosen monotonic, align 8
  %status = musttail call i32 %code({params})
  ret i32 %status
}}
"""
_EXPORT = """define i32 {export}({params}) nounwind {{
  %code = load atomic ptr, ptr @jitad.select.{name}.chosen monotonic, align 8
  %status = musttail call i32 %code({params})
  ret i32 %status
}}
"""
_CPUID = ('call {{ i32, i32, i32, i32 }} asm sideeffect "cpuid", "={{ax}},={{bx}},={{cx}},={{dx}},0,2"'
          "(i32 {leaf}, i32 0)")


def _level(names: Sequence[str]) -> str:
    """``@jitad.level``: the features of each leaf are read, then those of the levels are compared."""
    lines = ["define internal i32 @jitad.level() noinline cold nounwind {", "entry:",
             f"  %most = {_CPUID.format(leaf=0)}", "  %leaves = extractvalue { i32, i32, i32, i32 } %most, 0",
             "  %seven = icmp uge i32 %leaves, 7"]
    for leaf, register in ((1, "c"), (7, "b"), (_EXTENDED, "c")):
        number = {"b": 1, "c": 2}[register]
        lines += [f"  %leaf.{leaf} = {_CPUID.format(leaf=leaf)}",
                  f"  %have.{leaf} = extractvalue {{ i32, i32, i32, i32 }} %leaf.{leaf}, {number}"]
    # A processor without leaf 7 answers with another leaf; one without XSAVE has no xgetbv.
    lines += ["  %seven.b = select i1 %seven, i32 %have.7, i32 0", f"  %saves = and i32 %have.1, {1 << _OSXSAVE}",
              "  %saving = icmp ne i32 %saves, 0", "  br i1 %saving, label %ask, label %compare", "ask:",
              '  %asked = call i32 asm sideeffect "xgetbv", "={ax},{cx},~{dx}"(i32 0)', "  br label %compare",
              "compare:", "  %saved = phi i32 [ %asked, %ask ], [ 0, %entry ]"]
    best, known = "0", "true"
    have = {(1, "c"): "%have.1", (7, "b"): "%seven.b", (_EXTENDED, "c"): f"%have.{_EXTENDED}", (0, ""): "%saved"}
    for level, (bits, registers) in _NEW.items():
        masks = {key: sum(1 << b for b in found) for key, found in bits.items()} | {(0, ""): registers}
        for (leaf, register), mask in masks.items():
            tag = f"{level}.{leaf}.{register}"
            lines += [f'  %"and.{tag}" = and i32 {have[leaf, register]}, {mask}',
                      f'  %"is.{tag}" = icmp eq i32 %"and.{tag}", {mask}',
                      f'  %"all.{tag}" = and i1 {known}, %"is.{tag}"']
            known = f'%"all.{tag}"'
        if level in names:
            lines.append(f'  %"best.{level}" = select i1 {known}, i32 {names.index(level)}, i32 {best}')
            best = f'%"best.{level}"'
    return "\n".join([*lines, f"  ret i32 {best}", "}\n"])
