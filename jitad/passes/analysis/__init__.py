"""Analyses: facts about a function or a module, computed on demand; none of them changes the program.

Imports ``ir``; imported by every folder of passes, ``cps`` and ``ad``.

Files, in reading order::

    cfg               edits of the control-flow graph that passes share: substitution, merging, splitting
    loops             natural loops, their nesting, counted loops
    branches          branches of innermost loops whose sides join again
    ssa               a value made available where its definition does not dominate
    callgraph         callers, callees, recursion
    affine            affine forms of integers
    ranges            intervals of integers, proofs that an affine form is not negative
    sizes             which axes of arrays have the same size
    induction         facts about loop parameters, by induction
    facts             what holds at each point, by branches, checks and counters; conditions decided by it
    float_facts       floats that cannot be negative, and bounds of integer parts
    cost              the cost model: of an element, an op, a formula; the frequency of a block
    lanes             the number of lanes of a vectorised outer loop
    vanishing         what an iteration computes of cotangents that are zero
    accumulator_webs  the path of an accumulator through loops and recursive calls
    recursion_slice   the part of a recursive function that depends on arguments alone
"""
