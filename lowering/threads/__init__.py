"""Threads and interrupts.

Files, in reading order::

    thread_pool     routines that run a job on several threads
    safepoints      polling for signals in loops
    parallel_nests  nests over large arrays, in shares
    parallel_calls  calls of outlined loops, in shares
"""
