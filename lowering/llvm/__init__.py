"""Basics of LLVM: its IR, types, the target, and the record that compiled code runs in.

The bottom of the lowering.

Files, in reading order::

    instruction  LLVM's instructions as records
    instruction_builder  appends them
    code       the blocks of a function
    emit       a module: declarations, metadata, functions
    types      IR types and values in LLVM
    target     the machine for which code is generated
    processor  the processor for which code is generated (``JITAD_CPU``)
    context    the context record that compiled code runs in
    float_state  subnormal numbers in the processor's state
    address_space  address space for arenas and simulated devices
    capi       addresses and layouts of CPython and NumPy
"""
