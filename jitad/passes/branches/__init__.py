"""Branches: what control flow decides, decided earlier, once, or by selections.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    correlated_branches two branches on one condition in an iteration; joins of more than two paths
    loop_unswitch       a version of a loop without branches on what does not change
    branch_fusion       one call of a function for two sides that call it
    if_conversion       branches between formulas as selections
    selections          its selections, of operands and terms where these are enough
    safe_arguments      arguments of functions whose results a selection drops
    jump_threading      edges that decide a later branch; after all other changes of control flow
    zero_iterations     branches around iterations of the reverse sweep that add zeros
    code_sinking        what one side of selections needs, computed where it is chosen, in loops without vectors
    join_folding        what a join computes for an edge that decides all of it
    rare_updates        branches around the update of a smallest or largest value, which loops wait for
    feedback            branches around choices of integers that their own conditions wait for
"""
