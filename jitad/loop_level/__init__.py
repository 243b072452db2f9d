"""The loop level: functions whose array operations are structured loops over buffers.

It lies between the IR of the stage "optimized" and everything that makes machine code.  ``build`` makes it from that
IR; ops on arrays become machine code through it.  It shares the graph, the text form, the verifier and the interpreter
of the IR, each with additions of its own.  Imports ``ir``, ``passes.analysis``, ``passes.cleanup`` and
``lowering.planning``.

Files, in reading order::

    types      vectors, buffers
    ops        the op table: loads, stores, views, ``for``
    text       printer and parser
    verify     the verifier
    interp     the interpreter
    nest_shape perfect nests, captured values
    nest_code  Python code for loop nests, which makes the interpreter faster
    build      from the IR
"""
