"""Kernels: functions that a launch runs in the threads of a grid.

Files, in reading order::

    writer        parameters, the threads of the grid
    results       reductions between threads, and blocks
    loops         kernels for loops, an iteration a thread, and for parts of a program in one thread
    scans         kernels for running totals
    recurrences   kernels for linear recurrences
    overwrites    kernels for stores to places that are read from memory
    turned        kernels that read arrays across their lines, such as transpositions
    columns       kernels whose warps share sums over columns
    tiles         kernels for products of matrices
    tensor_tiles  kernels for products by tensor cores
    wide          kernels whose threads access 16 bytes at once
"""
