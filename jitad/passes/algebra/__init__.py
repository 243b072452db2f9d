"""Algebra: products across iterations and calls, and formulas under fast math.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    rank_one_updates     nests that add products of two vectors to a matrix, as outer products
    update_nests         its part that gives inner loops which only add a loop of their own
    outer_products       sums of outer products as products of matrices
    outer_product_log    the log of pending terms that such a sum carries
    recursion_batching   the products of a recursion as one product before it
    dot_products         dot products of vectors as sums of products
    arg_reductions       argmax and argmin along columns as reductions that run along rows
    doubled_halves       a doubling and a half in a cotangent cancel
    equal_terms          terms of a cotangent that are one product
    repeated_sums        under fast math: sums that are multiples of an earlier one
    algebra              under fast math: formulas that reduce to one term or a known value
    laurent              its normal form: sums of products of powers
    late_choices         choices of coefficients wait until the end of what the next iteration waits for
    late_extremes        the same for Python's min and max, where neither NaN nor the sign of a zero may differ
    chain_reassociation  what the next iteration waits for enters sums, products and minima last
"""
