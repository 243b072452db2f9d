"""Passes over single loops.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    loop_simplify          one loop brought into rotated, closed form with one latch and one exit
    loop_tables            the tables that ``loop_simplify`` keeps up to date meanwhile
    licm                   loop-invariant code motion
    condition_pre          what a loop's condition has computed, carried into the iteration that it starts
    loop_pre               what is computed from a choice, carried beside it
    unroll                 short loops of known trip count written out
    check_elimination      checks that control flow, earlier checks and counters imply
    peel                   the first and last iterations of loops that treat borders apart
    loop_versioning        innermost loops in two versions, one without index checks
    equal_lengths          innermost loops in two versions, one for arrays of equal lengths
    fuse_accumulate        ``a[i] = a[i] + v`` as one accumulating op
    branch_accesses        loads ahead of a branch and updates behind it
    branch_stores          its part for updates
    scalar_promotion       an array element that a loop updates as a carried scalar
    zero_cotangents        skips reverse loops that would only add zeros
    zero_init_elimination  accumulation into zeros as plain stores
"""
