"""Memory of compiled code: an arena, frames, and blocks that results own.

Files, in reading order::

    alias             arrays that can share memory
    buffer_placement  where arrays live: in place, in the stack frame, in the arena
    arena             allocation and release in the context's arena
    arena_runtime     routines in LLVM that give memory back
    alloc_runtime     routines that make arrays, shared by all modules
    loop_buffers      temporaries that stay in place from iteration to iteration
    tape              frames of the ``stack`` type
    result_buffers    large results in memory that the new array owns
"""
