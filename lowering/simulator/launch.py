"""Runs a kernel: fills in the state of its code, and raises what went wrong."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import DeviceError
from ..gpu.image import Kernel
from ..llvm import capi
from . import fibers, races, reports
from .code import Loaded, runtime
from .memory import SHARED_MOST, SHARED_STATIC, Memory
from .state import RECORD_SIZE

MOST_THREADS = 1024
MOST_BLOCKS = 2**31 - 1
_FORMATS = {"ptr": "q", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "i1": "?", "f64": "d", "f32": "f"}
_WRAPPED = {"q": 64, "i": 32, "h": 16, "b": 8}


def launch(loaded: Loaded, kernel: Kernel, grid: int, args: Sequence[int | float], shared: int = 0,
           order: int | None = None, memory: Memory | None = None) -> None:
    """Run ``grid`` blocks of ``kernel``.

    ``shared``: bytes of the shared array that has no size of its own.  ``order``: the seed of a permutation of blocks
    and threads, which otherwise run in their order.  ``memory``: the device memory, for code that checks its accesses.
    """
    _require(kernel, grid, args, shared, loaded)
    if grid == 0:
        return
    with loaded.lock:
        if loaded.busy:
            raise DeviceError(f"a signal handler launched the kernel {kernel.name}, whose image is running")
        loaded.busy = True
        try:
            if memory is not None and loaded.checked:
                with memory.lock:
                    _run(loaded, kernel, grid, args, shared, order, memory)
            else:
                _run(loaded, kernel, grid, args, shared, order, memory)
        finally:
            loaded.busy = False


def _require(kernel: Kernel, grid: int, args: Sequence[int | float], shared: int, loaded: Loaded) -> None:
    """Raise ``DeviceError`` at a launch that no device accepts."""
    def refuse(why: str) -> None:
        raise DeviceError(f"launch of the kernel {kernel.name}: {why}", kernel.loc)
    if kernel.name not in loaded.entries:
        refuse("the image does not have it")
    if not 0 < kernel.block <= MOST_THREADS:
        refuse(f"a block cannot have {kernel.block} threads")
    if not 0 <= grid <= MOST_BLOCKS:
        refuse(f"a grid cannot have {grid} blocks")
    if len(args) != len(kernel.params):
        refuse(f"{len(args)} arguments for {len(kernel.params)} parameters")
    static = loaded.prepared.shared[kernel.name].size
    if static > SHARED_STATIC:
        refuse(f"{static} bytes of shared arrays, and a kernel may have {SHARED_STATIC}")
    if shared < 0 or shared + static > SHARED_MOST:
        refuse(f"{shared + static} bytes of shared memory, and a block has {SHARED_MOST}")
    if loaded.checked and grid > races.BLOCK_MASK:
        refuse(f"the race detector takes grids of up to {races.BLOCK_MASK} blocks")


def packed(kinds: Sequence[str], args: Sequence[int | float]) -> bytes:
    """The arguments, each in eight bytes; integers may be given signed or unsigned."""
    parts = []
    for kind, value in zip(kinds, args, strict=True):
        code = _FORMATS[kind]
        if bits := _WRAPPED.get(code):
            value = (int(value) + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        parts.append(struct.pack(f"={code}", value).ljust(8, b"\0"))
    return b"".join(parts)


def _run(loaded: Loaded, kernel: Kernel, grid: int, args: Sequence[int | float], shared: int, order: int | None,
         memory: Memory | None) -> None:
    state, alone = loaded.state, loaded.runs_alone(kernel)
    ctypes.memset(loaded.state_address, 0, ctypes.sizeof(state))
    values = packed(kernel.params, args)
    buffer = ctypes.create_string_buffer(values, max(1, len(values)))
    count = 1 if alone else kernel.block
    stacks = fibers.take(count)
    records = ctypes.create_string_buffer(count * RECORD_SIZE)
    permutations = [] if order is None else _permutations(order, kernel.block, grid)
    tables = [*permutations, *(_checks(loaded, kernel, shared, memory) if loaded.checked else ())]
    state.block_size, state.grid, state.plain = kernel.block, grid, alone
    state.entry, state.args = loaded.entries[kernel.name], ctypes.addressof(buffer)
    state.fibers, state.stacks = ctypes.addressof(records), stacks.address
    if permutations:
        state.order, state.blocks = (p.ctypes.data for p in permutations)
    state.shared, state.shared_bytes = loaded.shared_address, loaded.prepared.shared[kernel.name].end + shared
    state.save, state.restore, state.signals = map(capi.address, _PYTHON)
    try:
        _start()(loaded.state_address)                           # raises KeyboardInterrupt etc.
    finally:
        fibers.give(stacks)
        del tables
    if state.failure:
        raise reports.error(loaded, kernel, args, records, memory)


_PYTHON = ("PyEval_SaveThread", "PyEval_RestoreThread", "PyErr_CheckSignals")


def _start() -> Any:
    """``@gpu.run``, which is called with the GIL and releases it itself."""
    return ctypes.PYFUNCTYPE(None, ctypes.c_size_t)(runtime().address("gpu.run"))


def _permutations(seed: int, threads: int, blocks: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.permutation(threads).astype(np.int32), random.permutation(blocks).astype(np.int32)]


def _checks(loaded: Loaded, kernel: Kernel, shared: int, memory: Memory | None) -> list[np.ndarray]:
    """Fill in the fields for checks; returns the tables, which the caller keeps."""
    state, parts = loaded.state, loaded.prepared
    if memory is None or not memory.checked:
        raise DeviceError("code that checks its accesses runs on a Memory(checked=True)")
    state.launch = memory.next_launch()
    state.heap, state.heap_bytes = memory.base, memory.size
    state.owners, state.allocations = memory.owners.ctypes.data, memory.allocations.ctypes.data
    state.coarse, state.fine = memory.cells.coarse, memory.cells.fine
    state.shared_coarse, state.shared_fine = memory.shared_cells.coarse, memory.shared_cells.fine
    block = parts.shared[kernel.name].arrays
    arrays = _table([(at, shared if name == parts.dynamic else size, 0) for name, at, size in block])
    ranges = _table([*loaded.ranges(), *memory.ranges()])
    state.arrays, state.array_count = arrays.ctypes.data, len(block)
    state.ranges, state.range_count = ranges.ctypes.data, len(loaded.ranges()) + len(list(memory.ranges()))
    return [arrays, ranges]


def _table(rows: list[tuple[int, int, int]]) -> np.ndarray:
    return np.array(rows or [(0, 0, 0)], np.int64)
