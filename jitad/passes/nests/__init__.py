"""Nests of counted loops, mostly before differentiation, so that the derivative has the better nest too.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    regular          counted loops inside one another that only compute; which blocks they always execute
    check_hoisting   checks of indices, compared once ahead of a nest
    scalarise        sums of rows and slices over a loop, as loops over elements
    reduction_loops  reductions of windows and columns in a loop, as loops over elements
    row_loops        arithmetic on all pairs of elements of two vectors, as a loop over rows
    array_steps      loops that step vectors element by element, as loops over the elements
    interchange      loops that add to array elements again and again go inside
    factors          elements of matrices, or formulas of them, in loops that add up products
    vector_factors   factors of which vectors are made, in products of vectors
    sum_starts       where such sums begin, if that is known ahead of the loops
    matrix_products  products of matrices written as three loops, or as loops over products of vectors
    partial_sums     sums that inner loops continue begin anew in each iteration, where the order is free
    packing          copies of what an innermost loop reads with a stride, ahead of the nest
    window_adjoints  adjoints of sums over windows: the loop over the windows goes inside
    window_strips    its strips of windows, and the loops in them
"""
