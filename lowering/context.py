"""The context that compiled code runs in: its memory, its limits, and what a failure leaves behind.

Compiled code keeps no state of its own.  The caller passes a pointer to a ``Context``, one a thread and a level of
nested calls, so compiled code is reentrant and thread-safe.  ``FIELDS`` is the layout that both sides share.
"""

from __future__ import annotations

FIELDS = ("arena_top", "arena_end", "arena_base", "tape_top", "tape_end", "tape_base", "stack_limit", "poll",
          "operand0", "operand1", "operand2", "operand3")
SIZE = 8 * len(FIELDS)


def offset(field: str) -> int:
    """Byte offset of a field; every field has eight bytes."""
    return 8 * FIELDS.index(field)


# What compiled functions return besides 0 and (number of the exception) + 1.
RECURSION, MEMORY, INTERRUPT = -1, -2, -3
