"""Parallel loops.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    privatisation  scratch arrays that each iteration overwrites, as arrays of the iteration
    independence   proof that iterations are independent; the role of each carried value
    duration       the time that a loop takes, computed before it
    outline        such loops as functions that several threads call
"""
