"""Parallel loops.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    privatisation  scratch arrays that each iteration overwrites, as arrays of the iteration
    independence   proof that iterations are independent; the role of each carried value
    rows_in_place  rows stored where they belong, on a GPU
    share_inner    several threads for an iteration with an inner loop, on a GPU
    duration       the time that a loop takes, computed before it
    serial_copy    serial loops around outlined ones, without their tests
    outline        such loops as functions that several threads call
"""
