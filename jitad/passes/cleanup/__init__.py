"""Cleanup: the same program in fewer operations.

Imports ``ir`` and ``passes.analysis``; run between all other passes.

Files, in reading order::

    simplify            the driver: folding, unreachable blocks, trivial branches
    peephole            identities that need a new op or look through operands
    block_params        redundant block parameters
    cse                 value numbering down the dominator tree
    dce                 dead ops, parameters, loops and functions
    rules               drops unused derivative rules; the first pass
    inline              small functions, and those called once
    similar_loops       the similar loops of a long function, merged into a function that is called
    base_case_inlining  the base case of a recursion, tested by the caller
    powers              of constants and by half an odd number, under fast math
    common_arithmetic   what both sides of a branch compute, moved ahead of it and behind the join
"""
