"""The loop level: functions whose array operations are structured loops over buffers.

It lies between the IR of the stage "optimized" and everything that makes machine code.  ``build.py`` makes it from that
IR; nothing is lowered from it yet.  It shares the graph, the text form, the verifier and the interpreter of the IR,
each with additions of its own.  Imports ``ir``, ``passes.analysis`` and ``lowering.planning``.

Files, in reading order::

    types       vectors, buffers
    ops         the op table: loads, stores, views, ``for``
    text        printer and parser
    verify      the verifier
    interp      the interpreter; nest_code: Python code for loop nests, which makes it faster
    build       one function after the other, op by op
    state       the state of a function that is being built
    elements    one element of an array; loop nests
    nests       elementwise results, and groups that share a nest
    updates     updates in place
    shapes      sizes, views, rearrangement
    reductions  reductions and scans
    products    products of matrices
    structure   counted loops of the program become ``for`` ops
    writer      appends ops
    cleanup     removes unused ops
"""
