"""Threads and interrupts.

Files, in reading order::

    thread_pool     jobs, shares, and the threads of a context
    work_stealing   the routines that share a job's work
    bit_loops       loops that end after a few iterations
    walks           loops that count up or down to a bound, and may end before
    safepoints      polls for signals in loops
    aside           functions for what runs on several threads only
    parallel_nests  nests over large arrays, divided into shares
    parallel_calls  calls of outlined loops, divided into shares
"""
