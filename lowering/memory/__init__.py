"""Memory of compiled code: an arena, frames, and blocks that results own.

Files, in reading order::

    arena            allocation and release in the context's arena
    loop_buffers     temporaries that stay in place from iteration to iteration
    tape             frames of the ``stack`` type
    arena_runtime    routines in LLVM that give memory back
    alloc_runtime    routines that make arrays, shared by all modules
    context_runtime  routines that ready a context for a thread
    result_buffers   large results in memory that the new array owns
"""
