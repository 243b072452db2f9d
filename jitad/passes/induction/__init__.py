"""Induction variables: what a loop steps by the same amount in each iteration.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    loop_counters        loops by ``while`` that step an integer by one, counted as those by ``for``
    induction_variables  secondary ones, as functions of the loop's counter
    index_set_splitting  loops that treat one iteration apart, in three parts, or those before a border, in two
    border_splitting     loops over windows that are cut off at the ends, in three parts
    loop_bounds          conditions on a counter, moved into the bounds of its loop
    break_bounds         conditions on a counter that end its loop, moved into its bound
    residue_classes      loops that act in one residue class of the counter, as chequerboards do, step by the modulus
    invariant_tables     what an inner loop computes alike each time, computed once ahead of the loop around
    triangle_blocks      recurrences over the rows of a triangle, 16 of which begin together
    triangles            its part that finds them
    strength_reduction   indices that are stepped themselves; one of the last passes
"""
