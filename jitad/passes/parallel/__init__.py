"""Parallel loops.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    independence  proof that iterations are independent; the role of each value a loop carries
    outline       such loops as functions that several threads call
"""
