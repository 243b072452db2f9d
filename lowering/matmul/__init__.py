"""Products of matrices.

Files, in reading order::

    product        the description of a product
    select_kernel  the choice: shared routine, loops, or BLAS
    transpose      a routine that transposes panels of matrices
    gemm           the shared routine, one for each float type
    gemm_nt        few rows times a transposed matrix: dot products
    gemm_small     small products of known sizes, tile by tile
"""
