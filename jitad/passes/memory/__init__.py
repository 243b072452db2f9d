"""Memory: arrays are values, and updates happen in place.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    copy_insertion  a ``copy`` where a value that is updated may still be needed; the last pass
"""
