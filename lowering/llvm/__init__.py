"""Basics of LLVM: text of IR, types, the target, and the record that compiled code runs in.

The bottom of the lowering.

Files, in reading order::

    emit       writes LLVM IR as text
    types      IR types and values in LLVM
    target     the machine for which code is generated
    processor  the processor for which code is generated (``JITAD_CPU``)
    context    the context record that compiled code runs in
    float_state  subnormal numbers in the processor's state
    address_space  address space for arenas and simulated devices
    capi       addresses and layouts of CPython and NumPy
"""
