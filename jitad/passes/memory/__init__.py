"""Memory: arrays are values, and updates happen in place.

Imports ``ir`` and ``passes.analysis``; ``aliasing`` serves ``cleanup`` and ``loops``.

Files, in reading order::

    aliasing        arrays that may share memory at a point
    copy_insertion  a ``copy`` where a value that is updated may still be needed; the last pass
"""
