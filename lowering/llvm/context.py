"""The context that compiled code runs in: its memory, its limits, and what a failure leaves behind.

Compiled code keeps no state of its own.  The caller passes a pointer to a context, one a thread and a level of
nested calls, so compiled code is reentrant and thread-safe.  ``FIELDS`` is the layout that both sides share; every
field has eight bytes.

* ``arena_…``: the memory of arrays and frames.  Allocation moves ``arena_top`` up; ``arena_high`` is the highest
  top seen when memory was given back.  The region is reserved address space: pages become real when touched, and
  ``trim`` gives many back.  To make a page real may cost more than to fill it many times over, so all but the first
  are huge ones where the system has them, and up to ``LEND`` bytes are left to the system only for when it needs them.
* ``stack_limit``: the lowest address that the machine stack of ``thread`` may reach.  ``thread`` is the number of a
  thread of Python's, which no other gets later (an address of a thread's is soon another's, with another stack), or of
  a worker's the address.
* ``poll``: null or an ``i32 (ptr ctx)``, called every million or so back edges; not 0 stops the program.
* ``operand…``: the operands of the exception's message, as bits (ints and bools extended, f32 as f64).
* ``blocks_…``: memory for large results, see ``blocks``; null where there are none.
* ``next``: for whoever keeps a free list.
* ``threads``: how many threads a loop may run on; ``workers``: the contexts of all but the first of them, or null
  until they are needed (``hire``).  ``job``, ``share``: what a context works on as one of several (``thread_pool.py``).
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
import threading

from ...kernels import openmp
from .capi import immortal

FIELDS = ("arena_top", "arena_end", "arena_base", "arena_high", "stack_limit", "thread", "poll", "polls",
          "operand0", "operand1", "operand2", "operand3", "blocks_take", "blocks_free", "blocks_used", "next",
          "threads", "workers", "job", "share")
SIZE = 8 * len(FIELDS)

# What compiled functions return besides 0 and (number of the exception) + 1.
RECURSION, MEMORY, INTERRUPT = -1, -2, -3
SHORTAGES = {RECURSION: ("RecursionError", "maximum recursion depth exceeded in compiled code"),
             MEMORY: ("MemoryError", "out of memory in compiled code")}

POLL_PERIOD = 1 << 20
KEEP = 64 << 20            # bytes of an arena that stay with the process between calls
LEND = 1 << 30             # bytes that the system may take from it, but does not before it is short of memory
HUGE_PAGE = 2 << 20
_LARGEST = 64 << 30
_SMALLEST = 16 << 20
MOST_STACK = 256 << 20     # an unlimited stack is not really
GUARD = 128 << 10          # of the machine stack, left to libm, BLAS and signal handlers


def offset(field: str) -> int:
    """Byte offset of a field."""
    return 8 * FIELDS.index(field)


class Context(ctypes.Structure):
    """The struct, for Python's side."""

    _fields_ = [(name, ctypes.c_int64 if name.startswith("operand") else ctypes.c_size_t) for name in FIELDS]


_all: list[tuple[Context, mmap.mmap]] = []         # for as long as the process: machine code has the addresses
_lock = threading.Lock()


def new() -> int:
    """The address of a new context for the current thread; ``MemoryError`` when there is no address space left."""
    region = _reserve()
    context = Context()
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    context.arena_base = context.arena_top = context.arena_high = base
    context.arena_end = base + len(region) - 128               # an allocation may align its start after its test
    context.polls = POLL_PERIOD
    context.threads = openmp.threads()
    with _lock:
        _all.append(immortal((context, region)))
    context.stack_limit = _stack_bottom() + GUARD              # for who calls without a lease
    return ctypes.addressof(context)


def hire(address: int) -> int:
    """Make the contexts of the other threads; 0 if there is no memory for them: then there is one thread."""
    context = Context.from_address(address)
    try:
        workers = (ctypes.c_size_t * (context.threads - 1))(*(new() for _ in range(context.threads - 1)))
    except MemoryError:
        context.threads = 1
        return 0
    for worker in workers:
        Context.from_address(worker).threads = 1                # a loop in a loop runs on the thread it is on
    with _lock:
        _crews.append(immortal(workers))
    context.workers = ctypes.addressof(workers)
    return 1


_crews: list[ctypes.Array[ctypes.c_size_t]] = []
HIRE = immortal(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)(hire))
"""``hire`` for machine code, whether it holds the GIL or not."""


def _reserve() -> mmap.mmap:
    """As much address space as there is memory, or as one gets.

    A child process does not inherit it (it makes contexts of its own): the system would refuse to fork, as the parent
    and its child together might one day touch more than there is.
    """
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    size = min(_LARGEST, _physical_memory())
    while True:
        try:
            region = mmap.mmap(-1, size, flags=flags)
            break
        except (OSError, ValueError, OverflowError):
            if size <= _SMALLEST:
                raise MemoryError("no address space for the arena of compiled code") from None
            size //= 2
    for advice, start in (("MADV_DONTFORK", 0), ("MADV_HUGEPAGE", HUGE_PAGE)):
        if hasattr(mmap, advice) and size > start:
            with contextlib.suppress(OSError):                 # a kernel without huge pages does not know of them
                region.madvise(getattr(mmap, advice), start, size - start)
    return region


def _abandon() -> None:
    """In a child process: where the arenas were there may be something else soon (they are never unmapped)."""
    global _lock
    _lock = threading.Lock()                                   # another thread may have held it
    _all.clear()


os.register_at_fork(after_in_child=_abandon)


def rest() -> None:
    """Give the pages of all arenas back to the system, while no compiled code runs: to measure what a call touches."""
    with _lock:
        for _, region in _all:
            region.madvise(mmap.MADV_DONTNEED)


def soil(value: float, size: int = 1 << 16) -> None:
    """Fill the beginning of all arenas with a number, while no compiled code runs: who reads there what was not
    written before is found out."""
    pattern = struct.pack("d", value) * (size // 8)
    with _lock:
        for context, _ in _all:
            ctypes.memmove(context.arena_base, pattern, size)


def _physical_memory() -> int:
    """Bytes of memory: beyond this the system would end the process rather than refuse."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(_SMALLEST, pages // mmap.PAGESIZE * mmap.PAGESIZE)


def _stack_bottom() -> int:
    """The lowest usable address of this thread's stack.

    The main thread's stack grows up to the resource limit, which ``pthread_getattr_np`` accounts for.
    """
    libc = ctypes.CDLL(None)
    libc.pthread_self.restype = ctypes.c_size_t
    attributes = ctypes.create_string_buffer(64)               # pthread_attr_t
    base, size = ctypes.c_size_t(), ctypes.c_size_t()
    if libc.pthread_getattr_np(ctypes.c_size_t(libc.pthread_self()), attributes):
        raise OSError("pthread_getattr_np failed")
    libc.pthread_attr_getstack(attributes, ctypes.byref(base), ctypes.byref(size))
    libc.pthread_attr_destroy(attributes)
    return max(base.value, base.value + size.value - MOST_STACK)


def given_back() -> list[tuple[int, int]]:
    """What becomes of the pages of an arena after a call: (from which byte on, advice to the system)."""
    lazily = [(KEEP, mmap.MADV_FREE)] if hasattr(mmap, "MADV_FREE") else []
    return [*lazily, (LEND if lazily else KEEP, mmap.MADV_DONTNEED)]


def trim(address: int) -> None:
    """Empty the arena and give its pages beyond ``KEEP`` back to the system."""
    context = Context.from_address(address)
    high = max(context.arena_high, context.arena_top)
    libc = ctypes.CDLL(None)
    for first, advice in given_back():
        start = context.arena_base + first
        if high > start:
            length = -(-(high - start) // mmap.PAGESIZE) * mmap.PAGESIZE
            libc.madvise(ctypes.c_size_t(start), ctypes.c_size_t(length), advice)
    context.arena_top = context.arena_high = context.arena_base
