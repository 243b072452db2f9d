"""Analyses: facts about a function or a module, computed on demand; none of them changes the program.

Imports ``ir``; imported by every folder of passes, ``cps`` and ``ad``.

Files, in reading order::

    cfg               shared surgery on control flow: substitution, cloning, merging, splitting
    loops             natural loops, their nesting, counted loops
    liveness          values still needed, block by block
    ssa               a value made available where its definition does not dominate
    callgraph         callers, callees, recursion
    ranges            linear forms of integers, their bounds, proofs of non-negativity
    induction         facts about loop parameters, by induction
    float_signs       floats that cannot be negative
    cost              an estimate of the cost of an iteration
    lanes             the number of iterations that run side by side
    accumulator_webs  the path of an accumulator through loops and recursive calls
    recursion_slice   what a recursive function computes from its arguments alone
"""
