"""Lowering: optimised IR to LLVM IR to machine code; installed as ``jitad.lowering``.

Imports ``ir``, ``passes.analysis``, ``loop_level`` and ``kernels``; imported by ``compiler``, ``api`` and ``dispatch``.

Folders, from the bottom: each imports only those above it (``tests/project/test_layers.py`` has the order)::

    llvm         text, types, target, the context record
    math         the op table, and the mathematical functions that it calls
    planning     decisions about IR before code is written: fusion, placement
    builder      the state of a function that is being written, and helpers for writing it
    memory       arena, frames, blocks that results own
    threads      thread pool, parallel loops, safepoints
    matmul       products of matrices
    loops        ops on arrays: the loop level, printed
    function     control flow, dispatch by op, modules
    python       entry points: calls from Python
    jit          native code and PTX
    gpu          kernels, and the programs that launch them
"""
