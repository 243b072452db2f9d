"""Memory: arrays are values, and updates happen in place.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    column_major           arrays that are accessed by columns are stored by columns
    column_blocks          columns of a matrix that lanes read, four at once
    dead_stores            what a loop stores and nothing reads, as cleared cotangents
    load_speculation       elements that do not change, loaded ahead of loops in which checks precede the load
    loop_load_elimination  what an iteration has stored, in registers for the next two
    predictive_commoning   what the iteration before has computed, carried instead of computed again for a neighbour
    neighbour_updates      accumulation into neighbouring elements, each loaded and stored once
    update_groups          its part that finds them
    array_order            operations on arrays ahead of the scalars between them, for common nests
    copy_insertion         a ``copy`` where a value that is updated may still be needed; the last pass
"""
