"""LLVM at large: text of IR, types, the target, and the record that compiled code runs in.

The bottom of the lowering.

Files, in reading order::

    emit     writes LLVM IR as text
    types    IR types and values in LLVM
    target   the machine that code is generated for
    processor  the processor that code is generated for (``JITAD_CPU``)
    context  the context record that compiled code runs in
    capi     addresses and layouts of CPython and NumPy
"""
