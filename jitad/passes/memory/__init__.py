"""Memory: arrays are values, and updates happen in place.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    column_major           arrays that are accessed by columns are stored by columns
    column_blocks          columns of a matrix that lanes read, four at once
    loop_idioms            loops that fill an array with one value, or copy an array
    dead_stores            what a loop stores and nothing reads, as cleared cotangents
    load_speculation       elements that do not change, loaded ahead of loops in which checks precede the load
    loop_load_elimination  what an iteration has stored, in registers for the next two
    neighbour_updates      accumulation into neighbouring elements, each loaded and stored once
    update_groups          its part that finds them
    array_order            operations on arrays ahead of the scalars between them, for common nests
    double_buffering       the memory of an array that is dead by then, for the one that an iteration makes
    own_starts             the array with which a loop begins, copied so that the loop updates it in place
    final_loads            the proof that no iteration changes an element which has been loaded, for ``ad`` too
    covered_boxes          arrays of which a nest fills a box, without values there at first
    table_starts           the same for a nest that comes later and reads what it has stored
    copy_insertion         a ``copy`` where a value that is updated may still be needed; the last pass
"""
