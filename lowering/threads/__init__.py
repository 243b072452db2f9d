"""Threads and interrupts.

Files, in reading order::

    thread_pool     routines that run a job on several threads
    parallel_calls  calls of outlined loops, in shares
    parallel_nests  nests over large arrays, in shares
    safepoints      polling for signals in loops
    run_length      how long a function may run: whether to let the GIL go
"""
