"""Loops: prints ops of the loop level (``jitad/loop_level``) as LLVM IR for a processor.

Files, in reading order::

    array_ops    each op on arrays: its nests are built at the loop level, then printed
    printer      ops of the loop level
    nests        loops, and the hints for LLVM that go with them
    idioms       nests for which there is a routine: zeros, copies, transposes
    turned_blocks  four columns of some rows, transposed in registers
    alias_notes  metadata that say which accesses do not overlap
"""
