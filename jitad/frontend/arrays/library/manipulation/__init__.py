"""Functions that rearrange, join and select elements.

Files, in reading order::

    rearranging       rotations, cuts, repeats, ``np.delete``, ``np.insert``
    joining           stacks and blocks of arrays
    grids             index arrays
    choosing          ``np.select``, ``np.choose``, masks
    apply_along_axis  functions along axes
    nan_reductions    reductions that skip NaN
"""
