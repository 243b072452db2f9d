"""Lowering: optimised IR to LLVM IR to machine code; installed as ``jitad.lowering``.

Imports ``ir``, ``passes.analysis`` and ``kernels``; imported by ``compiler``, ``api`` and ``dispatch``.

Files, in reading order::

    llvm         text, types, op table, target
    function     functions, control flow, modules
    arrays       fusion and loop nests
    memory       arena, frames, placement of buffers
    matmul       products of matrices
    vector_math  vector versions of ``exp`` and its kin
    threads      thread pool, parallel loops, safepoints
    python       entry points: calls from Python
    jit          native code and PTX
"""
