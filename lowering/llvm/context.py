"""The context that compiled code runs in: its memory, its limits, and the details of a failure.

Compiled code has no state of its own.  The caller passes a pointer to a context, one for each thread and level of
nested calls, so compiled code is reentrant and thread-safe.  ``FIELDS`` is the layout that both sides share; every
field has eight bytes.

* ``arena_…``: the memory of arrays and frames.  Allocation moves ``arena_top`` up; ``arena_high`` is the highest
  top seen at a release.  The region is reserved address space: pages are mapped when they are touched, and ``trim``
  returns many.  Mapping a page may cost more than filling it many times, so all pages but the first are huge pages
  if the system has them, and up to ``LEND`` bytes are returned lazily, for the system to take when it needs them.
* ``stack_limit``: the lowest address that the machine stack of ``thread`` may reach.  ``thread`` is the number of a
  Python thread, which is never reused (the address of a thread may be that of another one later, with another stack),
  or the address of a worker thread.
* ``poll``: null or an ``i32 (ptr ctx)``, called about every million back edges; a nonzero result stops the program.
* ``operand…``: the operands of the exception's message, as bits (ints and bools extended, f32 as f64).
* ``blocks_…``: memory for large results, see ``result_buffers``; null if there is none.
* ``next``: the link of a free list of contexts.
* ``threads``: the number of threads that a loop may use; ``workers``: the contexts of all but the first of them, or
  null until they are needed (``hire``).  ``number``: which of them this is.  ``job``, ``share``: what it works on;
  ``offer``, ``queue``, ``asleep``, ``wake``, ``missed``, ``needed``: how it gets work (``thread_pool.py``).
* ``floats``: the floating-point state of the caller while the body runs in another one (``float_state.py``), or 0.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
import threading

from .address_space import reserved
from .capi import immortal

FIELDS = ("arena_top", "arena_end", "arena_base", "arena_high", "stack_limit", "thread", "poll", "polls",
          "operand0", "operand1", "operand2", "operand3", "blocks_used", "job", "share", "floats",
          "blocks_take", "blocks_free", "next", "threads", "workers", "number", "wake", "missed",
          "offer", "asleep", "queue", "needed")
"""Threads wait for each other's writes by the cache line: eight fields."""
LINE = 64
SIZE = -(-8 * len(FIELDS) // LINE) * LINE
SEMAPHORE = 64             # bytes of a ``sem_t``, at most

# Statuses of compiled functions besides 0 and (number of the exception) + 1.
# ``LONG``: a loop inside of another one, which has no polls, would run for long.
RECURSION, MEMORY, INTERRUPT, LONG = -1, -2, -3, -4
SHORTAGES = {RECURSION: ("RecursionError", "maximum recursion depth exceeded in compiled code"),
             MEMORY: ("MemoryError", "out of memory in compiled code")}

POLL_PERIOD = 1 << 20
KEEP = 64 << 20            # bytes of an arena that stay mapped between calls
LEND = 1 << 30             # bytes that the system may reclaim when it is short of memory
HUGE_PAGE = 2 << 20
_LARGEST = 64 << 30
_SMALLEST = 16 << 20
MOST_STACK = 256 << 20     # bound for a stack that is reported as unlimited
GUARD = 128 << 10          # bytes of the machine stack for libm, BLAS and signal handlers


def offset(field: str) -> int:
    """Byte offset of a field."""
    return 8 * FIELDS.index(field)


class Context(ctypes.Structure):
    """The struct, for access from Python."""

    _fields_ = [(name, ctypes.c_int64 if name.startswith("operand") else ctypes.c_size_t) for name in FIELDS]


_all: list[tuple[Context, mmap.mmap]] = []         # never freed: machine code has the addresses
_lock = threading.Lock()


def new() -> int:
    """The address of a new context for the current thread; raises ``MemoryError`` if no address space is left.

    In front of the arena is a page that has been written to.  A vector of the first elements, read backwards under a
    mask, has lanes there: they are not loaded, but on a page that is not present each such vector takes 200 ns.
    """
    region = _reserve()
    memory = ctypes.create_string_buffer(SIZE + LINE)           # no two contexts are on one cache line
    context = Context.from_buffer(memory, -ctypes.addressof(memory) % LINE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    base = start + mmap.PAGESIZE
    region[mmap.PAGESIZE - 1] = 0
    context.arena_base = context.arena_top = context.arena_high = base
    context.arena_end = start + len(region) - 128               # an allocation aligns its start after the size test
    context.polls = POLL_PERIOD
    context.threads = threads()
    with _lock:
        _all.append(immortal((context, region)))
    context.stack_limit = _stack_bottom() + GUARD              # for callers that do not use ``Lease``
    return ctypes.addressof(context)


def hire(address: int) -> int:
    """Make the contexts of the other threads.

    Returns 0, and sets ``threads`` to 1, if there is no memory for them.
    """
    context = Context.from_address(address)
    try:
        workers = (ctypes.c_size_t * (context.threads - 1))(*(new() for _ in range(context.threads - 1)))
    except MemoryError:
        context.threads = 1
        return 0
    semaphores = ctypes.create_string_buffer(SEMAPHORE * len(workers))
    for i, worker in enumerate(workers):
        Context.from_address(worker).threads = 1                # nested parallel loops run on one thread
        Context.from_address(worker).wake = ctypes.addressof(semaphores) + SEMAPHORE * i
    with _lock:
        _crews.append(immortal((workers, semaphores)))
    context.workers = ctypes.addressof(workers)
    return 1


_crews: list[tuple[ctypes.Array[ctypes.c_size_t], ctypes.Array[ctypes.c_char]]] = []
HIRE = immortal(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t)(hire))
"""``hire`` for machine code, with or without the GIL."""


MOST_THREADS = 256


def threads() -> int:
    """The number of threads to use: ``JITAD_NUM_THREADS``, ``OMP_NUM_THREADS``, or the cores of the process."""
    for name in ("JITAD_NUM_THREADS", "OMP_NUM_THREADS"):
        wanted = os.environ.get(name, "").split(",")[0].strip()
        if wanted.isdigit() and int(wanted) > 0:
            return min(int(wanted), MOST_THREADS)
    return min(len(os.sched_getaffinity(0)), MOST_THREADS)


def _reserve() -> mmap.mmap:
    """Reserve as much address space as there is memory to use (``bound``), or as much as the system grants.

    A child process does not inherit it (it makes its own contexts).  Otherwise the system would refuse to fork, since
    parent and child together might touch more memory than there is.
    """
    size = min(_LARGEST, bound())
    while True:
        try:
            region = reserved(size)
            break
        except (OSError, ValueError, OverflowError):
            if size <= _SMALLEST:
                raise MemoryError("no address space for the arena of compiled code") from None
            size //= 2
    for advice, start in (("MADV_DONTFORK", 0), ("MADV_HUGEPAGE", HUGE_PAGE)):
        if hasattr(mmap, advice) and size > start:
            with contextlib.suppress(OSError):                 # a kernel without huge pages refuses this
                region.madvise(getattr(mmap, advice), start, size - start)
    return region


def _abandon() -> None:
    """Forget all contexts in a child process: their address ranges may be reused there (they are never unmapped)."""
    global _lock
    _lock = threading.Lock()                                   # another thread may have held it
    _all.clear()


os.register_at_fork(after_in_child=_abandon)


def rest() -> None:
    """Return the pages of all arenas to the system, to measure what a call touches.  No compiled code may run."""
    with _lock:
        for _, region in _all:
            region.madvise(mmap.MADV_DONTNEED)


def soil(value: float, size: int = 1 << 16) -> None:
    """Fill the beginning of all arenas with a number, to reveal reads of uninitialised memory.

    No compiled code may run meanwhile.
    """
    pattern = struct.pack("d", value) * (size // 8)
    with _lock:
        for context, _ in _all:
            ctypes.memmove(context.arena_base, pattern, size)


def bound(meminfo: str = "/proc/meminfo", group: str = "/sys/fs/cgroup/memory.max") -> int:
    """Bytes to which an arena may grow: beyond, the system would kill the process rather than refuse memory.

    These are seven eighths of what is available or of what the control group may have, and half of the physical memory
    if others have taken more of it, since they may give it back.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    wanted = max(_number(meminfo, "MemAvailable:", 1 << 10, physical) // 8 * 7, physical // 2)
    return max(_SMALLEST, min(wanted, _number(group, "", 1, physical) // 8 * 7) // mmap.PAGESIZE * mmap.PAGESIZE)


def _number(path: str, name: str, unit: int, default: int) -> int:
    """The number behind a name in a file of the system, or ``default`` if there is none."""
    with contextlib.suppress(OSError), open(path) as lines:
        for line in lines:
            value = line.removeprefix(name).split()[:1]
            if line.startswith(name) and value and value[0].isdigit():
                return int(value[0]) * unit
    return default


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
    """The advice for the pages of an arena after a call: (offset of the first byte, advice to the system)."""
    lazily = [(KEEP, mmap.MADV_FREE)] if hasattr(mmap, "MADV_FREE") else []
    return [*lazily, (LEND if lazily else KEEP, mmap.MADV_DONTNEED)]


def trim(address: int) -> None:
    """Empty the arena and return its pages beyond ``KEEP`` to the system."""
    context = Context.from_address(address)
    high = max(context.arena_high, context.arena_top)
    libc = ctypes.CDLL(None)
    for first, advice in given_back():
        start = context.arena_base + first
        if high > start:
            length = -(-(high - start) // mmap.PAGESIZE) * mmap.PAGESIZE
            libc.madvise(ctypes.c_size_t(start), ctypes.c_size_t(length), advice)
    context.arena_top = context.arena_high = context.arena_base
