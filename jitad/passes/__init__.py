"""Passes: each is a function that takes a module and changes it in place.

``pipeline.py`` has the order in which they run.  Passes of different folders do not import one another.  Code that
several passes need is an analysis, or a helper in ``cleanup`` or ``memory``.  Imports ``ir``; imported by ``cps``,
``ad`` (the analyses) and ``pipeline``.

Files, in reading order::

    analysis   facts about a function that passes ask for: control flow, dominance, loops, ranges, costs
    cleanup    simplification, inlining, common subexpressions, dead code
    shapes     sizes of arrays: numbering, specialisation, small arrays as scalars
    induction  counters, and what loops step beside them
    choices    smallest and largest values, and the iteration that they come from
    branches   branches decided earlier, once, or by selections
    loops      loop-invariant code motion, unrolling, versioning, elimination of checks
    nests      nests of counted loops: hoisted checks, interchange, products of matrices by loops
    algebra    products of matrices across iterations and recursive calls; algebra under fast math
    vectorise  iterations side by side: batches, predicated chunks, fission
    parallel   loops whose iterations are independent, as functions for several threads
    buffers    what an array begins with, and in which memory
    memory     loads, stores, and the copies that make every array update possible in place
"""
