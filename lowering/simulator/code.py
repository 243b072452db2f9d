"""Machine code of an image: its prepared text, the functions that it calls, and an entry for each kernel.

The functions of the runtime are compiled once for all images.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import llvmlite.binding as llvm

from ...compiler_threads import uninterrupted
from ...errors import CompileError
from ..gpu.image import Image, Kernel
from ..gpu.tensor_cores import defined
from ..jit.cpu import Native, target
from ..llvm.capi import immortal
from ..math.options import Options
from . import scheduler, shadow
from .memory import GARBAGE, SHARED_MOST
from .rewrite import Prepared, prepared
from .state import ATOMIC, BALLOT, DOWN, READ, SIZE, WRITE, XOR, State, expanded

_NUMBERS = {"thread": "thread", "block": "block", "block_size": "block_size", "grid_size": "grid"}
_SHUFFLES = {"shuffle_down": DOWN, "shuffle_xor": XOR}
_KINDS = {"read": READ, "write": WRITE, "atomic": ATOMIC}
_LLVM = {"i32": "i32", "i64": "i64", "f32": "float", "f64": "double"}
_MATH = re.compile(r"(\w+)\.(f32|f64)")


@dataclass
class Loaded:
    """An image in memory.  ``lock`` is held during a launch: there is one state, and one array of shared memory.

    ``busy``: a launch is running, which matters to signal handlers, as they have the lock.
    """

    image: Image
    prepared: Prepared
    native: Native
    checked: bool
    lock: threading.RLock = field(default_factory=threading.RLock)
    busy: bool = False

    def __post_init__(self) -> None:
        self.state_address = self.native.address("gpu.state")
        self.state = State.from_address(self.state_address)
        self.shared_address = self.native.address("gpu.shared")
        self.entries = {k.name: self.native.address(_entry(k.name)) for k in self.image.kernels}

    def runs_alone(self, kernel: Kernel) -> bool:
        """True if the threads of the kernel never wait for each other."""
        return kernel.name not in self.prepared.collective

    def ranges(self) -> list[tuple[int, int, int]]:
        """The globals of the image, as entries of ``shadow``'s table ``ranges``."""
        if not self.checked or not self.prepared.globals:
            return []
        row = (ctypes.c_int64 * len(self.prepared.globals)).from_address(self.native.address("gpu.globals"))
        return [(at, size, constant) for at, (_, size, constant) in zip(row, self.prepared.globals)]


def load(image: Image, checked: bool = False, level: int = 1) -> Loaded:
    """Compile an image at a level of LLVM's; ``checked`` code checks its accesses to memory."""
    parts = prepared(defined(image.text, "sim"), checked)
    for kernel in image.kernels:
        if kernel.name not in parts.parameters:
            raise CompileError(f"the image does not define its kernel {kernel.name}", kernel.loc)
        if len(parts.parameters[kernel.name]) != len(kernel.params):
            raise CompileError(f"the kernel {kernel.name} has {len(kernel.params)} parameters, and "
                               f"{len(parts.parameters[kernel.name])} in the text of its image", kernel.loc)
    source = "\n".join(_module(image, parts, checked))
    names = ["gpu.state", "gpu.shared", *(_entry(k.name) for k in image.kernels)]
    if checked and parts.globals:
        names.append("gpu.globals")
    return Loaded(image, parts, Native(source, Options(level=level), names, {}), checked)


@cache
@uninterrupted
def runtime() -> Native:
    """The machine code of ``scheduler`` and ``shadow``."""
    llvm.initialize_native_asmparser()                           # for the assembly of ``fibers``
    head = f'target triple = "{target().triple}"\ntarget datalayout = "{target().layout}"'
    source = "\n".join([head, scheduler.text(target().triple), shadow.text()])
    return immortal(Native(source, Options(), [*scheduler.ROUTINES, *shadow.ROUTINES], {}, keep=True))


def _entry(kernel: str) -> str:
    return f"gpu.enter.{kernel}"


def _routine(name: str) -> str:
    """A function of the runtime, as an operand."""
    return f"inttoptr (i64 {runtime().address(name)} to ptr)"


def _module(image: Image, parts: Prepared, checked: bool) -> Iterator[str]:
    yield f'target triple = "{target().triple}"\ntarget datalayout = "{target().layout}"'
    yield f"@gpu.state = global [{SIZE} x i8] zeroinitializer, align 64"
    room = max((block.end for block in parts.shared.values()), default=0) + (SHARED_MOST if parts.dynamic else 0)
    yield f"@gpu.shared = addrspace(3) global [{max(room, 16)} x i8] zeroinitializer, align 256"
    if checked and parts.globals:
        yield f"@gpu.globals = global [{len(parts.globals)} x ptr] [{', '.join(at for at, _, _ in parts.globals)}]"
    yield parts.text
    yield expanded(_POLLS.format(ask=_routine("gpu.ask"), recursion=_routine("gpu.stop")), "@gpu.state")
    for name, (result, params) in parts.externals.items():
        yield expanded(_definition(name, result, params), "@gpu.state")
    if checked:
        for name, kind in _KINDS.items():
            yield from _checks(name, kind)
    for kernel in image.kernels:
        alone = kernel.name not in parts.collective
        shares = bool(parts.shared[kernel.name].arrays)
        yield expanded(_entry_text(kernel.name, parts.parameters[kernel.name], alone, shares), "@gpu.state")


_POLLS = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare ptr @llvm.frameaddress.p0(i32)

define internal void @gpu.poll() alwaysinline nounwind {{
  %polls = get i64 polls
  %rest = sub i64 %polls, 1
  put i64 %rest, polls
  %due = icmp sle i64 %rest, 0
  br i1 %due, label %ask, label %done
ask:
  call void {ask}(ptr @gpu.state)
  br label %done
done:
  ret void
}}

define internal void @gpu.check_stack() alwaysinline nounwind {{
  call void @gpu.poll()
  %frame = call ptr @llvm.frameaddress.p0(i32 0)
  %here = ptrtoint ptr %frame to i64
  %limit = get i64 stack_limit
  %deep = icmp ult i64 %here, %limit
  br i1 %deep, label %stop, label %done
stop:
  call void {recursion}(ptr @gpu.state, i64 2)
  unreachable
done:
  ret void
}}
"""


def _definition(name: str, result: str, params: tuple[str, ...]) -> str:
    """The definition of ``@gpu.name``, which the text declares."""
    if name in _NUMBERS:
        return f"""define internal i32 @gpu.{name}() alwaysinline nounwind {{
  %x = get i64 {_NUMBERS[name]}
  %short = trunc i64 %x to i32
  ret i32 %short
}}"""
    if name == "barrier":
        return f"""define internal void @gpu.at.barrier(i32 %site) nounwind {{
  call void {_routine("gpu.wait")}(ptr @gpu.state, i32 %site)
  ret void
}}"""
    if name == "ballot":
        return f"""define internal i32 @gpu.at.ballot(i32 %site, i1 %flag) nounwind {{
  %value = zext i1 %flag to i64
  %all = call i64 {_routine("gpu.exchange")}(ptr @gpu.state, i32 %site, i64 {BALLOT}, i64 %value, i64 0)
  %mask = trunc i64 %all to i32
  ret i32 %mask
}}"""
    if name.split(".")[0] in _SHUFFLES:
        return _shuffle(*name.split("."))
    if name.removesuffix("_shared") in _KINDS:
        return _printed_check(name, params)
    if m := _MATH.fullmatch(name):
        return _mathematical(m[1], m[2], len(params))
    raise CompileError(f"the simulator does not know the function @gpu.{name} of an image")


def _shuffle(name: str, t: str) -> str:
    of = _LLVM[t]
    wide, short = ("i64", "i64") if t.endswith("64") else ("i32", "i32")
    to_bits = f"bitcast {of} %x to {wide}" if t[0] == "f" else f"add {wide} %x, 0"
    from_bits = f"bitcast {short} %y to {of}" if t[0] == "f" else f"add {short} %y, 0"
    grow = f"zext {wide} %bits to i64" if wide == "i32" else "add i64 %bits, 0"
    shrink = f"trunc i64 %z to {wide}" if wide == "i32" else "add i64 %z, 0"
    return f"""define internal {of} @gpu.at.{name}.{t}(i32 %site, {of} %x, i32 %lanes) nounwind {{
  %bits = {to_bits}
  %value = {grow}
  %operand = zext i32 %lanes to i64
  %z = call i64 {_routine("gpu.exchange")}(ptr @gpu.state, i32 %site, i64 {_SHUFFLES[name]}, i64 %value, i64 %operand)
  %y = {shrink}
  %result = {from_bits}
  ret {of} %result
}}"""


def _printed_check(name: str, params: tuple[str, ...]) -> str:
    """A check that stands in the text of the image already."""
    (of, count), kind = params, _KINDS[name.removesuffix("_shared")]
    grow = f"zext {count} %bytes to i64" if count != "i64" else "add i64 %bytes, 0"
    return f"""define internal void @gpu.at.{name}(i32 %site, {of} %p, {count} %bytes) nounwind {{
  %count = {grow}
  %address = ptrtoint {of} %p to i64
  call void {_routine("gpu.access")}(ptr @gpu.state, i32 %site, i64 %address, i64 %count, i64 {kind})
  ret void
}}"""


def _checks(name: str, kind: int) -> Iterator[str]:
    for suffix, of in (("", "ptr"), ("_shared", "ptr addrspace(3)")):
        yield f"""define internal void @gpu.check.{name}{suffix}(i32 %site, {of} %p, i64 %bytes) nounwind {{
  %address = ptrtoint {of} %p to i64
  call void {_routine("gpu.access")}(ptr @gpu.state, i32 %site, i64 %address, i64 %bytes, i64 {kind})
  ret void
}}"""


def _mathematical(name: str, t: str, arity: int) -> str:
    of, full = _LLVM[t], name + ("f" if t == "f32" else "")
    if not hasattr(_libm(), full):
        raise CompileError(f"libm has no function {full}, which an image calls as @gpu.{name}.{t}")
    params, args = ", ".join(f"{of} %x{k}" for k in range(arity)), ", ".join([of] * arity)
    return f"""declare {of} @{full}({args}) memory(none) nounwind willreturn
define internal {of} @gpu.{name}.{t}({params}) alwaysinline nounwind {{
  %y = call {of} @{full}({params})
  ret {of} %y
}}"""


@cache
def _libm() -> ctypes.CDLL:
    return ctypes.CDLL("libm.so.6")


# Nothing is left from the block before.
_FORGET = f"""  %memory = get ptr shared
  %bytes = get i64 shared_bytes
  call void @llvm.memset.p0.i64(ptr %memory, i8 {GARBAGE}, i64 %bytes, i1 false)
"""


def _entry_text(name: str, params: list[str], alone: bool, shares: bool) -> str:
    """The function that a fiber runs: one thread of the kernel, or all of them."""
    loads = "\n".join(f"  %p{k} = getelementptr i8, ptr %args, i64 {8 * k}\n  %a{k} = load {of}, ptr %p{k}, align 8"
                      for k, of in enumerate(params))
    call = f"  call void @{name}({', '.join(f'{of} %a{k}' for k, of in enumerate(params))})"
    if not alone:
        return f"define void @{_entry(name)}(ptr %args) nounwind {{\n{loads}\n{call}\n  ret void\n}}"
    return f"""define void @{_entry(name)}(ptr %args) nounwind {{
entry:
{loads}
  %grid = get i64 grid
  %size = get i64 block_size
  %blocks = get ptr blocks
  %order = get ptr order
  %ordered = icmp ne ptr %order, null
  br label %next.block
next.block:
  %i = phi i64 [ 0, %entry ], [ %i.next, %block.done ]
  %more.blocks = icmp ult i64 %i, %grid
  br i1 %more.blocks, label %choose.block, label %done
choose.block:
  br i1 %ordered, label %permuted.block, label %chosen.block
permuted.block:
  %block.at = getelementptr i32, ptr %blocks, i64 %i
  %block.short = load i32, ptr %block.at, align 4
  %block.long = zext i32 %block.short to i64
  br label %chosen.block
chosen.block:
  %block = phi i64 [ %i, %choose.block ], [ %block.long, %permuted.block ]
  put i64 %block, block
{_FORGET if shares else ""}  br label %next.thread
next.thread:
  %k = phi i64 [ 0, %chosen.block ], [ %k.next, %chosen.thread ]
  %more.threads = icmp ult i64 %k, %size
  br i1 %more.threads, label %choose.thread, label %block.done
choose.thread:
  br i1 %ordered, label %permuted.thread, label %chosen.thread
permuted.thread:
  %thread.at = getelementptr i32, ptr %order, i64 %k
  %thread.short = load i32, ptr %thread.at, align 4
  %thread.long = zext i32 %thread.short to i64
  br label %chosen.thread
chosen.thread:
  %thread = phi i64 [ %k, %choose.thread ], [ %thread.long, %permuted.thread ]
  put i64 %thread, thread
  call void @gpu.poll()
{call}
  %k.next = add i64 %k, 1
  br label %next.thread
block.done:
  %i.next = add i64 %i, 1
  br label %next.block
done:
  ret void
}}"""
