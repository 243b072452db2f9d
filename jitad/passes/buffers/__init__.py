"""Buffers: what an array begins with, and in which memory, where a loop or a slice replaces its elements.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    filled_nests           nests of loops that only store to each element of a box of an array
    loop_idioms            loops that fill an array with one value, or copy an array
    array_contraction      elements of a scratch array, computed where another nest reads them
    slice_loops            elementwise ops on slices that overlap, as loops over the elements
    final_loads            the proof that no iteration changes an element which has been loaded, for ``ad`` too
    covered_boxes          arrays of which a nest fills a box, without values there at first
    table_starts           the same for a nest that comes later and reads what it has stored
    double_buffering       the memory of an array that is dead by then, for the one that an iteration makes
    own_starts             the array with which a loop begins, copied so that the loop updates it in place
"""
