"""Elementwise ops: a table of one line an op, and the mathematical functions that the lines call.

Files, in reading order::

    ops      the lowering table
    special  functions that neither LLVM nor libm has
    libm     functions of libm and libdevice, declared
    libmvec  their vector versions: glibc's
    own      their vector versions: functions of this project, written in LLVM IR
"""
