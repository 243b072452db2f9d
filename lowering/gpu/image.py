"""The image that is loaded on a device: LLVM IR text with kernels, which every driver makes code from in its own way.

The text is independent of the device but for the names below, which the printer of PTX (``nvptx``) and the simulator
each define.  A kernel is ``define void @name(…)``.  T is i32, i64, f32 or f64 (float, double)::

    i32 @gpu.thread()  i32 @gpu.block()  i32 @gpu.block_size()  i32 @gpu.grid_size()      one dimension
    void @gpu.barrier()                                     all threads of the block
    T @gpu.shuffle_down.T(T, i32)  T @gpu.shuffle_xor.T(T, i32)  i32 @gpu.ballot(i1)      all 32 lanes take part
    <4 x float> @gpu.mma.FORMAT(…)                                products by tensor cores: ``tensor_cores``
    T @gpu.FUNCTION.T(T, …)                                 mathematical functions: libdevice, libm

Memory that a block shares is ``@x = internal addrspace(3) global [N x T] undef``.  Instrumented text calls these before
each access, with the number of bytes: ``void @gpu.read(ptr, i32)``, ``write``, ``atomic``, and ``read_shared``,
``write_shared``, ``atomic_shared`` with a ``ptr addrspace(3)``.

The first parameter of a kernel is the address of its *status*: ``STATUS_WORDS`` numbers of 64 bits.  The first is 0, or
1 + the number of the exception that some thread raised; the others are the numbers of its message.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import Loc

STATUS_WORDS = 8
WARP = 32
BLOCK = 256
"""Threads of a block, unless its kernel says otherwise."""


@dataclass(frozen=True)
class Kernel:
    """A function that a launch runs: its name (ASCII), the types of its parameters (``ptr``, ``i64``, ``f64``, …), the
    number of threads in a block, and the user's line.

    ``stack``: bytes of the call stack that each thread may need, where LLVM cannot tell: for recursion.
    """

    name: str
    params: tuple[str, ...]
    block: int
    loc: Loc
    stack: int = 0


@dataclass(frozen=True)
class Image:
    """LLVM IR, and the kernels that it defines."""

    text: str
    kernels: tuple[Kernel, ...]
