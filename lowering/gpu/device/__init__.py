"""Device code: functions of the loop level as LLVM IR for one thread, or for the lanes of a warp.

Files, in reading order::

    values           the parts of values: sizes and strides of buffers
    emitter          the code that is being written: accesses, integers, loops
    thread           the words of a thread: its status, its memory
    memory           buffers: allocation, views, additions by several threads
    stacks           frames of the reverse sweep
    products         products of matrices within a thread
    function         functions: blocks, calls, failures
    patterns         loops that carry something, and are for many threads
    recurrence_patterns  loops that are linear recurrences
    reduce           reductions between threads
    row_cache        elements of rows that are kept in shared memory
    rows             bodies that the lanes of a warp execute together
"""
