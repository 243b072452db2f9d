"""Memory: arrays are values, and updates happen in place.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    column_major           arrays that are accessed by columns are stored by columns
    dead_stores            what a loop stores and nothing reads, as cleared cotangents
    loop_load_elimination  what an iteration has stored, in registers for the next two
    copy_insertion         a ``copy`` where a value that is updated may still be needed; the last pass
"""
