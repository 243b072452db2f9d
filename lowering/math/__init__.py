"""Elementwise ops: a table with one line an op, and the mathematical functions that the lines call.

Files, in reading order::

    options       options of the lowering, and what a rule needs of an emitter
    instructions  rules of one instruction, intrinsic or function
    selection     selections
    casts         conversions
    composite     rules of several instructions
    ops           the lowering table
    extremes      minima and maxima in recurrences
    special       functions that neither LLVM nor libm provides
    libm          declarations of functions of libm and libdevice
    libmvec       glibc's vector versions of them
    own           the vector versions of this project, written in LLVM IR
"""
