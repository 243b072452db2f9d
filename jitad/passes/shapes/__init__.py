"""Passes over the sizes of arrays.

Imports ``ir`` and ``passes.analysis``.

Files, in reading order::

    size_numbering     one value for each size
    equal_sizes        sizes that checks compare become one value, ahead of what is computed from either
    size_versions      a version of a function for the small sizes of the first call
    callee_versions    copies of the functions that such a version calls
    shape_specialise   sizes that checks have established, put into types
    shape_inference    types inferred again, where sizes have become known
    short_axes         sums along an axis of few elements, and products with such vectors, as sums of slices
    single_elements    one element of an expression, from elements of its operands
    array_sroa         small arrays of known size as scalars
    array_sroa_ops     its table: each array op as an index map or an op on scalars
    stride_specialise  innermost loops over rows of few columns, with the number of columns as a literal
"""
