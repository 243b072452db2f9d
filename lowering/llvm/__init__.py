"""LLVM at large: text of IR, types, the op table, the target.

The bottom of the lowering.

Files, in reading order::

    emit     writes LLVM IR as text
    types    IR types and values in LLVM
    target   what is asked of a target: features, sources of mathematical functions
    ops      the lowering table: one line an elementwise op
    special  functions that neither LLVM nor libm has
    context  the context record that compiled code runs in
    capi     addresses and layouts of CPython and NumPy
"""
