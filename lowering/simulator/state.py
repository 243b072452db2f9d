"""The memory that kernels, the runtime and Python share during a launch, and a notation for it in LLVM IR.

There is one *state* for each loaded image, an array of 64-bit fields in its code's memory, and one *record* for each
thread of a block:

* ``thread``, ``block``, ``block_size``, ``grid``: what ``@gpu.thread()`` etc. return.
* ``entry``, ``args``: the function that a fiber runs, and its argument.  ``plain``: a single fiber runs all threads.
* ``order``, ``blocks``: permutations (i32) of threads and blocks, or null.
* ``fibers``: the records.  ``current``: the record of the fiber that runs.  ``stacks``: see ``fibers.py``.
  ``stack_limit``: the lowest address that the current fiber may use.  ``scheduler``: its stack pointer.
* ``event``: the reason why the fiber stopped, if it does not wait for others.
* ``polls``: back edges until the next check for signals.  ``save``, ``restore``, ``signals``, ``python``: CPython's
  functions for that, and the thread's state.
* ``shared``, ``shared_bytes``: the memory of the block.
* ``launch``, ``epoch``: numbers for the race detector.  The epoch changes at each barrier.
* ``heap`` … ``shared_fine``: the tables of ``shadow.py``; ``heap_bytes`` is 0 if accesses are not checked.
* ``failure`` and the fields behind it: what went wrong.
"""

from __future__ import annotations

import ctypes
import re

FIELDS = ("thread", "block", "block_size", "grid", "polls", "event", "stack_limit", "current", "scheduler",
          "entry", "args", "plain", "order", "blocks", "fibers", "stacks", "save", "restore", "signals", "python",
          "shared", "shared_bytes", "launch", "epoch",
          "heap", "heap_bytes", "owners", "allocations", "coarse", "fine", "ranges", "range_count",
          "arrays", "array_count", "shared_coarse", "shared_fine",
          "failure", "site", "kind", "address", "bytes", "mine", "other", "other_site", "other_kind")
RECORD = ("stack", "status", "site", "operation", "value", "operand", "result", "unused")
"""A thread: its stack pointer, what it waits for, the call site, and the operands and result of a shuffle."""

READY, AT_BARRIER, AT_WARP, DONE = range(4)
"""Values of ``status``."""
NOTHING, POLL, STOP = range(3)
"""Values of ``event``."""
DOWN, XOR, BALLOT = range(3)
"""Values of ``operation``."""
READ, WRITE, ATOMIC = range(3)
"""Values of ``kind`` and ``other_kind``."""
(NO_FAILURE, INTERRUPTED, RECURSION, BARRIER_MISUSE, WARP_MISUSE, RACE, OUT_OF_BOUNDS, USE_AFTER_FREE, WILD,
 WRITTEN_CONSTANT) = range(10)
"""Values of ``failure``."""

# Back edges between two checks for signals: some milliseconds.
PERIOD = 1 << 20
WARP = 32


class State(ctypes.Structure):
    """The state, for access from Python."""

    _fields_ = [(name, ctypes.c_int64) for name in FIELDS]


class Record(ctypes.Structure):
    """The record of a thread."""

    _fields_ = [(name, ctypes.c_int64) for name in RECORD]


SIZE, RECORD_SIZE = ctypes.sizeof(State), ctypes.sizeof(Record)

_GET = re.compile(r"( *)(%[\w.]+) = get (i64|ptr|i32) (\w+)(?: of (%[\w.]+))?$")
_PUT = re.compile(r"( *)put (i64|ptr|i32) (\S+), (\w+)(?: of (%[\w.]+))?$")
_AT = re.compile(r"( *)(%[\w.]+) = at (\w+)(?: of (%[\w.]+))?$")


def expanded(text: str, state: str = "%s") -> str:
    """LLVM IR for text with these additions; ``state`` is the operand for the state::

        %x = get i64 FIELD            %x = get i64 FIELD of %record
        put i64 %x, FIELD             put i64 %x, FIELD of %record
        %p = at FIELD                 %p = at FIELD of %record
    """
    return "\n".join(_expanded(line, number, state) for number, line in enumerate(text.split("\n")))


def _expanded(line: str, number: int, state: str) -> str:
    if m := _GET.match(line):
        indent, name, of, field, record = m.groups()
        at = f"{name}.at"
        return f"{indent}{_address(at, field, record, state)}\n{indent}{name} = load {of}, ptr {at}, align 8"
    if m := _PUT.match(line):
        indent, of, value, field, record = m.groups()
        at = f"%put.{number}"
        return f"{indent}{_address(at, field, record, state)}\n{indent}store {of} {value}, ptr {at}, align 8"
    if m := _AT.match(line):
        indent, name, field, record = m.groups()
        return indent + _address(name, field, record, state)
    return line


def _address(name: str, field: str, record: str | None, state: str) -> str:
    offset = 8 * (RECORD if record else FIELDS).index(field)
    return f"{name} = getelementptr inbounds i8, ptr {record or state}, i64 {offset}"
