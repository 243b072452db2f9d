"""Separate compilation: a function that several programs call is compiled once, and each program links to it.

Imports the pipeline and the lowering; imported by ``jitad.compiler``.  Files, in reading order::

    store       the code that a function has for the programs that call it
    extract     takes functions out of a traced module
    sweeps      sweeps that compute primal values again
    units       compiles what was taken out, once for all callers, and links the callers to it
"""
