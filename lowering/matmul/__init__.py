"""Products of matrices.

Files, in reading order::

    select_kernel   the choice: shared routine, loops, or BLAS
    gemm            the shared routine, one for each float type
    gemm_nt         few rows with a transposed matrix: dot products
    gemm_small      small products of known sizes, tile by tile
    transpose       panels transposed
    kernel_builder  loops and addresses for routines written by hand
"""
