"""Memory of compiled code: an arena, frames, and blocks that results own.

Files, in reading order::

    arena            allocation and release in the context's arena
    loop_buffers     temporaries that keep their address from iteration to iteration
    tape             frames of the ``stack`` type
    arena_runtime    LLVM routines that release memory
    alloc_runtime    LLVM routines that allocate arrays, shared by all modules
    context_runtime  LLVM routines that prepare a context for a thread
    result_buffers   large results in memory that the new array owns
"""
