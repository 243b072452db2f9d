"""Libraries that generated code calls: BLAS (``blas``) and the OpenMP runtime (``openmp``), found and loaded.

Imports nothing of the project; imported by ``lowering``; installed as ``jitad.kernels``.
"""
