"""MLIR text of the loop level, in the dialects ``func``, ``cf``, ``scf``, ``arith``, ``math``, ``memref``, ``vector``.

A printer only: nothing of MLIR is needed to run it.  ``docs/internals/loop-level.md`` says what becomes of what, and
what a program needs besides (stacks of frames, functions without an op in ``math``).

Files, in reading order::

    types       the types and literals of MLIR
    writer      appends lines to the text of a function; names, constants, indices
    arithmetic  the table: an op of MLIR for each kind of operand
    expansions  arithmetic that takes several ops of MLIR
    buffers     allocation, views, loads and stores
    lanes       loads and stores of vectors, folds of their lanes
    products    products of matrices as loops
    stacks      frames, which external functions keep
    function    blocks, terminators, loops; what may raise
    text        modules
"""
