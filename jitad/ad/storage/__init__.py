"""Storage of what the reverse sweep reads: saved in a register, an array or a frame, or recomputed.

Imports ``ir``, ``passes.analysis``, ``passes.buffers.final_loads`` and the parent package; imported by ``ad.reverse``
and ``ad.checkpoint``.

Files, in reading order::

    homes           the cheapest home for each forward value
    saving          arrays and frames of saved values
    histories       saved values that are one sequence, some iterations apart
    frames          the values in their homes
    regular_nests   nests of loops whose values can be saved in one array
    rows            many scalars of a long loop body, in rows of one array
    kept_sizes      arrays of which only the sizes are read
    revisited       loads whose array is saved as a whole
    reuse_primals   values that the forward sweep has already computed
    iteration_order reverse loops whose iterations may run in any order
    recompute_plan  loops whose iterations are recomputed in the reverse sweep
    nests           loops in them that are recomputed iteration by iteration
    recompute_copy  the copy of such an iteration
    late_results    results of merged loops, computed after the reverse sweep
    late_cotangents parts of cotangents that read them
"""
