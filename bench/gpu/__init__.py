"""Kernels of ten programs beside kernels in CUDA by hand, as ``ptxas`` assembles both: no GPU is needed.

``python -m bench.gpu`` prints the table.  Files, in reading order::

    cases       the programs
    kernels.cu  the same in CUDA
    listing     what the listing of a kernel says: instructions, memory traffic, registers
    __main__    the table
"""
