"""Libraries that generated code calls: BLAS (``blas``), found and loaded.

Imports nothing of the project; imported by ``lowering``; installed as ``jitad.kernels``.
"""
