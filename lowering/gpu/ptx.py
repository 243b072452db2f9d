"""PTX, the assembly language of NVIDIA's GPUs, from an image.

An image calls functions of the device by names that no target has (``image``).  Here they are defined: the place of a
thread, barriers, shuffles and votes by LLVM's intrinsics, mathematical functions by libdevice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import llvmlite
import llvmlite.binding as llvm

from ... import disk_store
from ...errors import CompileError
from ..jit.cuda_toolkit import libdevice
from ..jit.nvptx import LAYOUT, TRIPLE, assembly
from .image import Image
from .tensor_cores import defined

_DECLARED = re.compile(r'^declare .*?(?P<result>[\w.]+) @gpu\.(?P<name>[\w.]+)\((?P<params>.*?)\)[^\n]*$', re.MULTILINE)
_TARGET = re.compile(r"^target (?:triple|datalayout) = .*\n", re.MULTILINE)
_ANNOTATION = re.compile(r"!(\d+)")

_REGISTERS = {"thread": "tid", "block": "ctaid", "block_size": "ntid", "grid_size": "nctaid"}
_SHUFFLES = {"shuffle_down": "down", "shuffle_xor": "bfly"}
_TYPES = {"i32": "i32", "i64": "i64", "f32": "float", "f64": "double"}
_OBSERVED = frozenset(("read", "write", "atomic", "read_shared", "write_shared", "atomic_shared"))

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
"""The architectures that the tests assemble kernels for."""


def to_ptx(image: Image, arch: str) -> str:
    """The PTX of an image; each kernel is an entry with a bound on the threads of its block."""
    source = llvm_text(image, arch)
    kernels = [k.name for k in image.kernels]
    key = "\n".join(["ptx", llvmlite.__version__, str(llvm.llvm_version_info), _libdevice_version(), arch, *kernels,
                     source])
    if (known := disk_store.get(key)) is not None:
        return known.decode()
    made = assembly(source, arch, kernels)
    disk_store.put(key, made.encode())
    return made


@cache
def _libdevice_version() -> str:
    """A text that differs between versions of libdevice."""
    path = libdevice()
    return "" if path is None else f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}"


def llvm_text(image: Image, arch: str = "sm_80") -> str:
    """The image as LLVM IR for NVIDIA's GPUs."""
    header = f'target triple = "{TRIPLE}"\ntarget datalayout = "{LAYOUT}"\n'
    externals: list[str] = []
    text = _DECLARED.sub(lambda m: _definition(m["name"], m["result"], m["params"], externals),
                         _TARGET.sub("", defined(image.text, arch)))
    return "\n".join([header + text, *dict.fromkeys(externals), _annotations(image, text)])


def _annotations(image: Image, text: str) -> str:
    """Metadata that makes functions kernels.

    One block on a multiprocessor is enough: with a bound on the threads alone, ptxas spills a few bytes to have room
    for more of them (``kepler`` and ``black_scholes`` of ``bench/gpu``), which no loop gains from.
    """
    first = 1 + max(map(int, _ANNOTATION.findall(text)), default=-1)
    nodes = [f'ptr @{k.name}, !"{key}", i32 {value}' for k in image.kernels
             for key, value in (("kernel", 1), ("maxntidx", k.block), ("minctasm", 1))]
    names = [f"!{first + i}" for i in range(len(nodes))]
    return "\n".join([f"!nvvm.annotations = !{{{', '.join(names)}}}",
                      *(f"{name} = !{{{node}}}" for name, node in zip(names, nodes))]) + "\n"


# --- definitions of @gpu.… ------------------------------------------------------------------------

def _definition(name: str, result: str, params: str, externals: list[str]) -> str:
    """The definition of ``@gpu.name``; ``externals`` gets the declarations that it needs."""
    types = [p.split()[0] for p in params.split(",") if p.strip()]
    base, _, kind = name.partition(".")

    def calls(function: str, result: str, *args: str) -> str:
        declared = ", ".join(a.split()[0] for a in args)
        externals.append(f"declare {result} @{function}({declared})")
        return f"call {result} @{function}({', '.join(args)})"
    if name in _REGISTERS:
        body = [f"%r = {calls(f'llvm.nvvm.read.ptx.sreg.{_REGISTERS[name]}.x', 'i32')}", "ret i32 %r"]
    elif name == "barrier":
        body = [calls("llvm.nvvm.barrier.cta.sync.aligned.all", "void", "i32 0"), "ret void"]
    elif name == "ballot":
        body = [f"%r = {calls('llvm.nvvm.vote.ballot.sync', 'i32', 'i32 -1', 'i1 %0')}", "ret i32 %r"]
    elif base in _SHUFFLES:
        function = f"llvm.nvvm.shfl.sync.{_SHUFFLES[base]}.i32"
        body = _shuffle(_TYPES[kind], lambda x: calls(function, "i32", "i32 -1", f"i32 {x}", "i32 %1", "i32 31"))
    elif name in _OBSERVED:
        body = ["ret void"]
    elif kind in ("f64", "f32"):
        given = [f"{t} %{i}" for i, t in enumerate(types)]
        function = f"__nv_{base}{'f' if kind == 'f32' else ''}"
        body = [f"%r = {calls(function, result, *given)}", f"ret {result} %r"]
    else:
        raise CompileError(f"no function @gpu.{name} is known")
    convergent = "convergent " if name == "barrier" or name == "ballot" or base in _SHUFFLES else ""
    head = f"define internal {result} @gpu.{name}({', '.join(types)}) {convergent}alwaysinline nounwind {{"
    return "\n".join([head, *(f"  {line}" for line in body), "}"])


def _shuffle(t: str, call: Callable[[str], str]) -> list[str]:
    """The exchange of a value, as one or two words of 32 bits."""
    if t in ("i32", "float"):
        return [f"%w = bitcast {t} %0 to i32", f"%s = {call('%w')}", f"%r = bitcast i32 %s to {t}", f"ret {t} %r"]
    return [f"%w = bitcast {t} %0 to <2 x i32>",
            "%low = extractelement <2 x i32> %w, i32 0", "%high = extractelement <2 x i32> %w, i32 1",
            f"%a = {call('%low')}", f"%b = {call('%high')}",
            "%c = insertelement <2 x i32> poison, i32 %a, i32 0", "%d = insertelement <2 x i32> %c, i32 %b, i32 1",
            f"%r = bitcast <2 x i32> %d to {t}", f"ret {t} %r"]
