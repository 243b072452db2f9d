"""Products of matrices.

Files, in reading order::

    product        a product, as the kernels are told of it
    select_kernel  the choice: shared routine, loops, or BLAS
    gemm           the shared routine, one for each float type
    gemm_nt        few rows with a transposed matrix: dot products
    gemm_small     small products of known sizes, tile by tile
"""
