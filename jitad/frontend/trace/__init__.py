"""Tracing: calls, specialisations, and the recorder of IR.

Files, in reading order::

    trace_program  traces one program: the entry of the front end
    trace          the recorder: one IR function in the making
    calls          calls of anything the user may hold
    specialise     which IR function stands for a call
    call_boundary  values across a call, flattened and rebuilt
    traceable      callables that trace inside and compile outside
    trampolines    programs that are traced around the user's functions
    snapshot       a function with copies of what it captures
    compile_cache  what has been compiled from a function
    gc_pause       no cycle collection meanwhile
"""
